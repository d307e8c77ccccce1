#include "report/report_num.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/str.h"

#define NUM_MAX_LEN 40

static const char *const num_units[] = {
	"%",	  "×",	   "ns",    "µs",     "us",    "ms",	 "s",	    "min",     "h",
	"bytes",  "B",	   "KiB",   "MiB",    "GiB",   "TiB",	 "kB",	    "MB",      "GB",
	"TB",	  "GB/s",  "MB/s",  "B/s",    "GiB/s", "MiB/s",	 "Hz",	    "kHz",     "MHz",
	"GHz",	  "W",	   "J",	    "flop/s", "FLOPS", "GFLOPS", "GFLOP/s", "Mflop/s", "MFLOPS",
	"TFLOPS", "GLUPS", "MLUPS", "it/s",   "1/s",   "cycles", "x",	    "percent", "faster",
};

/* How many bytes at p spell the unit, whose punctuation Markdown may have escaped; 0: another one.
 */
static size_t num_spelt(const char *p, const char *end, const char *unit)
{
	const char *s = p;

	for (; *unit; unit++, s++) {
		if (s + 1 < end && *s == '\\' && ispunct((unsigned char)*unit))
			s++;
		if (s >= end || *s != *unit)
			return 0;
	}
	if (isalnum((unsigned char)s[-1]) && s < end &&
	    (isalnum((unsigned char)*s) || *s == '_' || *s == '/'))
		return 0;
	return (size_t)(s - p);
}

static size_t num_unit_len(const char *p, const char *end, const struct json *const *cited,
			   size_t n_cited)
{
	size_t best = 0, n;

	for (size_t i = 0; i < sizeof(num_units) / sizeof(num_units[0]); i++) {
		if ((n = num_spelt(p, end, num_units[i])) > best)
			best = n;
	}
	/* a figure of merit has the unit that its user gave it */
	for (size_t i = 0; i < n_cited; i++) {
		const struct json *values = json_get(cited[i], "values");

		for (size_t k = 0; k < json_len(values); k++) {
			const char *unit = json_get_str(json_at(values, k), "unit", "");

			if (*unit && !isdigit((unsigned char)*unit) &&
			    (n = num_spelt(p, end, unit)) > best)
				best = n;
		}
	}
	return best;
}

/* The length of the number at p, and the weight of its last digit. */
static size_t num_scan(const char *p, const char *end, double *ulp)
{
	const char *q = p;
	int decimals = 0, exponent = 0;

	while (q < end && isdigit((unsigned char)*q))
		q++;
	if (q + 1 < end && *q == '.' && isdigit((unsigned char)q[1])) {
		for (q++; q < end && isdigit((unsigned char)*q); q++)
			decimals++;
	}
	if (q + 2 < end && (*q == 'e' || *q == 'E') && (q[1] == '-' || q[1] == '+') &&
	    isdigit((unsigned char)q[2])) {
		const char *e = q + 2;

		while (e < end && isdigit((unsigned char)*e) && exponent < 1000)
			exponent = 10 * exponent + (*e++ - '0');
		if (q[1] == '-')
			exponent = -exponent;
		q = e;
	}
	*ulp = pow(10, exponent - decimals);
	return (size_t)(q - p);
}

bool report_num_next(const char *p, const char *end, const struct json *const *cited,
		     size_t n_cited, struct report_num *out)
{
	for (const char *s = p; s < end; s++) {
		char text[NUM_MAX_LEN + 1];
		double ulp;
		size_t n, gap, unit;

		if (!isdigit((unsigned char)*s))
			continue;
		/* a part of a word (gfx942, E0007, -O3, v1.2) is no number of its own */
		if (s > p && (isalnum((unsigned char)s[-1]) || s[-1] == '_' || s[-1] == '.')) {
			while (s + 1 < end && (isalnum((unsigned char)s[1]) || s[1] == '.'))
				s++;
			continue;
		}
		n = num_scan(s, end, &ulp);
		gap = s + n < end && s[n] == ' ' ? 1 : 0;
		unit = s + n + gap < end ? num_unit_len(s + n + gap, end, cited, n_cited) : 0;
		if (!unit || n > NUM_MAX_LEN) {
			s += n - 1;
			continue;
		}
		memcpy(text, s, n);
		text[n] = '\0';
		if (num_double(text, &out->value, NULL) < 0)
			continue;
		out->start = s;
		out->len = n;
		out->full_len = n + gap + unit;
		out->half_ulp = ulp / 2;
		return true;
	}
	return false;
}

static bool num_close(double have, const struct report_num *num)
{
	/* the sign is written outside the number; half a digit, and a little for the arithmetic */
	return fabs(fabs(have) - num->value) <=
	       num->half_ulp * (1 + 1e-9) + fabs(num->value) * 1e-12;
}

static bool num_in_values(const struct json *rec, const struct report_num *num)
{
	static const char *const keys[] = {
		"value", "min", "max", "median", "ci95_low", "ci95_high"
	};
	const struct json *values = json_get(rec, "values");

	for (size_t i = 0; i < json_len(values); i++) {
		for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
			double v;

			if (json_num(json_get(json_at(values, i), keys[k]), &v) &&
			    num_close(v, num))
				return true;
		}
	}
	return false;
}

/* The number with its unit stands in a text that the program itself wrote into the record. */
static bool num_in_text(const struct json *j, const char *needle, int depth)
{
	const char *s = json_str(j);
	size_t n = strlen(needle);

	if (depth > 6)
		return false;
	for (const char *p = s; p && (p = strstr(p, needle)); p++) {
		if ((p == s || (!isalnum((unsigned char)p[-1]) && p[-1] != '.')) &&
		    !isalnum((unsigned char)p[n]))
			return true;
	}
	if (json_kind(j) == JSON_KIND_ARR) {
		for (size_t i = 0; i < json_len(j); i++) {
			if (num_in_text(json_at(j, i), needle, depth + 1))
				return true;
		}
	}
	if (json_kind(j) == JSON_KIND_OBJ) {
		for (void *it = json_iter(j); it; it = json_next(j, it)) {
			if (num_in_text(json_iter_value(it), needle, depth + 1))
				return true;
		}
	}
	return false;
}

bool report_num_held(const struct json *rec, const struct report_num *num)
{
	static const char *const texts[] = { "reason",	"guards",  "hypothesis",
					     "why",	"verdict", "disturbances",
					     "options", "skipped", "candidates" };
	AUTO_FREE char *needle = NULL;

	if (num_in_values(rec, num))
		return true;
	needle = xstrndup(num->start, num->full_len);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (num_in_text(json_get(json_get(rec, "detail"), texts[i]), needle, 0))
			return true;
	}
	return false;
}
