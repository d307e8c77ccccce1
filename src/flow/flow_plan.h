/* A configuration as a plan of compiler flags.  Private to the module. */
#ifndef FLOW_FLOW_PLAN_H
#define FLOW_FLOW_PLAN_H

struct build_plan;
struct err;
struct flow;
struct flow_config;

/* *out is NULL where the configuration has no build action.  ERR_REFUSED: not for this build. */
int flow_plan_make(struct flow *f, const struct flow_config *cfg, struct build_plan **out,
		   struct err *err);

#endif
