/*
 * Compiling POSIX extended regular expressions that users wrote, within bounds: the C library's
 * compiler unrolls repetitions, so that a few nested ones would take all memory, and it matches
 * back-references in exponential time.  Threads: any.
 */
#ifndef MEASURE_PATTERN_H
#define MEASURE_PATTERN_H

#include <regex.h>

struct err;

#define PATTERN_NODES_MAX 1000UL /* of the unrolled expression; compiling takes their square */
#define PATTERN_DEPTH_MAX 32	 /* groups within groups */

/* How large the expression gets, roughly and rather too much; above PATTERN_NODES_MAX, or nested
 * deeper than PATTERN_DEPTH_MAX: something above PATTERN_NODES_MAX. */
unsigned long pattern_nodes(const char *pattern);
/*
 * regcomp() with REG_EXTENDED and further flags; the caller owes regfree() on success.  what starts
 * the message, such as "--ignore".  ERR_INVALID: not an expression, too large, a back-reference.
 */
int pattern_compile(regex_t *re, const char *pattern, int flags, const char *what, struct err *err);

#endif
