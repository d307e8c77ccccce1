/* Which fields of a line are not compared, and why. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/output_priv.h"
#include "measure/pattern.h"

#define OUTPUT_LABEL_TOKENS 16

/* One line while it is looked at. */
struct output_view {
	const struct output_rules *rules;
	const char *text;
	struct output_tok *v;
	size_t n;
	/* class of the last label with "min", "average" ...: "time: min 0.1 max 0.2" */
	enum output_class stat;
};

/* ---- rules ---- */

static char *output_given_numbers(const char *command)
{
	struct output_toks t = { 0 };
	struct str s = { 0 };

	output_tokenise(command, 0, strlen(command), &t);
	for (size_t i = 0; i < t.n; i++) {
		if (t.v[i].kind != OUTPUT_NUM)
			continue;
		str_addc(&s, ' ');
		str_add(&s, command + t.v[i].off, t.v[i].len);
	}
	str_addc(&s, ' ');
	free(t.v);
	return str_take(&s);
}

static void output_rules_host(struct output_rules *r, const char *hostname)
{
	size_t n = hostname ? strlen(hostname) : 0, dot;

	if (n < 2 || n >= sizeof(r->host))
		return;
	for (size_t i = 0; i <= n; i++)
		r->host[i] = (char)tolower((unsigned char)hostname[i]);
	dot = strcspn(r->host, ".");
	/* an address is no name; a number even less */
	if (strspn(r->host, "0123456789.") == n || dot < 2) {
		r->host[0] = '\0';
		return;
	}
	memcpy(r->host_short, r->host, dot);
	r->host_short[dot] = '\0';
}

int output_rules_init(struct output_rules *r, const struct output_opts *opts, struct err *err)
{
	int rc = ERR_OK;

	*r = (struct output_rules){ .rtol = opts->rtol, .atol = opts->atol };
	if (!(opts->rtol >= 0 && opts->atol >= 0) || !isfinite(opts->rtol) || !isfinite(opts->atol))
		return err_set(err, ERR_INVALID, "tolerances must be finite and at least 0");
	if (opts->n_ignore > OUTPUT_PATTERNS_MAX)
		return err_set(err, ERR_LIMIT, "more than %d patterns to ignore",
			       OUTPUT_PATTERNS_MAX);
	if (opts->fom) {
		rc = pattern_compile(&r->fom, opts->fom, REG_NEWLINE, "figure of merit", err);
		r->has_fom = rc == ERR_OK;
		r->fom_group = r->has_fom && r->fom.re_nsub > 0;
	}
	for (size_t i = 0; rc == ERR_OK && i < opts->n_ignore; i++) {
		rc = pattern_compile(&r->ignore[i], opts->ignore[i], REG_NEWLINE, "--ignore", err);
		r->n_ignore += rc == ERR_OK ? 1 : 0;
	}
	if (rc < 0) {
		output_rules_done(r);
		return rc;
	}
	output_rules_host(r, opts->hostname);
	if (opts->command)
		r->given = output_given_numbers(opts->command);
	return ERR_OK;
}

void output_rules_done(struct output_rules *r)
{
	if (r->has_fom)
		regfree(&r->fom);
	for (size_t i = 0; i < r->n_ignore; i++)
		regfree(&r->ignore[i]);
	free(r->given);
	*r = (struct output_rules){ 0 };
}

/* ---- spans that patterns match ---- */

/* Returns the first token that ends after the span, where the search for the next span starts. */
static size_t output_mark_span(struct output_view *v, size_t i, size_t from, size_t to,
			       bool numbers_only, enum output_class cls)
{
	while (i < v->n && v->v[i].off + v->v[i].len <= from)
		i++;
	for (size_t n = i; n < v->n && v->v[n].off < to; n++) {
		struct output_tok *k = &v->v[n];

		if (k->cls == OUTPUT_RESULT && (!numbers_only || k->kind == OUTPUT_NUM))
			k->cls = (uint8_t)cls;
	}
	return i;
}

/* line is the line's beginning, which starts at offset start of the text. */
static void output_mark_matches(struct output_view *v, const regex_t *re, bool group,
				const char *line, size_t start, enum output_class cls)
{
	size_t at = 0, tok = 0, len = strlen(line);

	for (int guard = 0; guard < 1000 && at <= len; guard++) {
		regmatch_t m[2];
		const regmatch_t *hit;

		if (regexec(re, line + at, 2, m, at ? REG_NOTBOL : 0) != 0)
			return;
		hit = group && m[1].rm_so >= 0 ? &m[1] : &m[0];
		if (hit->rm_eo > hit->rm_so)
			tok = output_mark_span(v, tok, start + at + (size_t)hit->rm_so,
					       start + at + (size_t)hit->rm_eo,
					       cls == OUTPUT_FOM && !group, cls);
		at += m[0].rm_eo > 0 ? (size_t)m[0].rm_eo : 1;
	}
}

static void output_mark_patterns(struct output_view *v, size_t start, size_t end)
{
	const struct output_rules *r = v->rules;
	char line[OUTPUT_LINE_MAX + 1];
	size_t n = end - start < OUTPUT_LINE_MAX ? end - start : OUTPUT_LINE_MAX;

	memcpy(line, v->text + start, n);
	line[n] = '\0';
	for (size_t i = 0; i < r->n_ignore; i++)
		output_mark_matches(v, &r->ignore[i], false, line, start, OUTPUT_USER);
	if (r->has_fom)
		output_mark_matches(v, &r->fom, r->fom_group, line, start, OUTPUT_FOM);
}

/* ---- words round a number ---- */

static bool output_is_punct(const struct output_view *v, size_t i, const char *set)
{
	return i < v->n && v->v[i].kind == OUTPUT_PUNCT && strchr(set, v->text[v->v[i].off]);
}

static bool output_is_word(const struct output_view *v, size_t i, const char *list)
{
	char w[OUTPUT_SUB_CAP];

	if (i >= v->n || v->v[i].kind != OUTPUT_WORD || v->v[i].shape != OUTPUT_PLAIN)
		return false;
	output_lower(v->text + v->v[i].off, v->v[i].len, w);
	return output_in(list, w);
}

static enum output_unit output_unit_at(const struct output_view *v, size_t i)
{
	if (i >= v->n || v->v[i].kind != OUTPUT_WORD)
		return OUTPUT_UNIT_NONE;
	return output_unit_of(v->text + v->v[i].off, v->v[i].len);
}

static bool output_is_fraction(const struct output_view *v, size_t i)
{
	return memchr(v->text + v->v[i].off, '.', v->v[i].len) != NULL;
}

/*
 * Whether the word at k, which could be a unit of the number at i, is a label instead: "nx 100 ns
 * 50".  "0.12 s 12.3 GB/s" has units.
 */
static bool output_names_next(const struct output_view *v, size_t i, size_t k)
{
	size_t next = k + 1;

	if (output_is_punct(v, next, ":="))
		return true;
	if (next >= v->n || v->v[next].kind != OUTPUT_NUM || v->v[k].gap == 0)
		return false;
	return !output_is_fraction(v, i) && output_unit_at(v, next + 1) == OUTPUT_UNIT_NONE;
}

/* "+-" and "±", between a value and its uncertainty */
static bool output_is_plus_minus(const struct output_view *v, size_t i)
{
	static const char *const signs[] = { "+-", "+/-", "-+", "\xc2\xb1" };

	for (size_t s = 0; i < v->n && s < sizeof(signs) / sizeof(signs[0]); s++) {
		if (v->v[i].len == strlen(signs[s]) &&
		    memcmp(v->text + v->v[i].off, signs[s], v->v[i].len) == 0)
			return true;
	}
	return false;
}

/*
 * The unit behind the number at i: *last is its last token.  "MB per second" has three; brackets
 * may stand round it.
 */
static enum output_unit output_unit_after(const struct output_view *v, size_t i, size_t *last)
{
	size_t k = i + 1;
	bool bracket = output_is_punct(v, k, "([");
	enum output_unit unit;

	if (output_is_plus_minus(v, k) && k + 1 < v->n && v->v[k + 1].kind == OUTPUT_NUM)
		k += 2;
	k += bracket ? 1 : 0;
	unit = output_unit_at(v, k);
	*last = k;
	if (unit == OUTPUT_UNIT_NONE && !bracket && k < v->n && v->v[k].kind == OUTPUT_WORD &&
	    output_is_word(v, k + 1, " per ") &&
	    output_is_word(v, k + 2, " second seconds sec s minute hour day ms us ")) {
		*last = k + 2;
		return OUTPUT_UNIT_RATE;
	}
	/* 95.2 % of peak */
	if (output_is_word(v, k, " % percent ") && output_is_word(v, k + 1, " of ") &&
	    (output_is_word(v, k + 2, " peak theoretical maximum ") ||
	     output_is_word(v, k + 3, " peak theoretical maximum ")))
		return OUTPUT_UNIT_RATE;
	if (unit == OUTPUT_UNIT_NONE && output_is_word(v, k, " min h m ") && k + 1 < v->n &&
	    v->v[k + 1].kind == OUTPUT_NUM &&
	    (output_unit_at(v, k + 2) == OUTPUT_UNIT_TIME || output_is_word(v, k + 2, " min m ")))
		return OUTPUT_UNIT_TIME;
	if (unit == OUTPUT_UNIT_NONE)
		return OUTPUT_UNIT_NONE;
	if (bracket)
		return output_is_punct(v, k + 1, ")]") ? unit : OUTPUT_UNIT_NONE;
	return output_names_next(v, i, k) ? OUTPUT_UNIT_NONE : unit;
}

/* "100 steps": what is counted is no time, whatever stands before. */
static bool output_counts_things(const struct output_view *v, size_t i)
{
	size_t k = i + 1;

	if (k >= v->n || v->v[k].kind != OUTPUT_WORD || output_is_punct(v, k + 1, ":=") ||
	    (k + 1 < v->n && v->v[k + 1].kind == OUTPUT_NUM && v->v[k].gap))
		return false;
	return output_is_word(
		v, k,
		" step steps iteration iterations iter iters cell cells point points "
		"element elements thread threads proc procs process processes rank ranks "
		"node nodes core cores cpu cpus gpu gpus atom atoms particle particles byte "
		"bytes b kb mb gb tb kib mib gib run runs sample samples loop loops "
		"repetitions reps trials rows columns cols items ");
}

/* ---- labels ---- */

/* A number inside a label: "time for 100 steps: 1.2", "time for step 5: 1.2" */
static bool output_number_in_label(const struct output_view *v, size_t j)
{
	char w[OUTPUT_SUB_CAP];

	for (size_t back = 1; back <= 2 && back <= j; back++) {
		const struct output_tok *k = &v->v[j - back];

		if (k->kind != OUTPUT_WORD)
			return false;
		output_lower(v->text + k->off, k->len, w);
		if (output_is_preposition(w))
			return true;
	}
	return false;
}

struct output_label {
	size_t a, b; /* tokens */
	bool sep;    /* ':' or '=' stands between it and the number */
};

/* Whether the walk back from a number goes on over token j; depth counts closed brackets. */
static bool output_label_goes_on(const struct output_view *v, size_t j, bool sep, int *depth)
{
	const struct output_tok *k = &v->v[j];
	char c = v->text[k->off];

	if (k->cls != OUTPUT_RESULT || k->shape != OUTPUT_PLAIN)
		return false;
	if (k->kind == OUTPUT_NUM)
		return *depth > 0 || (sep && output_number_in_label(v, j));
	if (k->kind == OUTPUT_WORD)
		return true;
	if (c == ')' || c == ']') {
		(*depth)++;
		return true;
	}
	if (c == '(' || c == '[')
		return --*depth >= 0;
	return strchr(":=,;|{}.!?", c) == NULL || (*depth > 0 && c != ';' && c != '|');
}

static bool output_only_statistics(const struct output_view *v, size_t a, size_t b)
{
	struct output_stat stat;

	(void)output_label_class(v->text, v->v, a, b, &stat);
	return stat.only;
}

static void output_find_label(const struct output_view *v, size_t i, struct output_label *l)
{
	size_t j = i;
	int depth = 0;
	bool crossed = false;

	*l = (struct output_label){ 0 };
	/* "is", leaders and signs between the label and its number */
	while (j &&
	       (output_is_punct(v, j - 1, ":=><~") || output_is_word(v, j - 1, " is was are ") ||
		(v->v[j - 1].kind == OUTPUT_PUNCT && v->text[v->v[j - 1].off] == '.' &&
		 v->v[j - 1].len > 1))) {
		l->sep = true;
		j--;
	}
	l->b = j;
	while (j && l->b - j < OUTPUT_LABEL_TOKENS) {
		bool gap = j < l->b && v->v[j].gap >= OUTPUT_GAP_COL;

		if (gap || !output_label_goes_on(v, j - 1, l->sep, &depth)) {
			/* "time: min 0.1" */
			if (!crossed && output_is_punct(v, j - 1, ":=") && j < l->b &&
			    output_only_statistics(v, j, l->b)) {
				crossed = true;
				j--;
				continue;
			}
			break;
		}
		j--;
	}
	l->a = j;
}

/* "done in 1.25", the verb of which says that it took so long */
static bool output_done_in(const struct output_view *v, const struct output_label *l, size_t i)
{
	if (l->sep || l->b < l->a + 2 || !output_is_fraction(v, i) ||
	    !output_is_word(v, l->b - 1, " in after "))
		return false;
	return output_is_word(v, l->b - 2,
			      " done finished completed solved ran executed computed elapsed "
			      "terminated ");
}

static void output_set_name(const struct output_view *v, const struct output_label *l,
			    struct output_tok *k)
{
	size_t a = l->a, b = l->b;

	while (a < b && v->v[a].kind != OUTPUT_WORD)
		a++;
	while (b > a && v->v[b - 1].kind != OUTPUT_WORD)
		b--;
	if (a == b)
		return;
	/* "User time (seconds)" keeps its bracket */
	if (b < l->b && output_is_punct(v, b, ")]"))
		b++;
	k->name_off = v->v[a].off;
	k->name_len = v->v[b - 1].off + v->v[b - 1].len - k->name_off;
}

/* The class that the label before the number at i gives it. */
static enum output_class output_by_label(struct output_view *v, size_t i)
{
	struct output_stat stat = { 0 };
	struct output_label l;
	enum output_class cls;

	output_find_label(v, i, &l);
	output_set_name(v, &l, &v->v[i]);
	if (l.a == l.b)
		return output_is_plus_minus(v, i ? i - 1 : 0) && i >= 2
			       ? (enum output_class)v->v[i - 2].cls
			       : OUTPUT_RESULT;
	if (output_counts_things(v, i))
		return OUTPUT_RESULT;
	if (output_done_in(v, &l, i))
		return OUTPUT_TIME;
	/* "time for 100": the number belongs to the preposition; "time of 1.2" is a time */
	if (!l.sep && !output_is_word(v, l.b - 1, " of ")) {
		char w[OUTPUT_SUB_CAP];

		output_lower(v->text + v->v[l.b - 1].off, v->v[l.b - 1].len, w);
		if (output_is_preposition(w))
			return OUTPUT_RESULT;
	}
	/* real, user and sys as `time -p` prints them */
	if (l.a == 0 && l.b == 1 && i == 1 && v->n == 2 &&
	    output_is_word(v, 0, " real user sys ") && output_is_fraction(v, i))
		return OUTPUT_TIME;
	cls = output_label_class(v->text, v->v, l.a, l.b, &stat);
	if (stat.only)
		return v->stat;
	v->stat = stat.some && (cls == OUTPUT_TIME || cls == OUTPUT_RATE) ? cls : OUTPUT_RESULT;
	return cls;
}

static bool output_is_whole(const struct output_view *v, size_t i)
{
	for (size_t k = 0; k < v->v[i].len; k++) {
		if (!isdigit((unsigned char)v->text[v->v[i].off + k]))
			return false;
	}
	return true;
}

static void output_class_number(struct output_view *v, size_t i, const struct output_table *tab,
				const uint8_t *cell)
{
	size_t last = i;
	enum output_unit unit = output_unit_after(v, i, &last);
	enum output_class cls = output_by_label(v, i);
	size_t column = cell ? cell[i] : OUTPUT_CELLS_MAX;

	if (unit != OUTPUT_UNIT_NONE) {
		cls = unit == OUTPUT_UNIT_TIME ? OUTPUT_TIME : OUTPUT_RATE;
		v->v[i].cls = (uint8_t)cls;
		/* the unit may change with the size of the number: 950 ms, 1.2 s */
		for (size_t k = i + 1; k <= last && k < v->n; k++) {
			if (v->v[k].kind != OUTPUT_PUNCT)
				v->v[k].cls = (uint8_t)cls;
		}
		return;
	}
	if (column < OUTPUT_CELLS_MAX) {
		cls = (enum output_class)tab->cls[column];
		v->v[i].name_off = tab->name_off[column];
		v->v[i].name_len = tab->name_len[column];
	}
	if (cls == OUTPUT_ADDRESS || (cls == OUTPUT_PID && !output_is_whole(v, i)))
		cls = OUTPUT_RESULT;
	v->v[i].cls = (uint8_t)cls;
}

/* ---- dates, addresses, hosts ---- */

static bool output_is_month(const struct output_view *v, size_t i)
{
	return i < v->n && v->v[i].len >= 3 && v->v[i].len <= 9 &&
	       output_is_word(
		       v, i,
		       " jan feb mar apr may jun jul aug sep sept oct nov dec january february "
		       "march april june july august september october november december ");
}

static bool output_is_int(const struct output_view *v, size_t i, size_t digits, int lo, int hi)
{
	int val = 0;

	if (i >= v->n || v->v[i].kind != OUTPUT_NUM || v->v[i].len > digits ||
	    !output_is_whole(v, i))
		return false;
	for (size_t k = 0; k < v->v[i].len; k++)
		val = val * 10 + (v->text[v->v[i].off + k] - '0');
	return val >= lo && val <= hi;
}

static void output_mask(struct output_view *v, size_t i, enum output_class cls)
{
	if (v->v[i].cls == OUTPUT_RESULT)
		v->v[i].cls = (uint8_t)cls;
}

/* What may follow inside a date: a clock, a year, a zone. */
static bool output_in_date(const struct output_view *v, size_t i)
{
	if (i >= v->n)
		return false;
	if (v->v[i].shape == OUTPUT_SHAPE_CLOCK || output_is_int(v, i, 4, 1970, 2199))
		return true;
	if (output_is_word(v, i,
			   " utc gmt cet cest est edt cst cdt mst mdt pst pdt bst jst am pm "))
		return true;
	return v->v[i].kind == OUTPUT_NUM && v->v[i].len == 5 &&
	       strchr("+-", v->text[v->v[i].off]); /* +0100 */
}

static void output_mask_date(struct output_view *v, size_t from, size_t i)
{
	/* "Tue, 10 Feb": the day of the week before it */
	size_t w = from;

	if (w && output_is_punct(v, w - 1, ","))
		w--;
	if (w && output_is_word(v, w - 1,
				" mon tue wed thu fri sat sun monday tuesday wednesday thursday "
				"friday saturday sunday "))
		from = w - 1;
	if (from && v->v[from - 1].shape == OUTPUT_SHAPE_CLOCK)
		from--;
	for (;;) {
		bool joint = output_is_punct(v, i, ",") || output_is_word(v, i, " at ");

		if (!output_in_date(v, i + (joint ? 1 : 0)))
			break;
		i += joint ? 2 : 1;
	}
	for (size_t k = from; k < i; k++)
		output_mask(v, k, OUTPUT_DATE);
}

static void output_mark_dates(struct output_view *v)
{
	for (size_t i = 0; i < v->n; i++) {
		if (v->v[i].shape == OUTPUT_SHAPE_DATE) {
			output_mask_date(v, i, i + 1);
		} else if (output_is_month(v, i)) {
			bool before = i && output_is_int(v, i - 1, 2, 1, 31);
			bool after = output_is_int(v, i + 1, 2, 1, 31);

			if (after)
				output_mask_date(v, i, i + 2);
			else if (before)
				output_mask_date(v, i - 1, i + 1);
		} else if (v->v[i].shape == OUTPUT_SHAPE_CLOCK ||
			   v->v[i].shape == OUTPUT_SHAPE_DURATION) {
			output_mask(v, i, OUTPUT_TIME);
		}
	}
}

/* A pointer as printf("%p") writes one of a 64-bit process: 12 digits, from the places where
 * programs, heaps, stacks and libraries lie. */
static bool output_looks_pointer(const char *s, size_t len)
{
	static const char *const tops[] = { "55", "56", "7f", "7e", "aa", "ff" };

	if (len == 18 && strncmp(s, "0x0000", 6) == 0) {
		s += 4;
		len -= 4;
	}
	for (size_t i = 0; len == 14 && i < sizeof(tops) / sizeof(tops[0]); i++) {
		if (strncasecmp(s + 2, tops[i], 2) == 0)
			return true;
	}
	return false;
}

static void output_class_hex(struct output_view *v, size_t i)
{
	static const char sums[] =
		" checksum hash crc crc32 crc64 sum digest md5 sha sha1 sha256 result signature value key "
		"flags mask seed ";
	static const char places[] =
		" at addr address ptr pointer base heap stack buffer buf array alloc allocated memory ";
	struct output_label l;
	bool place = i && output_is_punct(v, i - 1, "@");

	output_find_label(v, i, &l);
	output_set_name(v, &l, &v->v[i]);
	for (size_t k = l.a; k < l.b; k++) {
		if (output_is_word(v, k, sums))
			return;
		place = place || output_is_word(v, k, places);
	}
	/* a checksum may be written so too: without a word for a place only what can be nothing
	 * but a pointer is taken for one */
	if (place || output_looks_pointer(v->text + v->v[i].off, v->v[i].len))
		output_mask(v, i, OUTPUT_ADDRESS);
}

static void output_class_host(struct output_view *v, size_t i)
{
	const struct output_rules *r = v->rules;
	char w[sizeof(r->host)];
	size_t n = v->v[i].len, s = strlen(r->host_short);

	if (!r->host[0] || n >= sizeof(w))
		return;
	for (size_t k = 0; k < n; k++)
		w[k] = (char)tolower((unsigned char)v->text[v->v[i].off + k]);
	w[n] = '\0';
	if (strcmp(w, r->host) == 0 ||
	    (strncmp(w, r->host_short, s) == 0 && (!w[s] || w[s] == '.')))
		output_mask(v, i, OUTPUT_HOST);
}

static void output_class_word(struct output_view *v, size_t i)
{
	switch ((enum output_shape)v->v[i].shape) {
	case OUTPUT_SHAPE_IP:
		if (!(i && output_is_word(v, i - 1, " version v release ")))
			output_mask(v, i, OUTPUT_ADDRESS);
		break;
	case OUTPUT_SHAPE_HEX:
		output_class_hex(v, i);
		break;
	case OUTPUT_PLAIN:
		output_class_host(v, i);
		break;
	case OUTPUT_SHAPE_DATE:
	case OUTPUT_SHAPE_CLOCK:
	case OUTPUT_SHAPE_DURATION:
		break;
	}
}

void output_classify(const struct output_rules *r, const char *text, size_t start, size_t end,
		     struct output_toks *t, const struct output_table *tab, const uint8_t *cell)
{
	struct output_view v = { .rules = r, .text = text, .v = t->v, .n = t->n };

	if (r->n_ignore || r->has_fom)
		output_mark_patterns(&v, start, end);
	output_mark_dates(&v);
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].cls == OUTPUT_FOM && t->v[i].kind == OUTPUT_NUM) {
			struct output_label l;

			output_find_label(&v, i, &l);
			output_set_name(&v, &l, &t->v[i]);
		}
		if (t->v[i].cls != OUTPUT_RESULT)
			continue;
		if (t->v[i].kind == OUTPUT_NUM)
			output_class_number(&v, i, tab, cell);
		else if (t->v[i].kind == OUTPUT_WORD)
			output_class_word(&v, i);
	}
}

bool output_is_result(const struct output_rules *r, const char *text, const struct output_tok *k)
{
	const char *s = text + k->off;
	char key[72];

	if (k->cls != OUTPUT_RESULT || k->kind == OUTPUT_PUNCT)
		return false;
	if (k->kind == OUTPUT_WORD)
		return k->shape == OUTPUT_SHAPE_HEX || output_is_verdict(s, k->len);
	if (!r->given || k->len > sizeof(key) - 3)
		return true;
	key[0] = ' ';
	memcpy(key + 1, s, k->len);
	key[k->len + 1] = ' ';
	key[k->len + 2] = '\0';
	return strstr(r->given, key) == NULL;
}
