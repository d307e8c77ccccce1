/*
 * Two passes over streams: each file by itself (form, chain, ids, parents), then the published file
 * beside its master, line by line.  Where they part, the published line is looked up in an index of
 * the master, made only then, so that what was removed, repeated, edited or added can be told.
 */
#include "ledger/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lines.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger_priv.h"

#define VERIFY_TRIES 10

struct verify_finding {
	char *file, *msg;
	size_t line;
};

struct verify {
	struct ledger_place place;
	struct verify_finding *v; /* n of them */
	size_t n;
	bool full;
	struct ledger_view view;
	bool has_mark;
	struct ledger_chain chain; /* of the master */
};

__attribute__((format(printf, 4, 5))) static void verify_add(struct verify *v, const char *file,
							     size_t line, const char *fmt, ...)
{
	struct verify_finding *f;
	char msg[LEDGER_MSG_CAP + 200];
	va_list ap;

	if (v->full)
		return;
	v->full = v->n + 1 == LEDGER_FINDINGS_MAX;
	va_start(ap, fmt);
	(void)vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	v->v = xrealloc_n(v->v, v->n + 1, sizeof(*v->v));
	f = &v->v[v->n++];
	*f = (struct verify_finding){ .file = xstrdup(file), .line = line };
	f->msg = v->full ? xasprintf("%s (there is more: verification stopped here)", msg)
			 : xstrdup(msg);
}

static void verify_reset(struct verify *v)
{
	for (size_t i = 0; i < v->n; i++) {
		free(v->v[i].file);
		free(v->v[i].msg);
	}
	free(v->v);
	v->v = NULL;
	v->n = 0;
	v->full = false;
	ledger_chain_done(&v->chain);
	ledger_chain_init(&v->chain, "");
}

/* The part of a message after "file:line: ", which the finding has by itself. */
static const char *verify_tail(const struct err *e, const char *path)
{
	const char *s = e->msg;
	size_t n = strlen(path);

	if (strncmp(s, path, n) == 0 && s[n] == ':') {
		s += n + 1;
		s += strspn(s, "0123456789");
		s += s[0] == ':' && s[1] == ' ' ? 2 : 0;
	}
	return s;
}

/* ---- a file by itself ---- */

struct verify_pass {
	struct ledger_chain *chain;
	const char *path;
	uint64_t limit;			/* bytes that are looked at */
	const struct ledger_mark *mark; /* NULL: none */
	char at_mark[HASH_HEX_LEN + 1];
	size_t n_lines;
	bool torn; /* the last line is not whole */
};

static void verify_record(struct verify *v, struct verify_pass *p, const struct lines_line *ln)
{
	static int (*const checks[])(const struct ledger_chain *, const struct json *,
				     struct err *) = {
		ledger_chain_prev,
		ledger_chain_id,
		ledger_chain_parents,
		ledger_chain_merged,
	};
	AUTO_JSON struct json *rec = NULL;
	struct err why = { 0 };

	if (ln->too_long) {
		verify_add(v, p->path, ln->no, "longer than %zu bytes", LEDGER_LINE_MAX);
	} else if (ledger_parse_line(ln->text, ln->len, p->path, ln->no, &rec, &why) < 0) {
		verify_add(v, p->path, ln->no, "%s", verify_tail(&why, p->path));
	} else {
		for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
			if (checks[i](p->chain, rec, &why) < 0)
				verify_add(v, p->path, ln->no, "%s: %s",
					   json_get_str(rec, "id", "?"), why.msg);
		}
	}
	ledger_chain_add(p->chain, rec, ln->text, ln->len);
	if (p->mark && p->chain->n == p->mark->n)
		memcpy(p->at_mark, p->chain->head, sizeof(p->at_mark));
}

static int verify_pass(struct verify *v, struct verify_pass *p, int fd, struct err *err)
{
	struct lines_reader rd;
	struct lines_line ln;
	int r = 0;

	memcpy(p->at_mark, LEDGER_ZEROS, sizeof(p->at_mark));
	lines_init(&rd, fd, LEDGER_LINE_MAX, p->path);
	rd.limit = p->limit;
	while (!v->full && (r = lines_next(&rd, &ln, err)) > 0) {
		if (!ln.whole && !ln.too_long) {
			p->torn = true;
			break;
		}
		p->n_lines = ln.no;
		verify_record(v, p, &ln);
	}
	lines_done(&rd);
	return r < 0 ? r : ERR_OK;
}

/* ---- where the published file parts from the master ---- */

struct verify_entry {
	uint64_t key; /* of the line's hash, or of its id */
	size_t line;
};

struct verify_index {
	struct verify_entry *by_line, *by_id; /* n each, sorted by key, then line */
	size_t n;
};

static uint64_t verify_key(const void *data, size_t n)
{
	unsigned char sum[HASH_BYTES];
	struct hash h;
	uint64_t key;

	hash_init(&h);
	hash_add(&h, data, n);
	hash_end(&h, sum);
	memcpy(&key, sum, sizeof(key));
	return key;
}

static char *verify_id(const struct lines_line *ln)
{
	AUTO_JSON struct json *j = NULL;

	if (json_parse(ln->text, ln->len, "", &j, NULL) < 0)
		return NULL;
	return xstrdup(json_get_str(j, "id", NULL));
}

static int verify_entry_cmp(const void *a, const void *b)
{
	const struct verify_entry *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

static void verify_index_add(struct verify_index *ix, const struct lines_line *ln)
{
	AUTO_FREE char *id = verify_id(ln);

	if ((ix->n & (ix->n - 1)) == 0) {
		size_t cap = ix->n ? 2 * ix->n : 1;

		ix->by_line = xrealloc_n(ix->by_line, cap, sizeof(*ix->by_line));
		ix->by_id = xrealloc_n(ix->by_id, cap, sizeof(*ix->by_id));
	}
	ix->by_line[ix->n] =
		(struct verify_entry){ .key = verify_key(ln->text, ln->len), .line = ln->no };
	ix->by_id[ix->n] =
		(struct verify_entry){ .key = id ? verify_key(id, strlen(id)) : 0, .line = ln->no };
	ix->n++;
}

static int verify_index_make(struct verify_index *ix, const struct lines_reader *of,
			     struct err *err)
{
	struct lines_reader rd;
	struct lines_line ln;
	int r;

	lines_init(&rd, of->fd, LEDGER_LINE_MAX, of->what);
	rd.limit = of->limit;
	while ((r = lines_next(&rd, &ln, err)) > 0 && ln.whole)
		verify_index_add(ix, &ln);
	lines_done(&rd);
	if (ix->n) {
		qsort(ix->by_line, ix->n, sizeof(*ix->by_line), verify_entry_cmp);
		qsort(ix->by_id, ix->n, sizeof(*ix->by_id), verify_entry_cmp);
	}
	return r < 0 ? r : ERR_OK;
}

/* The first line of this key, at or after `from` if there is one there; 0: none. */
static size_t verify_index_find(const struct verify_entry *v, size_t n, uint64_t key, size_t from)
{
	size_t lo = 0, hi = n, first;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (v[mid].key < key)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == n || v[lo].key != key)
		return 0;
	first = v[lo].line;
	for (; lo < n && v[lo].key == key; lo++) {
		if (v[lo].line >= from)
			return v[lo].line;
	}
	return first;
}

struct verify_side {
	struct lines_reader rd;
	struct lines_line ln;
	bool has;		     /* ln holds a whole line */
	char prev[HASH_HEX_LEN + 1]; /* hash of the line before ln */
};

static int verify_step(struct verify_side *s, struct err *err)
{
	int r;

	if (s->has)
		hash_mem_hex(s->ln.text, s->ln.len, s->prev);
	s->ln = (struct lines_line){ .text = NULL };
	r = lines_next(&s->rd, &s->ln, err);
	s->has = r > 0 && (s->ln.whole || s->ln.too_long);
	return r;
}

struct verify_pair {
	struct verify *v;
	struct verify_side master, copy;
	struct verify_index ix;
	bool indexed;
	const char *copy_path;
	uint64_t may_lack; /* records at the end that a crash may have kept from the copy */
	size_t garbage;	   /* line of the copy that is no record, not told yet; 0: none */
};

/* Names the keys in which two records differ, except prev. */
static void verify_keys(const struct json *a, const struct json *b, char *out, size_t cap)
{
	size_t n = 0;

	out[0] = '\0';
	for (int pass = 0; pass < 2; pass++) {
		const struct json *x = pass ? b : a, *y = pass ? a : b;

		for (void *it = json_iter(x); it; it = json_next(x, it)) {
			const char *k = json_iter_key(it);
			const struct json *other = json_get(y, k);

			if (strcmp(k, "prev") == 0 || (pass && other) ||
			    (other && json_same(json_iter_value(it), other)) || n + 64 > cap)
				continue;
			n += (size_t)snprintf(out + n, cap - n, "%s%.40s", n ? ", " : "", k);
		}
	}
}

/* Both lines are one record by id: tells what was done to the copy's. */
static void verify_edited(struct verify_pair *p, const char *id)
{
	AUTO_JSON struct json *m = NULL;
	AUTO_JSON struct json *c = NULL;
	const struct lines_line *ml = &p->master.ln, *cl = &p->copy.ln;
	char keys[256] = "";

	/* both gave an id; NULL compares as empty */
	(void)json_parse(ml->text, ml->len, "", &m, NULL);
	(void)json_parse(cl->text, cl->len, "", &c, NULL);
	verify_keys(m, c, keys, sizeof(keys));
	if (keys[0])
		verify_add(p->v, p->copy_path, cl->no, "%s was edited: %s not as in the master", id,
			   keys);
	else if (json_same(m, c))
		verify_add(p->v, p->copy_path, cl->no,
			   "%s was edited: spelled otherwise than in "
			   "the master",
			   id);
	else if (strcmp(json_get_str(c, "prev", ""), p->copy.prev) == 0)
		verify_add(p->v, p->copy_path, cl->no,
			   "%s: the chain was computed again, here or in the master: prev differs",
			   id);
	else
		verify_add(p->v, p->copy_path, cl->no,
			   "%s: the chain is broken, prev is neither the line before nor as in the "
			   "master",
			   id);
}

/* Tells a line that is no record, once what follows has shown what became of the master's. */
static int verify_garbage(struct verify_pair *p, bool edited, struct err *err)
{
	AUTO_FREE char *was = edited ? verify_id(&p->master.ln) : NULL;
	size_t line = p->garbage;

	p->garbage = 0;
	if (!edited) {
		verify_add(p->v, p->copy_path, line, "a line that is no record was added");
		return 1;
	}
	verify_add(p->v, p->copy_path, line, "%s was edited: it is no record any more",
		   was ? was : "a record");
	return verify_step(&p->master, err);
}

/* Moves the master on to a line; what it passes is missing in the copy. */
static int verify_missing(struct verify_pair *p, size_t upto, struct err *err)
{
	AUTO_FREE char *first = verify_id(&p->master.ln), *last = xstrdup(first);
	size_t n = 0;
	int r = 1;

	while (r > 0 && p->master.has && p->master.ln.no < upto) {
		free(last);
		last = verify_id(&p->master.ln);
		n++;
		r = verify_step(&p->master, err);
	}
	if (n == 1)
		verify_add(p->v, p->copy_path, p->copy.ln.no,
			   "%s of the master was removed before this line", first ? first : "?");
	else if (n)
		verify_add(p->v, p->copy_path, p->copy.ln.no,
			   "%s to %s of the master (%zu records) were removed before this line",
			   first ? first : "?", last ? last : "?", n);
	return r < 0 ? r : ERR_OK;
}

/* The two lines differ.  Moves on at least one side. */
static int verify_resolve(struct verify_pair *p, struct err *err)
{
	const struct lines_line *cl = &p->copy.ln;
	AUTO_FREE char *id = verify_id(cl);
	size_t here = p->master.has ? p->master.ln.no : SIZE_MAX, at;
	bool same;
	int r;

	if (!p->indexed) {
		p->indexed = true;
		if ((r = verify_index_make(&p->ix, &p->master.rd, err)) < 0)
			return r;
	}
	at = verify_index_find(p->ix.by_line, p->ix.n, verify_key(cl->text, cl->len), here);
	same = at != 0;
	if (!same && id)
		at = verify_index_find(p->ix.by_id, p->ix.n, verify_key(id, strlen(id)), here);
	if (p->garbage)
		return verify_garbage(p, at == here + 1 && p->master.has, err);
	if (!id) {
		p->garbage = cl->no;
		return verify_step(&p->copy, err);
	}
	if (at > here)
		return verify_missing(p, at, err);
	if (at == here) {
		verify_edited(p, id);
		r = verify_step(&p->master, err);
		return r < 0 ? r : verify_step(&p->copy, err);
	}
	if (at)
		verify_add(p->v, p->copy_path, cl->no,
			   same ? "%s is repeated: it is line %zu of the master"
				: "%s stands again, with other content than line %zu of the master",
			   id ? id : "a record", at);
	else
		verify_add(p->v, p->copy_path, cl->no,
			   "%s was added: the master has no such record",
			   id ? id : "a line that is no record");
	return verify_step(&p->copy, err);
}

/* The copy has ended: with less than the master, or within a line. */
static int verify_end(struct verify_pair *p, struct err *err)
{
	const struct lines_line *ml = &p->master.ln, *cl = &p->copy.ln;
	bool torn = cl->text && !cl->whole && !cl->too_long;
	bool begun = torn && p->master.has && cl->len <= ml->len &&
		     memcmp(cl->text, ml->text, cl->len) == 0;
	size_t line = p->copy.rd.no;
	AUTO_FREE char *first = p->master.has ? verify_id(ml) : NULL;
	AUTO_FREE char *last = xstrdup(first);
	uint64_t n = 0;
	int r = 1;

	while (r > 0 && p->master.has) {
		free(last);
		last = verify_id(&p->master.ln);
		n++;
		r = verify_step(&p->master, err);
	}
	if (torn && !(begun && n <= p->may_lack))
		verify_add(p->v, p->copy_path, line, "the last line is not whole");
	if (r >= 0 && n > p->may_lack)
		verify_add(p->v, p->copy_path, line,
			   "%s to %s of the master (%llu records) are missing at the end",
			   first ? first : "?", last ? last : "?", (unsigned long long)n);
	return r < 0 ? r : ERR_OK;
}

static int verify_pair_step(struct verify_pair *p, struct err *err)
{
	const struct lines_line *a = &p->master.ln, *b = &p->copy.ln;
	int r = ERR_OK;

	if (!p->master.has || a->len != b->len || b->too_long ||
	    memcmp(a->text, b->text, a->len) != 0)
		return verify_resolve(p, err);
	if (p->garbage)
		r = verify_garbage(p, false, err);
	if (r >= 0)
		r = verify_step(&p->master, err);
	return r < 0 ? r : verify_step(&p->copy, err);
}

static int verify_pair_walk(struct verify_pair *p, struct err *err)
{
	int r = verify_step(&p->master, err);

	if (r >= 0)
		r = verify_step(&p->copy, err);
	while (r >= 0 && p->copy.has && !p->v->full)
		r = verify_pair_step(p, err);
	if (r >= 0 && p->garbage)
		r = verify_garbage(p, p->master.has, err);
	if (r >= 0 && !p->v->full)
		r = verify_end(p, err);
	return r < 0 ? r : ERR_OK;
}

/* One of the two files: as much of it as is looked at. */
struct verify_file {
	int fd;
	const char *path;
	uint64_t limit;
};

static int verify_pair(struct verify *v, const struct verify_file *master,
		       const struct verify_file *copy, uint64_t may_lack, struct err *err)
{
	struct verify_pair p = { .v = v, .copy_path = copy->path, .may_lack = may_lack };
	int r;

	lines_init(&p.master.rd, master->fd, LEDGER_LINE_MAX, master->path);
	lines_init(&p.copy.rd, copy->fd, LEDGER_LINE_MAX, copy->path);
	p.master.rd.limit = master->limit;
	p.copy.rd.limit = copy->limit;
	memcpy(p.copy.prev, LEDGER_ZEROS, sizeof(p.copy.prev));
	r = verify_pair_walk(&p, err);
	lines_done(&p.master.rd);
	lines_done(&p.copy.rd);
	free(p.ix.by_line);
	free(p.ix.by_id);
	return r;
}

/* ---- the files of a project ---- */

/* fd; -1: absent, or a finding says what is there instead; ERR_SYS. */
static int verify_open(struct verify *v, int dir_fd, const char *name, const char *path, int *fd,
		       struct err *err)
{
	struct stat st;

	*fd = dir_fd < 0 ? -1
			 : openat(dir_fd, name,
				  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (*fd < 0 && (dir_fd < 0 || errno == ENOENT || errno == ENOTDIR))
		return ERR_OK;
	if (*fd < 0 && errno == ELOOP) {
		verify_add(v, path, 0, "it was replaced by a link");
		return ERR_OK;
	}
	if (*fd < 0 || fstat(*fd, &st) < 0)
		return err_sys(err, errno, "open %s", path);
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size <= LEDGER_BYTES_MAX)
		return ERR_OK;
	verify_add(v, path, 0, "not a regular file of at most %llu bytes",
		   (unsigned long long)LEDGER_BYTES_MAX);
	(void)close(*fd);
	*fd = -1;
	return ERR_OK;
}

/* The head and the moment to look at; without a head, all there is. */
static int verify_view(struct verify *v, int mfd, int cfd, struct err *err)
{
	AUTO_FREE char *path = file_join(v->place.state, "head");
	struct err why = { 0 };
	int r = ledger_view_take(v->place.state_fd, v->place.state, mfd, cfd, &v->view, &why);

	v->has_mark = r == ERR_OK;
	if (v->has_mark)
		return ERR_OK;
	v->view = (struct ledger_view){ .master = UINT64_MAX, .copy = UINT64_MAX };
	if (r != ERR_NOT_FOUND && r != ERR_PARSE) {
		if (err)
			*err = why;
		return r;
	}
	verify_add(v, path, 0, "%s", r == ERR_NOT_FOUND ? "the head is missing" : why.msg);
	return ERR_OK;
}

static void verify_mark(struct verify *v, const struct verify_pass *p)
{
	const struct ledger_mark *m = &v->view.mark;
	struct err why = { 0 };

	if (!v->has_mark || v->full)
		return;
	if (ledger_mark_check(m, v->chain.n, v->chain.head, p->at_mark, &why) < 0)
		verify_add(v, p->path, p->n_lines, "%s", why.msg);
	/* a crash can leave part of a line only where the head announced one */
	else if (p->torn && !(m->has_next && v->chain.n < m->next_n))
		verify_add(v, p->path, p->n_lines + 1, "the last line is not whole");
}

/* Records that master has and the copy need not have: a crash came between the two writes. */
static uint64_t verify_may_lack(const struct verify *v)
{
	return v->has_mark && v->view.mark.has_next && v->chain.n > v->view.mark.n
		       ? v->chain.n - v->view.mark.n
		       : 0;
}

static int verify_main(struct verify *v, struct err *err)
{
	struct ledger_place *pl = &v->place;
	AUTO_FREE char *master = file_join(pl->state, LEDGER_FILE);
	AUTO_FREE char *copy = file_join(pl->dot, LEDGER_FILE);
	AUTO_CLOSE int mfd = -1;
	AUTO_CLOSE int cfd = -1;
	struct verify_pass pass = { .chain = &v->chain, .path = master };
	int r;

	if ((r = verify_open(v, pl->state_fd, LEDGER_FILE, master, &mfd, err)) < 0 ||
	    (r = verify_open(v, pl->dot_fd, LEDGER_FILE, copy, &cfd, err)) < 0 ||
	    (r = verify_view(v, mfd, cfd, err)) < 0)
		return r;
	pass.mark = v->has_mark ? &v->view.mark : NULL;
	pass.limit = v->view.master;
	if (mfd < 0)
		verify_add(v, master, 0, "the master is missing");
	else if ((r = verify_pass(v, &pass, mfd, err)) < 0)
		return r;
	verify_mark(v, &pass);
	if (mfd < 0)
		return ERR_OK;
	if (cfd < 0) {
		if (v->chain.n > verify_may_lack(v))
			verify_add(v, copy, 0, "the published copy is missing");
		return ERR_OK;
	}
	return verify_pair(v, &(struct verify_file){ mfd, master, v->view.master },
			   &(struct verify_file){ cfd, copy, v->view.copy }, verify_may_lack(v),
			   err);
}

/* A copy that nothing vouches for: only damage and careless edits can be seen. */
static int verify_copy_alone(struct verify *v, struct err *err)
{
	struct stat st = { .st_size = 0 };
	AUTO_FREE char *copy = file_join(v->place.dot, LEDGER_FILE);
	AUTO_CLOSE int fd = -1;
	struct verify_pass pass = { .chain = &v->chain, .path = copy, .limit = UINT64_MAX };
	int r = verify_open(v, v->place.dot_fd, LEDGER_FILE, copy, &fd, err);

	if (r < 0)
		return r;
	/* an empty one is what a crash leaves before the project has an id */
	if (v->n == 0 && (fd < 0 || (fstat(fd, &st) == 0 && st.st_size == 0)))
		return err_set(err, ERR_NOT_FOUND, "%s holds no evidence: %s is missing",
			       v->place.dir, copy);
	verify_add(v, copy, 0, "there is no master to compare it with: nothing vouches for it");
	return fd < 0 ? ERR_OK : verify_pass(v, &pass, fd, err);
}

/* ---- shards ---- */

/* Is what was merged from the shard still there? */
static void verify_shard_merged(struct verify *v, const char *name, const char *path,
				const struct ledger_chain *c, const char *at)
{
	const char *head;
	uint64_t have = ledger_chain_shard(&v->chain, name, &head);

	if (c->n < have)
		verify_add(v, path, (size_t)c->n,
			   "%llu records were merged from here, %llu are left",
			   (unsigned long long)have, (unsigned long long)c->n);
	else if (have && strcmp(at, head) != 0)
		verify_add(v, path, (size_t)have, "not the record that was merged from here");
}

/* Sizes of one moment: the copy is never ahead of the master, and at most one record behind. */
static int verify_sizes(struct verify_file *master, struct verify_file *copy, struct err *err)
{
	struct stat c = { .st_size = -1 }, m, again;

	for (int i = 0; i < VERIFY_TRIES; i++) {
		if ((copy->fd >= 0 && fstat(copy->fd, &c) < 0) || fstat(master->fd, &m) < 0 ||
		    (copy->fd >= 0 && fstat(copy->fd, &again) < 0))
			return err_sys(err, errno, "stat %s", master->path);
		if (copy->fd < 0 || c.st_size == again.st_size)
			break;
	}
	master->limit = (uint64_t)m.st_size;
	copy->limit = copy->fd >= 0 ? (uint64_t)c.st_size : 0;
	return ERR_OK;
}

static int verify_shard(struct verify *v, const char *name, struct err *err)
{
	struct ledger_place *pl = &v->place;
	AUTO_FREE char *file = xasprintf("%s/%s.jsonl", LEDGER_SHARDS, name);
	AUTO_FREE char *master = file_join(pl->state, file), *copy = file_join(pl->dot, file);
	AUTO_CLOSE int mfd = -1;
	AUTO_CLOSE int cfd = -1;
	struct ledger_mark merged = { .n = ledger_chain_shard(&v->chain, name, NULL) };
	struct verify_pass pass = { .path = master, .mark = &merged };
	struct verify_file mf = { .path = master }, cf = { .path = copy };
	struct ledger_chain chain;
	int r;

	if ((r = verify_open(v, pl->state_fd, file, master, &mfd, err)) < 0 ||
	    (r = verify_open(v, pl->dot_fd, file, copy, &cfd, err)) < 0)
		return r;
	if (mfd < 0) {
		if (cfd >= 0)
			verify_add(v, copy, 0, "no task of ours made this shard: it has no master");
		return ERR_OK;
	}
	mf.fd = mfd;
	cf.fd = cfd;
	if ((r = verify_sizes(&mf, &cf, err)) < 0)
		return r;
	ledger_chain_init(&chain, name);
	pass.chain = &chain;
	pass.limit = mf.limit;
	r = verify_pass(v, &pass, mfd, err);
	if (r == ERR_OK && !v->full)
		verify_shard_merged(v, name, master, &chain, pass.at_mark);
	if (r == ERR_OK && cfd < 0 && chain.n > 1)
		verify_add(v, copy, 0, "the published copy is missing");
	/* a task that was killed may have left its last record unpublished */
	if (r == ERR_OK && cfd >= 0 && !v->full)
		r = verify_pair(v, &mf, &cf, 1, err);
	ledger_chain_done(&chain);
	return r;
}

static int verify_shards(struct verify *v, struct err *err)
{
	struct ledger_names a = { 0 }, b = { 0 };
	int r = ledger_shard_list(v->place.state_fd, v->place.state, &a, err);

	if (r == ERR_OK)
		r = ledger_shard_list(v->place.dot_fd, v->place.dot, &b, err);
	for (size_t i = 0, k = 0; r == ERR_OK && !v->full && (i < a.n || k < b.n);) {
		int c = i == a.n ? 1 : k == b.n ? -1 : strcmp(a.v[i], b.v[k]);

		r = verify_shard(v, c <= 0 ? a.v[i] : b.v[k], err);
		i += c <= 0;
		k += c >= 0;
	}
	for (void *it = json_iter(v->chain.shards); r == ERR_OK && it;
	     it = json_next(v->chain.shards, it)) {
		AUTO_FREE char *file = xasprintf("%s/" LEDGER_SHARDS "/%s.jsonl", v->place.state,
						 json_iter_key(it));

		if (!file_exists(AT_FDCWD, file))
			verify_add(v, file, 0,
				   "the shard is missing, though records were merged "
				   "from it");
	}
	ledger_names_done(&a);
	ledger_names_done(&b);
	return r;
}

/* ---- all ---- */

/* What changes when a program writes meanwhile. */
struct verify_stamp {
	struct stat head, master, copy;
};

static void verify_stamp_get(const struct verify *v, struct verify_stamp *s)
{
	memset(s, 0, sizeof(*s));
	if (fstatat(v->place.state_fd, "head", &s->head, 0) < 0 ||
	    fstatat(v->place.state_fd, LEDGER_FILE, &s->master, 0) < 0 ||
	    fstatat(v->place.dot_fd, LEDGER_FILE, &s->copy, 0) < 0)
		return; /* what is missing stays zero and is told by its finding */
}

static bool verify_stat_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int verify_marked(struct verify *v, struct err *err)
{
	struct verify_stamp before, after;
	int r = ERR_OK;

	for (int i = 0; i < VERIFY_TRIES; i++) {
		verify_reset(v);
		verify_stamp_get(v, &before);
		r = verify_main(v, err);
		if (r == ERR_OK)
			r = verify_shards(v, err);
		verify_stamp_get(v, &after);
		if (v->n == 0 || (verify_stat_same(&before.head, &after.head) &&
				  verify_stat_same(&before.master, &after.master) &&
				  verify_stat_same(&before.copy, &after.copy)))
			break;
	}
	return r;
}

static int verify_all(struct verify *v, const char *dir, struct err *err)
{
	AUTO_FREE char *other = NULL;
	enum ledger_found found;
	int r = ledger_place_open(&v->place, dir, false, err);

	if (r < 0 || (r = ledger_place_find(&v->place, &found, &other, err)) < 0)
		return r;
	switch (found) {
	case LEDGER_FOUND:
	case LEDGER_FOUND_MOVED:
		return verify_marked(v, err);
	case LEDGER_FOUND_COPY:
		return err_set(
			err, ERR_STALE,
			"%s is a copy of %s: its evidence is verified there; the copy gets a "
			"ledger of its own when it is opened for writing",
			dir, other);
	case LEDGER_FOUND_LOST: {
		AUTO_FREE char *path = xasprintf(
			"%s/%s", v->place.state_root ? v->place.state_root : "(no state folder)",
			v->place.id);

		verify_add(v, path, 0, "the master's folder is missing");
		return verify_copy_alone(v, err);
	}
	case LEDGER_FOUND_NONE:
		break;
	}
	return verify_copy_alone(v, err);
}

int ledger_verify(const char *dir, ledger_finding_cb cb, void *arg, struct err *err)
{
	struct verify v = { .n = 0 };
	int r;

	ledger_place_init(&v.place);
	ledger_chain_init(&v.chain, "");
	r = verify_all(&v, dir, err);
	for (size_t i = 0; r == ERR_OK && cb && i < v.n; i++)
		cb(arg, v.v[i].file, v.v[i].line, v.v[i].msg);
	if (r == ERR_OK)
		r = (int)v.n;
	verify_reset(&v);
	ledger_chain_done(&v.chain);
	ledger_place_done(&v.place);
	return r;
}
