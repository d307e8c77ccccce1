/* Running a session at a terminal; shared by optimize and demo.  Main thread. */
#ifndef CMD_CMD_OPTIMIZE_H
#define CMD_CMD_OPTIMIZE_H

struct cmd_term;
struct err;
struct flow_opts;

/* Runs it, tells how it ended.  Returns an exit code or ERR_*. */
int cmd_optimize_run_flow(const struct flow_opts *opts, struct cmd_term *t, struct err *err);

#endif
