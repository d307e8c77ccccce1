#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/str.h"
#include "measure/output_priv.h"

/* A place in a line. */
struct output_in {
	const char *p, *end;
};

static bool output_blank(char c)
{
	return c == ' ' || ((unsigned char)c < 0x20 && c != '\033');
}

static bool output_sep(char c)
{
	return c && strchr("=:,;()[]{}\"'|<>`@#*~", c) != NULL;
}

/* What may follow a date, number and so on: "5," is a number, "5th" another matter. */
static bool output_boundary(const char *p, const char *end)
{
	return p >= end || output_blank(*p) || output_sep(*p) ||
	       (strchr(".!?", *p) && (p + 1 >= end || output_blank(p[1])));
}

static size_t output_digits(const char *p, const char *end)
{
	size_t n = 0;

	while (p + n < end && isdigit((unsigned char)p[n]))
		n++;
	return n;
}

/* lo to hi digits whose value lies in 0..max; moves p behind them. */
static bool output_take_int(struct output_in *in, size_t lo, size_t hi, int max)
{
	size_t n = output_digits(in->p, in->end);
	int v = 0;

	if (n < lo || n > hi)
		return false;
	for (size_t i = 0; i < n; i++)
		v = v * 10 + (in->p[i] - '0');
	in->p += n;
	return v <= max;
}

static bool output_take(struct output_in *in, char c)
{
	if (in->p >= in->end || *in->p != c)
		return false;
	in->p++;
	return true;
}

static void output_take_fraction(struct output_in *in)
{
	if (in->end - in->p >= 2 && (*in->p == '.' || *in->p == ',') &&
	    isdigit((unsigned char)in->p[1]))
		in->p += 1 + output_digits(in->p + 1, in->end);
}

/* 12:34:56[.789] and 1:02.34; returns its length or 0. */
static size_t output_scan_clock(const char *p, const char *end)
{
	struct output_in in = { p, end };

	if (!output_take_int(&in, 1, 4, 9999) || !output_take(&in, ':') ||
	    !output_take_int(&in, 2, 2, 59))
		return 0;
	if (output_take(&in, ':')) {
		if (!output_take_int(&in, 2, 2, 60))
			return 0;
		output_take_fraction(&in);
	} else if (in.end - in.p < 2 || *in.p != '.' || !isdigit((unsigned char)in.p[1])) {
		return 0;
	} else {
		output_take_fraction(&in);
	}
	if (in.end - in.p >= 2 && strchr("aApP", *in.p) && strchr("mM", in.p[1]))
		in.p += 2;
	/* "1:02.34elapsed", as the shell's time writes */
	if (in.end - in.p >= 7 && memcmp(in.p, "elapsed", 7) == 0)
		in.p += 7;
	return output_boundary(in.p, in.end) ? (size_t)(in.p - p) : 0;
}

/* The rest of 2024-01-02T12:34:56.7+01:00, which may be absent. */
static void output_scan_iso_time(struct output_in *in)
{
	struct output_in t = *in;

	if (!output_take(&t, 'T') || !output_take_int(&t, 2, 2, 24) || !output_take(&t, ':') ||
	    !output_take_int(&t, 2, 2, 59))
		return;
	if (output_take(&t, ':') && output_take_int(&t, 2, 2, 60))
		output_take_fraction(&t);
	if (output_take(&t, 'Z')) {
		*in = t;
		return;
	}
	*in = t;
	if ((output_take(&t, '+') || output_take(&t, '-')) && output_take_int(&t, 2, 2, 14)) {
		(void)output_take(&t, ':');
		if (output_take_int(&t, 2, 2, 59))
			*in = t;
	}
}

static bool output_month_name(struct output_in *in)
{
	static const char months[] = "janfebmaraprmayjunjulaugsepoctnovdec";

	if (in->end - in->p < 3)
		return false;
	for (size_t i = 0; i < sizeof(months) - 1; i += 3) {
		if (strncasecmp(in->p, months + i, 3) == 0) {
			in->p += 3;
			return true;
		}
	}
	return false;
}

static size_t output_scan_date(const char *p, const char *end)
{
	struct output_in in = { p, end };
	size_t n = output_digits(p, end);
	char sep;
	bool ok = false;

	if (n == 0 || p + n >= end || !strchr("-/.", p[n]))
		return 0;
	sep = p[n];
	if (n == 4) {
		ok = output_take_int(&in, 4, 4, 2199) && p[0] != '0' && output_take(&in, sep) &&
		     output_take_int(&in, 1, 2, 12) && output_take(&in, sep) &&
		     output_take_int(&in, 1, 2, 31);
		if (ok)
			output_scan_iso_time(&in);
	} else if (output_take_int(&in, 1, 2, 31) && output_take(&in, sep)) {
		if (sep == '-' && output_month_name(&in))
			ok = output_take(&in, sep) && output_take_int(&in, 2, 4, 2199);
		else if (output_take_int(&in, 1, 2, 31) && output_take(&in, sep))
			ok = output_take_int(&in, 4, 4, 2199) ||
			     (sep == '/' && in.p - p == 6 && output_take_int(&in, 2, 2, 99));
	}
	return ok && output_boundary(in.p, in.end) ? (size_t)(in.p - p) : 0;
}

/* 1h02m3s, 0m1.234s: two parts or more, each a number with a unit of time. */
static size_t output_scan_duration(const char *p, const char *end)
{
	struct output_in in = { p, end };
	unsigned parts = 0;

	while (output_digits(in.p, in.end)) {
		const char *unit;
		size_t n;

		in.p += output_digits(in.p, in.end);
		output_take_fraction(&in);
		unit = in.p;
		while (in.p < in.end && isalpha((unsigned char)*in.p))
			in.p++;
		n = (size_t)(in.p - unit);
		if (!((n == 1 && strchr("dhms", *unit)) || (n == 2 && memcmp(unit, "ms", 2) == 0) ||
		      (n == 3 && (memcmp(unit, "min", 3) == 0 || memcmp(unit, "sec", 3) == 0))))
			return 0;
		parts++;
	}
	return parts >= 2 && output_boundary(in.p, in.end) ? (size_t)(in.p - p) : 0;
}

static size_t output_scan_ipv4(const char *p, const char *end)
{
	struct output_in in = { p, end };

	for (int i = 0; i < 4; i++) {
		if ((i && !output_take(&in, '.')) || !output_take_int(&in, 1, 3, 255))
			return 0;
	}
	if (in.end - in.p >= 2 && *in.p == ':' && isdigit((unsigned char)in.p[1]))
		in.p += 1 + output_digits(in.p + 1, in.end);
	return output_boundary(in.p, in.end) ? (size_t)(in.p - p) : 0;
}

/* What stands between colons. */
struct output_groups {
	unsigned n, doubles, digits; /* groups, "::", decimal digits */
	bool all_two;		     /* each group has two digits */
};

/* One group of at most four hexadecimal digits; returns its length, more than 4: none. */
static size_t output_scan_group(const char *q, const char *end, struct output_groups *g)
{
	size_t n = 0;

	while (n <= 4 && q + n < end && isxdigit((unsigned char)q[n])) {
		g->digits += isdigit((unsigned char)q[n]) ? 1 : 0;
		n++;
	}
	g->n += n ? 1 : 0;
	g->all_two = g->all_two && n == 2;
	return n;
}

/* MAC (six groups of two) and IPv6 (eight groups, or fewer round one "::"). */
static size_t output_scan_colon_address(const char *p, const char *end)
{
	struct output_groups g = { .all_two = true };
	const char *q = p;

	for (;;) {
		size_t n = output_scan_group(q, end, &g);

		if (n > 4 || g.n > 8)
			return 0;
		q += n;
		if (q >= end || *q != ':')
			break;
		if (end - q >= 2 && q[1] == ':') {
			if (g.doubles++)
				return 0;
			q++;
		}
		q++;
	}
	/* a colon at the end belongs to the sentence */
	if (q == p || (q[-1] == ':' && (q - p < 2 || q[-2] != ':')))
		return 0;
	if (!g.digits || !output_boundary(q, end))
		return 0;
	if ((g.n == 6 && g.all_two) || (g.n == 8 && g.doubles == 0) ||
	    (g.n >= 2 && g.n < 8 && g.doubles == 1))
		return (size_t)(q - p);
	return 0;
}

static size_t output_scan_hex(const char *p, const char *end)
{
	const char *q = p + 2;

	if (end - p < 3 || p[0] != '0' || (p[1] != 'x' && p[1] != 'X'))
		return 0;
	while (q < end && isxdigit((unsigned char)*q))
		q++;
	return q > p + 2 && output_boundary(q, end) ? (size_t)(q - p) : 0;
}

/* [+-]inf, nan, nan(...) in any case */
static size_t output_scan_special(const char *p, const char *end)
{
	static const char *const names[] = { "infinity", "inf", "nan" };
	const char *q = p < end && (*p == '-' || *p == '+') ? p + 1 : p;

	for (size_t i = 0; i < 3; i++) {
		size_t n = strlen(names[i]);

		if ((size_t)(end - q) < n || strncasecmp(q, names[i], n) != 0)
			continue;
		if (output_boundary(q + n, end))
			return (size_t)(q - p) + n;
	}
	return 0;
}

/* The digits of a number, without regard to what follows. */
static size_t output_scan_number(const char *p, const char *end)
{
	const char *q = p < end && (*p == '-' || *p == '+') ? p + 1 : p;
	size_t whole = output_digits(q, end), frac = 0;

	q += whole;
	if (q < end && *q == '.') {
		frac = output_digits(q + 1, end);
		if (whole == 0 && frac == 0)
			return 0;
		q += 1 + frac;
	}
	if (whole == 0 && frac == 0)
		return 0;
	if (q < end && strchr("eEdD", *q)) {
		const char *e = q + 1;

		if (e < end && (*e == '-' || *e == '+'))
			e++;
		if (output_digits(e, end))
			q = e + output_digits(e, end);
	}
	return (size_t)(q - p);
}

/* Length of what hangs on a number, up to a blank or separator; *unit: letters that may be one. */
static size_t output_scan_suffix(const char *p, const char *end, bool *unit)
{
	size_t n = 0;

	*unit = true;
	while (p + n < end && !output_blank(p[n]) && !output_sep(p[n])) {
		unsigned char c = (unsigned char)p[n];

		if (!isalpha(c) && c < 0x80 && c != '/' && c != '%')
			*unit = false;
		n++;
	}
	/* the full stop of a sentence belongs to nobody */
	if (n && strchr(".!?", p[n - 1])) {
		*unit = true;
		for (size_t i = 0; i + 1 < n; i++) {
			unsigned char c = (unsigned char)p[i];

			if (!isalpha(c) && c < 0x80 && c != '/' && c != '%')
				*unit = false;
		}
		n--;
	}
	return n;
}

static struct output_tok *output_push(struct output_toks *t, size_t off, size_t len, uint32_t gap,
				      enum output_kind kind)
{
	struct output_tok *k;

	if (t->n == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 64;
		t->v = xrealloc_n(t->v, t->cap, sizeof(*t->v));
	}
	k = &t->v[t->n++];
	*k = (struct output_tok){
		.off = (uint32_t)off, .len = (uint32_t)len, .gap = gap, .kind = (uint8_t)kind
	};
	return k;
}

static const struct {
	size_t (*scan)(const char *p, const char *end);
	enum output_shape shape;
	enum output_kind kind;
} output_shapes[] = {
	{ output_scan_date, OUTPUT_SHAPE_DATE, OUTPUT_WORD },
	{ output_scan_clock, OUTPUT_SHAPE_CLOCK, OUTPUT_WORD },
	{ output_scan_duration, OUTPUT_SHAPE_DURATION, OUTPUT_WORD },
	{ output_scan_ipv4, OUTPUT_SHAPE_IP, OUTPUT_WORD },
	{ output_scan_colon_address, OUTPUT_SHAPE_IP, OUTPUT_WORD },
	{ output_scan_hex, OUTPUT_SHAPE_HEX, OUTPUT_WORD },
	{ output_scan_special, OUTPUT_PLAIN, OUTPUT_NUM },
};

/* A number with its unit, if there is one at p; returns where it ends. */
static const char *output_number_at(const char *text, const char *p, const char *end, uint32_t gap,
				    struct output_toks *t)
{
	size_t n = output_scan_number(p, end), s;
	bool unit;

	if (n == 0)
		return NULL;
	/* 3/10 is two numbers */
	if (p + n + 1 < end && p[n] == '/' && isdigit((unsigned char)p[n + 1])) {
		(void)output_push(t, (size_t)(p - text), n, gap, OUTPUT_NUM);
		(void)output_push(t, (size_t)(p - text) + n, 1, 0, OUTPUT_PUNCT);
		return p + n + 1;
	}
	s = output_scan_suffix(p + n, end, &unit);
	if (s && !unit)
		return NULL;
	(void)output_push(t, (size_t)(p - text), n, gap, OUTPUT_NUM);
	if (s)
		(void)output_push(t, (size_t)(p - text) + n, s, 0, OUTPUT_WORD);
	return p + n + s;
}

static const char *output_word_at(const char *text, const char *p, const char *end, uint32_t gap,
				  struct output_toks *t)
{
	const char *q = p;
	size_t n, keep;

	if (output_sep(*p)) {
		while (q < end && *q == *p)
			q++;
		(void)output_push(t, (size_t)(p - text), (size_t)(q - p), gap, OUTPUT_PUNCT);
		return q;
	}
	while (q < end && !output_blank(*q) && !output_sep(*q))
		q++;
	n = keep = (size_t)(q - p);
	while (keep && strchr(".!?", p[keep - 1]))
		keep--;
	if (keep)
		(void)output_push(t, (size_t)(p - text), keep, gap, OUTPUT_WORD);
	if (keep < n)
		(void)output_push(t, (size_t)(p - text) + keep, n - keep, keep ? 0 : gap,
				  OUTPUT_PUNCT);
	return q;
}

void output_tokenise(const char *text, size_t start, size_t end, struct output_toks *t)
{
	const char *p = text + start, *stop = text + end;
	uint32_t gap = 0;

	t->n = 0;
	while (p < stop) {
		const char *next = NULL;

		if (output_blank(*p)) {
			gap += *p == '\t' ? OUTPUT_GAP_TAB : 1;
			p++;
			continue;
		}
		for (size_t i = 0; i < sizeof(output_shapes) / sizeof(output_shapes[0]); i++) {
			size_t n = output_shapes[i].scan(p, stop);

			if (n) {
				output_push(t, (size_t)(p - text), n, gap, output_shapes[i].kind)
					->shape = (uint8_t)output_shapes[i].shape;
				next = p + n;
				break;
			}
		}
		if (!next)
			next = output_number_at(text, p, stop, gap, t);
		if (!next)
			next = output_word_at(text, p, stop, gap, t);
		p = next;
		gap = 0;
	}
}

bool output_number(const char *s, size_t len, double *out)
{
	char buf[64];
	size_t special;

	if (len == 0 || len >= sizeof(buf))
		return false;
	special = output_scan_special(s, s + len);
	if (special == len) {
		bool neg = s[0] == '-';

		if (strchr("nN", s[neg || s[0] == '+' ? 1 : 0]))
			*out = (double)NAN;
		else
			*out = neg ? -HUGE_VAL : HUGE_VAL;
		return true;
	}
	if (output_scan_number(s, s + len) != len)
		return false;
	for (size_t i = 0; i < len; i++)
		buf[i] = s[i];
	for (size_t i = 0; i < len; i++) {
		if (buf[i] == 'd' || buf[i] == 'D') /* Fortran's 1.5D+03 */
			buf[i] = 'e';
	}
	buf[len] = '\0';
	return num_double(buf, out, NULL) == 0;
}
