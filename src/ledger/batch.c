/* Appending: records are lined up, then written to head, master and published copy. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/lines.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger_priv.h"

void ledger_batch_init(struct ledger_batch *b, const struct ledger *l)
{
	*b = (struct ledger_batch){ .chain = l->chain };
	b->chain.shards = json_dup(l->chain.shards);
	str_init(&b->text, 0);
}

void ledger_batch_done(struct ledger_batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		json_unref(b->recs[i]);
	free(b->recs);
	str_done(&b->text);
	ledger_chain_done(&b->chain);
	*b = (struct ledger_batch){ 0 };
}

int ledger_batch_add(struct ledger_batch *b, struct json *rec, struct err *err)
{
	AUTO_JSON struct json *own = rec;
	AUTO_FREE char *line = NULL;
	struct err why = { 0 };
	size_t len;

	json_set_str(own, "prev", b->chain.head);
	if (ledger_check(own, &why) < 0 || ledger_chain_check(&b->chain, own, &why) < 0)
		return err_set(err, ERR_INVALID, "not recorded: %s", why.msg);
	line = json_dump(own);
	len = strlen(line);
	if (len > LEDGER_LINE_MAX)
		return err_set(err, ERR_LIMIT, "not recorded: %zu bytes, more than %zu", len,
			       LEDGER_LINE_MAX);
	ledger_chain_add(&b->chain, own, line, len);
	line[len] = '\n'; /* in place of its NUL */
	str_add(&b->text, line, len + 1);
	if (b->n == b->cap) {
		b->cap = b->cap ? 2 * b->cap : 4;
		b->recs = xrealloc_n(b->recs, b->cap, sizeof(struct json *));
	}
	b->recs[b->n++] = TAKE_PTR(own);
	return str_check(&b->text, "evidence records", err);
}

/* Has somebody else written to the published copy, or replaced it?  One that was removed is made
 * again, whole. */
static int ledger_copy_check(struct ledger *l, struct err *err)
{
	struct ledger_out *o = &l->copy;
	struct ledger_loaded ignored;
	struct stat st, at;
	int r;

	if (fstat(o->fd, &st) < 0)
		return err_sys(err, errno, "stat %s", o->path);
	if (fstatat(o->dir_fd, o->name, &at, AT_SYMLINK_NOFOLLOW) == 0) {
		if (st.st_dev == at.st_dev && st.st_ino == at.st_ino &&
		    (uint64_t)st.st_size == o->size)
			return ERR_OK;
		return err_set(
			err, ERR_STALE,
			"%s was changed by another program while this one runs: nothing more "
			"is recorded; see 'rocbudai report --verify'",
			o->path);
	}
	if (errno != ENOENT)
		return err_sys(err, errno, "stat %s", o->path);
	(void)close(o->fd);
	o->fd = openat(o->dir_fd, o->name,
		       O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (o->fd < 0)
		return err_sys(err, errno, "create %s (it was removed)", o->path);
	o->size = 0;
	r = ledger_copy_sync(&l->master, o, &ignored, err);
	if (r == ERR_OK)
		ledger_remark_take(l, xasprintf("%s was removed; it was made again", o->path));
	return r;
}

static int ledger_leases_check(struct ledger *l, struct err *err)
{
	for (size_t i = 0; i < 2; i++) {
		int r = l->lease[i].dir_fd < 0 ? ERR_OK : ledger_lease_check(&l->lease[i], err);

		if (r < 0)
			return r;
	}
	return ledger_heartbeat(l, err);
}

static int ledger_write(struct ledger *l, const struct ledger_batch *b, struct err *err)
{
	uint64_t was = l->master.size;
	int r = lines_append(l->master.fd, &l->master.size, str_get(&b->text), b->text.len,
			     l->master.path, &l->broken, err);

	if (r < 0)
		return r;
	r = lines_append(l->copy.fd, &l->copy.size, str_get(&b->text), b->text.len, l->copy.path,
			 &l->broken, err);
	if (r == ERR_OK)
		return ERR_OK;
	/* what is not in both does not count */
	if (lines_cut(l->master.fd, was, l->master.path, NULL) < 0)
		l->broken = true;
	l->master.size = was;
	return r;
}

static int ledger_may_write(const struct ledger *l, struct err *err)
{
	if (!l->writable)
		return err_set(err, ERR_INVALID, "%s is open for reading only", l->master.path);
	if (l->owner != getpid())
		return err_set(err, ERR_INVALID,
			       "%s belongs to the process that opened it, not to its children",
			       l->master.path);
	if (l->broken)
		return err_set(
			err, ERR_STALE,
			"%s could not be cut back after a failed write: close and open it again",
			l->master.path);
	return ERR_OK;
}

int ledger_batch_commit(struct ledger *l, struct ledger_batch *b, struct err *err)
{
	struct ledger_mark mark = { .n = l->chain.n, .has_next = true, .next_n = b->chain.n };
	int r = ledger_may_write(l, err);

	if (r < 0 || b->n == 0)
		return r;
	if (l->master.size + b->text.len > LEDGER_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "%s would grow over %llu bytes", l->master.path,
			       (unsigned long long)LEDGER_BYTES_MAX);
	if ((r = ledger_leases_check(l, err)) < 0 || (r = ledger_copy_check(l, err)) < 0)
		return r;
	memcpy(mark.head, l->chain.head, sizeof(mark.head));
	memcpy(mark.next_head, b->chain.head, sizeof(mark.next_head));
	/* a shard has no mark: nobody but its own program writes there */
	if (!l->chain.shard[0]) {
		r = ledger_mark_write(l->place.state_fd, l->place.state, &mark, err);
		if (r < 0)
			return r;
		l->mark = mark;
	}
	if ((r = ledger_write(l, b, err)) < 0)
		return r;
	for (size_t i = 0; i < b->n; i++)
		ledger_push(l, b->recs[i]);
	b->n = 0;
	ledger_chain_done(&l->chain);
	l->chain = b->chain;
	b->chain.shards = NULL;
	return ERR_OK;
}

static bool ledger_finite(const struct ledger_value *v)
{
	return isfinite(v->value) &&
	       (!v->has_range || (isfinite(v->min) && isfinite(v->max) && isfinite(v->median))) &&
	       (!v->has_ci || (isfinite(v->ci95_low) && isfinite(v->ci95_high)));
}

int ledger_append(struct ledger *l, const struct ledger_rec *rec, char id[LEDGER_ID_CAP],
		  struct err *err)
{
	struct ledger_batch b;
	char next[LEDGER_ID_CAP];
	int r;

	if ((unsigned)rec->kind >= LEDGER_N_KINDS)
		return err_set(err, ERR_INVALID, "not recorded: no such kind of record");
	for (size_t i = 0; i < rec->n_values; i++) {
		if (!ledger_finite(&rec->values[i]))
			return err_set(err, ERR_INVALID,
				       "not recorded: a number of value '%s' is not finite",
				       rec->values[i].name ? rec->values[i].name : "?");
	}
	ledger_batch_init(&b, l);
	ledger_id_make(l->chain.shard, l->chain.own + 1, next);
	r = ledger_batch_add(&b, ledger_rec_json(rec, next), err);
	if (r == ERR_OK)
		r = ledger_batch_commit(l, &b, err);
	ledger_batch_done(&b);
	if (r == ERR_OK)
		memcpy(id, next, LEDGER_ID_CAP);
	return r;
}
