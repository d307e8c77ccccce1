#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/err.h"
#include "measure/stats.h"
#include "measure/stats_priv.h"

/* Above it the normal approximation of the signed-rank sum serves. */
#define STATS_EXACT_MAX 50
#define STATS_SUMS_MAX	(STATS_EXACT_MAX * (STATS_EXACT_MAX + 1) / 2)

#define STATS_CI_TAIL 0.025

/*
 * The bound is the c-th smallest of the means of all pairs of log ratios, where c is the largest
 * with P(sum of the ranks 1 … n that chance signs pick <= c - 1) <= tail; 0 where even the smallest
 * is no bound.  *level, which may be NULL, is that probability.
 */
static size_t stats_rank_bound_exact(size_t n, double tail, double *level)
{
	/* ways to reach each sum: whole numbers below 2^50, so doubles hold them exactly */
	double ways[STATS_SUMS_MAX + 1] = { 1 };
	double p = 0, p_next;
	size_t top = 0, c = 0;

	for (size_t rank = 1; rank <= n; rank++) {
		top += rank;
		for (size_t s = top; s >= rank; s--)
			ways[s] += ways[s - rank];
	}
	while (c <= top && (p_next = p + ldexp(ways[c], -(int)n)) <= tail) {
		p = p_next;
		c++;
	}
	if (level)
		*level = p;
	return c;
}

static size_t stats_rank_bound(size_t n, double tail, double *level)
{
	double m = (double)n, mean = m * (m + 1) / 4;
	double sd = sqrt(m * (m + 1) * (2 * m + 1) / 24), c;

	if (n <= STATS_EXACT_MAX)
		return stats_rank_bound_exact(n, tail, level);
	c = floor(mean + 0.5 + sd * stats_normal_quantile(tail));
	if (level)
		*level = tail;
	return c > 0 ? (size_t)c : 0;
}

/*
 * The same for single log ratios and signs that chance tosses: their c-th smallest is a bound with
 * P(heads <= c - 1) <= tail.
 */
static size_t stats_sign_bound(size_t n, double tail, double *level)
{
	double log_pmf = -(double)n * M_LN2, p = 0, p_next;
	size_t c = 0;

	while (c < n && (p_next = p + exp(log_pmf)) <= tail) {
		log_pmf += log((double)(n - c) / (double)(c + 1));
		p = p_next;
		c++;
	}
	*level = p;
	return c;
}

/* Which order statistics bound the ratio from either side, each missing with at most tail. */
struct stats_bounds {
	size_t rank;  /* of the means of all pairs of log ratios; 0: no bound */
	size_t sign;  /* of the log ratios themselves; 0: not used */
	double level; /* of rank */
};

/*
 * The signed-rank bound is the narrow one as long as nothing disturbs the runs: but two outliers
 * among 20 pairs already move it.  The sign test's bound stands many, and is wide.  So a third of
 * the level goes to the latter and the rest to the former, and the better one counts.
 */
static struct stats_bounds stats_bounds(size_t n, double tail)
{
	struct stats_bounds b = { 0 };
	double spent = 0;

	b.sign = stats_sign_bound(n, tail / 3, &spent);
	if (b.sign < 2) { /* the smallest ratio is never the better bound */
		b.sign = 0;
		spent = 0;
	}
	b.rank = stats_rank_bound(n, tail - spent, &b.level);
	return b;
}

size_t stats_pairs_min(double alpha)
{
	size_t n = STATS_N_CI_MIN;

	while (n < STATS_PAIRS_MAX && stats_rank_bound(n, alpha, NULL) == 0)
		n++;
	return n;
}

static int stats_check_pairs(const struct stats_pair *pairs, size_t n, struct err *err)
{
	int r = stats_check_n(n, STATS_PAIRS_MAX, "pairs", err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!(isfinite(pairs[i].a) && isfinite(pairs[i].b) && pairs[i].a > 0 &&
		      pairs[i].b > 0))
			r = err_set(err, ERR_INVALID,
				    "pair %zu (%g, %g): a ratio needs two positive numbers", i + 1,
				    pairs[i].a, pairs[i].b);
	}
	return r;
}

/* Logarithms of the pairs' ratios, over 0 is better; the caller frees. */
static double *stats_log_ratios(const struct stats_pair *pairs, size_t n, enum stats_better better)
{
	double *d = reallocarray(NULL, n, sizeof(*d));

	for (size_t i = 0; d && i < n; i++) {
		d[i] = log(pairs[i].a) - log(pairs[i].b);
		if (better == STATS_HIGHER_BETTER)
			d[i] = -d[i];
	}
	return d;
}

/* The sorted means of all pairs of values, each with itself too; the caller frees. */
static double *stats_walsh(const double *d, size_t n)
{
	AUTO_FREE double *w = reallocarray(NULL, n * (n + 1) / 2, sizeof(*w));
	size_t m = 0;

	for (size_t i = 0; w && i < n; i++) {
		for (size_t j = i; j < n; j++)
			w[m++] = (d[i] + d[j]) / 2;
	}
	return w ? stats_sorted(w, m) : NULL;
}

/*
 * The better of the two bounds below an estimate.  Where the sign test's lies beyond the estimate,
 * the log ratios are not symmetric, and it does not count.  s: the sorted log ratios; w: the sorted
 * means of all pairs of them.
 */
static double stats_low(const struct stats_bounds *b, const double *s, const double *w,
			double estimate)
{
	double low = w[b->rank - 1];

	return b->sign > 0 && s[b->sign - 1] < estimate ? fmax(low, s[b->sign - 1]) : low;
}

static double stats_high(const struct stats_bounds *b, const double *s, const double *w, size_t n,
			 double estimate)
{
	double high = w[n * (n + 1) / 2 - b->rank];

	return b->sign > 0 && s[n - b->sign] > estimate ? fmin(high, s[n - b->sign]) : high;
}

int stats_ratio(const struct stats_pair *pairs, size_t n, enum stats_better better, double alpha,
		struct stats_ratio *out, struct err *err)
{
	struct stats_ratio ratio = { .n = n, .alpha = alpha };
	AUTO_FREE double *d = NULL, *s = NULL, *w = NULL;
	struct stats_bounds b;
	double estimate, spread;
	size_t m = n * (n + 1) / 2;
	int r = stats_check_pairs(pairs, n, err);

	if (r < 0)
		return r;
	if (!(alpha > 0 && alpha <= STATS_ALPHA_MAX))
		return err_set(err, ERR_INVALID, "level %g of the bound is not in (0, %g]", alpha,
			       STATS_ALPHA_MAX);
	d = stats_log_ratios(pairs, n, better);
	s = d ? stats_sorted(d, n) : NULL;
	w = s ? stats_walsh(d, n) : NULL;
	estimate = w ? stats_median_sorted(w, m) : 0;
	spread = w ? stats_mad(d, n, estimate) : -1;
	if (spread < 0)
		return err_set(err, ERR_NOMEM, "no memory to judge %zu pairs", n);
	ratio.ratio = exp(estimate);
	ratio.spread_pct = 100 * expm1(spread);
	if (n >= STATS_N_CI_MIN) {
		b = stats_bounds(n, STATS_CI_TAIL);
		ratio.has_ci = true;
		ratio.ci95_low = exp(stats_low(&b, s, w, estimate));
		ratio.ci95_high = exp(stats_high(&b, s, w, n, estimate));
		b = stats_bounds(n, alpha);
		ratio.has_lower = b.rank > 0;
		ratio.lower = b.rank > 0 ? exp(stats_low(&b, s, w, estimate)) : 0;
	}
	*out = ratio;
	return 0;
}

int stats_smallest_visible(const struct stats_pair *pairs, size_t n, double alpha, double power,
			   double floor_pct, double *out_pct, struct err *err)
{
	struct stats_ratio ratio = { 0 };
	double level, margin;
	int r = stats_ratio(pairs, n, STATS_LOWER_BETTER, alpha, &ratio, err);

	if (r < 0)
		return r;
	if (!(power > 0 && power < 1) || !(floor_pct > -100))
		return err_set(err, ERR_INVALID, "power %g or floor %g %% makes no sense", power,
			       floor_pct);
	if (!ratio.has_lower)
		return err_set(err, ERR_INVALID, "%zu pairs cannot reach level %g: it takes %zu", n,
			       alpha, stats_pairs_min(alpha));
	/*
	 * The bound lies a margin below the estimate, which is the level's quantile in standard
	 * errors; the estimate itself varies by as many.  The margin is uncertain too: the last
	 * factor, found by simulation, brings what is seen at this size from 67-75 % to about 80 %
	 * for 8 to 20 pairs with normal noise.
	 */
	level = stats_bounds(n, alpha).level;
	margin = log(ratio.ratio / ratio.lower);
	margin *= 1 + stats_normal_quantile(power) / stats_normal_quantile(1 - level);
	margin *= 1 + 2 / (double)n;
	*out_pct = 100 * expm1(log1p(floor_pct / 100) + fmax(margin, 0));
	return 0;
}

int stats_aa_floor_pct(const struct stats_pair *pairs, size_t n, double *out_pct, struct err *err)
{
	struct stats_ratio ratio = { 0 };
	double far = 0;
	int r = stats_ratio(pairs, n, STATS_LOWER_BETTER, STATS_CI_TAIL, &ratio, err);

	if (r < 0)
		return r;
	if (n >= STATS_N_CI_MIN)
		far = fabs(log(ratio.ratio));
	for (size_t i = 0; n < STATS_N_CI_MIN && i < n; i++)
		far = fmax(far, fabs(log(pairs[i].a) - log(pairs[i].b)));
	*out_pct = 100 * expm1(far);
	return 0;
}
