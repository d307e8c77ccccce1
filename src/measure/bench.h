/*
 * Repetitions of one program: each timed from fork to wait, with its resource usage and, where
 * asked, the figure of merit that it prints.  Threads: the keeper's thread.
 */
#ifndef MEASURE_BENCH_H
#define MEASURE_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure/cmd.h"
#include "measure/stats.h"

struct err;
struct fom;
struct proc_keeper;
struct proc_result;

enum {
	BENCH_REPS_DEFAULT = 4,	 /* warm-up included */
	BENCH_REPS_MAX = 100000, /* that may be asked for */
	BENCH_REPS_OPEN = 1000,	 /* at most, where only a target or a budget was given */
	BENCH_OUTLIERS = 32,	 /* that are named */
	BENCH_WHY_CAP = 480,
	BENCH_LAST_LINES = 20, /* of a failing repetition that are worth showing */
};

/* ---- one repetition ---- */

struct bench_sample {
	double wall_s, user_s, system_s;
	uint64_t peak_bytes; /* largest single process */
	uint64_t minor_faults, major_faults, voluntary_switches, involuntary_switches;
	bool has_fom;
	double fom;
};

struct bench_rep {
	struct bench_sample sample;
	/* It exited with 0 in time, and the figure of merit, where asked, was found. */
	bool ok;
	char why[BENCH_WHY_CAP]; /* where not ok: "exited with status 3", ... */
	struct proc_result *res; /* with the output; owned, never NULL after success */
};

/*
 * Runs the command once.  A program that fails is a success of this call (see ok); the caller then
 * owes bench_rep_done().  fom may be NULL.
 * ERR_SYS: not started, or the keeper died; ERR_CANCELLED: cmd->stop_fd; ERR_INVALID: no command.
 */
int bench_once(struct proc_keeper *k, const struct measure_cmd *cmd, const struct fom *fom,
	       struct bench_rep *out, struct err *err);
void bench_rep_done(struct bench_rep *rep); /* frees; NULL and zeroed objects are fine */
/* The last n lines of what it printed (both streams where they were kept apart).  Caller frees. */
char *bench_rep_last_lines(const struct bench_rep *rep, unsigned n);

/* ---- repetitions ---- */

enum bench_end {
	BENCH_END_REPS,	   /* the number asked for was run */
	BENCH_END_TARGET,  /* the interval is as narrow as asked */
	BENCH_END_BUDGET,  /* the time is up */
	BENCH_END_STOPPED, /* by stop_fd: what was measured until then holds */
	BENCH_END_FAILED,  /* last is the repetition that failed */
};
const char *bench_end_name(enum bench_end end); /* "repetitions", "target", "budget", ... */

struct bench_result;

struct bench_opts {
	struct measure_cmd cmd;
	const struct fom *fom; /* NULL: wall time is the figure */
	unsigned reps;	       /* all of them, warm-up included; 0: BENCH_REPS_DEFAULT, or as many
				  as the target or the budget take, at most BENCH_REPS_OPEN */
	unsigned warmup;       /* leading repetitions that are dropped */
	bool warmup_auto;      /* decide by stats_warmup(); warmup above is not looked at */
	double target_ci_pct;  /* half width of the figure's interval; 0: none */
	uint64_t budget_ns;    /* looked at between repetitions; 0: none.  One that counts is
				  always run */
	/* After each repetition; so_far has samples, no summaries.  May be NULL. */
	void (*on_rep)(void *arg, const struct bench_result *so_far);
	void *arg;
};

struct bench_result {
	struct bench_sample *samples; /* n in order; the first n_warmup are dropped below */
	size_t n, n_warmup;
	enum bench_end end;
	bool has_summary; /* nothing failed, and n > n_warmup: the summaries hold */
	bool has_fom;	  /* fom holds */
	struct stats_summary wall, user, system; /* s */
	struct stats_summary peak;		 /* bytes */
	struct stats_summary fom;		 /* its unit */
	/* Positions in samples of those that lie far from the median of the figure (fom or wall):
	 * the first BENCH_OUTLIERS of n_outliers. */
	size_t outliers[BENCH_OUTLIERS];
	size_t n_outliers;
	double cpu_s;	       /* of all repetitions, the failed one too */
	struct bench_rep last; /* the last one that ran to its end, with its output; res is NULL
				  when there was none */
};

/*
 * Repeats the command.  *out is filled on success and then owes bench_result_done(); see end for
 * how it went.  ERR_INVALID: the numbers asked for contradict each other, or there is no command;
 * ERR_SYS: a repetition could not be started, or the keeper died.
 */
int bench_run(struct proc_keeper *k, const struct bench_opts *opts, struct bench_result *out,
	      struct err *err);
void bench_result_done(struct bench_result *r);

/* The summary of the figure of merit, or of wall time where there is none.  NULL: no summary. */
const struct stats_summary *bench_figure(const struct bench_result *r);
size_t bench_effective(const struct bench_result *r); /* repetitions that count */
/* "FACT" from STATS_N_FACT_MIN effective repetitions on, else "OPINION"; "" without summary. */
const char *bench_tag(const struct bench_result *r);

#endif
