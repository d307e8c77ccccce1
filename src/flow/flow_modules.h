/*
 * The environment that builds, checks and runs see: ours, or what a login bash has after
 * `module load`, captured once so that no shell start is part of a measurement.
 */
#ifndef FLOW_FLOW_MODULES_H
#define FLOW_FLOW_MODULES_H

#include <stddef.h>

struct err;
struct proc_keeper;

/*
 * NULL-terminated NAME=value list in one allocation (caller frees the list; the texts lie behind
 * it).  With no modules it is a copy of environ.  ERR_NOT_FOUND: `module` itself is missing, or a
 * module cannot be loaded (the message holds what it printed).
 */
int flow_modules_env(struct proc_keeper *k, const char *const *modules, size_t n_modules,
		     const char ***out, struct err *err);

#endif
