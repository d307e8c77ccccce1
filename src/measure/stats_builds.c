#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/err.h"
#include "measure/stats.h"
#include "measure/stats_priv.h"

int stats_levels(const double *x, size_t n_builds, size_t n_rounds, double *levels, struct err *err)
{
	AUTO_FREE double *rel = NULL, *column = NULL;
	int r = stats_check_n(n_builds, STATS_BUILDS_MAX, "builds", err);

	if (r == 0)
		r = stats_check_n(n_rounds, STATS_PAIRS_MAX, "rounds", err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n_builds * n_rounds; i++) {
		if (!(isfinite(x[i]) && x[i] > 0))
			return err_set(err, ERR_INVALID, "build %zu, round %zu: %g is not positive",
				       i % n_builds + 1, i / n_builds + 1, x[i]);
	}
	rel = reallocarray(NULL, n_builds * n_rounds, sizeof(*rel));
	column = reallocarray(NULL, n_rounds, sizeof(*column));
	if (!rel || !column)
		return err_set(err, ERR_NOMEM, "no memory for %zu builds in %zu rounds", n_builds,
			       n_rounds);
	for (size_t k = 0; k < n_rounds; k++) {
		AUTO_FREE double *s = stats_sorted(x + k * n_builds, n_builds);

		if (!s)
			return err_set(err, ERR_NOMEM, "no memory to sort %zu builds", n_builds);
		for (size_t i = 0; i < n_builds; i++)
			rel[k * n_builds + i] =
				x[k * n_builds + i] / stats_median_sorted(s, n_builds);
	}
	for (size_t i = 0; i < n_builds; i++) {
		AUTO_FREE double *s = NULL;

		for (size_t k = 0; k < n_rounds; k++)
			column[k] = rel[k * n_builds + i];
		s = stats_sorted(column, n_rounds);
		if (!s)
			return err_set(err, ERR_NOMEM, "no memory to sort %zu rounds", n_rounds);
		levels[i] = stats_median_sorted(s, n_rounds);
	}
	return 0;
}

int stats_spread_pct(const double *levels, size_t n, double *out_pct, struct err *err)
{
	double lo = INFINITY, hi = 0;

	if (n < 2)
		return err_set(err, ERR_INVALID, "a spread needs two builds, not %zu", n);
	for (size_t i = 0; i < n; i++) {
		if (!(isfinite(levels[i]) && levels[i] > 0))
			return err_set(err, ERR_INVALID, "level %g of build %zu is not positive",
				       levels[i], i + 1);
		lo = fmin(lo, levels[i]);
		hi = fmax(hi, levels[i]);
	}
	*out_pct = 100 * (hi / lo - 1);
	return 0;
}

double stats_separation_p(const double *base, size_t n_base, const double *cand, size_t n_cand,
			  enum stats_better better)
{
	/* arrangements of both groups by how many of the n_base * n_cand comparisons one wins: the
	 * coefficients of a Gaussian binomial, whole numbers below 2^53 */
	double ways[STATS_SIDE_MAX * STATS_SIDE_MAX + 1] = { 1 };
	double total = 0, as_good = 0;
	size_t wins = 0, top = n_base * n_cand;

	if (n_base == 0 || n_cand == 0 || n_base > STATS_SIDE_MAX || n_cand > STATS_SIDE_MAX)
		return 1;
	for (size_t i = 1; i <= n_base; i++) {
		for (size_t u = top; u >= n_cand + i; u--)
			ways[u] -= ways[u - n_cand - i];
		for (size_t u = i; u <= top; u++)
			ways[u] += ways[u - i];
	}
	for (size_t i = 0; i < n_base; i++) {
		for (size_t k = 0; k < n_cand; k++)
			wins += better == STATS_LOWER_BETTER ? cand[k] < base[i]
							     : cand[k] > base[i];
	}
	for (size_t u = 0; u <= top; u++) {
		total += ways[u];
		as_good += u >= wins ? ways[u] : 0;
	}
	return as_good / total;
}

size_t stats_separation_min(double alpha)
{
	double choose = 1; /* 2 n over n */
	size_t n = 0;

	while (n < STATS_SIDE_MAX && choose * alpha < 1) {
		n++;
		choose *= 2 * (2 * (double)n - 1) / (double)n;
	}
	return n;
}
