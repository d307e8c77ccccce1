/* Measured numbers for people: scaled units, intervals, small charts.  Threads: main only. */
#ifndef CMD_MEASURE_TEXT_H
#define CMD_MEASURE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct disturb_report;
struct json;
struct stats_summary;

/* How numbers of one size are written: 0.00123 s as 1.23 ms. */
struct measure_scale {
	double factor;
	const char *unit; /* static or borrowed from what was given */
};

/* v and everything near it, in a unit of ours ("s", "bytes") or any other, which stays. */
struct measure_scale measure_scale_of(double v, const char *unit);
/* "1.234 ms" */
void measure_value(double v, const char *unit, char *buf, size_t cap);
/* "1.234 ms, 95 % interval 1.23 to 1.24 ms", or why there is no interval. */
void measure_interval(const struct stats_summary *s, const char *unit, char *buf, size_t cap);
/*
 * One character a value, from the smallest to the largest: at most width of them, neighbours
 * joined by their mean where there are more.  Blocks in a UTF-8 locale, else ASCII.
 */
void measure_spark(FILE *to, const double *x, size_t n, size_t width);
/* A histogram of at most 10 rows; nothing where all values are the same or n is below 6. */
void measure_histogram(FILE *to, const double *x, size_t n, const char *unit);
void measure_disturbances(FILE *to, const struct disturb_report *d);

/* {n, median, min, max, ci95_low, ci95_high, unit}; the last two but one null without interval. */
struct json *measure_summary_json(const struct stats_summary *s, const char *unit);

#endif
