/*
 * A growable byte string with a maximum, and the number parsers.
 * Core never aborts: a failed growth sets `failed` and later additions do nothing, so that a
 * sequence of additions is checked once, with str_check().  Threads: one at a time per object.
 */
#ifndef CORE_STR_H
#define CORE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct str {
	char *s; /* NUL-terminated once anything was added, else NULL; may hold NULs inside */
	size_t len;
	size_t cap;
	size_t max; /* bytes; 0 means STR_MAX_DEFAULT */
	bool failed;
};

#define STR_MAX_DEFAULT ((size_t)256 << 20)
#define AUTO_STR	AUTO(str_done)

void str_init(struct str *s, size_t max);
void str_done(struct str *s);  /* frees; the object may be used again */
void str_reset(struct str *s); /* empties, keeps the memory, clears failed */
void str_add(struct str *s, const void *data, size_t n);
void str_adds(struct str *s, const char *text);
void str_addc(struct str *s, char c);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds text in single quotes, so that sh reads back the same bytes; bare where nothing needs it. */
void str_add_shquote(struct str *s, const char *text);
/* Never NULL: "" where nothing was added. */
const char *str_get(const struct str *s);
/* The caller owns the result (free()); NULL if an addition failed or nothing was added. */
char *str_take(struct str *s);
/* 0, or ERR_NOMEM / ERR_LIMIT when an addition failed. */
int str_check(const struct str *s, const char *what, struct err *err);

/* Whole text must be the number (blanks round it are no part of it).  *out untouched on failure. */
int num_u64(const char *text, uint64_t *out, struct err *err);
int num_i64(const char *text, int64_t *out, struct err *err);
/* Finite decimal number, '.' whatever the locale. */
int num_double(const char *text, double *out, struct err *err);
/* "90", "90s", "1.5m", "2h", "250ms" to nanoseconds. */
int num_duration_ns(const char *text, uint64_t *out_ns, struct err *err);

#endif
