/* What the two halves of fom share.  Threads: any. */
#ifndef MEASURE_FOM_PRIV_H
#define MEASURE_FOM_PRIV_H

#include <stddef.h>

/* The length of the decimal number that s starts with ("-1.5e+3", ".5", "1.5D+03"), or 0. */
size_t fom_scan_number(const char *s, size_t n);
/*
 * The first number in s that does not continue a word, as those of "x86" and "run_3" do.  Returns
 * its place and its length, or n and 0.
 */
size_t fom_find_number(const char *s, size_t n, size_t *len);

#endif
