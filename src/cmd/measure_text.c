#include "cmd/measure_text.h"

#include <langinfo.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "measure/disturb.h"
#include "measure/stats.h"

#define MEASURE_BINS	10
#define MEASURE_BAR	40
#define MEASURE_BIN_MIN 6 /* values, before a histogram says anything */

static bool measure_utf8(void)
{
	return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

struct measure_scale measure_scale_of(double v, const char *unit)
{
	double a = fabs(v);

	if (strcmp(unit, "s") == 0) {
		if (a >= 1 || a == 0)
			return (struct measure_scale){ 1, "s" };
		if (a >= 1e-3)
			return (struct measure_scale){ 1e3, "ms" };
		return (struct measure_scale){ 1e6, measure_utf8() ? "µs" : "us" };
	}
	if (strcmp(unit, "bytes") == 0) {
		if (a >= (double)(1 << 30))
			return (struct measure_scale){ 1.0 / (1 << 30), "GiB" };
		if (a >= 1 << 20)
			return (struct measure_scale){ 1.0 / (1 << 20), "MiB" };
		if (a >= 1 << 10)
			return (struct measure_scale){ 1.0 / (1 << 10), "KiB" };
	}
	return (struct measure_scale){ 1, strcmp(unit, "1") == 0 ? "" : unit };
}

void measure_value(double v, const char *unit, char *buf, size_t cap)
{
	struct measure_scale s = measure_scale_of(v, unit);

	(void)snprintf(buf, cap, "%.4g%s%s", v * s.factor, s.unit[0] ? " " : "", s.unit);
}

void measure_interval(const struct stats_summary *s, const char *unit, char *buf, size_t cap)
{
	struct measure_scale k = measure_scale_of(s->median, unit);
	const char *blank = k.unit[0] ? " " : "";

	if (s->has_ci)
		(void)snprintf(buf, cap, "%.4g%s%s, 95 %% interval %.4g to %.4g%s%s",
			       s->median * k.factor, blank, k.unit, s->ci95_low * k.factor,
			       s->ci95_high * k.factor, blank, k.unit);
	else
		(void)snprintf(buf, cap, "%.4g%s%s, %.4g to %.4g%s%s (no interval below %d)",
			       s->median * k.factor, blank, k.unit, s->min * k.factor,
			       s->max * k.factor, blank, k.unit, STATS_N_CI_MIN);
}

static void measure_range(const double *x, size_t n, double *low, double *high)
{
	*low = *high = x[0];
	for (size_t i = 1; i < n; i++) {
		*low = fmin(*low, x[i]);
		*high = fmax(*high, x[i]);
	}
}

void measure_spark(FILE *to, const double *x, size_t n, size_t width)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char *const ascii[] = { "_", ".", ",", "-", "~", "=", "+", "#" };
	const char *const *marks = measure_utf8() ? blocks : ascii;
	size_t shown = n < width ? n : width;
	double low, high;

	if (n == 0)
		return;
	measure_range(x, n, &low, &high);
	for (size_t i = 0; i < shown; i++) {
		size_t from = i * n / shown, end = (i + 1) * n / shown;
		double sum = 0, level;

		for (size_t j = from; j < end; j++)
			sum += x[j];
		level = high > low ? (sum / (double)(end - from) - low) / (high - low) : 0;
		(void)fputs(marks[(size_t)(level * 7.999)], to);
	}
}

void measure_histogram(FILE *to, const double *x, size_t n, const char *unit)
{
	size_t count[MEASURE_BINS] = { 0 }, most = 1, bins;
	struct measure_scale k;
	double low, high;

	if (n < MEASURE_BIN_MIN)
		return;
	measure_range(x, n, &low, &high);
	if (!(high > low))
		return;
	bins = (size_t)ceil(sqrt((double)n)) + 1;
	if (bins > MEASURE_BINS)
		bins = MEASURE_BINS;
	for (size_t i = 0; i < n; i++) {
		size_t b = (size_t)((x[i] - low) / (high - low) * (double)bins);

		b = b < bins ? b : bins - 1;
		if (++count[b] > most)
			most = count[b];
	}
	k = measure_scale_of((low + high) / 2, unit);
	for (size_t b = 0; b < bins; b++) {
		size_t len = (count[b] * MEASURE_BAR + most - 1) / most;

		(void)fprintf(to, "  %10.4g %-8s |",
			      (low + (high - low) * (double)b / (double)bins) * k.factor, k.unit);
		while (len-- > 0)
			(void)fputs(measure_utf8() ? "█" : "#", to);
		(void)fprintf(to, "%s%zu\n", count[b] ? " " : "", count[b]);
	}
}

void measure_disturbances(FILE *to, const struct disturb_report *d)
{
	if (d->n_notes == 0)
		(void)fprintf(to, "disturbances  none seen\n");
	for (size_t i = 0; i < d->n_notes; i++)
		(void)fprintf(to, "%-13s %s\n", i ? "" : "disturbances", d->notes[i]);
}

struct json *measure_summary_json(const struct stats_summary *s, const char *unit)
{
	struct json *o = json_new_obj();

	json_set_int(o, "n", (int64_t)s->n);
	json_set_real(o, "median", s->median);
	json_set_real(o, "min", s->min);
	json_set_real(o, "max", s->max);
	json_set(o, "ci95_low", s->has_ci ? json_new_real(s->ci95_low) : json_new_null());
	json_set(o, "ci95_high", s->has_ci ? json_new_real(s->ci95_high) : json_new_null());
	json_set_str(o, "unit", unit);
	return o;
}
