/*
 * Shows by simulation that the intervals cover.  Without an argument: few enough repetitions for
 * every test run.  With --full: many, and the tables of docs/measuring.md are printed.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "measure/stats.h"
#include "noise.h"

#define DEVIATION 0.01 /* of the simulated times, relative */

/* What is claimed of an interval that is called 95 %. */
#define COVER_LOW  0.93
#define COVER_HIGH 0.97

static bool full;

/* A share seen in `trials` lies in the claimed range, give or take 3 standard errors. */
static void check_cover(const char *what, size_t hits, size_t trials)
{
	double share = (double)hits / (double)trials;
	double se = sqrt(COVER_LOW * (1 - COVER_LOW) / (double)trials);
	double slack = full ? 2 * se : 3 * se;

	if (share >= COVER_LOW - slack && share <= COVER_HIGH + slack)
		return;
	(void)fprintf(stderr, "%s: covers %.2f %%, not 93 to 97 (%zu trials)\n", what, 100 * share,
		      trials);
	exit(1);
}

static void series(struct noise *s, enum noise_kind kind, double *x, size_t n)
{
	noise_start(s);
	for (size_t i = 0; i < n; i++)
		x[i] = 1 + DEVIATION * noise_next(s, kind);
}

static bool covers(const struct stats_summary *s, enum noise_kind kind)
{
	double truth = 1 + DEVIATION * noise_median(kind, s->n);

	/* values of a coarse clock are exact; otherwise equality does not occur */
	return s->ci95_low - 1e-12 <= truth && truth <= s->ci95_high + 1e-12;
}

/* ---- a fixed number of repetitions ---- */

static void sim_fixed(void)
{
	static const size_t ns[] = { 6, 7, 8, 9, 10, 11, 12, 15, 22, 33, 49 };
	const size_t n_ns = sizeof(ns) / sizeof(ns[0]);
	size_t trials = full ? 40000 : 2500;

	if (full) {
		(void)printf("\n| repetitions |");
		for (size_t i = 0; i < n_ns; i++)
			(void)printf(" %zu |", ns[i]);
		(void)printf("\n|---|");
		for (size_t i = 0; i < n_ns; i++)
			(void)printf("---|");
	}
	for (int kind = 0; kind < (full ? NOISE_N_KINDS : NOISE_N_HELD); kind++) {
		if (full)
			(void)printf("\n| %s |", noise_names[kind]);
		for (size_t i = 0; i < n_ns; i++) {
			struct noise s = { .state = ns[i] + 1000 * (unsigned)kind };
			size_t hits = 0;

			for (size_t t = 0; t < trials; t++) {
				struct stats_summary sum = { 0 };
				double x[64];

				series(&s, kind, x, ns[i]);
				CHECK_INT(stats_summarise(x, ns[i], &sum, NULL), 0);
				hits += covers(&sum, kind);
			}
			if (full)
				(void)printf(" %.1f |", 100 * (double)hits / (double)trials);
			if (kind < NOISE_N_HELD)
				check_cover(noise_names[kind], hits, trials);
		}
	}
}

/* ---- the plain bootstrap, for comparison ---- */

enum { DRAWS = 500, DRAWS_TAIL = 12 };

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *x, size_t n)
{
	qsort(x, n, sizeof(*x), order);
	return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* Whether the middle 95 % of the medians of samples drawn from x hold the truth, which is 1. */
static bool bootstrap_covers(struct noise *s, const double *x, size_t n)
{
	double draws[DRAWS], again[64];

	for (size_t d = 0; d < DRAWS; d++) {
		for (size_t i = 0; i < n; i++)
			again[i] = x[noise_below(s, n)];
		draws[d] = median(again, n);
	}
	qsort(draws, DRAWS, sizeof(*draws), order);
	return draws[DRAWS_TAIL] <= 1 && 1 <= draws[DRAWS - 1 - DRAWS_TAIL];
}

static void sim_bootstrap(void)
{
	static const size_t ns[] = { 6, 7, 8, 9, 10, 11, 12, 15, 22, 33, 49 };
	size_t trials = 4000;

	(void)printf("\n| plain bootstrap, normal |");
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		struct noise s = { .state = ns[i] };
		size_t hits = 0;

		for (size_t t = 0; t < trials; t++) {
			double x[64];

			series(&s, NOISE_NORMAL, x, ns[i]);
			hits += bootstrap_covers(&s, x, ns[i]);
		}
		(void)printf(" %.1f |", 100 * (double)hits / (double)trials);
	}
}

/* ---- stopped when the interval is narrow enough ---- */

struct stopped {
	size_t hits, runs, trials;
};

/* most: where the budget ends */
static struct stopped sim_stop_at(enum noise_kind kind, double target_pct, size_t most,
				  size_t trials)
{
	struct noise s = { .state = 77 + 1000 * (unsigned)kind };
	struct stopped r = { .trials = trials };

	for (size_t t = 0; t < trials; t++) {
		struct stats_summary sum = { 0 };
		double x[256];
		size_t n = stats_next_look(0);
		bool met;

		series(&s, kind, x, most);
		while (!(met = stats_target_met(x, n, target_pct)) && stats_next_look(n) <= most)
			n = stats_next_look(n);
		if (!met)
			n = most;
		CHECK_INT((met ? stats_summarise_stopped : stats_summarise)(x, n, &sum, NULL), 0);
		r.hits += covers(&sum, kind);
		r.runs += n;
	}
	return r;
}

static void sim_stopping(void)
{
	/* half widths, in deviations: from hardly ever reached to met at the first look */
	static const double targets[] = { 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.3 };
	const size_t n_targets = sizeof(targets) / sizeof(targets[0]);
	size_t trials = full ? 40000 : 2000;

	if (full) {
		(void)printf("\n\n| target, deviations |");
		for (size_t i = 0; i < n_targets; i++)
			(void)printf(" %.2f |", targets[i]);
		(void)printf("\n|---|");
		for (size_t i = 0; i < n_targets; i++)
			(void)printf("---|");
	}
	for (int kind = 0; kind < (full ? NOISE_ALIKE_MUCH + 1 : NOISE_N_HELD); kind++) {
		for (size_t most = full ? 33 : 49; most <= (full ? 120 : 49); most += 87) {
			if (full)
				(void)printf("\n| %s, at most %zu |", noise_names[kind], most);
			for (size_t i = 0; i < n_targets; i += full ? 1 : 2) {
				struct stopped r = sim_stop_at(kind, 100 * DEVIATION * targets[i],
							       most, trials);

				if (full)
					(void)printf(" %.1f (%.0f) |",
						     100 * (double)r.hits / (double)r.trials,
						     (double)r.runs / (double)r.trials);
				if (kind < NOISE_N_HELD)
					check_cover(noise_names[kind], r.hits, r.trials);
			}
		}
	}
}

/* ---- pairs ---- */

#define TRUE_RATIO 1.05

/* Runs in the order A B B A; the second of a pair is a little slower whatever it runs. */
static void make_pairs(struct noise *s, enum noise_kind kind, struct stats_pair *p, size_t n)
{
	noise_start(s);
	s->step = noise_below(s, NOISE_DRIFT_PERIOD);
	for (size_t i = 0; i < n; i++) {
		double first = 1 + DEVIATION * noise_next(s, kind);
		double second = 1.002 * (1 + DEVIATION * noise_next(s, kind));

		p[i] = i % 2 ? (struct stats_pair){ second * TRUE_RATIO, first }
			     : (struct stats_pair){ first * TRUE_RATIO, second };
	}
}

static void sim_pairs(void)
{
	static const size_t ns[] = { 6, 7, 8, 9, 10, 11, 12, 15, 20 };
	size_t trials = full ? 40000 : 2500;

	if (full)
		(void)printf(
			"\n\n| pairs | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 15 | 20 | 20: bound too high, of 0.42 %% "
			"allowed |\n|---|---|---|---|---|---|---|---|---|---|---|");
	for (int kind = 0; kind < (full ? NOISE_N_KINDS : NOISE_N_HELD); kind++) {
		size_t too_high = 0;
		double allowed;

		if (full)
			(void)printf("\n| %s |", noise_names[kind]);
		for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
			struct noise s = { .state = 5 * ns[i] + 1000 * (unsigned)kind };
			size_t hits = 0;

			for (size_t t = 0; t < trials; t++) {
				struct stats_pair p[20];
				struct stats_ratio r = { 0 };

				make_pairs(&s, kind, p, ns[i]);
				CHECK_INT(stats_ratio(p, ns[i], STATS_LOWER_BETTER, 0.05 / 12, &r,
						      NULL),
					  0);
				hits += r.ci95_low <= TRUE_RATIO && TRUE_RATIO <= r.ci95_high;
				too_high += ns[i] == 20 && r.lower > TRUE_RATIO;
			}
			if (full)
				(void)printf(" %.1f |", 100 * (double)hits / (double)trials);
			if (kind < NOISE_N_HELD)
				check_cover(noise_names[kind], hits, trials);
		}
		if (full)
			(void)printf(" %.2f |", 100 * (double)too_high / (double)trials);
		/* at most 0.05 / 12, half as much again where neighbours resemble each other, give
		 * or take 3 standard errors */
		allowed = 0.05 / 12 * (double)trials * (kind == NOISE_ALIKE ? 1.5 : 1);
		if (kind < NOISE_N_HELD)
			CHECK((double)too_high <= allowed + 3 * sqrt(allowed));
	}
}

/* ---- the smallest effect that would have been seen ---- */

static void sim_visible(void)
{
	static const size_t ns[] = { 8, 12, 20 };
	size_t trials = full ? 20000 : 1500;
	const double alpha = 0.05 / 12, floor_pct = 1;

	if (full)
		(void)printf("\n\n| pairs | mean smallest visible, %% | seen at that size, %% |\n"
			     "|---|---|---|");
	for (size_t i = 0; i < sizeof(ns) / sizeof(ns[0]); i++) {
		struct noise s = { .state = ns[i] };
		size_t seen = 0, n = ns[i];
		double mean = 0;

		for (size_t t = 0; t < trials; t++) {
			struct stats_pair p[20], q[20];
			struct stats_ratio r = { 0 };
			double pct = 0;

			make_pairs(&s, NOISE_NORMAL, p, n);
			CHECK_INT(stats_smallest_visible(p, n, alpha, 0.8, floor_pct, &pct, NULL),
				  0);
			mean += pct / (double)trials;
			/* fresh pairs of a program that is faster by just that much */
			make_pairs(&s, NOISE_NORMAL, q, n);
			for (size_t k = 0; k < n; k++)
				q[k].a *= (1 + pct / 100) / TRUE_RATIO;
			CHECK_INT(stats_ratio(q, n, STATS_LOWER_BETTER, alpha, &r, NULL), 0);
			seen += r.lower > 1 + floor_pct / 100;
		}
		if (full)
			(void)printf("\n| %zu | %.2f | %.0f |", n, mean,
				     100 * (double)seen / (double)trials);
		CHECK((double)seen > 0.76 * (double)trials && (double)seen < 0.88 * (double)trials);
	}
}

/* ---- warm-up ---- */

static void sim_warmup(void)
{
	static const size_t ns[] = { 6, 10, 20 };
	size_t trials = full ? 40000 : 2500;

	if (full)
		(void)printf("\n\n| repetitions | 6 | 10 | 20 |\n|---|---|---|---|");
	for (int shift = 0; shift < 2; shift++) {
		for (int kind = 0; kind < NOISE_TWO_MODES; kind++) {
			if (full)
				(void)printf("\n| %s, %s |", noise_names[kind],
					     shift ? "first 10 % slower: found"
						   : "nothing to find: dropped");
			for (size_t i = 0; i < 3; i++) {
				struct noise s = { .state = ns[i] + 1000 * (unsigned)kind };
				size_t dropped = 0;
				double share;

				for (size_t t = 0; t < trials; t++) {
					double x[20];

					series(&s, kind, x, ns[i]);
					x[0] *= shift ? 1.1 : 1;
					dropped += stats_warmup(x, ns[i]) > 0;
				}
				share = (double)dropped / (double)trials;
				if (full)
					(void)printf(" %.1f |", 100 * share);
				if (kind == NOISE_NORMAL)
					CHECK(shift ? share > 0.6 : share < 0.2);
			}
		}
	}
}

int main(int argc, char **argv)
{
	full = argc > 1 && strcmp(argv[1], "--full") == 0;
	sim_fixed();
	if (full)
		sim_bootstrap();
	sim_stopping();
	sim_pairs();
	sim_visible();
	sim_warmup();
	if (full)
		(void)printf("\n");
	return 0;
}
