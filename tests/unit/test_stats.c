#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "core/err.h"
#include "measure/stats.h"

#define CHECK_NEAR(got, want, tol)                                                                 \
	do {                                                                                       \
		double got_ = (got), want_ = (want);                                               \
		if (!(fabs(got_ - want_) <= (tol))) {                                              \
			(void)fprintf(stderr, "%s:%d: %s is %.12g, not %.12g\n", __FILE__,         \
				      __LINE__, #got, got_, want_);                                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { MOST = 2048 };

static void fill_ranks(double *x, size_t n)
{
	/* 1 … n, shuffled by a step that shares no factor with n */
	size_t step = n % 7 ? 7 : 5;

	for (size_t i = 0; i < n; i++)
		x[i] = (double)((i * step) % n + 1);
}

static void test_summary(void)
{
	static const double x[] = { 3, 1, 4, 1.5, 9, 2.6 };
	struct stats_summary s = { .n = 77 };
	struct err err = { 0 };
	double bad[] = { 1, NAN, 3 };

	CHECK_OK(stats_summarise(x, 5, &s, &err), &err);
	CHECK_INT(s.n, 5);
	CHECK_NEAR(s.min, 1, 0);
	CHECK_NEAR(s.max, 9, 0);
	CHECK_NEAR(s.median, 3, 0);
	CHECK_NEAR(s.mean, 3.7, 1e-12);
	/* distances from 3: 0 1 1.5 2 6 */
	CHECK_NEAR(s.mad, 1.5 * 1.4826, 1e-4);
	CHECK(!s.has_ci);
	CHECK_OK(stats_summarise(x, 6, &s, &err), &err);
	CHECK_NEAR(s.median, 2.8, 1e-12);
	CHECK(s.has_ci);
	CHECK(s.ci95_low >= 1 && s.ci95_low < 1.5 && s.ci95_high > 4 && s.ci95_high <= 9);
	CHECK_OK(stats_summarise(x, 1, &s, &err), &err);
	CHECK_NEAR(s.median, 3, 0);
	CHECK_NEAR(s.mad, 0, 0);

	s.n = 77;
	CHECK_INT(stats_summarise(x, 0, &s, &err), ERR_INVALID);
	CHECK_INT(stats_summarise(bad, 3, &s, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "repetition 2");
	CHECK_INT(stats_summarise(x, STATS_N_MAX + 1, &s, &err), ERR_LIMIT);
	CHECK_INT(s.n, 77);
}

/*
 * Of the values 1 … n the interval's ends are positions.  The wanted ones were computed with exact
 * fractions from the formula of Hettmansperger and Sheather.
 */
static void test_interval_positions(void)
{
	static const struct {
		size_t n;
		bool stopped;
		double low;
	} cases[] = {
		{ 6, false, 1.283505155 },   { 7, false, 1.687804878 },
		{ 8, false, 1.911378556 },   { 9, false, 2.133668342 },
		{ 10, false, 2.593688363 },  { 11, false, 2.879963277 },
		{ 12, false, 3.160279311 },  { 15, false, 4.269250382 },
		{ 33, false, 11.360789476 }, { 1999, false, 955.198355347 },
		{ 10, true, 2.441749881 },   { 15, true, 3.874015748 },
		{ 22, true, 6.440092238 },   { 109, true, 43.384509247 },
	};
	static double x[MOST];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = cases[i].n;
		struct stats_summary s;

		fill_ranks(x, n);
		if (cases[i].stopped)
			CHECK_OK(stats_summarise_stopped(x, n, &s, NULL), &(struct err){ 0 });
		else
			CHECK_OK(stats_summarise(x, n, &s, NULL), &(struct err){ 0 });
		CHECK_NEAR(s.ci95_low, cases[i].low, 1e-6);
		CHECK_NEAR(s.ci95_high, (double)n + 1 - cases[i].low, 1e-6);
		CHECK_NEAR(s.median, (double)(n + 1) / 2, 1e-12);
	}
}

static void test_outliers(void)
{
	double x[] = { 1.00, 1.02, 0.99, 1.01, 1.50, 1.00, 0.70, 1.01 };
	double still[] = { 5, 5, 5, 5, 5.04, 5, 5.06 };
	size_t idx[4] = { 99, 99, 99, 99 };

	CHECK_INT(stats_outliers(x, 8, idx, 4), 2);
	CHECK_INT(idx[0], 4);
	CHECK_INT(idx[1], 6);
	CHECK_INT(idx[2], 99);
	idx[1] = 99;
	CHECK_INT(stats_outliers(x, 8, idx, 1), 2);
	CHECK_INT(idx[1], 99);
	CHECK_INT(stats_outliers(x, 4, idx, 4), 0);
	/* no spread at all: what is within 1 % of the median is still no outlier */
	CHECK_INT(stats_outliers(still, 7, idx, 4), 1);
	CHECK_INT(idx[0], 6);
}

static void test_looks(void)
{
	static const size_t looks[] = { 10, 15, 22, 33, 49, 73, 109 };
	size_t k = 0;

	for (size_t n = 0; n <= 109; n++) {
		bool is = k < 7 && looks[k] == n;

		CHECK_INT(stats_is_look(n), is);
		CHECK_INT(stats_next_look(n), k + is < 7 ? looks[k + is] : 163);
		k += is;
	}
}

static void test_target(void)
{
	double x[33];

	for (size_t i = 0; i < 33; i++)
		x[i] = 100 + (double)((i * 7) % 11) / 10; /* 100 … 101 */
	CHECK(stats_target_met(x, 10, 1));
	CHECK(!stats_target_met(x, 11, 1)); /* no look */
	CHECK(!stats_target_met(x, 6, 100));
	CHECK(!stats_target_met(x, 10, 0.1));
	CHECK(stats_target_met(x, 33, 0.5));
	/* wide at 10, narrow by luck at 15: not believed before the next look */
	for (size_t i = 0; i < 33; i++)
		x[i] = i < 10 ? 100 + (double)i : 104.5;
	CHECK(!stats_target_met(x, 15, 2));
	CHECK(stats_target_met(x, 22, 2));
}

static void test_warmup(void)
{
	double x[] = { 1.50, 1.20, 1.00, 1.01, 0.99, 1.00, 1.02, 1.00, 0.99, 1.01 };
	double low[] = { 0.5, 1.00, 1.01, 0.99, 1.00, 1.02, 1.00, 0.99, 1.01, 1.0 };
	double all[] = { 9, 8, 7, 6, 5, 1.00, 1.01, 1.00, 0.99, 1.0 };
	double late[] = { 1.00, 1.50, 1.00, 1.01, 0.99, 1.00, 1.02, 1.00, 0.99, 1.01 };
	double mixed[] = { 1.50, 0.50, 1.00, 1.01, 0.99, 1.00, 1.02, 1.00, 0.99, 1.01 };

	CHECK_INT(stats_warmup(x, 10), 2);
	CHECK_INT(stats_warmup(x + 2, 8), 0);
	CHECK_INT(stats_warmup(low, 10), 1);
	CHECK_INT(stats_warmup(all, 10), 4);
	CHECK_INT(stats_warmup(late, 10), 0);
	CHECK_INT(stats_warmup(mixed, 10), 1);
	CHECK_INT(stats_warmup(x, 5), 0);
	CHECK_INT(stats_warmup(x, 0), 0);
}

static int order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Which order statistics are the bounds: computed with exact fractions by another program.  At
 * 0.025 and up to 10 pairs `rank` is the critical value of Wilcoxon's signed-rank test as printed
 * in textbooks (0 2 3 5 8 for 6 to 10 pairs) plus 1; above, the sign test takes its share of the
 * level.
 */
static void test_bounds_table(void)
{
	static const struct {
		size_t n;
		double alpha; /* one-sided */
		size_t rank;  /* the how-maniest mean of two log ratios; 0: none */
		size_t sign;  /* the how-maniest log ratio; 0: not used */
	} cases[] = {
		{ 6, 0.025, 1, 0 },   { 7, 0.025, 3, 0 },    { 8, 0.025, 4, 0 },
		{ 9, 0.025, 6, 0 },   { 10, 0.025, 9, 0 },   { 11, 0.025, 10, 2 },
		{ 12, 0.025, 14, 2 }, { 15, 0.025, 25, 3 },  { 20, 0.025, 50, 5 },
		{ 25, 0.025, 85, 7 }, { 30, 0.025, 130, 9 }, { 50, 0.025, 420, 17 },
		{ 6, 0.05, 3, 0 },    { 10, 0.05, 10, 2 },   { 20, 0.05, 59, 5 },
		{ 6, 0.01, 0, 0 },    { 7, 0.01, 1, 0 },     { 8, 0.01, 2, 0 },
		{ 10, 0.01, 6, 0 },   { 20, 0.01, 43, 4 },   { 50, 0.01, 384, 16 },
		{ 8, 0.005, 1, 0 },   { 20, 0.005, 36, 4 },  { 50, 0.005, 364, 15 },
	};
	static double w[51 * 50];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = cases[i].n, m = 0, rank = cases[i].rank, sign = cases[i].sign;
		struct stats_pair pairs[50];
		struct stats_ratio r = { 0 };
		double d[50], low, high;

		/* some series are smooth, in some a few values lie far out */
		for (size_t k = 0; k < n; k++) {
			d[k] = sin((double)(k * k + 1)) / 10 - (k % 7 == i % 9 ? 1 : 0);
			pairs[k] = (struct stats_pair){ exp(d[k]), 1 };
		}
		for (size_t k = 0; k < n; k++) {
			for (size_t j = k; j < n; j++)
				w[m++] = (d[k] + d[j]) / 2;
		}
		qsort(w, m, sizeof(*w), order);
		qsort(d, n, sizeof(*d), order);
		CHECK_OK(stats_ratio(pairs, n, STATS_LOWER_BETTER, cases[i].alpha, &r, NULL),
			 &(struct err){ 0 });
		CHECK(r.has_ci);
		CHECK_INT(r.has_lower, rank > 0);
		CHECK_NEAR(log(r.ratio), m % 2 ? w[m / 2] : (w[m / 2 - 1] + w[m / 2]) / 2, 1e-12);
		if (rank == 0)
			continue;
		low = w[rank - 1];
		if (sign > 0 && d[sign - 1] < log(r.ratio))
			low = fmax(low, d[sign - 1]);
		high = w[m - rank];
		if (sign > 0 && d[n - sign] > log(r.ratio))
			high = fmin(high, d[n - sign]);
		CHECK_NEAR(log(r.lower), low, 1e-12);
		if (cases[i].alpha == 0.025) {
			CHECK_NEAR(log(r.ci95_low), low, 1e-12);
			CHECK_NEAR(log(r.ci95_high), high, 1e-12);
		}
	}
	CHECK_INT(stats_pairs_min(0.05), 6);
	CHECK_INT(stats_pairs_min(0.05 / 12), 8);
	CHECK_INT(stats_pairs_min(0.05 / 13), 9);
	CHECK_INT(stats_pairs_min(0.05 / 1000), 15);
}

static void test_ratio(void)
{
	struct stats_pair p[64];
	struct stats_ratio r = { .n = 77 }, big;
	struct err err = { 0 };

	for (size_t i = 0; i < 64; i++)
		p[i] = (struct stats_pair){ 1.2 * (1 + (double)(i % 5) / 1000),
					    1.0 * (1 + (double)(i % 3) / 1000) };
	CHECK_OK(stats_ratio(p, 20, STATS_LOWER_BETTER, 0.01, &r, &err), &err);
	CHECK_NEAR(r.ratio, 1.2, 0.003);
	CHECK(r.ci95_low < r.ratio && r.ratio < r.ci95_high && r.lower < r.ratio);
	CHECK(r.has_lower && r.lower > 1.19 && r.spread_pct > 0 && r.spread_pct < 0.5);
	/* a rate that went up is the same story told backwards */
	for (size_t i = 0; i < 20; i++)
		p[i] = (struct stats_pair){ p[i].b, p[i].a };
	CHECK_OK(stats_ratio(p, 20, STATS_HIGHER_BETTER, 0.01, &big, &err), &err);
	CHECK_NEAR(big.ratio, r.ratio, 1e-12);
	CHECK_NEAR(big.lower, r.lower, 1e-12);
	CHECK_OK(stats_ratio(p, 20, STATS_LOWER_BETTER, 0.01, &big, &err), &err);
	CHECK_NEAR(big.ratio, 1 / r.ratio, 1e-12);
	CHECK(big.lower < 1);
	/* normal approximation: close to the exact one where they meet */
	CHECK_OK(stats_ratio(p + 14, 50, STATS_LOWER_BETTER, 0.01, &r, &err), &err);
	CHECK_OK(stats_ratio(p + 13, 51, STATS_LOWER_BETTER, 0.01, &big, &err), &err);
	CHECK_NEAR(big.lower, r.lower, 0.0015);

	/* log ratios of which a third lies far below: the bounds still enclose the estimate */
	for (size_t i = 0; i < 50; i++)
		p[i] = (struct stats_pair){ 1 + (double)(i % 7) / 1000, i % 3 ? 1 : 8 };
	CHECK_OK(stats_ratio(p, 50, STATS_LOWER_BETTER, 0.01, &r, &err), &err);
	CHECK(r.ci95_low < r.ratio && r.ratio < r.ci95_high && r.lower < r.ratio);

	CHECK_OK(stats_ratio(p, 5, STATS_LOWER_BETTER, 0.25, &r, &err), &err);
	CHECK(!r.has_ci && !r.has_lower);
	r.n = 77;
	CHECK_INT(stats_ratio(p, 0, STATS_LOWER_BETTER, 0.05, &r, &err), ERR_INVALID);
	CHECK_INT(stats_ratio(p, 20, STATS_LOWER_BETTER, 0, &r, &err), ERR_INVALID);
	CHECK_INT(stats_ratio(p, 20, STATS_LOWER_BETTER, 0.3, &r, &err), ERR_INVALID);
	CHECK_INT(stats_ratio(p, 20, STATS_LOWER_BETTER, NAN, &r, &err), ERR_INVALID);
	CHECK_INT(stats_ratio(p, STATS_PAIRS_MAX + 1, STATS_LOWER_BETTER, 0.05, &r, &err),
		  ERR_LIMIT);
	p[3].b = 0;
	CHECK_INT(stats_ratio(p, 20, STATS_LOWER_BETTER, 0.05, &r, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "pair 4");
	p[3].b = NAN;
	CHECK_INT(stats_ratio(p, 20, STATS_LOWER_BETTER, 0.05, &r, &err), ERR_INVALID);
	CHECK_INT(r.n, 77);
}

static void test_visible(void)
{
	struct stats_pair p[20], q[20];
	double narrow = -1, wide = -1, floored = -1, sure = -1;
	struct err err = { 0 };

	for (size_t i = 0; i < 20; i++) {
		double z = sin((double)(i * i + 1));

		p[i] = (struct stats_pair){ exp(0.01 * z), 1 };
		q[i] = (struct stats_pair){ exp(0.1 * z), 1 };
	}
	CHECK_OK(stats_smallest_visible(p, 20, 0.05, 0.8, 0, &narrow, &err), &err);
	CHECK_OK(stats_smallest_visible(q, 20, 0.05, 0.8, 0, &wide, &err), &err);
	CHECK_OK(stats_smallest_visible(p, 20, 0.05, 0.8, 2, &floored, &err), &err);
	CHECK_OK(stats_smallest_visible(p, 20, 0.05, 0.95, 0, &sure, &err), &err);
	CHECK(narrow > 0.1 && narrow < 1);
	CHECK_NEAR(log1p(wide / 100) / log1p(narrow / 100), 10, 1e-6);
	CHECK_NEAR(log1p(floored / 100), log(1.02) + log1p(narrow / 100), 1e-12);
	CHECK(sure > narrow);
	sure = 7;
	CHECK_INT(stats_smallest_visible(p, 6, 0.004, 0.8, 0, &sure, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "it takes 8");
	CHECK_INT(stats_smallest_visible(p, 20, 0.05, 1, 0, &sure, &err), ERR_INVALID);
	CHECK_INT(stats_smallest_visible(p, 0, 0.05, 0.8, 0, &sure, &err), ERR_INVALID);
	CHECK_NEAR(sure, 7, 0);
}

static void test_floors(void)
{
	struct stats_pair p[8] = { { 1, 1.01 }, { 1.02, 1 }, { 1, 1 },	  { 1, 1.01 },
				   { 1, 1 },	{ 1.01, 1 }, { 1, 1.02 }, { 1, 1 } };
	/* three builds, levels 1, 1.1 and 0.9, while the machine gets slower round by round */
	double x[12], levels[3], pct = -1;
	struct err err = { 0 };

	CHECK_OK(stats_aa_floor_pct(p, 3, &pct, &err), &err);
	CHECK_NEAR(pct, 2, 1e-9);
	CHECK_OK(stats_aa_floor_pct(p, 8, &pct, &err), &err);
	CHECK(pct >= 0 && pct < 0.3);
	for (size_t i = 0; i < 8; i++)
		p[i].b *= 1.04;
	CHECK_OK(stats_aa_floor_pct(p, 8, &pct, &err), &err);
	CHECK_NEAR(pct, 4.2, 0.3);
	CHECK_INT(stats_aa_floor_pct(p, 0, &pct, &err), ERR_INVALID);

	for (size_t r = 0; r < 4; r++) {
		double drift = 1 + (double)r;

		x[3 * r] = drift;
		x[3 * r + 1] = 1.1 * drift;
		x[3 * r + 2] = 0.9 * drift;
	}
	x[4] = 50; /* one round's outlier */
	CHECK_OK(stats_levels(x, 3, 4, levels, &err), &err);
	CHECK_NEAR(levels[0], 1, 1e-12);
	CHECK_NEAR(levels[1], 1.1, 1e-12);
	CHECK_NEAR(levels[2], 0.9, 1e-12);
	CHECK_OK(stats_spread_pct(levels, 3, &pct, &err), &err);
	CHECK_NEAR(pct, 100 * (1.1 / 0.9 - 1), 1e-9);
	pct = 7;
	CHECK_INT(stats_spread_pct(levels, 1, &pct, &err), ERR_INVALID);
	levels[1] = 0;
	CHECK_INT(stats_spread_pct(levels, 3, &pct, &err), ERR_INVALID);
	CHECK_NEAR(pct, 7, 0);
	levels[0] = 7;
	x[5] = -1;
	CHECK_INT(stats_levels(x, 3, 4, levels, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "build 3, round 2");
	CHECK_INT(stats_levels(x, 0, 4, levels, &err), ERR_INVALID);
	CHECK_INT(stats_levels(x, STATS_BUILDS_MAX + 1, 1, levels, &err), ERR_LIMIT);
	CHECK_NEAR(levels[0], 7, 0);
}

/* By counting, out of all ways to deal the levels out to two groups. */
static double dealt(const double *all, size_t n, size_t n_base, unsigned wins)
{
	unsigned ways = 0, as_good = 0;

	for (unsigned set = 0; set < 1U << n; set++) {
		unsigned w = 0;

		if ((size_t)__builtin_popcount(set) != n_base)
			continue;
		for (size_t i = 0; i < n; i++) {
			for (size_t k = 0; k < n; k++)
				w += (set >> i & 1) && !(set >> k & 1) && all[k] < all[i];
		}
		ways++;
		as_good += w >= wins;
	}
	return (double)as_good / ways;
}

static void test_separation(void)
{
	double all[] = { 5, 1, 9, 4, 7, 2, 8, 3, 6, 0 };
	double one[STATS_SIDE_MAX + 1] = { 0 }, two[STATS_SIDE_MAX + 1];

	for (size_t n_base = 1; n_base <= 6; n_base++) {
		size_t n_cand = n_base == 2 ? 4 : 10 - n_base;
		unsigned wins = 0;

		for (size_t i = 0; i < n_base; i++) {
			for (size_t k = 0; k < n_cand; k++)
				wins += all[n_base + k] < all[i];
		}
		CHECK_NEAR(
			stats_separation_p(all, n_base, all + n_base, n_cand, STATS_LOWER_BETTER),
			dealt(all, n_base + n_cand, n_base, wins), 1e-12);
	}
	for (size_t i = 0; i <= STATS_SIDE_MAX; i++)
		two[i] = 1;
	CHECK_NEAR(stats_separation_p(one, 5, two, 5, STATS_HIGHER_BETTER), 1.0 / 252, 1e-15);
	CHECK_NEAR(stats_separation_p(one, 5, two, 5, STATS_LOWER_BETTER), 1, 1e-12);
	CHECK_NEAR(stats_separation_p(one, 5, one, 5, STATS_LOWER_BETTER), 1, 1e-12); /* ties */
	CHECK_NEAR(stats_separation_p(one, 16, two, 16, STATS_HIGHER_BETTER), 1 / 601080390.0,
		   1e-18);
	CHECK_NEAR(stats_separation_p(one, 0, two, 5, STATS_HIGHER_BETTER), 1, 0);
	CHECK_NEAR(stats_separation_p(one, 17, two, 5, STATS_HIGHER_BETTER), 1, 0);
	CHECK_INT(stats_separation_min(0.05), 3);
	CHECK_INT(stats_separation_min(0.05 / 12), 5);
	CHECK_INT(stats_separation_min(0.05 / 13), 6);
}

int main(void)
{
	test_summary();
	test_interval_positions();
	test_outliers();
	test_looks();
	test_target();
	test_warmup();
	test_bounds_table();
	test_ratio();
	test_visible();
	test_floors();
	test_separation();
	return 0;
}
