/* A command that is measured: how it is started and what is put round it.  Threads: any. */
#ifndef MEASURE_CMD_H
#define MEASURE_CMD_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct proc_mount;

/* Everything is borrowed and must outlive the calls that get it.  Zero means the default. */
struct measure_cmd {
	const char *const *argv;     /* NULL-terminated; NULL: shell below */
	const char *shell;	     /* text for `sh -c`; used where argv is NULL */
	const char *const *base_env; /* NULL: ours */
	const char *const *env;	     /* changes: NAME=value sets, NAME removes; may be NULL */
	const char *cwd;	     /* NULL: ours */
	const cpu_set_t *cpus;	     /* NULL: ours */
	uint64_t timeout_ns;	     /* of each run; 0: none */
	const struct proc_mount *mounts;
	size_t n_mounts;
	size_t capture_max; /* bytes kept of the output's beginning; 0: 16 MiB */
	bool split_err;	    /* stderr apart from stdout; default: together, in order */
	int stop_fd;	    /* <= 0: none; readable: the run is stopped */
	/* As in proc_spec; may be NULL. */
	void (*on_output)(void *arg, bool is_err, const char *data, size_t n);
	void (*on_tick)(void *arg);
	void *arg;
};

/* ERR_INVALID when neither argv nor shell says what to run. */
int measure_cmd_check(const struct measure_cmd *cmd, struct err *err);
/* The command as a shell would take it (a shell text as it is).  Caller frees. */
char *measure_cmd_text(const struct measure_cmd *cmd);
/* The changes as an object: NAME: "value", or null for a removed one; a new reference. */
struct json *measure_cmd_env_json(const struct measure_cmd *cmd);

#endif
