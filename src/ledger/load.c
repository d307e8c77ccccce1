/* Reading a ledger's file into memory, and bringing the published copy up to date. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/lines.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger_priv.h"

#define LOAD_CHUNK ((size_t)64 << 10)

void ledger_push(struct ledger *l, struct json *rec)
{
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->recs = xrealloc_n(l->recs, l->cap, sizeof(struct json *));
	}
	json_set_int(l->by_id, json_get_str(rec, "id", ""), (int64_t)l->n);
	l->recs[l->n++] = rec;
}

void ledger_unload(struct ledger *l)
{
	AUTO_FREE char *shard = xstrdup(l->chain.shard);

	for (size_t i = 0; i < l->n; i++)
		json_unref(l->recs[i]);
	free(l->recs);
	l->recs = NULL;
	l->n = l->cap = 0;
	json_unref(l->by_id);
	l->by_id = json_new_obj();
	ledger_chain_done(&l->chain);
	ledger_chain_init(&l->chain, shard);
}

/* One whole line; chain damage is told with file and line. */
static int ledger_load_line(struct ledger *l, const struct lines_line *ln, const char *path,
			    struct json **bad_chain, struct err *err)
{
	AUTO_JSON struct json *rec = NULL;
	struct err why = { 0 };
	int r;

	if (ln->too_long)
		return err_set(err, ERR_PARSE, "%s:%zu: longer than %zu bytes", path, ln->no,
			       LEDGER_LINE_MAX);
	if ((r = ledger_parse_line(ln->text, ln->len, path, ln->no, &rec, err)) < 0)
		return r;
	if (ledger_chain_check(&l->chain, rec, &why) < 0) {
		*bad_chain = TAKE_PTR(rec);
		return err_set(err, ERR_PARSE, "%s:%zu: %s", path, ln->no, why.msg);
	}
	ledger_chain_add(&l->chain, rec, ln->text, ln->len);
	ledger_push(l, TAKE_PTR(rec));
	return ERR_OK;
}

/* The loop; *bad tells what is wrong with the last line, if anything is. */
static int ledger_load_lines(struct ledger *l, struct lines_reader *rd,
			     const struct ledger_mark *mark, struct ledger_loaded *out,
			     char at_mark[HASH_HEX_LEN + 1], struct err *bad, struct err *err)
{
	struct lines_line ln;
	int r;

	while ((r = lines_next(rd, &ln, err)) > 0) {
		AUTO_JSON struct json *bad_chain = NULL;

		if (out->torn_line) { /* damage with lines behind it is not a torn tail */
			if (err)
				*err = *bad;
			return ERR_PARSE;
		}
		if (ln.off + ln.len >= LEDGER_BYTES_MAX)
			return err_set(err, ERR_LIMIT, "%s: larger than %llu bytes", rd->what,
				       (unsigned long long)LEDGER_BYTES_MAX);
		if (!ln.whole && !ln.too_long)
			r = err_set(bad, ERR_PARSE, "%s:%zu: the line is not whole", rd->what,
				    ln.no);
		else
			r = ledger_load_line(l, &ln, rd->what, &bad_chain, bad);
		if (bad_chain || ln.too_long) {
			if (err)
				*err = *bad;
			return r;
		}
		if (r < 0) {
			out->torn_line = ln.no;
			out->torn = ln.len + ln.whole;
			continue;
		}
		out->good = ln.off + ln.len + 1;
		if (mark && l->chain.n == mark->n)
			memcpy(at_mark, l->chain.head, HASH_HEX_LEN + 1);
	}
	return r;
}

int ledger_load(struct ledger *l, const struct ledger_out *from, uint64_t limit,
		const struct ledger_mark *mark, struct ledger_loaded *out, struct err *err)
{
	char at_mark[HASH_HEX_LEN + 1] = LEDGER_ZEROS;
	struct lines_reader rd;
	struct err bad = { 0 }, why = { 0 };
	int r;

	*out = (struct ledger_loaded){ 0 };
	lines_init(&rd, from->fd, LEDGER_LINE_MAX, from->path);
	rd.limit = limit;
	r = ledger_load_lines(l, &rd, mark, out, at_mark, &bad, err);
	lines_done(&rd);
	if (r < 0 || !mark)
		return r;
	if (out->torn_line && l->chain.n < mark->n) {
		if (err)
			*err = bad;
		return ERR_PARSE;
	}
	if (ledger_mark_check(mark, l->chain.n, l->chain.head, at_mark, &why) < 0)
		return err_set(err, ERR_PARSE, "%s:%llu: %s", from->path,
			       (unsigned long long)l->chain.n, why.msg);
	return ERR_OK;
}

/* ---- the published copy ---- */

static int ledger_pread(const struct ledger_out *o, void *buf, size_t n, uint64_t off,
			struct err *err)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = pread(o->fd, (char *)buf + got, n - got, (off_t)(off + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return err_sys(err, r < 0 ? errno : EIO, "read %s", o->path);
		got += (size_t)r;
	}
	return ERR_OK;
}

/* Where the two differ first: offset, and number and offset of the line there. */
struct ledger_split {
	uint64_t at, line_off;
	size_t line;
};

static int ledger_compare(const struct ledger_out *a, const struct ledger_out *b,
			  struct ledger_split *s, struct err *err)
{
	uint64_t common = a->size < b->size ? a->size : b->size;
	AUTO_FREE char *x = xcalloc(2, LOAD_CHUNK);
	char *y = x + LOAD_CHUNK;

	*s = (struct ledger_split){ .line = 1 };
	while (s->at < common) {
		size_t n = common - s->at < LOAD_CHUNK ? (size_t)(common - s->at) : LOAD_CHUNK;
		int r = ledger_pread(a, x, n, s->at, err);

		if (r == ERR_OK)
			r = ledger_pread(b, y, n, s->at, err);
		if (r < 0)
			return r;
		for (size_t i = 0; i < n; i++) {
			if (x[i] != y[i]) {
				s->at += i;
				return ERR_OK;
			}
			if (x[i] == '\n') {
				s->line++;
				s->line_off = s->at + i + 1;
			}
		}
		s->at += n;
	}
	return ERR_OK;
}

/* Does the file hold a newline from here on? */
static int ledger_has_newline(const struct ledger_out *o, uint64_t from, struct err *err)
{
	AUTO_FREE char *x = xcalloc(1, LOAD_CHUNK);

	while (from < o->size) {
		size_t n = o->size - from < LOAD_CHUNK ? (size_t)(o->size - from) : LOAD_CHUNK;
		int r = ledger_pread(o, x, n, from, err);

		if (r < 0)
			return r;
		if (memchr(x, '\n', n))
			return 1;
		from += n;
	}
	return 0;
}

static int ledger_copy_rest(const struct ledger_out *master, struct ledger_out *copy,
			    struct err *err)
{
	AUTO_FREE char *x = xcalloc(1, LOAD_CHUNK);
	bool broken = false;

	while (copy->size < master->size) {
		uint64_t left = master->size - copy->size;
		size_t n = left < LOAD_CHUNK ? (size_t)left : LOAD_CHUNK;
		int r = ledger_pread(master, x, n, copy->size, err);

		if (r == ERR_OK)
			r = lines_append(copy->fd, &copy->size, x, n, copy->path, &broken, err);
		if (r < 0)
			return r;
	}
	return ERR_OK;
}

int ledger_copy_sync(const struct ledger_out *master, struct ledger_out *copy,
		     struct ledger_loaded *out, struct err *err)
{
	struct ledger_split s;
	int r = ledger_compare(master, copy, &s, err);

	*out = (struct ledger_loaded){ 0 };
	if (r < 0)
		return r;
	if (s.at < copy->size) {
		if ((r = ledger_has_newline(copy, s.line_off, err)) < 0)
			return r;
		if (r)
			return err_set(
				err, ERR_PARSE,
				"%s:%zu: not as in the master %s: it was edited; see 'rocbudai "
				"report --verify', then move it away and it is made anew from "
				"the master",
				copy->path, s.line, master->path);
		*out = (struct ledger_loaded){ .good = s.line_off,
					       .torn = copy->size - s.line_off,
					       .torn_line = s.line };
		if ((r = lines_cut(copy->fd, s.line_off, copy->path, err)) < 0)
			return r;
		copy->size = s.line_off;
	}
	return ledger_copy_rest(master, copy, err);
}
