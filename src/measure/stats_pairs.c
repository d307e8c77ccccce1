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

int stats_ratio(const struct stats_pair *pairs, size_t n, enum stats_better better, double alpha,
		struct stats_ratio *out, struct err *err)
{
	struct stats_ratio ratio = { .n = n, .alpha = alpha };
	AUTO_FREE double *d = NULL, *w = NULL;
	double spread;
	size_t c, m = n * (n + 1) / 2;
	int r = stats_check_pairs(pairs, n, err);

	if (r < 0)
		return r;
	if (!(alpha > 0 && alpha <= STATS_ALPHA_MAX))
		return err_set(err, ERR_INVALID, "level %g of the bound is not in (0, %g]", alpha,
			       STATS_ALPHA_MAX);
	d = stats_log_ratios(pairs, n, better);
	w = d ? stats_walsh(d, n) : NULL;
	spread = w ? stats_mad(d, n, stats_median_sorted(w, m)) : -1;
	if (spread < 0)
		return err_set(err, ERR_NOMEM, "no memory to judge %zu pairs", n);
	ratio.ratio = exp(stats_median_sorted(w, m));
	ratio.spread_pct = 100 * expm1(spread);
	if (n >= STATS_N_CI_MIN) {
		c = stats_rank_bound(n, STATS_CI_TAIL, NULL);
		ratio.has_ci = true;
		ratio.ci95_low = exp(w[c - 1]);
		ratio.ci95_high = exp(w[m - c]);
		c = stats_rank_bound(n, alpha, NULL);
		ratio.has_lower = c > 0;
		ratio.lower = c > 0 ? exp(w[c - 1]) : 0;
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
	 * errors.  The estimate itself varies by as many, so that this is seen with that power:
	 */
	(void)stats_rank_bound(n, alpha, &level);
	margin = log(ratio.ratio / ratio.lower);
	margin *= 1 + stats_normal_quantile(power) / stats_normal_quantile(1 - level);
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
	if (ratio.has_ci)
		far = fmax(log(ratio.ci95_high), -log(ratio.ci95_low));
	for (size_t i = 0; !ratio.has_ci && i < n; i++)
		far = fmax(far, fabs(log(pairs[i].a) - log(pairs[i].b)));
	*out_pct = 100 * expm1(far);
	return 0;
}
