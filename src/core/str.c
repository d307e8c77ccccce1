#include "core/str.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

void str_init(struct str *s, size_t max)
{
	*s = (struct str){ .max = max };
}

void str_done(struct str *s)
{
	size_t max = s->max;

	free(s->s);
	*s = (struct str){ .max = max };
}

void str_reset(struct str *s)
{
	s->len = 0;
	s->failed = false;
	if (s->s)
		s->s[0] = '\0';
}

/* Makes room for n more bytes and the NUL. */
static bool str_grow(struct str *s, size_t n)
{
	size_t max = s->max ? s->max : STR_MAX_DEFAULT;
	size_t need, cap;
	char *p;

	if (s->failed)
		return false;
	if (n > max || s->len > max - n) {
		s->failed = true;
		return false;
	}
	need = s->len + n + 1;
	if (need <= s->cap)
		return true;
	cap = s->cap ? s->cap : 64;
	while (cap < need)
		cap *= 2;
	p = realloc(s->s, cap);
	if (!p) {
		s->failed = true;
		return false;
	}
	s->s = p;
	s->cap = cap;
	return true;
}

void str_add(struct str *s, const void *data, size_t n)
{
	if (!str_grow(s, n))
		return;
	if (n)
		memcpy(s->s + s->len, data, n);
	s->len += n;
	s->s[s->len] = '\0';
}

void str_adds(struct str *s, const char *text)
{
	str_add(s, text, strlen(text));
}

void str_addc(struct str *s, char c)
{
	str_add(s, &c, 1);
}

void str_addf(struct str *s, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0) {
		s->failed = true;
		return;
	}
	if (!str_grow(s, (size_t)n))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(s->s + s->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	s->len += (size_t)n;
}

void str_add_shquote(struct str *s, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./:=,+@%^";

	if (*text && strspn(text, plain) == strlen(text)) {
		str_adds(s, text);
		return;
	}
	str_addc(s, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			str_adds(s, "'\\''");
		else
			str_addc(s, *text);
	}
	str_addc(s, '\'');
}

const char *str_get(const struct str *s)
{
	return s->s ? s->s : "";
}

char *str_take(struct str *s)
{
	char *p = s->s;

	if (s->failed) {
		str_done(s);
		return NULL;
	}
	s->s = NULL;
	str_done(s);
	return p;
}

int str_check(const struct str *s, const char *what, struct err *err)
{
	size_t max = s->max ? s->max : STR_MAX_DEFAULT;

	if (!s->failed)
		return ERR_OK;
	return err_set(err, ERR_LIMIT, "%s: more than %zu bytes, or out of memory", what, max);
}

int num_u64(const char *text, uint64_t *out, struct err *err)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return err_set(err, ERR_PARSE, "'%.60s' is not a whole number of 0 or more", text);
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end)
		return err_set(err, ERR_PARSE, "'%.60s' is not a whole number of 0 or more", text);
	*out = v;
	return ERR_OK;
}

int num_i64(const char *text, int64_t *out, struct err *err)
{
	const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;
	long long v;
	char *end;

	if (!isdigit((unsigned char)digits[0]))
		return err_set(err, ERR_PARSE, "'%.60s' is not a whole number", text);
	errno = 0;
	v = strtoll(text, &end, 10);
	if (errno || *end)
		return err_set(err, ERR_PARSE, "'%.60s' is not a whole number", text);
	*out = v;
	return ERR_OK;
}

/* strtod of the C locale, so that a user's decimal comma changes nothing. */
static double num_strtod(const char *text, char **end)
{
	locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	double v;

	if (!c_locale)
		return strtod(text, end);
	v = strtod_l(text, end, c_locale);
	freelocale(c_locale);
	return v;
}

int num_double(const char *text, double *out, struct err *err)
{
	char *end;
	double v;

	if (!text[0] || isspace((unsigned char)text[0]))
		return err_set(err, ERR_PARSE, "'%.60s' is not a number", text);
	v = num_strtod(text, &end);
	if (end == text || *end || !isfinite(v))
		return err_set(err, ERR_PARSE, "'%.60s' is not a finite number", text);
	*out = v;
	return ERR_OK;
}

int num_duration_ns(const char *text, uint64_t *out_ns, struct err *err)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = { { "", 1e9 },   { "s", 1e9 },    { "ms", 1e6 },
		      { "m", 60e9 }, { "min", 60e9 }, { "h", 3600e9 } };
	char *end;
	double v = num_strtod(text, &end);

	if ((isdigit((unsigned char)text[0]) || text[0] == '.') && v >= 0 && isfinite(v)) {
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
			if (strcmp(end, units[i].unit) != 0)
				continue;
			if (v * units[i].ns > 1e18)
				break;
			*out_ns = (uint64_t)(v * units[i].ns);
			return ERR_OK;
		}
	}
	return err_set(err, ERR_PARSE,
		       "'%.60s' is not a duration; write for instance 90s, 5m, 1.5h or 250ms",
		       text);
}
