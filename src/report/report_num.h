/* Finding numbers with units in a line of text.  Private to the module. */
#ifndef REPORT_REPORT_NUM_H
#define REPORT_REPORT_NUM_H

#include <stdbool.h>
#include <stddef.h>

struct json;

struct report_num {
	const char *start; /* of the number */
	size_t len;	   /* of the number alone */
	size_t full_len;   /* with its unit */
	double value;
	double half_ulp; /* half a unit of the last digit written */
};

/* The next number with a unit, per cent or times sign at or after p; false when there is none.
 * Units are the usual ones and those of the values of the n_cited records. */
bool report_num_next(const char *p, const char *end, const struct json *const *cited,
		     size_t n_cited, struct report_num *out);
/* A value of the record, or a text in its detail, holds the number to the digits written. */
bool report_num_held(const struct json *rec, const struct report_num *num);

#endif
