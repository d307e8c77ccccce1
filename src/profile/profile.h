/*
 * Where a program's time goes: drives `perf record` and turns its samples into hot functions and
 * lines.  A machine without perf, or where perf may not look, gives a result that says so, not an
 * error.  Threads: the keeper's thread.
 */
#ifndef PROFILE_PROFILE_H
#define PROFILE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct err;
struct json;
struct proc_keeper;
struct proc_spec;

enum {
	PROFILE_FUNCS_MAX = 64,	  /* hot functions that are kept */
	PROFILE_LINES_MAX = 64,	  /* hot source lines that are kept */
	PROFILE_HZ_DEFAULT = 999, /* samples per second and thread; no multiple of 100, so that
				     it does not run in step with timers */
	PROFILE_WHY_CAP = 320,
};

struct profile_func {
	char *name; /* demangled; "[unknown]" where there is no symbol */
	char *dso;  /* program or library it lies in, as mapped; "[kernel]" */
	char *file; /* source file of its hottest line; NULL: no debug information */
	unsigned line;
	double share_pct; /* of all samples, by period */
	uint64_t samples;
};

struct profile_line {
	char *file;
	unsigned line;
	char *func; /* that its hottest address lies in */
	double share_pct;
};

struct profile_result {
	bool ok;		   /* there are samples */
	char why[PROFILE_WHY_CAP]; /* where not ok: "perf is not installed", ... */
	char tool[128];		   /* "perf record -e cpu-clock:u -F 999" */
	char version[64];	   /* "perf version 6.1.192"; "" unknown */
	bool has_counters;	   /* hardware cycles; else a software clock */
	bool user_only;		   /* the kernel's share is not seen */
	uint64_t samples;
	uint64_t lost;		    /* samples that perf says were lost */
	double busy_s;		    /* time covered by the samples of a clock; 0 for cycles */
	struct profile_func *funcs; /* hottest first */
	size_t n_funcs;
	struct profile_line *lines; /* hottest first; none without debug information */
	size_t n_lines;
	char lines_why[PROFILE_WHY_CAP]; /* why there are no lines; "" otherwise */
	char *data_path;		 /* raw perf.data; NULL: none was kept */
	char data_sha256[HASH_HEX_LEN + 1];
};

struct profile_opts {
	/* What is run; argv, envp, cwd, cpus, timeout_ns, mounts, limits, stop_fd and on_tick are
	 * used, its streams are captured and shown in why if it fails. */
	const struct proc_spec *cmd;
	const char *out_dir;   /* made if absent; perf.data is put there, an older one replaced */
	const char *perf;      /* program to use; NULL: "perf" in cmd's PATH */
	const char *addr2line; /* likewise */
	unsigned hz;	       /* 0: PROFILE_HZ_DEFAULT */
	uint64_t analysis_timeout_ns; /* of each analysing step; 0: 60 s */
};

/*
 * Runs the command once under perf, with the first of cycles, cycles:u, cpu-clock, cpu-clock:u,
 * task-clock:u that works here, and analyses the samples.  What perf and the program leave behind
 * is killed.  *out is filled on success, ok or not, and then owes profile_result_done().
 * ERR_SYS: out_dir cannot be written or the keeper died; ERR_CANCELLED: stopped by stop_fd.
 */
int profile_run(struct proc_keeper *k, const struct profile_opts *opts, struct profile_result *out,
		struct err *err);
void profile_result_done(struct profile_result *r); /* frees; zeroed objects are fine */

/*
 * For the ledger: {"tool", "version", "ok", "why", "samples", "lost", "counters", "user_only",
 * "functions": [{"name", "dso", "file", "line", "share_pct", "samples"}], "lines": [{"file",
 * "line", "function", "share_pct"}], "lines_why"}; absent values are null.  A new reference.
 */
struct json *profile_result_json(const struct profile_result *r);

#endif
