/* What differs between a learnt page and another one. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "measure/output_priv.h"

#define OUTPUT_RESYNC	 64   /* lines ahead that are searched for the next common one */
#define OUTPUT_PAIR_MAX	 1000 /* lines paired by tolerance where any order is fine */
#define OUTPUT_SHOWN_LEN 40

/* Two pages side by side. */
struct output_pair {
	const struct output_rules *r;
	const struct output_page *a, *b;
	struct output_diff *d;
};

void output_cut(const char *s, size_t n, char buf[48])
{
	size_t keep = n > OUTPUT_SHOWN_LEN ? OUTPUT_SHOWN_LEN : n;

	for (size_t i = 0; i < keep; i++)
		buf[i] = s[i];
	for (size_t i = 0; i < keep; i++) {
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			buf[i] = '?';
	}
	(void)snprintf(buf + keep, 48 - keep, "%s", keep < n ? "..." : "");
}

__attribute__((format(printf, 2, 3))) static void output_tell(struct output_diff *d,
							      const char *fmt, ...)
{
	if (d->n < OUTPUT_MISMATCH_SHOWN) {
		va_list ap;

		va_start(ap, fmt);
		(void)vsnprintf(d->text[d->n], sizeof(d->text[0]), fmt, ap);
		va_end(ap);
	}
	d->n++;
}

/* ---- fields ---- */

static bool output_in_range(const struct output_rules *r, double v, double low, double high)
{
	double size = fmax(fabs(v), fmax(fabs(low), fabs(high)));
	double tol = r->atol + r->rtol * size;

	return v >= low - tol && v <= high + tol;
}

static bool output_items_agree(const struct output_pair *p, size_t ia, size_t ib)
{
	const struct output_item *x = &p->a->items[ia], *y = &p->b->items[ib];
	double vx, vy;

	if (x->cls != y->cls)
		return false;
	if (x->cls != OUTPUT_RESULT)
		return true;
	if (x->kind != y->kind)
		return false;
	if (x->len == y->len && memcmp(p->a->text + x->off, p->b->text + y->off, x->len) == 0)
		return true;
	if (x->kind != OUTPUT_NUM || (p->r->rtol <= 0 && p->r->atol <= 0) ||
	    !output_number(p->a->text + x->off, x->len, &vx) ||
	    !output_number(p->b->text + y->off, y->len, &vy) || !isfinite(vx) || !isfinite(vy))
		return false;
	return output_in_range(p->r, vy, p->a->low ? p->a->low[ia] : vx,
			       p->a->high ? p->a->high[ia] : vx);
}

static bool output_lines_agree(const struct output_pair *p, size_t i, size_t j)
{
	const struct output_line *x = &p->a->lines[i], *y = &p->b->lines[j];

	if (x->n != y->n || (x->hash != y->hash && p->r->rtol <= 0 && p->r->atol <= 0))
		return false;
	for (size_t k = 0; k < x->n; k++) {
		if (!output_items_agree(p, x->first + k, y->first + k))
			return false;
	}
	return true;
}

static size_t output_line_fields(const struct output_page *p, size_t i)
{
	size_t n = 0;

	for (size_t k = 0; k < p->lines[i].n; k++) {
		const struct output_item *it = &p->items[p->lines[i].first + k];

		n += it->cls == OUTPUT_RESULT && it->kind != OUTPUT_PUNCT ? 1 : 0;
	}
	return n;
}

static void output_tell_field(const struct output_pair *p, size_t i, size_t k, size_t field,
			      const struct output_item *y)
{
	const struct output_item *x = &p->a->items[p->a->lines[i].first + k];
	char name[48], was[48], is[48];

	if (x->name_len)
		output_cut(p->a->text + x->name_off, x->name_len, name);
	else
		(void)snprintf(name, sizeof(name), "%s",
			       x->cls != OUTPUT_RESULT	? output_class_name(x->cls)
			       : x->kind == OUTPUT_NUM	? "a number"
			       : x->kind == OUTPUT_WORD ? "a word"
							: "a sign");
	output_cut(p->a->text + x->off, x->len, was);
	output_cut(p->b->text + y->off, y->len, is);
	output_tell(p->d,
		    p->d->learning ? "%s (line %u%s, field %zu: %s / %s)"
				   : "%s (line %u%s, field %zu): %s became %s",
		    name, p->a->lines[i].no, p->d->where, field, was, is);
}

/* Lines with as many fields: each that differs is told. */
static void output_tell_fields(const struct output_pair *p, size_t i, size_t j)
{
	const struct output_line *x = &p->a->lines[i], *y = &p->b->lines[j];
	size_t field = 0;

	for (size_t k = 0; k < x->n; k++) {
		const struct output_item *it = &p->a->items[x->first + k];

		field += it->kind != OUTPUT_PUNCT || it->cls != OUTPUT_RESULT ? 1 : 0;
		if (!output_items_agree(p, x->first + k, y->first + k))
			output_tell_field(p, i, k, field, &p->b->items[y->first + k]);
	}
}

/* ---- lines ---- */

static void output_line_text(const struct output_page *p, size_t i, char buf[48])
{
	const struct output_item *first = &p->items[p->lines[i].first];
	const struct output_item *last = first + p->lines[i].n - 1;

	output_cut(p->text + first->off, last->off + last->len - first->off, buf);
}

static void output_tell_line(const struct output_pair *p, bool missing, size_t i)
{
	const struct output_page *page = missing ? p->a : p->b;
	const char *what = p->d->learning ? "that is not always there"
			   : missing	  ? "is missing"
					  : "is new";
	char text[48];

	output_line_text(page, i, text);
	if (p->d->learning)
		output_tell(p->d, "line %u%s ('%s'), %s", page->lines[i].no, p->d->where, text,
			    what);
	else
		output_tell(p->d, "line %u%s %s: '%s'", page->lines[i].no, p->d->where, what, text);
}

static void output_tell_changed(const struct output_pair *p, size_t i, size_t j)
{
	char was[48], is[48];

	output_line_text(p->a, i, was);
	output_line_text(p->b, j, is);
	output_tell(p->d,
		    p->d->learning ? "line %u%s ('%s' / '%s')"
				   : "line %u%s changed: '%s' became '%s'",
		    p->a->lines[i].no, p->d->where, was, is);
}

/* How many lines of a are missing (> 0) or of b are new (< 0) before both go on alike; 0: unknown.
 */
static long output_resync(const struct output_pair *p, size_t i, size_t j)
{
	for (size_t d = 1; d <= OUTPUT_RESYNC; d++) {
		if (i + d < p->a->n_lines && output_lines_agree(p, i + d, j))
			return (long)d;
		if (j + d < p->b->n_lines && output_lines_agree(p, i, j + d))
			return -(long)d;
	}
	return 0;
}

static void output_diff_ordered(const struct output_pair *p)
{
	size_t i = 0, j = 0, na = p->a->n_lines, nb = p->b->n_lines;

	while (i < na && j < nb) {
		long jump = 0;

		if (output_lines_agree(p, i, j)) {
			p->d->compared += output_line_fields(p->a, i);
			i++;
			j++;
			continue;
		}
		/* of lines that look alike, one is only missing where their number says so */
		if (p->d->n < OUTPUT_MISMATCH_SHOWN &&
		    (p->a->lines[i].n != p->b->lines[j].n || na - i != nb - j))
			jump = output_resync(p, i, j);
		for (; jump > 0; jump--)
			output_tell_line(p, true, i++);
		for (; jump < 0; jump++)
			output_tell_line(p, false, j++);
		if (i >= na || j >= nb || output_lines_agree(p, i, j))
			continue;
		p->d->compared += output_line_fields(p->a, i);
		if (p->a->lines[i].n == p->b->lines[j].n)
			output_tell_fields(p, i, j);
		else
			output_tell_changed(p, i, j);
		i++;
		j++;
	}
	for (; i < na; i++)
		output_tell_line(p, true, i);
	for (; j < nb; j++)
		output_tell_line(p, false, j);
}

/* ---- any order ---- */

static int output_by_hash(const void *x, const void *y, void *lines)
{
	const struct output_line *l = lines;
	uint64_t a = l[*(const size_t *)x].hash, b = l[*(const size_t *)y].hash;

	return a < b ? -1 : a > b ? 1 : 0;
}

static size_t *output_sorted(const struct output_page *p)
{
	size_t *v = xrealloc_n(NULL, p->n_lines + 1, sizeof(*v));

	for (size_t i = 0; i < p->n_lines; i++)
		v[i] = i;
	qsort_r(v, p->n_lines, sizeof(*v), output_by_hash, p->lines);
	return v;
}

/* What is left of both after lines with the same hash are struck out: a's in va, b's in vb. */
static void output_strike(const struct output_page *a, const struct output_page *b, size_t *va,
			  size_t *na, size_t *vb, size_t *nb)
{
	size_t i = 0, j = 0, ka = 0, kb = 0;

	while (i < a->n_lines || j < b->n_lines) {
		uint64_t ha = i < a->n_lines ? a->lines[va[i]].hash : UINT64_MAX;
		uint64_t hb = j < b->n_lines ? b->lines[vb[j]].hash : UINT64_MAX;

		if (i < a->n_lines && j < b->n_lines && ha == hb) {
			i++;
			j++;
		} else if (j >= b->n_lines || (i < a->n_lines && ha < hb)) {
			va[ka++] = va[i++];
		} else {
			vb[kb++] = vb[j++];
		}
	}
	*na = ka;
	*nb = kb;
}

bool output_same_lines(const struct output_page *a, const struct output_page *b)
{
	size_t *va = output_sorted(a), *vb = output_sorted(b);
	size_t na, nb;

	output_strike(a, b, va, &na, vb, &nb);
	free(va);
	free(vb);
	return na == 0 && nb == 0;
}

static int output_by_place(const void *x, const void *y)
{
	size_t a = *(const size_t *)x, b = *(const size_t *)y;

	return a < b ? -1 : a > b ? 1 : 0;
}

/* Strikes out pairs that agree within the tolerance. */
static void output_strike_close(const struct output_pair *p, size_t *va, size_t *na, size_t *vb,
				size_t *nb)
{
	size_t ka = 0;

	if (*na > OUTPUT_PAIR_MAX || *nb > OUTPUT_PAIR_MAX)
		return;
	for (size_t i = 0; i < *na; i++) {
		size_t j = 0;

		while (j < *nb && !output_lines_agree(p, va[i], vb[j]))
			j++;
		if (j < *nb)
			memmove(vb + j, vb + j + 1, (--*nb - j) * sizeof(*vb));
		else
			va[ka++] = va[i];
	}
	*na = ka;
}

static void output_diff_any_order(const struct output_pair *p)
{
	size_t *va = output_sorted(p->a), *vb = output_sorted(p->b);
	size_t na, nb, i = 0;

	for (size_t k = 0; k < p->a->n_lines; k++)
		p->d->compared += output_line_fields(p->a, k);
	output_strike(p->a, p->b, va, &na, vb, &nb);
	qsort(va, na, sizeof(*va), output_by_place);
	qsort(vb, nb, sizeof(*vb), output_by_place);
	output_strike_close(p, va, &na, vb, &nb);
	for (; i < na && i < nb; i++) {
		if (p->a->lines[va[i]].n == p->b->lines[vb[i]].n)
			output_tell_fields(p, va[i], vb[i]);
		else
			output_tell_changed(p, va[i], vb[i]);
	}
	for (size_t k = i; k < na; k++)
		output_tell_line(p, true, va[k]);
	for (size_t k = i; k < nb; k++)
		output_tell_line(p, false, vb[k]);
	free(va);
	free(vb);
}

/* ---- pages ---- */

static void output_diff_binary(const struct output_pair *p)
{
	size_t n = p->a->len < p->b->len ? p->a->len : p->b->len, at = 0;
	size_t total_a = p->a->len + p->a->n_more, total_b = p->b->len + p->b->n_more;

	p->d->compared++;
	if (p->a->binary != p->b->binary) {
		output_tell(p->d, "output%s is %s in one run and %s in another", p->d->where,
			    p->a->binary ? "binary" : "text", p->b->binary ? "binary" : "text");
		return;
	}
	if (total_a == total_b && memcmp(p->a->text, p->b->text, n) == 0 &&
	    strcmp(p->a->more_sha256, p->b->more_sha256) == 0)
		return;
	while (at < n && p->a->text[at] == p->b->text[at])
		at++;
	output_tell(p->d, "binary output%s (from byte %zu on; length %zu %s %zu)", p->d->where,
		    at + 1, total_a, p->d->learning ? "/" : "became", total_b);
}

void output_diff_pages(const struct output_rules *r, const struct output_page *a,
		       const struct output_page *b, bool any_order, struct output_diff *d)
{
	struct output_pair p = { .r = r, .a = a, .b = b, .d = d };

	if (a->binary || b->binary)
		output_diff_binary(&p);
	else if (any_order)
		output_diff_any_order(&p);
	else
		output_diff_ordered(&p);
	if (!a->binary && (a->n_more || b->n_more)) {
		d->compared++;
		if (a->n_more != b->n_more || strcmp(a->more_sha256, b->more_sha256) != 0)
			output_tell(d, "output%s after its first %d bytes", d->where,
				    OUTPUT_HEAD_MAX);
	}
	if (a->rest || b->rest) {
		d->compared++;
		if (a->rest != b->rest || strcmp(a->rest_sha256, b->rest_sha256) != 0)
			output_tell(d, "output%s after what was kept of it (%llu %s %llu bytes)",
				    d->where, (unsigned long long)a->rest,
				    d->learning ? "/" : "became", (unsigned long long)b->rest);
	}
}

void output_page_widen(struct output_page *a, const struct output_page *b)
{
	bool first = !a->low;

	if (first) {
		a->low = xcalloc(a->n_items + 1, sizeof(*a->low));
		a->high = xcalloc(a->n_items + 1, sizeof(*a->high));
	}
	for (size_t i = 0; i < a->n_items && i < b->n_items; i++) {
		double v;

		if (a->items[i].kind != OUTPUT_NUM || a->items[i].cls != OUTPUT_RESULT ||
		    !output_number(b->text + b->items[i].off, b->items[i].len, &v))
			continue;
		a->low[i] = first ? v : fmin(a->low[i], v);
		a->high[i] = first ? v : fmax(a->high[i], v);
	}
}
