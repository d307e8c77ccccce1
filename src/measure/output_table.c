/* Columns: a header such as "Function  Best Rate MB/s  Avg time" classes the numbers below it. */
#include <ctype.h>
#include <string.h>

#include "measure/output_priv.h"

/* Cells of a line in one style; end[c] is the first token after cell c.  0: more than the limit. */
struct output_cells {
	size_t n;
	size_t first[OUTPUT_CELLS_MAX], end[OUTPUT_CELLS_MAX];
};

static char output_separator(const char *text, const struct output_toks *t)
{
	static const char seps[] = "|,;";
	const char *best = NULL;

	for (size_t i = 0; i < t->n; i++) {
		const char *s =
			t->v[i].kind == OUTPUT_PUNCT ? strchr(seps, text[t->v[i].off]) : NULL;

		if (s && *s && (!best || s < best))
			best = s;
	}
	if (!best)
		return '\0';
	return *best;
}

static bool output_starts_cell(const char *text, const struct output_toks *t, size_t i,
			       enum output_style style, char sep)
{
	switch (style) {
	case OUTPUT_BY_SEP:
		return t->v[i - 1].kind == OUTPUT_PUNCT && text[t->v[i - 1].off] == sep;
	case OUTPUT_BY_GAP:
		return t->v[i].gap >= 2;
	case OUTPUT_BY_BLANK:
		return t->v[i].gap >= 1;
	case OUTPUT_STYLE_NONE:
		break;
	}
	return false;
}

static bool output_is_sep(const char *text, const struct output_tok *k, enum output_style style,
			  char sep)
{
	return style == OUTPUT_BY_SEP && k->kind == OUTPUT_PUNCT && text[k->off] == sep;
}

static bool output_cut_cells(const char *text, const struct output_toks *t, size_t from,
			     enum output_style style, char sep, struct output_cells *c)
{
	c->n = 0;
	for (size_t i = from; i < t->n; i++) {
		if (output_is_sep(text, &t->v[i], style, sep)) {
			/* ",," hides an empty cell; such lines are no rows */
			if (t->v[i].len > 1)
				return false;
			continue;
		}
		if (c->n == 0 || (i > from && output_starts_cell(text, t, i, style, sep))) {
			if (c->n == OUTPUT_CELLS_MAX)
				return false;
			c->first[c->n++] = i;
		}
		c->end[c->n - 1] = i + 1;
	}
	return true;
}

/* "# step time" and "% step time": the mark is no column */
static size_t output_skip_mark(const char *text, const struct output_toks *t)
{
	return t->n && t->v[0].len == 1 && strchr("#%", text[t->v[0].off]) ? 1 : 0;
}

static bool output_has_number(const struct output_toks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].kind == OUTPUT_NUM || t->v[i].shape != OUTPUT_PLAIN)
			return true;
	}
	return false;
}

static bool output_is_ruler(const char *text, const struct output_toks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		for (size_t k = 0; k < t->v[i].len; k++) {
			if (isalnum((unsigned char)text[t->v[i].off + k]))
				return false;
		}
	}
	return true;
}

/* Blank-separated words of a line, all of which look like numbers; 0: not so. */
static size_t output_numeric_words(const char *p, const char *end)
{
	size_t n = 0;

	while (p < end) {
		const char *w = p;
		double v;

		while (p < end && *p != ' ' && *p != '\t' && *p != '\r')
			p++;
		if (p > w) {
			if (!output_number(w, (size_t)(p - w), &v))
				return 0;
			n++;
		}
		if (p < end)
			p++;
	}
	return n;
}

/*
 * Words with single blanks between them may be prose ("starting time loop"): such a header needs
 * two rows of nothing but numbers below it.
 */
static bool output_weak_header_ok(const char *text, size_t rest, size_t len, size_t n_cells)
{
	for (int row = 0; row < 2; row++) {
		const char *p = text + rest;
		const char *nl = memchr(p, '\n', len - rest);

		if (!nl || output_numeric_words(p, nl) != n_cells)
			return false;
		rest = (size_t)(nl - text) + 1;
	}
	return true;
}

static bool output_header_cells(const char *text, const struct output_toks *t,
				const struct output_cells *c, struct output_table *tab)
{
	bool classed = false;

	for (size_t i = 0; i < c->n; i++) {
		struct output_stat stat;
		const struct output_tok *last = &t->v[c->end[i] - 1];
		enum output_class cls =
			output_label_class(text, t->v, c->first[i], c->end[i], &stat);

		if (cls != OUTPUT_TIME && cls != OUTPUT_RATE && cls != OUTPUT_PID)
			cls = OUTPUT_RESULT;
		tab->cls[i] = (uint8_t)cls;
		tab->name_off[i] = t->v[c->first[i]].off;
		tab->name_len[i] = last->off + last->len - tab->name_off[i];
		classed = classed || cls != OUTPUT_RESULT;
	}
	tab->n = c->n;
	return classed;
}

/* A line of units below the header: "  s   GB/s". */
static bool output_merge_units(const struct output_table *units, struct output_table *tab)
{
	if (tab->style != units->style || tab->n != units->n)
		return false;
	for (size_t i = 0; i < tab->n; i++) {
		if (tab->cls[i] == OUTPUT_RESULT)
			tab->cls[i] = units->cls[i];
	}
	return true;
}

static void output_take_header(struct output_table *tab, const char *text,
			       const struct output_toks *t, size_t rest, size_t len)
{
	static const enum output_style styles[] = { OUTPUT_BY_SEP, OUTPUT_BY_GAP, OUTPUT_BY_BLANK };
	size_t from = output_skip_mark(text, t);
	char sep = output_separator(text, t);

	for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
		struct output_table made = { .style = styles[i], .sep = sep };
		struct output_cells c;

		if ((styles[i] == OUTPUT_BY_SEP) != (sep != '\0') ||
		    !output_cut_cells(text, t, from, styles[i], sep, &c) || c.n < 2 ||
		    !output_header_cells(text, t, &c, &made))
			continue;
		if (styles[i] == OUTPUT_BY_BLANK && !output_weak_header_ok(text, rest, len, c.n))
			continue;
		if (!output_merge_units(&made, tab))
			*tab = made;
		return;
	}
	/* a message between the rows of a table with real separators */
	if (tab->style != OUTPUT_BY_SEP || tab->rows == 0)
		tab->style = OUTPUT_STYLE_NONE;
}

static bool output_fill_row(const struct output_table *tab, const char *text,
			    const struct output_toks *t, enum output_style style, uint8_t *cell)
{
	struct output_cells c;

	if (!output_cut_cells(text, t, 0, style, tab->sep, &c) || c.n != tab->n)
		return false;
	memset(cell, OUTPUT_CELLS_MAX, t->n);
	for (size_t i = 0; i < c.n; i++)
		memset(cell + c.first[i], (int)i, c.end[i] - c.first[i]);
	return true;
}

bool output_table_line(struct output_table *tab, const char *text, const struct output_toks *t,
		       size_t rest, size_t text_len, uint8_t cell[OUTPUT_ROW_TOKENS_MAX])
{
	if (t->n == 0 || t->n > OUTPUT_ROW_TOKENS_MAX || output_is_ruler(text, t))
		return false;
	if (!output_has_number(t)) {
		output_take_header(tab, text, t, rest, text_len);
		return false;
	}
	if (tab->style == OUTPUT_STYLE_NONE)
		return false;
	if (output_fill_row(tab, text, t, tab->style, cell) ||
	    (tab->style == OUTPUT_BY_GAP && output_fill_row(tab, text, t, OUTPUT_BY_BLANK, cell))) {
		tab->rows++;
		return true;
	}
	if (tab->style != OUTPUT_BY_SEP || tab->rows == 0)
		tab->style = OUTPUT_STYLE_NONE;
	return false;
}
