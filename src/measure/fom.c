#include "measure/fom.h"

#include <ctype.h>
#include <regex.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/fom_priv.h"
#include "measure/pattern.h"
#include "proc/proc.h"

#define FOM_NUMBER_CAP 64
#define FOM_LAST_LINES 3

struct fom {
	regex_t re;
	char *pattern;
	char unit[FOM_UNIT_CAP];
	bool higher;
};

static int fom_bad(struct err *err, const char *pattern, const char *why)
{
	return err_set(err, ERR_INVALID, "figure of merit: the pattern '%.120s' %s", pattern, why);
}

int fom_new(const struct fom_spec *spec, struct fom **out, struct err *err)
{
	const char *unit = spec->unit && spec->unit[0] ? spec->unit : "1";
	struct fom *f;
	int r;

	if (!spec->pattern || !spec->pattern[0])
		return err_set(err, ERR_INVALID, "figure of merit: the pattern is empty");
	if (strlen(spec->pattern) > FOM_PATTERN_MAX)
		return fom_bad(err, spec->pattern, "is longer than 512 bytes");
	if (strlen(unit) >= FOM_UNIT_CAP)
		return err_set(err, ERR_INVALID,
			       "figure of merit: the unit '%.40s' is longer than %d bytes", unit,
			       FOM_UNIT_CAP - 1);
	f = xcalloc(1, sizeof(*f));
	if ((r = pattern_compile(&f->re, spec->pattern, 0, "figure of merit", err)) < 0) {
		free(f);
		return r;
	}
	if (f->re.re_nsub > 1) {
		regfree(&f->re);
		free(f);
		return fom_bad(err, spec->pattern,
			       "has more than one group; put only the number in parentheses");
	}
	f->pattern = xstrdup(spec->pattern);
	memcpy(f->unit, unit, strlen(unit) + 1);
	f->higher = spec->higher;
	*out = f;
	return ERR_OK;
}

void fom_free(struct fom *f)
{
	if (!f)
		return;
	regfree(&f->re);
	free(f->pattern);
	free(f);
}

const char *fom_pattern(const struct fom *f)
{
	return f->pattern;
}

const char *fom_unit(const struct fom *f)
{
	return f->unit;
}

bool fom_higher(const struct fom *f)
{
	return f->higher;
}

static size_t fom_digits(const char *s, size_t n)
{
	size_t k = 0;

	while (k < n && isdigit((unsigned char)s[k]))
		k++;
	return k;
}

size_t fom_scan_number(const char *s, size_t n)
{
	size_t k = n > 0 && (*s == '-' || *s == '+'), whole = fom_digits(s + k, n - k), part = 0, e;

	k += whole;
	if (k < n && s[k] == '.') {
		part = fom_digits(s + k + 1, n - k - 1);
		if (whole + part > 0)
			k += 1 + part;
	}
	if (whole + part == 0)
		return 0;
	if (k < n && strchr("eEdD", s[k]) && s[k]) {
		e = k + 1;
		if (e < n && (s[e] == '-' || s[e] == '+'))
			e++;
		if (e < n && isdigit((unsigned char)s[e]))
			k = e + fom_digits(s + e, n - e);
	}
	return k;
}

size_t fom_find_number(const char *s, size_t n, size_t *len)
{
	for (size_t i = 0; i < n; i++) {
		if (i > 0 &&
		    (isalnum((unsigned char)s[i - 1]) || s[i - 1] == '_' || s[i - 1] == '.'))
			continue;
		if ((*len = fom_scan_number(s + i, n - i)) > 0)
			return i;
	}
	*len = 0;
	return n;
}

static int fom_number(const struct fom *f, const char *s, size_t n, double *out, struct err *err)
{
	char buf[FOM_NUMBER_CAP];

	while (n && isspace((unsigned char)*s)) {
		s++;
		n--;
	}
	while (n && isspace((unsigned char)s[n - 1]))
		n--;
	if (n > 0 && n < sizeof(buf)) {
		memcpy(buf, s, n);
		buf[n] = '\0';
		/* Fortran writes 1.5D+03 */
		for (char *p = buf; *p; p++) {
			if ((*p == 'd' || *p == 'D') && p > buf &&
			    (isdigit((unsigned char)p[-1]) || p[-1] == '.'))
				*p = 'e';
		}
		if (num_double(buf, out, NULL) == 0)
			return ERR_OK;
	}
	return err_set(err, ERR_PARSE,
		       "figure of merit: '%s' matched '%.*s', which is not a finite number",
		       f->pattern, (int)(n > 60 ? 60 : n), s);
}

/* The last match in a line of at most FOM_LINE_MAX bytes; false: none.  Groups are places in s. */
static bool fom_match_last(const struct fom *f, const char *s, size_t n, regmatch_t last[2])
{
	regmatch_t m[2];
	size_t off = 0;
	bool found = false;

	while (off <= n && regexec(&f->re, s + off, 2, m, off ? REG_NOTBOL : 0) == 0) {
		found = true;
		for (int i = 0; i < 2; i++) {
			last[i] = m[i];
			if (m[i].rm_so >= 0) {
				last[i].rm_so += (regoff_t)off;
				last[i].rm_eo += (regoff_t)off;
			}
		}
		off += (size_t)m[0].rm_eo + (m[0].rm_eo == m[0].rm_so);
	}
	return found;
}

/* The number of the last match in one line; 1 found, 0 none, else an error. */
static int fom_line(const struct fom *f, const char *text, size_t n, double *out, struct err *err)
{
	char s[FOM_LINE_MAX + 1];
	regmatch_t m[2];
	size_t num_len, num_at;

	if (n > FOM_LINE_MAX) {
		text += n - FOM_LINE_MAX;
		n = FOM_LINE_MAX;
	}
	/* regexec() ends at a NUL, so that one within the line becomes another control byte */
	memcpy(s, text, n);
	s[n] = '\0';
	for (char *nul = s; (nul = memchr(nul, '\0', n - (size_t)(nul - s)));)
		*nul = '\001';
	if (!fom_match_last(f, s, n, m))
		return 0;
	if (f->re.re_nsub == 1) {
		if (m[1].rm_so < 0)
			return err_set(err, ERR_PARSE,
				       "figure of merit: the group of '%s' took no part in the "
				       "match",
				       f->pattern);
		num_at = (size_t)m[1].rm_so;
		num_len = (size_t)(m[1].rm_eo - m[1].rm_so);
	} else {
		size_t whole = (size_t)(m[0].rm_eo - m[0].rm_so);

		num_at = (size_t)m[0].rm_so;
		num_at += fom_find_number(s + num_at, whole, &num_len);
		if (num_len == 0) { /* for the message */
			num_at = (size_t)m[0].rm_so;
			num_len = whole;
		}
	}
	return fom_number(f, s + num_at, num_len, out, err) < 0 ? ERR_PARSE : 1;
}

static int fom_search(const struct fom *f, const char *text, size_t len, double *out,
		      struct err *err)
{
	size_t end = len;

	for (;;) {
		const char *nl = end ? memrchr(text, '\n', end) : NULL;
		size_t start = nl ? (size_t)(nl - text) + 1 : 0;
		int r = fom_line(f, text + start, end - start, out, err);

		if (r != 0 || !nl)
			return r;
		end = start - 1;
	}
}

/* The last lines that have anything in them, joined by " / ", for messages. */
static void fom_last_lines(const char *text, size_t len, char *buf, size_t cap)
{
	size_t end = len, used = 0, starts[FOM_LAST_LINES], lens[FOM_LAST_LINES], n = 0;

	while (n < FOM_LAST_LINES && end > 0) {
		const char *nl = memrchr(text, '\n', end);
		size_t start = nl ? (size_t)(nl - text) + 1 : 0;

		if (end > start) {
			starts[n] = start;
			lens[n++] = end - start;
		}
		end = nl ? start - 1 : 0;
	}
	buf[0] = '\0';
	while (n-- > 0) {
		for (size_t i = 0; i < lens[n] && i < 80 && used + 5 < cap; i++) {
			unsigned char c = (unsigned char)text[starts[n] + i];

			buf[used++] = iscntrl(c) ? '?' : text[starts[n] + i];
		}
		if (n > 0 && used + 5 < cap) {
			memcpy(buf + used, " / ", 3);
			used += 3;
		}
		buf[used] = '\0';
	}
}

static int fom_none(const struct fom *f, const char *text, size_t len, struct err *err)
{
	char lines[256];

	fom_last_lines(text, len, lines, sizeof(lines));
	if (!lines[0])
		return err_set(err, ERR_NOT_FOUND,
			       "figure of merit: nothing matches '%.120s', and the program printed "
			       "nothing",
			       f->pattern);
	return err_set(err, ERR_NOT_FOUND,
		       "figure of merit: nothing matches '%.120s'; the output ends with: %s",
		       f->pattern, lines);
}

int fom_read(const struct fom *f, const char *text, size_t len, double *out, struct err *err)
{
	int r = fom_search(f, text, len, out, err);

	if (r == 0)
		return fom_none(f, text, len, err);
	return r < 0 ? r : ERR_OK;
}

/* Where the kept beginning and the kept end meet, the line that was cut in two. */
static int fom_seam(const struct fom *f, const char *a, size_t a_len, const char *b, size_t b_len,
		    double *out, struct err *err)
{
	char line[2 * FOM_LINE_MAX];

	if (a_len > FOM_LINE_MAX) {
		a += a_len - FOM_LINE_MAX;
		a_len = FOM_LINE_MAX;
	}
	if (b_len > FOM_LINE_MAX)
		b_len = FOM_LINE_MAX;
	memcpy(line, a, a_len);
	memcpy(line + a_len, b, b_len);
	return fom_line(f, line, a_len + b_len, out, err);
}

/* A cut line could hold half a number, so only whole lines are searched. */
static int fom_search_both(const struct fom *f, const struct proc_capture *c, double *out,
			   struct err *err)
{
	const char *nl = memrchr(c->head, '\n', c->head_len), *tail = c->tail;
	size_t head_len = nl ? (size_t)(nl - c->head) + 1 : 0, tail_len = c->tail_len, skip;
	bool meet = c->head_len + tail_len >= c->total;
	int r = 0;

	if (meet) {
		skip = c->head_len + tail_len - (size_t)c->total;
		tail += skip;
		tail_len -= skip;
	}
	nl = memchr(tail, '\n', tail_len);
	skip = nl ? (size_t)(nl - tail) : tail_len;
	if (nl)
		r = fom_search(f, nl + 1, tail_len - skip - 1, out, err);
	if (r == 0 && meet)
		r = fom_seam(f, c->head + head_len, c->head_len - head_len, tail, skip, out, err);
	return r != 0 ? r : fom_search(f, c->head, head_len, out, err);
}

int fom_read_capture(const struct fom *f, const struct proc_capture *c, double *out,
		     struct err *err)
{
	const char *head = c->head ? c->head : "";
	size_t head_len = c->head ? c->head_len : 0;
	int r = c->head && c->tail ? fom_search_both(f, c, out, err)
				   : fom_search(f, head, head_len, out, err);

	if (r == 0)
		return fom_none(f, c->tail ? c->tail : head, c->tail ? c->tail_len : head_len, err);
	return r < 0 ? r : ERR_OK;
}
