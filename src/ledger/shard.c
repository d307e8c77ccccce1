/* Shards: chains of their own that array tasks write without the lease, and their merge. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#define SHARD_EXT	".jsonl"
#define SHARD_MAX	65536
#define SHARD_TRIES	1000
#define SHARD_BATCH	((size_t)1 << 20) /* bytes that go to the disk together */
#define SHARD_DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

/* ---- writing one ---- */

static int shard_open_dir(int at, const char *dir, int *fd, char **path, struct err *err)
{
	*path = file_join(dir, LEDGER_SHARDS);
	if (mkdirat(at, LEDGER_SHARDS, 0777) < 0 && errno != EEXIST)
		return err_sys(err, errno, "create folder %s", *path);
	*fd = openat(at, LEDGER_SHARDS, SHARD_DIR_FLAGS | O_CLOEXEC);
	if (*fd < 0)
		return err_sys(err, errno, "open folder %s", *path);
	return ERR_OK;
}

/* Makes the pair of files under one name that neither folder has yet. */
static int shard_make(struct ledger *l, const char *state, const char *dot, struct err *err)
{
	static const int flags = O_RDWR | O_APPEND | O_CREAT | O_EXCL;
	char host[64];

	ledger_host(host);
	for (int i = 1; i <= SHARD_TRIES; i++) {
		AUTO_FREE char *name = NULL;
		struct err e = { 0 };
		/* a process id comes back in time, and in other pid namespaces of this host */
		char again[16] = "";
		int r;

		if (i > 1)
			(void)snprintf(again, sizeof(again), "-%d", i);
		(void)snprintf(l->chain.shard, sizeof(l->chain.shard), "%.48s-%d%s", host,
			       (int)getpid(), again);
		name = xasprintf("%s" SHARD_EXT, l->chain.shard);
		r = ledger_out_open(&l->master, l->shard_fd[0], state, name, flags, &e);
		if (r == ERR_OK) {
			r = ledger_out_open(&l->copy, l->shard_fd[1], dot, name, flags, &e);
			if (r == ERR_OK)
				return ERR_OK;
			(void)unlinkat(l->shard_fd[0], name, 0);
			(void)close(l->master.fd);
			l->master.fd = -1;
		}
		if (r != ERR_SYS || e.sys_errno != EEXIST) {
			if (err)
				*err = e;
			return r;
		}
	}
	return err_set(err, ERR_LIMIT, "%s: no free name for process %d", state, (int)getpid());
}

static int shard_open_with(struct ledger *l, struct err *err)
{
	struct ledger_place *p = &l->place;
	AUTO_FREE char *other = NULL, *state = NULL, *dot = NULL;
	enum ledger_found found;
	int r = ledger_place_find(p, &found, &other, err);

	if (r < 0)
		return r;
	if (found != LEDGER_FOUND && found != LEDGER_FOUND_MOVED)
		return err_set(
			err, ERR_NOT_FOUND,
			"%s has no ledger that an array task could add to: it is made by the "
			"program that submits the tasks, on the same state folder",
			p->dir);
	if ((r = shard_open_dir(p->state_fd, p->state, &l->shard_fd[0], &state, err)) < 0 ||
	    (r = shard_open_dir(p->dot_fd, p->dot, &l->shard_fd[1], &dot, err)) < 0 ||
	    (r = shard_make(l, state, dot, err)) < 0)
		return r;
	for (size_t i = 0; i < 2; i++)
		(void)fsync(l->shard_fd[i]); /* some network file systems refuse it on folders */
	l->writable = true;
	return ERR_OK;
}

int ledger_shard_open(const char *dir, struct ledger **out, struct err *err)
{
	struct ledger *l = ledger_new("");
	int r = ledger_place_open(&l->place, dir, false, err);

	if (r == ERR_OK)
		r = shard_open_with(l, err);
	if (r < 0)
		ledger_close(l);
	else
		*out = l;
	return r;
}

/* ---- listing ---- */

void ledger_names_done(struct ledger_names *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i]);
	free(n->v);
	*n = (struct ledger_names){ 0 };
}

static int shard_name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int ledger_shard_list(int dir_fd, const char *what, struct ledger_names *out, struct err *err)
{
	int fd = dir_fd < 0 ? -1 : openat(dir_fd, LEDGER_SHARDS, SHARD_DIR_FLAGS | O_CLOEXEC);
	struct ledger_names n = { 0 };
	DIR *d;
	int r = ERR_OK;

	*out = n;
	if (fd < 0)
		return dir_fd < 0 || errno == ENOENT
			       ? ERR_OK
			       : err_sys(err, errno, "open folder %s/%s", what, LEDGER_SHARDS);
	if (!(d = fdopendir(fd))) {
		r = err_sys(err, errno, "read folder %s/%s", what, LEDGER_SHARDS);
		(void)close(fd);
		return r;
	}
	for (struct dirent *e; r == ERR_OK && (e = readdir(d));) {
		size_t len = strlen(e->d_name), ext = sizeof(SHARD_EXT) - 1;

		if (e->d_name[0] == '.' || len <= ext ||
		    strcmp(e->d_name + len - ext, SHARD_EXT) != 0)
			continue;
		if (n.n == SHARD_MAX) {
			r = err_set(err, ERR_LIMIT, "%s/%s: more than %d shards", what,
				    LEDGER_SHARDS, SHARD_MAX);
			break;
		}
		n.v = xrealloc_n(n.v, n.n + 1, sizeof(*n.v));
		n.v[n.n++] = xstrndup(e->d_name, len - ext);
	}
	(void)closedir(d);
	if (r < 0) {
		ledger_names_done(&n);
		return r;
	}
	if (n.n)
		qsort(n.v, n.n, sizeof(*n.v), shard_name_cmp);
	*out = n;
	return ERR_OK;
}

/* ---- merging ---- */

struct shard_merge {
	struct ledger *l;
	struct ledger_batch batch;
	struct json *cited; /* of the merge record: [{"shard","count","head"}] */
	size_t n_added;
};

static int shard_flush(struct shard_merge *m, struct err *err)
{
	size_t n = m->batch.n;
	int r = ledger_batch_commit(m->l, &m->batch, err);

	ledger_batch_done(&m->batch);
	ledger_batch_init(&m->batch, m->l);
	if (r == ERR_OK)
		m->n_added += n;
	return r;
}

/* One line that the main ledger has not got yet. */
static int shard_merge_line(struct shard_merge *m, const struct lines_line *ln, struct json *rec,
			    const char *path, struct err *err)
{
	AUTO_JSON struct json *own = rec;
	AUTO_JSON struct json *merged = ledger_merged_from(own);
	AUTO_FREE char *back = ledger_merged_line(merged);
	struct err why = { 0 };
	int r;

	/* what is merged must give back its line, byte for byte, or nobody could verify it */
	if (strlen(back) != ln->len || memcmp(back, ln->text, ln->len) != 0)
		return err_set(err, ERR_PARSE, "%s:%zu: not written by this program", path, ln->no);
	r = ledger_batch_add(&m->batch, TAKE_PTR(merged), &why);
	if (r < 0)
		return err_set(err, ERR_PARSE, "%s:%zu: %s", path, ln->no, why.msg);
	return m->batch.text.len > SHARD_BATCH ? shard_flush(m, err) : ERR_OK;
}

static int shard_merge_lines(struct shard_merge *m, struct lines_reader *rd,
			     struct ledger_chain *chain, uint64_t have, const char *have_head,
			     struct err *err)
{
	struct lines_line ln;
	int r;

	while ((r = lines_next(rd, &ln, err)) > 0) {
		struct json *rec = NULL;
		struct err why = { 0 };

		if (!ln.whole && !ln.too_long)
			return ERR_OK; /* its writer is at it, or died: not a record (yet) */
		if ((r = ledger_parse_line(ln.text, ln.len, rd->what, ln.no, &rec, err)) < 0)
			return r;
		if (ledger_chain_check(chain, rec, &why) < 0) {
			json_unref(rec);
			return err_set(err, ERR_PARSE, "%s:%zu: %s", rd->what, ln.no, why.msg);
		}
		ledger_chain_add(chain, rec, ln.text, ln.len);
		if (chain->n > have) {
			r = shard_merge_line(m, &ln, rec, rd->what, err);
		} else {
			json_unref(rec);
			if (chain->n == have && strcmp(chain->head, have_head) != 0)
				r = err_set(err, ERR_PARSE,
					    "%s:%zu: not the record that was merged from here",
					    rd->what, ln.no);
		}
		if (r < 0)
			return r;
	}
	if (r == 0 && chain->n < have)
		r = err_set(err, ERR_PARSE, "%s: %llu records were merged from here, %llu are left",
			    rd->what, (unsigned long long)have, (unsigned long long)chain->n);
	return r;
}

static int shard_merge_one(struct shard_merge *m, const char *name, const struct json *cited,
			   struct err *err)
{
	const struct ledger_place *p = &m->l->place;
	AUTO_FREE char *file = xasprintf("%s/%s" SHARD_EXT, LEDGER_SHARDS, name);
	AUTO_FREE char *path = file_join(p->state, file);
	AUTO_CLOSE int fd = openat(p->state_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FREE char *have_head = NULL;
	struct ledger_chain chain;
	struct lines_reader rd;
	const char *head;
	uint64_t have = ledger_chain_shard(&m->batch.chain, name, &head), now;
	int r;

	if (fd < 0)
		return err_sys(err, errno, "open %s", path);
	have_head = xstrdup(head);
	ledger_chain_init(&chain, name);
	lines_init(&rd, fd, LEDGER_LINE_MAX, path);
	r = shard_merge_lines(m, &rd, &chain, have, have_head, err);
	lines_done(&rd);
	ledger_chain_done(&chain);
	now = ledger_chain_shard(&m->batch.chain, name, &head);
	/* a crash may have come between the records and the citing one */
	if (now > (uint64_t)json_get_int(cited, name, 0)) {
		struct json *c = json_new_obj();

		json_set_str(c, "shard", name);
		json_set_int(c, "count", (int64_t)now);
		json_set_str(c, "head", head);
		json_add(m->cited, c);
	}
	return r;
}

/* The record that cites the heads; it comes last, so what it says holds when it is there. */
static int shard_cite(struct shard_merge *m, struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	struct ledger_rec rec = { .kind = LEDGER_NOTE, .detail = detail };
	char id[LEDGER_ID_CAP];
	int r;

	if (json_len(m->cited) == 0)
		return ERR_OK;
	json_set_str(detail, "what", "merge");
	json_set(detail, "shards", json_ref(m->cited));
	ledger_id_make("", m->batch.chain.own + 1, id);
	r = ledger_batch_add(&m->batch, ledger_rec_json(&rec, id), err);
	if (r == ERR_OK)
		r = shard_flush(m, err);
	if (r == ERR_OK)
		m->n_added--; /* the citing record itself */
	return r;
}

/* How many records of each shard the merge records so far cite: name -> count. */
static struct json *shard_cited(const struct ledger *l)
{
	struct json *out = json_new_obj();

	for (size_t i = 0; i < l->n; i++) {
		const struct json *list = json_get(json_get(l->recs[i], "detail"), "shards");

		for (size_t k = 0; ledger_is_merge(l->recs[i]) && k < json_len(list); k++) {
			const struct json *c = json_at(list, k);

			json_set_int(out, json_get_str(c, "shard", ""),
				     json_get_int(c, "count", 0));
		}
	}
	return out;
}

static int shard_merge_all(struct shard_merge *m, const struct ledger_names *names, struct err *err)
{
	AUTO_JSON struct json *cited = shard_cited(m->l);
	struct err first = { 0 }, e = { 0 };
	int bad = ERR_OK, r;

	for (size_t i = 0; i < names->n; i++) {
		r = shard_merge_one(m, names->v[i], cited, &e);
		if (r < 0 && bad == ERR_OK) {
			bad = r;
			first = e;
		}
		/* a damaged shard does not keep the others out; a full disk does */
		if (r < 0 && r != ERR_PARSE)
			break;
	}
	if (bad == ERR_OK || bad == ERR_PARSE) {
		r = shard_cite(m, &e);
		if (r < 0 && bad == ERR_OK) {
			bad = r;
			first = e;
		}
	}
	if (bad < 0 && err)
		*err = first;
	return bad;
}

int ledger_merge(struct ledger *l, size_t *n_added, struct err *err)
{
	struct shard_merge m = { .l = l };
	struct ledger_names names;
	int r;

	if (l->chain.shard[0] || !l->writable)
		return err_set(err, ERR_INVALID, "%s is not a ledger that shards go into",
			       l->master.path);
	if ((r = ledger_shard_list(l->place.state_fd, l->place.state, &names, err)) < 0)
		return r;
	m.cited = json_new_arr();
	ledger_batch_init(&m.batch, l);
	r = shard_merge_all(&m, &names, err);
	ledger_batch_done(&m.batch);
	ledger_names_done(&names);
	json_unref(m.cited);
	if (r == ERR_OK && n_added)
		*n_added = m.n_added;
	return r;
}
