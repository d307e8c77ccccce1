/*
 * The statistics of measurements: summaries, intervals, the looks schedule, paired ratios, floors.
 * Pure and deterministic: the same numbers give the same answer, nothing is read or printed.
 * docs/measuring.md says why each rule is what it is and how well each interval covers.
 * Units: whatever the caller's values have, the same for all; `_pct` is per cent; ratios are pure.
 * Threads: any.
 */
#ifndef MEASURE_STATS_H
#define MEASURE_STATS_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum {
	STATS_N_MAX = 100000,	 /* values in a summary */
	STATS_PAIRS_MAX = 1000,	 /* pairs in a ratio */
	STATS_N_CI_MIN = 6,	 /* below it there is no interval */
	STATS_N_FACT_MIN = 3,	 /* below it a value is no fact */
	STATS_N_OUTLIER_MIN = 5, /* below it no outlier is named */
	STATS_SIDE_MAX = 16,	 /* builds of one side that are compared */
	STATS_BUILDS_MAX = 2 * STATS_SIDE_MAX,
};

/* ---- one program, repeated ---- */

struct stats_summary {
	size_t n;
	double min, max, median, mean;
	double mad;  /* median distance from the median, times 1.4826: a normal's standard deviation
		      */
	bool has_ci; /* ci95_* hold: n >= STATS_N_CI_MIN */
	double ci95_low, ci95_high; /* of the median */
};

/* x in the order measured.  ERR_INVALID: n is 0 or a value is not finite; ERR_LIMIT; ERR_NOMEM. */
int stats_summarise(const double *x, size_t n, struct stats_summary *out, struct err *err);
/*
 * The same for repetitions that were ended by stats_target_met(): its interval is wider, because
 * stopping when it is narrow picks those that are too narrow.
 */
int stats_summarise_stopped(const double *x, size_t n, struct stats_summary *out, struct err *err);

/*
 * Names the repetitions that lie more than STATS_OUTLIER_MADS normal-scaled MADs (and more than
 * 1 %) from the median: fills idx (ascending, at most cap) and returns how many there are in all,
 * which may be more than cap.  Nothing is ever dropped from a summary: a median does not need it.
 * 0 below STATS_N_OUTLIER_MIN values or when memory is out.
 */
#define STATS_OUTLIER_MADS 5.0
size_t stats_outliers(const double *x, size_t n, size_t *idx, size_t cap);

/*
 * The looks schedule: 10, 15, 22, 33, 49 … (each half as much again).  Only at these counts may
 * anybody look at an interval in order to stop.
 */
bool stats_is_look(size_t n);
size_t stats_next_look(size_t n); /* the first look after n */
/*
 * n is a look and the interval's half width is at most target_pct of the median, judged so that
 * the interval still covers after this stopping (docs/measuring.md).  Else false.
 */
bool stats_target_met(const double *x, size_t n, double target_pct);

/*
 * How many leading repetitions are a warm-up to drop (`--warmup auto`): those that are outliers,
 * all to one side, against the last n / 2 + 1.  At most n / 2 - 1, and 0 below STATS_N_CI_MIN
 * values.
 */
size_t stats_warmup(const double *x, size_t n);

#define STATS_ALPHA_MAX 0.25

/* ---- two programs, in interleaved pairs ---- */

struct stats_pair {
	double a, b; /* positive; a is the side before, b the side after */
};

enum stats_better {
	STATS_LOWER_BETTER,  /* times: ratio is a / b */
	STATS_HIGHER_BETTER, /* rates: ratio is b / a */
};

/* Over 1: side b is better. */
struct stats_ratio {
	size_t n;
	double ratio;		    /* Hodges-Lehmann estimate, on logarithms */
	bool has_ci;		    /* ci95_* hold: n >= STATS_N_CI_MIN */
	double ci95_low, ci95_high; /* two-sided, from the signed-rank and the sign test */
	bool has_lower;	   /* lower holds: n >= STATS_N_CI_MIN and n pairs can reach alpha at all */
	double lower;	   /* one-sided lower bound at 1 - alpha */
	double alpha;	   /* as asked */
	double spread_pct; /* of the single pairs' ratios: normal-scaled MAD */
};

/*
 * ERR_INVALID: no pair, a value not positive and finite (message names the pair), alpha not inside
 * (0, STATS_ALPHA_MAX]; ERR_LIMIT; ERR_NOMEM.
 */
int stats_ratio(const struct stats_pair *pairs, size_t n, enum stats_better better, double alpha,
		struct stats_ratio *out, struct err *err);

/* The fewest pairs with which a one-sided bound at alpha exists: 8 for 0.05 / 12. */
size_t stats_pairs_min(double alpha);

/*
 * The smallest improvement, in per cent, that these pairs would have shown to lie above floor_pct
 * with the given probability (0.8), at their spread and at alpha one-sided.
 * ERR_INVALID as stats_ratio(), and where n is below stats_pairs_min(alpha).
 */
int stats_smallest_visible(const struct stats_pair *pairs, size_t n, double alpha, double power,
			   double floor_pct, double *out_pct, struct err *err);

/* ---- floors ---- */

/*
 * What the same program gains or loses against itself, in per cent and without sign: by the
 * estimate of stats_ratio(), or by the farthest single pair below STATS_N_CI_MIN pairs.
 */
int stats_aa_floor_pct(const struct stats_pair *pairs, size_t n, double *out_pct, struct err *err);

/*
 * Builds that should be equal, or two groups of them, measured in rounds: x[r * n_builds + i] is
 * build i in round r, each round running every build once, in an order that changes.  levels[i] is
 * the median over rounds of build i relative to its round's median (so slow drift cancels); a pure
 * number near 1.  x positive.  ERR_INVALID, ERR_LIMIT, ERR_NOMEM.
 */
int stats_levels(const double *x, size_t n_builds, size_t n_rounds, double *levels,
		 struct err *err);

/* Spread over neutral rebuilds in per cent: largest over smallest level, less 1.  n >= 2. */
int stats_spread_pct(const double *levels, size_t n, double *out_pct, struct err *err);

/*
 * Two groups of builds, as levels: the probability that chance alone, dealing the same levels out
 * to both groups, lets the candidate's be better than the base's in as many comparisons of one with
 * one (exact Mann-Whitney, one-sided; a tie is no win).  It holds whatever code layout does to a
 * build.  1 where a group is empty or larger than STATS_SIDE_MAX.
 */
double stats_separation_p(const double *base, size_t n_base, const double *cand, size_t n_cand,
			  enum stats_better better);
/* The fewest builds a side with which that can be alpha or less: 5 for 0.05 / 12. */
size_t stats_separation_min(double alpha);

#endif
