/*
 * Two programs in interleaved pairs (A B B A A B ...): the ratio, its interval, and what the same
 * program against itself shows (A/A pairs, spread over the run).  Threads: the keeper's thread.
 */
#ifndef MEASURE_COMPARE_H
#define MEASURE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "measure/bench.h"
#include "measure/cmd.h"
#include "measure/stats.h"

struct err;
struct fom;
struct proc_keeper;

enum compare_side {
	COMPARE_A, /* before */
	COMPARE_B, /* after */
	COMPARE_N_SIDES,
};

struct compare_result;

/*
 * Called in the caller's thread; each may be NULL.  prepare comes before each run, warm-ups and A/A
 * runs included, and check after each run that was ok; a negative return ends the comparison with
 * that error.
 */
struct compare_hooks {
	int (*prepare)(void *arg, enum compare_side side, struct err *err);
	int (*check)(void *arg, enum compare_side side, const struct bench_rep *rep,
		     struct err *err);
	/* After each pair, A/A pairs included; so_far has pairs, no ratios. */
	void (*on_pair)(void *arg, const struct compare_result *so_far);
	void *arg;
};

struct compare_opts {
	struct measure_cmd cmd[COMPARE_N_SIDES]; /* the same twice where prepare swaps files */
	const struct fom *fom;			 /* NULL: wall time is the figure */
	unsigned pairs;				 /* fixed beforehand: 1 to STATS_PAIRS_MAX */
	unsigned floor_pairs;			 /* A against A; 0: none */
	unsigned warmup;			 /* runs of each side that are dropped */
	double alpha;				 /* of the one-sided lower bound; 0: 0.05 */
	uint64_t budget_ns;			 /* looked at between pairs; 0: none */
	struct compare_hooks hooks;
};

enum compare_verdict {
	COMPARE_UNDECIDED,     /* too few pairs for an interval, or it ended early */
	COMPARE_FASTER,	       /* B is better: its 95 % interval lies above the floor */
	COMPARE_SLOWER,	       /* B is worse, likewise */
	COMPARE_NO_DIFFERENCE, /* none seen; smallest_visible_pct says how small it may be */
};
const char *compare_verdict_name(enum compare_verdict v); /* "faster", "no difference seen", ... */

struct compare_pair {
	struct bench_sample side[COMPARE_N_SIDES];
};

struct compare_result {
	/* n pairs each, ready for stats_ratio() and accept.h; fom is NULL without one */
	struct compare_pair *samples;
	struct stats_pair *wall, *fom;
	size_t n;
	struct stats_pair *floor_wall, *floor_fom; /* n_floor A/A pairs each */
	size_t n_floor;
	enum bench_end end; /* REPS: all pairs ran; BUDGET, STOPPED, FAILED as for bench */

	bool has_ratio;		       /* nothing failed and n > 0: both ratios hold */
	struct stats_ratio ratio;      /* of the figure; over 1: B is better */
	struct stats_ratio wall_ratio; /* of wall time; the same where there is no fom */
	struct stats_summary a, b;     /* of the figure */
	bool has_aa;		       /* aa_pct holds */
	double aa_pct;		       /* stats_aa_floor_pct() of the figure */
	double floor_pct;	       /* accept_floor_pct() of what was measured here */
	bool has_smallest_visible;
	double smallest_visible_pct;
	enum compare_verdict verdict;

	double cpu_s; /* of all runs */
	/* Where end is FAILED: the run that failed and its side.  Else what ran last. */
	struct bench_rep last;
	enum compare_side last_side;
};

/*
 * *out is filled on success and then owes compare_result_done().
 * ERR_INVALID: no command, or a number out of its range; ERR_SYS: a run could not be started, or
 * the keeper died; or what a hook returned.
 */
int compare_run(struct proc_keeper *k, const struct compare_opts *opts, struct compare_result *out,
		struct err *err);
void compare_result_done(struct compare_result *r);

#endif
