/* What the files of the statistics share.  Threads: any. */
#ifndef MEASURE_STATS_PRIV_H
#define MEASURE_STATS_PRIV_H

#include <stddef.h>

struct err;

/* A sorted copy; the caller frees.  NULL when memory is out or n is 0. */
double *stats_sorted(const double *x, size_t n);
double stats_median_sorted(const double *s, size_t n); /* n > 0 */
/* Median distance from centre, scaled to a normal's standard deviation.  Negative: out of memory.
 */
double stats_mad(const double *x, size_t n, double centre);
/* The standard normal's quantile; 0 < p < 1. */
double stats_normal_quantile(double p);
/* 0 where 1 <= n <= max, else ERR_INVALID or ERR_LIMIT; what: "repetitions", "pairs". */
int stats_check_n(size_t n, size_t max, const char *what, struct err *err);

#endif
