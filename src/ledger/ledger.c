#include "ledger/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lines.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger_priv.h"

#define LEDGER_BEAT_NS	  (60 * NS_PER_SEC)
#define LEDGER_LOCK_TRIES 60 /* of 50 ms: what a killed run leaves behind ends in that time */

struct ledger *ledger_new(const char *shard)
{
	struct ledger *l = xcalloc(1, sizeof(*l));

	ledger_place_init(&l->place);
	for (size_t i = 0; i < 2; i++) {
		l->lease[i] = (struct ledger_lease)LEDGER_LEASE_INIT;
		l->shard_fd[i] = -1;
	}
	l->master.fd = l->copy.fd = -1;
	l->owner = getpid();
	ledger_chain_init(&l->chain, shard);
	l->by_id = json_new_obj();
	return l;
}

void ledger_remark_take(struct ledger *l, char *text)
{
	l->remarks = xrealloc_n(l->remarks, l->n_remarks + 1, sizeof(char *));
	l->remarks[l->n_remarks++] = text;
}

int ledger_out_open(struct ledger_out *o, int dir_fd, const char *dir, const char *name, int flags,
		    struct err *err)
{
	struct stat st;

	o->dir_fd = dir_fd;
	free(o->name);
	free(o->path);
	o->name = xstrdup(name);
	o->path = file_join(dir, name);
	o->fd = openat(dir_fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
	if (o->fd < 0 && errno == ELOOP)
		return err_set(err, ERR_INVALID, "%s is a link: move it away", o->path);
	if (o->fd < 0 || fstat(o->fd, &st) < 0)
		return err_sys(err, errno, "open %s", o->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file: move it away", o->path);
	if ((uint64_t)st.st_size > LEDGER_BYTES_MAX)
		return err_set(err, ERR_LIMIT, "%s: larger than %llu bytes", o->path,
			       (unsigned long long)LEDGER_BYTES_MAX);
	o->size = (uint64_t)st.st_size;
	return ERR_OK;
}

static void ledger_out_done(struct ledger_out *o)
{
	if (o->fd >= 0)
		(void)close(o->fd);
	o->fd = -1;
	free(o->name);
	free(o->path);
}

/* ---- closing ---- */

static void ledger_unlock(struct ledger *l)
{
	struct flock fl = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	/* children that inherited the descriptor share the lock: only this lifts it */
	if (l->master.fd >= 0)
		(void)fcntl(l->master.fd, F_OFD_SETLK, &fl);
}

void ledger_close(struct ledger *l)
{
	bool mine;

	if (!l)
		return;
	mine = l->writable && l->owner == getpid();
	if (mine && l->mark.has_next && !l->broken) {
		struct ledger_mark m = { .n = l->chain.n };

		/* should it fail, the next opening finds out by itself */
		memcpy(m.head, l->chain.head, sizeof(m.head));
		(void)ledger_mark_write(l->place.state_fd, l->place.state, &m, NULL);
	}
	if (mine)
		ledger_unlock(l);
	for (size_t i = 2; i-- > 0;) {
		ledger_lease_done(&l->lease[i], l->owner == getpid());
		if (l->shard_fd[i] >= 0)
			(void)close(l->shard_fd[i]);
	}
	ledger_out_done(&l->master);
	ledger_out_done(&l->copy);
	ledger_unload(l);
	ledger_chain_done(&l->chain);
	json_unref(l->by_id);
	for (size_t i = 0; i < l->n_remarks; i++)
		free(l->remarks[i]);
	free(l->remarks);
	ledger_place_done(&l->place);
	free(l);
}

/* ---- opening for writing ---- */

/* What opening did, to be recorded once the ledger can be written. */
struct ledger_notes {
	struct json *v[8];
	size_t n;
};

static struct json *ledger_note(struct ledger_notes *notes, const char *what)
{
	struct json *o = json_new_obj();

	json_set_str(o, "what", what);
	notes->v[notes->n++] = o;
	return o;
}

static void ledger_notes_done(struct ledger_notes *notes)
{
	for (size_t i = 0; i < notes->n; i++)
		json_unref(notes->v[i]);
}

static int ledger_notes_write(struct ledger *l, const struct ledger_notes *notes, struct err *err)
{
	struct ledger_batch b;
	int r = ERR_OK;

	ledger_batch_init(&b, l);
	for (size_t i = 0; r == ERR_OK && i < notes->n; i++) {
		struct ledger_rec rec = { .kind = LEDGER_NOTE, .detail = notes->v[i] };
		char id[LEDGER_ID_CAP];

		ledger_id_make("", b.chain.own + 1, id);
		r = ledger_batch_add(&b, ledger_rec_json(&rec, id), err);
	}
	if (r == ERR_OK)
		r = ledger_batch_commit(l, &b, err);
	ledger_batch_done(&b);
	return r;
}

static int ledger_take_lease(struct ledger *l, size_t i, int dir_fd, const char *dir,
			     struct ledger_notes *notes, struct err *err)
{
	AUTO_FREE char *from = NULL;
	int r = ledger_lease_take(&l->lease[i], dir_fd, dir, &from, err);

	if (r < 0)
		l->lease[i].dir_fd = -1;
	if (r < 0 || !from)
		return r;
	json_set_str(ledger_note(notes, "lease taken over"), "from", from);
	ledger_remark_take(l, xasprintf("%s/lease was taken over from %s", dir, from));
	return ERR_OK;
}

/* The second guard: holds off another program that came past the leases, on this host at least. */
static int ledger_lock(struct ledger *l, struct err *err)
{
	for (int i = 0; i < LEDGER_LOCK_TRIES; i++) {
		struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

		if (fcntl(l->master.fd, F_OFD_SETLK, &fl) == 0)
			return ERR_OK;
		if (errno != EAGAIN && errno != EACCES) {
			ledger_remark_take(l,
					   xasprintf("%s: no OFD locks here (error %d); the lease "
						     "alone keeps other programs out",
						     l->master.path, errno));
			return ERR_OK;
		}
		(void)poll(NULL, 0, 50);
	}
	return err_set(
		err, ERR_BUSY,
		"%s is still locked by a process of this host, perhaps one that an earlier run "
		"left behind: end it and try again",
		l->master.path);
}

/* True where .rocbudai holds evidence that a new ledger must not take for its own. */
static bool ledger_has_published(const struct ledger_place *p)
{
	struct stat st;

	return fstatat(p->dot_fd, LEDGER_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       !(S_ISREG(st.st_mode) && st.st_size == 0);
}

/*
 * Settles which state folder is the project's.  *fresh: it is new, its id is not published yet;
 * *claim: it is to record this folder's path.
 */
static int ledger_settle(struct ledger *l, struct ledger_notes *notes, bool *fresh, bool *claim,
			 struct err *err)
{
	struct ledger_place *p = &l->place;
	AUTO_FREE char *other = NULL, *aside = NULL, *lost = NULL;
	enum ledger_found found;
	struct json *note;
	int r = ledger_place_find(p, &found, &other, err);

	if (r < 0)
		return r;
	*fresh = found != LEDGER_FOUND && found != LEDGER_FOUND_MOVED;
	*claim = found == LEDGER_FOUND_MOVED;
	if (*claim) {
		json_set_str(ledger_note(notes, "moved"), "from", other);
		return ERR_OK;
	}
	if (found == LEDGER_FOUND)
		return ERR_OK;
	if (found == LEDGER_FOUND_LOST && ledger_has_published(p))
		return err_set(
			err, ERR_STALE,
			"the master of this project's evidence is not in %s/%s: set "
			"XDG_STATE_HOME as it was when it was made, or remove %s/id to start a "
			"new ledger (the evidence so far is set aside)",
			p->state_root, p->id, p->dot);
	lost = xstrdup(p->id);
	if ((r = ledger_place_new(p, err)) < 0 || (r = ledger_place_set_aside(p, &aside, err)) < 0)
		return r;
	if (found == LEDGER_FOUND_COPY) {
		note = ledger_note(notes, "copied project");
		json_set_str(note, "of", other);
		json_set_str(note, "of_id", lost);
		ledger_remark_take(l,
				   xasprintf("this folder is a copy of %s: it gets a ledger of its "
					     "own",
					     other));
	} else if (aside) {
		note = ledger_note(notes, "evidence set aside");
		ledger_remark_take(l, xasprintf("evidence of unknown origin was set aside as %s/%s",
						p->dot, aside));
	} else {
		return ERR_OK;
	}
	json_set_str(note, "set_aside", aside);
	return ERR_OK;
}

static void ledger_torn_note(struct ledger *l, struct ledger_notes *notes,
			     const struct ledger_out *o, const struct ledger_loaded *ld)
{
	struct json *note = ledger_note(notes, "torn tail cut");

	json_set_str(note, "file", o == &l->master ? "master" : "published copy");
	json_set_int(note, "line", (int64_t)ld->torn_line);
	json_set_int(note, "bytes", (int64_t)ld->torn);
	ledger_remark_take(l, xasprintf("%s:%zu: a line that a crash left unfinished was cut (%llu "
					"bytes)",
					o->path, ld->torn_line, (unsigned long long)ld->torn));
}

static int ledger_open_master(struct ledger *l, bool fresh, struct ledger_notes *notes,
			      struct err *err)
{
	struct ledger_place *p = &l->place;
	struct ledger_loaded ld;
	int r = ledger_out_open(&l->master, p->state_fd, p->state, LEDGER_FILE,
				O_RDWR | O_APPEND | O_CREAT, err);

	if (r < 0 || (r = ledger_lock(l, err)) < 0)
		return r;
	if (fresh) {
		struct ledger_mark m = { .n = 0, .head = LEDGER_ZEROS };

		if ((r = ledger_mark_write(p->state_fd, p->state, &m, err)) < 0)
			return r;
	}
	if ((r = ledger_mark_read(p->state_fd, p->state, &l->mark, err)) < 0 ||
	    (r = ledger_load(l, &l->master, UINT64_MAX, &l->mark, &ld, err)) < 0) {
		if (r == ERR_NOT_FOUND || r == ERR_PARSE) {
			(void)err_wrap(err, r,
				       "the master copy of the evidence is damaged (to start a "
				       "new ledger, remove %s/id; nothing is deleted)",
				       p->dot);
			r = ERR_PARSE;
			if (err)
				err->code = ERR_PARSE;
		}
		return r;
	}
	l->mark.has_next = l->mark.has_next || ld.torn_line != 0;
	if (!ld.torn_line)
		return ERR_OK;
	if ((r = lines_cut(l->master.fd, ld.good, l->master.path, err)) < 0)
		return r;
	l->master.size = ld.good;
	ledger_torn_note(l, notes, &l->master, &ld);
	return ERR_OK;
}

static int ledger_open_copy(struct ledger *l, struct ledger_notes *notes, struct err *err)
{
	struct ledger_loaded ld;
	int r = ledger_out_open(&l->copy, l->place.dot_fd, l->place.dot, LEDGER_FILE,
				O_RDWR | O_APPEND | O_CREAT, err);

	if (r < 0 || (r = ledger_copy_sync(&l->master, &l->copy, &ld, err)) < 0)
		return r;
	if (ld.torn_line)
		ledger_torn_note(l, notes, &l->copy, &ld);
	(void)fsync(l->place.dot_fd); /* some network file systems refuse it on folders */
	return ERR_OK;
}

static int ledger_open_with(struct ledger *l, struct ledger_notes *notes, struct err *err)
{
	struct ledger_place *p = &l->place;
	bool fresh = false, claim = false;
	int r;

	if ((r = ledger_take_lease(l, 0, p->dot_fd, p->dot, notes, err)) < 0 ||
	    (r = ledger_settle(l, notes, &fresh, &claim, err)) < 0 ||
	    (r = ledger_take_lease(l, 1, p->state_fd, p->state, notes, err)) < 0)
		return r;
	l->beat_ns = clock_mono_ns();
	if (claim && (r = ledger_place_claim(p, err)) < 0)
		return r;
	if ((r = ledger_open_master(l, fresh, notes, err)) < 0 ||
	    (r = ledger_open_copy(l, notes, err)) < 0)
		return r;
	l->writable = true;
	if ((r = ledger_notes_write(l, notes, err)) < 0)
		return r;
	/* last, so that a crash before this leaves the project as it was */
	return fresh ? ledger_place_publish_id(p, err) : ERR_OK;
}

int ledger_open(const char *dir, struct ledger **out, struct err *err)
{
	struct ledger *l = ledger_new("");
	struct ledger_notes notes = { .n = 0 };
	int r = ledger_place_open(&l->place, dir, true, err);

	if (r == ERR_OK)
		r = ledger_open_with(l, &notes, err);
	ledger_notes_done(&notes);
	if (r < 0)
		ledger_close(l);
	else
		*out = l;
	return r;
}

/* ---- opening for reading ---- */

/* One moment of what may be written to meanwhile. */
static int ledger_read_now(struct ledger *l, struct err *err)
{
	const struct ledger_place *p = &l->place;
	struct ledger_view view = { .master = UINT64_MAX };
	struct ledger_loaded ld;
	int r = ERR_OK;

	if (l->from_copy)
		return ledger_load(l, &l->master, UINT64_MAX, NULL, &ld, err);
	r = ledger_view_take(p->state_fd, p->state, l->master.fd, -1, &view, err);
	if (r == ERR_OK)
		r = ledger_load(l, &l->master, view.master, &view.mark, &ld, err);
	if (r == ERR_NOT_FOUND && err)
		err->code = ERR_PARSE; /* there are records, so there was a head */
	return r == ERR_NOT_FOUND ? ERR_PARSE : r;
}

static int ledger_open_read_with(struct ledger *l, struct err *err)
{
	struct ledger_place *p = &l->place;
	AUTO_FREE char *other = NULL;
	enum ledger_found found;
	struct err e = { 0 };
	int r = ledger_place_find(p, &found, &other, err);

	if (r < 0)
		return r;
	l->from_copy = found != LEDGER_FOUND && found != LEDGER_FOUND_MOVED;
	if (p->dot_fd < 0)
		return err_set(err, ERR_NOT_FOUND, "%s holds no evidence: %s is missing", p->dir,
			       p->dot);
	r = l->from_copy
		    ? ledger_out_open(&l->master, p->dot_fd, p->dot, LEDGER_FILE, O_RDONLY, &e)
		    : ledger_out_open(&l->master, p->state_fd, p->state, LEDGER_FILE, O_RDONLY, &e);
	if (r == ERR_SYS && e.sys_errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "%s holds no evidence: %s is missing", p->dir,
			       l->master.path);
	if (r < 0) {
		if (err)
			*err = e;
		return r;
	}
	return ledger_read_now(l, err);
}

int ledger_open_read(const char *dir, struct ledger **out, struct err *err)
{
	struct ledger *l = ledger_new("");
	int r = ledger_place_open(&l->place, dir, false, err);

	if (r == ERR_OK)
		r = ledger_open_read_with(l, err);
	if (r < 0)
		ledger_close(l);
	else
		*out = l;
	return r;
}

/* ---- the open ledger ---- */

int ledger_heartbeat(struct ledger *l, struct err *err)
{
	uint64_t now = clock_mono_ns();

	if (l->owner != getpid() || now - l->beat_ns < LEDGER_BEAT_NS)
		return ERR_OK;
	for (size_t i = 0; i < 2; i++) {
		int r = l->lease[i].dir_fd < 0 ? ERR_OK : ledger_lease_beat(&l->lease[i], err);

		if (r < 0)
			return r;
	}
	l->beat_ns = now;
	return ERR_OK;
}

const struct json *ledger_get(const struct ledger *l, const char *id)
{
	int64_t i = json_get_int(l->by_id, id, -1);

	return i < 0 ? NULL : l->recs[i];
}

size_t ledger_count(const struct ledger *l)
{
	return l->n;
}

const struct json *ledger_at(const struct ledger *l, size_t i)
{
	return i < l->n ? l->recs[i] : NULL;
}

const char *ledger_head(const struct ledger *l)
{
	return l->chain.head;
}

const char *ledger_state_dir(const struct ledger *l)
{
	return l->from_copy ? NULL : l->place.state;
}

const char *ledger_project_id(const struct ledger *l)
{
	return l->place.id;
}

const char *ledger_path(const struct ledger *l)
{
	return l->master.path;
}

bool ledger_from_copy(const struct ledger *l)
{
	return l->from_copy;
}

size_t ledger_n_remarks(const struct ledger *l)
{
	return l->n_remarks;
}

const char *ledger_remark(const struct ledger *l, size_t i)
{
	return i < l->n_remarks ? l->remarks[i] : NULL;
}
