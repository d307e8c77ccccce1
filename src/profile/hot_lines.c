/* From hot addresses to hot source lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "profile/lines.h"
#include "profile/profile.h"
#include "profile/profile_priv.h"
#include "profile/script.h"

#define HOT_DSOS_MAX  4	  /* programs and libraries that are looked into */
#define HOT_SHARE_MIN 1.0 /* % of all samples that a function of it must have for that */

/* The addresses of the hottest programs and libraries. */
struct hot {
	const struct profile_script_func *funcs;
	const struct profile_script_addr *addrs;
	size_t n_addrs;
	double total;
	struct profile_result *res;
	struct profile_line *lines; /* n_lines, growing */
	double *weights;	    /* of lines */
	size_t n_lines, cap_lines;
};

static int hot_by_weight(const void *x, const void *y, void *arg)
{
	const struct profile_script_addr *a = arg;
	size_t i = *(const size_t *)x, k = *(const size_t *)y;

	if (a[i].weight != a[k].weight)
		return a[i].weight > a[k].weight ? -1 : 1;
	return i < k ? -1 : i > k ? 1 : 0;
}

static void hot_add_line(struct hot *h, struct lines_answer *at, const char *func, double weight)
{
	size_t i = 0;

	while (i < h->n_lines &&
	       (h->lines[i].line != at->line || strcmp(h->lines[i].file, at->file) != 0))
		i++;
	if (i == h->n_lines) {
		if (i == h->cap_lines) {
			h->cap_lines = h->cap_lines ? h->cap_lines * 2 : 64;
			h->lines = xrealloc_n(h->lines, h->cap_lines, sizeof(*h->lines));
			h->weights = xrealloc_n(h->weights, h->cap_lines, sizeof(*h->weights));
		}
		h->lines[i] = (struct profile_line){ .file = at->file,
						     .line = at->line,
						     .func = xstrdup(func) };
		h->weights[i] = 0;
		at->file = NULL;
		h->n_lines++;
	}
	h->weights[i] += weight;
}

/* The function's hottest address comes first and names its file and line. */
static void hot_name_func(struct hot *h, const struct profile_script_func *f,
			  const struct lines_answer *at)
{
	for (size_t i = 0; i < h->res->n_funcs; i++) {
		struct profile_func *have = &h->res->funcs[i];

		if (have->file || strcmp(have->name, f->name) != 0 ||
		    strcmp(have->dso, f->dso) != 0)
			continue;
		have->file = xstrdup(at->file);
		have->line = at->line;
		return;
	}
}

static void hot_take_answers(struct hot *h, const size_t *by, size_t n,
			     struct lines_answer *answers)
{
	for (size_t i = 0; i < n; i++) {
		const struct profile_script_addr *a = &h->addrs[by[i]];
		const struct profile_script_func *f = &h->funcs[a->func];

		if (answers[i].file) {
			hot_name_func(h, f, &answers[i]);
			hot_add_line(h, &answers[i], f->name, a->weight);
		}
		free(answers[i].file);
	}
}

/* The dso's addresses, hottest first: *by is the caller's. */
static size_t hot_addrs_of(const struct hot *h, const char *dso, size_t **by)
{
	size_t n = 0;

	*by = xcalloc(h->n_addrs + 1, sizeof(**by));
	for (size_t i = 0; i < h->n_addrs; i++) {
		if (strcmp(h->funcs[h->addrs[i].func].dso, dso) == 0)
			(*by)[n++] = i;
	}
	qsort_r(*by, n, sizeof(**by), hot_by_weight, (void *)(uintptr_t)h->addrs);
	return n < LINES_ASK_MAX ? n : LINES_ASK_MAX;
}

static void hot_say_why(struct hot *h, const struct err *why)
{
	if (h->res->lines_why[0] == '\0')
		(void)snprintf(h->res->lines_why, sizeof(h->res->lines_why), "%.300s", why->msg);
}

/* ERR_OK also where nothing was found out; lines_why says so then. */
static int hot_ask(struct proc_keeper *k, struct hot *h, const char *dso,
		   const struct lines_query *base, struct err *err)
{
	AUTO_FREE size_t *by = NULL;
	AUTO_FREE uint64_t *offsets = NULL;
	AUTO_FREE struct lines_answer *answers = NULL;
	size_t n = hot_addrs_of(h, dso, &by);
	struct lines_query q = *base;
	struct err why = { 0 };
	int r;

	offsets = xcalloc(n + 1, sizeof(*offsets));
	answers = xcalloc(n + 1, sizeof(*answers));
	for (size_t i = 0; i < n; i++)
		offsets[i] = h->addrs[by[i]].offset;
	q.path = dso;
	q.offsets = offsets;
	q.n = n;
	r = n ? lines_ask(k, &q, answers, &why) : ERR_OK;
	hot_take_answers(h, by, n, answers);
	if (r == ERR_CANCELLED || r == ERR_SYS) {
		if (err)
			*err = why;
		return r;
	}
	if (r < 0)
		hot_say_why(h, &why);
	return ERR_OK;
}

static int hot_by_line(const void *x, const void *y)
{
	const struct profile_line *a = x, *b = y;
	int c;

	if (a->share_pct != b->share_pct)
		return a->share_pct > b->share_pct ? -1 : 1;
	c = strcmp(a->file, b->file);
	return c ? c : a->line < b->line ? -1 : a->line > b->line ? 1 : 0;
}

static void hot_finish(struct hot *h)
{
	for (size_t i = 0; i < h->n_lines; i++)
		h->lines[i].share_pct = h->total > 0 ? 100 * h->weights[i] / h->total : 0;
	if (h->n_lines)
		qsort(h->lines, h->n_lines, sizeof(*h->lines), hot_by_line);
	for (size_t i = PROFILE_LINES_MAX; i < h->n_lines; i++) {
		free(h->lines[i].file);
		free(h->lines[i].func);
	}
	h->res->lines = h->lines;
	h->res->n_lines = h->n_lines < PROFILE_LINES_MAX ? h->n_lines : PROFILE_LINES_MAX;
	free(h->weights);
	if (h->n_lines)
		h->res->lines_why[0] = '\0';
	else if (h->res->lines_why[0] == '\0')
		(void)snprintf(h->res->lines_why, sizeof(h->res->lines_why),
			       "the program has no line information (compile with -g)");
}

/* The hottest files that were mapped; functions are sorted by their share. */
static size_t hot_dsos(const struct hot *h, const char *dsos[HOT_DSOS_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < h->res->n_funcs && n < HOT_DSOS_MAX; i++) {
		const struct profile_func *f = &h->res->funcs[i];
		size_t d = 0;

		if (f->dso[0] != '/' || f->share_pct < HOT_SHARE_MIN)
			continue;
		while (d < n && strcmp(dsos[d], f->dso) != 0)
			d++;
		if (d == n)
			dsos[n++] = f->dso;
	}
	return n;
}

int profile_find_lines(struct proc_keeper *k, const struct profile_opts *opts, uint64_t timeout_ns,
		       const struct profile_script *s, struct profile_result *res, struct err *err)
{
	struct lines_query q = { .addr2line = opts->addr2line,
				 .base = opts->cmd,
				 .timeout_ns = timeout_ns };
	struct hot h = { .res = res, .total = profile_script_weight(s) };
	const char *dsos[HOT_DSOS_MAX];
	size_t n, n_funcs;
	int r = ERR_OK;

	h.funcs = profile_script_funcs(s, &n_funcs);
	h.addrs = profile_script_addrs(s, &h.n_addrs);
	n = hot_dsos(&h, dsos);
	for (size_t i = 0; r == ERR_OK && i < n; i++)
		r = hot_ask(k, &h, dsos[i], &q, err);
	hot_finish(&h);
	return r;
}
