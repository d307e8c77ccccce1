#include "measure/stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/err.h"
#include "measure/stats_priv.h"

/*
 * Nominal levels.  They lie above 0.95 by what looking, and a lag-1 autocorrelation of 0.1, cost:
 * measured, see the tables in docs/measuring.md.  A look after the first is only reached by samples
 * that failed before, so that stopping there picks narrow intervals; at the first one it mostly
 * does not.
 */
#define STATS_LEVEL_FIXED	0.955
#define STATS_LEVEL_FIRST_LOOK	0.964
#define STATS_LEVEL_LATER_LOOKS 0.975

/* Each look half as far again keeps the number of looks, and so their cost in coverage, small. */
#define STATS_FIRST_LOOK 10

/* Differences below it are never worth naming, however still the machine is. */
#define STATS_MATERIAL 0.01

/* Makes the median distance from the median a normal's standard deviation: 1 / quantile(0.75). */
#define STATS_MAD_SCALE 1.4826022185056018

static int stats_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double *stats_sorted(const double *x, size_t n)
{
	double *s = n > 0 ? reallocarray(NULL, n, sizeof(*s)) : NULL;

	if (s) {
		memcpy(s, x, n * sizeof(*s));
		qsort(s, n, sizeof(*s), stats_order);
	}
	return s;
}

double stats_median_sorted(const double *s, size_t n)
{
	return n % 2 ? s[n / 2] : s[n / 2 - 1] + (s[n / 2] - s[n / 2 - 1]) / 2;
}

double stats_mad(const double *x, size_t n, double centre)
{
	AUTO_FREE double *d = n > 0 ? reallocarray(NULL, n, sizeof(*d)) : NULL;

	if (!d)
		return -1;
	for (size_t i = 0; i < n; i++)
		d[i] = fabs(x[i] - centre);
	qsort(d, n, sizeof(*d), stats_order);
	return STATS_MAD_SCALE * stats_median_sorted(d, n);
}

double stats_normal_quantile(double p)
{
	double lo = -40, hi = 40;

	for (int i = 0; i < 80; i++) {
		double mid = (lo + hi) / 2;

		if (erfc(-mid / M_SQRT2) / 2 < p)
			lo = mid;
		else
			hi = mid;
	}
	return (lo + hi) / 2;
}

int stats_check_n(size_t n, size_t max, const char *what, struct err *err)
{
	if (n == 0)
		return err_set(err, ERR_INVALID, "no %s to judge", what);
	if (n > max)
		return err_set(err, ERR_LIMIT, "%zu %s are more than the %zu that are judged", n,
			       what, max);
	return 0;
}

/*
 * Interval of the median between two order statistics k from either end, interpolated towards the
 * next ones inward (Hettmansperger and Sheather 1986, Nyblom 1992), so that its level is the
 * nominal one and not the next possible above.  That the k-th value lies above the median has the
 * probability that fewer than k of n coins show heads, whatever the distribution.
 */
static void stats_median_interval(const double *s, size_t n, double level, double out[2])
{
	double log_pmf = -(double)n * M_LN2; /* of k - 1 heads */
	double below = exp(log_pmf);	     /* that k - 1 heads or fewer show */
	double lambda = 0;
	size_t k = 1;

	for (;; k++) {
		double inner, gamma = 1 - 2 * below, gamma_in, share;

		log_pmf += log((double)(n - k + 1) / (double)k);
		inner = below + exp(log_pmf);
		gamma_in = 1 - 2 * inner;
		if (gamma_in >= level && 2 * (k + 1) <= n) {
			below = inner;
			continue;
		}
		/* n is 6 and the level above what 6 values give: their range is all there is */
		share = gamma > level ? (gamma - level) / (gamma - gamma_in) : 0;
		lambda =
			(double)(n - k) * share / ((double)k + ((double)n - 2 * (double)k) * share);
		break;
	}
	out[0] = s[k - 1] + lambda * (s[k] - s[k - 1]);
	out[1] = s[n - k] - lambda * (s[n - k] - s[n - k - 1]);
}

static int stats_summarise_level(const double *x, size_t n, double level, struct stats_summary *out,
				 struct err *err)
{
	AUTO_FREE double *s = NULL;
	struct stats_summary sum = { .n = n };
	double mean = 0, ci[2];
	int r = stats_check_n(n, STATS_N_MAX, "repetitions", err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (!isfinite(x[i]))
			return err_set(err, ERR_INVALID, "repetition %zu is no finite number",
				       i + 1);
		mean += (x[i] - mean) / (double)(i + 1);
	}
	s = stats_sorted(x, n);
	if (!s)
		return err_set(err, ERR_NOMEM, "no memory to sort %zu repetitions", n);
	sum.min = s[0];
	sum.max = s[n - 1];
	sum.mean = mean;
	sum.median = stats_median_sorted(s, n);
	sum.mad = stats_mad(x, n, sum.median);
	if (sum.mad < 0)
		return err_set(err, ERR_NOMEM, "no memory to sort %zu repetitions", n);
	if (n >= STATS_N_CI_MIN) {
		stats_median_interval(s, n, level, ci);
		sum.has_ci = true;
		sum.ci95_low = ci[0];
		sum.ci95_high = ci[1];
	}
	*out = sum;
	return 0;
}

int stats_summarise(const double *x, size_t n, struct stats_summary *out, struct err *err)
{
	return stats_summarise_level(x, n, STATS_LEVEL_FIXED, out, err);
}

static double stats_look_level(size_t n)
{
	return n <= STATS_FIRST_LOOK ? STATS_LEVEL_FIRST_LOOK : STATS_LEVEL_LATER_LOOKS;
}

int stats_summarise_stopped(const double *x, size_t n, struct stats_summary *out, struct err *err)
{
	return stats_summarise_level(x, n, stats_look_level(n), out, err);
}

static bool stats_outlies(double x, double centre, double mad)
{
	double d = fabs(x - centre);

	return d > STATS_OUTLIER_MADS * mad && d > STATS_MATERIAL * fabs(centre);
}

size_t stats_outliers(const double *x, size_t n, size_t *idx, size_t cap)
{
	struct stats_summary s = { 0 };
	size_t found = 0;

	if (n < STATS_N_OUTLIER_MIN || stats_summarise(x, n, &s, NULL) < 0)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (!stats_outlies(x[i], s.median, s.mad))
			continue;
		if (found < cap)
			idx[found] = i;
		found++;
	}
	return found;
}

size_t stats_next_look(size_t n)
{
	size_t look = STATS_FIRST_LOOK;

	while (look <= n && look < SIZE_MAX / 2)
		look += look / 2;
	return look;
}

bool stats_is_look(size_t n)
{
	return n >= STATS_FIRST_LOOK && stats_next_look(n - 1) == n;
}

static size_t stats_look_before(size_t n)
{
	size_t before = 0;

	for (size_t look = STATS_FIRST_LOOK; look < n; look = stats_next_look(look))
		before = look;
	return before;
}

bool stats_target_met(const double *x, size_t n, double target_pct)
{
	size_t before = stats_look_before(n);
	struct stats_summary now = { 0 }, then = { 0 };
	double limit, half;

	if (!stats_is_look(n) || stats_summarise_stopped(x, n, &now, NULL) < 0)
		return false;
	limit = fabs(now.median) * target_pct / 100;
	half = (now.ci95_high - now.ci95_low) / 2;
	if (half > limit)
		return false;
	if (before == 0)
		return true;
	/* the interval of the look before, had it narrowed as chance alone narrows it */
	if (stats_summarise_level(x, before, stats_look_level(n), &then, NULL) < 0)
		return false;
	half = (then.ci95_high - then.ci95_low) / 2;
	return half * sqrt((double)before / (double)n) <= limit;
}

size_t stats_warmup(const double *x, size_t n)
{
	struct stats_summary s = { 0 };
	size_t most, k = 0;

	if (n < STATS_N_CI_MIN)
		return 0;
	most = n / 2 - 1;
	if (stats_summarise(x + most, n - most, &s, NULL) < 0)
		return 0;
	/* few values know their spread badly */
	s.mad *= 1 + 2 / (double)(n - most);
	while (k < most && stats_outlies(x[k], s.median, s.mad) &&
	       (x[k] > s.median) == (x[0] > s.median))
		k++;
	return k;
}
