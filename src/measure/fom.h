/*
 * Figures of merit: a number that a program prints about itself, found by a POSIX extended regular
 * expression.  The last match counts.  Threads: an object belongs to one thread at a time.
 */
#ifndef MEASURE_FOM_H
#define MEASURE_FOM_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct fom;
struct proc_capture;

#define FOM_PATTERN_MAX 512  /* bytes of a pattern */
#define FOM_LINE_MAX	4096 /* of a longer line only the last so many bytes are searched */
#define FOM_UNIT_CAP	32

struct fom_spec {
	const char *pattern; /* one group: the number; no group: the number within the match */
	const char *unit;    /* NULL or "": "1" */
	bool higher;	     /* larger is better */
};

/* Owns: caller frees with fom_free(); the spec is copied.  ERR_INVALID (message quotes the pattern
 * and says what is wrong: not compiled, more than one group, back-references, too long). */
int fom_new(const struct fom_spec *spec, struct fom **out, struct err *err);
void fom_free(struct fom *f); /* NULL is fine */
const char *fom_pattern(const struct fom *f);
const char *fom_unit(const struct fom *f);
bool fom_higher(const struct fom *f);

/*
 * The number of the last match in text, line by line.  "1.5e3", "1.5D+03" and blanks round it are
 * understood.  ERR_NOT_FOUND: no match (message has the pattern and the last lines);
 * ERR_PARSE: what matched is not a finite number.
 */
int fom_read(const struct fom *f, const char *text, size_t len, double *out, struct err *err);
/* The same over captured output: its tail first, where the middle was not kept. */
int fom_read_capture(const struct fom *f, const struct proc_capture *c, double *out,
		     struct err *err);

/* Whether larger is better, told from a unit or a word: rates are better high, times low.  False:
 * it cannot be told, *higher untouched. */
bool fom_direction(const char *word, bool *higher);

/* What a word or unit such as "GLUPS" or "time" in the output stands for. */
struct fom_guess {
	char pattern[FOM_PATTERN_MAX + 1];
	char unit[FOM_UNIT_CAP]; /* "" when it cannot be told */
	bool has_direction;	 /* higher holds */
	bool higher;
	double value; /* what the pattern finds in that output */
};

/*
 * Proposes a pattern from the last line that has the word and a number next to it (as written
 * first, then in any case).  The proposal was tried on the text before it is returned.
 * ERR_INVALID: the word is empty or too long; ERR_NOT_FOUND: no such line (message says which of
 * word or number is missing).
 */
int fom_propose(const char *word, const char *text, size_t len, struct fom_guess *out,
		struct err *err);

#endif
