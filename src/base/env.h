/*
 * The one table of environment variables that the program reads; docs/environment.md is generated
 * from it (`rocbudai help environment`).  Threads: any, as long as nobody calls setenv.
 */
#ifndef BASE_ENV_H
#define BASE_ENV_H

#include <stddef.h>

enum env_id {
	ENV_BENCH_GPU,
	ENV_BENCH_CPUS,
	ENV_ROCR_VISIBLE_DEVICES,
	ENV_HOME,
	ENV_STATE_HOME,
	ENV_TMPDIR,
	ENV_PLAYS_DIR,
	ENV_SYSROOT,
	ENV_NO_COLOR,
	ENV_FAULT,
	ENV_SLURM_CONF,
	ENV_SLURMD_NODENAME,
	ENV_SLURM_JOB_NODELIST,
	ENV_N,
};

struct env_var {
	const char *name;
	const char *fallback; /* what holds when it is unset, for people */
	const char *meaning;  /* one sentence without full stop */
};

extern const struct env_var env_table[ENV_N];

/* The value, or NULL when unset or empty. */
const char *env_get(enum env_id id);

#endif
