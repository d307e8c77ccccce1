#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/plan.h"
#include "ckpt/text.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

int ckpt_journal_load(struct ckpt *c, const char *name, struct ckpt_journal **out, struct err *err)
{
	AUTO_FREE char *what = file_join(c->where, name);
	AUTO_FREE char *text = NULL;
	struct err e = { 0 };
	size_t len;
	int r = file_read(c->dir, name, CKPT_TEXT_BYTES_MAX, &text, &len, &e);

	if (r == ERR_SYS && e.sys_errno == ENOENT)
		return ERR_NOT_FOUND;
	if (r < 0) {
		if (err)
			*err = e;
		return r;
	}
	r = ckpt_text_check(text, len, what, err);
	return r == ERR_OK ? ckpt_journal_parse(text, len, what, out, err) : r;
}

int ckpt_journal_save(struct ckpt *c, const char *name, const struct ckpt_journal *j,
		      struct err *err)
{
	AUTO_STR struct str text;
	int r;

	str_init(&text, CKPT_TEXT_BYTES_MAX);
	ckpt_journal_write(j, &text);
	r = str_check(&text, "journal", err);
	if (r == ERR_OK)
		r = file_write_atomic(c->dir, name, text.s, text.len, 0600, err);
	return r < 0 ? err_wrap(err, r, "save journal in %s", c->where) : r;
}

int ckpt_journal_drop(struct ckpt *c, const char *name, struct err *err)
{
	if (unlinkat(c->dir, name, 0) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove %s/%s", c->where, name);
	(void)fsync(c->dir); /* some network file systems refuse it on folders */
	return ERR_OK;
}

int ckpt_save_some(struct ckpt *c, struct ckpt_tree *t, const char *label, char id[CKPT_ID_CAP],
		   struct err *err)
{
	struct ckpt_dirs dirs;
	int r = ckpt_store_begin(c->store, err);

	if (r < 0)
		return r;
	ckpt_dirs_init(&dirs, c->root);
	for (size_t i = 0; r == ERR_OK && i < t->len; i++) {
		struct ckpt_node *n = &t->v[i];
		const char *path = n->path;

		if (n->type != CKPT_FILE)
			continue;
		if (n->target) { /* where it lies now */
			n->path = n->target;
			n->target = NULL;
		}
		r = ckpt_read_live(c, &dirs, true, n, err);
		n->path = r == 1 ? NULL : path;
		if (r == 1)
			r = ERR_OK;
	}
	ckpt_dirs_done(&dirs);
	ckpt_tree_compact(t);
	if (r == ERR_OK)
		r = ckpt_store_commit(c->store, err);
	if (r < 0) {
		ckpt_store_abort(c->store);
		return r;
	}
	t->label = label;
	t->created_s = (int64_t)time(NULL);
	t->partial = true;
	return ckpt_save(c, t, id, err);
}

/* Saves what would be lost.  id stays "" when there is nothing. */
static int restore_save_lost(const struct plan *p, char id[CKPT_ID_CAP], struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = ckpt_tree_new();
	AUTO_FREE bool *want = xcalloc(p->live->len + 1, sizeof(*want));
	char label[64];
	bool any = false;
	int r = ERR_OK;

	for (size_t i = 0; i < p->live->len; i++)
		want[i] = p->l_act[i] == PLAN_DISCARD;
	for (size_t i = 0; i < p->target->len; i++) {
		if (p->t_act[i] == PLAN_REPLACE)
			want[p->t_live[i] - 1] = true;
	}
	for (size_t i = p->live->len; i-- > 0;) {
		const struct ckpt_node *l = &p->live->v[i];

		want[i] = want[i] && l->type != CKPT_UNCOVERED;
		any |= want[i];
		if (want[i] && l->parent != CKPT_NO_PARENT)
			want[l->parent] = true;
	}
	if (!any)
		return ERR_OK;
	for (size_t i = 0; r == ERR_OK && i < p->live->len; i++) {
		if (want[i])
			r = ckpt_tree_add(t, &p->live->v[i], err);
	}
	(void)snprintf(label, sizeof(label), "replaced when %s was restored", p->id);
	return r == ERR_OK ? ckpt_save_some(p->c, t, label, id, err) : r;
}

/* Writes the new contents beside the tree, and to disk. */
static int restore_stage(const struct plan *p, const struct ckpt_journal *j, struct err *err)
{
	AUTO_CLOSE int stage = -1;
	int r = ckpt_stage_make(p->c, CKPT_STAGE, &stage, err);

	for (size_t i = 0; r == ERR_OK && i < j->len; i++) {
		char slot[16];

		if (j->v[i].kind != CKPT_OP_PLACE)
			continue;
		(void)snprintf(slot, sizeof(slot), "%u", j->v[i].slot);
		r = ckpt_materialise(p->c, stage, slot, ckpt_tree_find(p->target, j->v[i].path),
				     err);
	}
	/* a journal must not survive a power cut that its contents do not */
	if (r == ERR_OK && syncfs(stage) < 0)
		r = err_sys(err, errno, "save %s/%s/%s", p->c->project, CKPT_OWN_DIR, CKPT_STAGE);
	if (r < 0)
		(void)ckpt_stage_drop(p->c, CKPT_STAGE, NULL);
	return r;
}

static bool restore_same(const struct ckpt_node *n, const struct stat *st)
{
	struct ckpt_node now = { 0 };

	ckpt_node_from_stat(&now, st);
	return now.ino == n->ino && now.ctime_ns == n->ctime_ns && now.size == n->size;
}

static int restore_look(struct ckpt_dirs *dirs, const char *path, const struct ckpt_node *seen,
			struct err *err)
{
	struct err e = { 0 };
	const char *name;
	struct stat st;
	int dir = ckpt_dirs_at(dirs, path, false, &name, &e);
	bool there = dir >= 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;

	if (seen ? there && (seen->type == CKPT_DIR || restore_same(seen, &st)) : !there)
		return ERR_OK;
	return err_set(err, ERR_STALE,
		       "%.200s: changed while the restoration was prepared; nothing was done; try "
		       "again",
		       path);
}

/* The last look before anything is touched: is what will go still what was looked at? */
static int restore_still_same(const struct plan *p, struct err *err)
{
	struct ckpt_dirs dirs;
	int r = ERR_OK;

	ckpt_dirs_init(&dirs, p->c->root);
	for (size_t i = 0; r == ERR_OK && i < p->live->len; i++) {
		if (p->l_act[i] == PLAN_REMOVE || p->l_act[i] == PLAN_DISCARD)
			r = restore_look(&dirs, p->live->v[i].path, &p->live->v[i], err);
	}
	for (size_t i = 0; r == ERR_OK && i < p->target->len; i++) {
		uint32_t il = p->t_live[i];

		if ((p->t_act[i] == PLAN_WRITE || p->t_act[i] == PLAN_REPLACE) &&
		    p->target->v[i].type != CKPT_DIR && !(il && p->l_forced[il - 1]))
			r = restore_look(&dirs, p->target->v[i].path,
					 il ? &p->live->v[il - 1] : NULL, err);
	}
	ckpt_dirs_done(&dirs);
	return r;
}

static int restore_run(const struct plan *p, char saved_id[CKPT_ID_CAP], struct err *err)
{
	struct ckpt_journal *j = plan_journal(p);
	int r = ERR_OK;

	if (j->len == 0)
		goto out;
	r = restore_save_lost(p, saved_id, err);
	if (r == ERR_OK)
		r = restore_stage(p, j, err);
	if (r < 0)
		goto out;
	r = restore_still_same(p, err);
	if (r == ERR_OK)
		r = ckpt_journal_save(p->c, CKPT_JOURNAL, j, err);
	if (r < 0) {
		(void)ckpt_stage_drop(p->c, CKPT_STAGE, NULL);
		goto out;
	}
	r = ckpt_apply(p->c, j, p->target, err);
	if (r < 0) {
		r = err_wrap(err, r, "restoration begun, to be completed at the next start");
		goto out;
	}
	r = ckpt_journal_drop(p->c, CKPT_JOURNAL, err);
	if (r == ERR_OK)
		r = ckpt_stage_drop(p->c, CKPT_STAGE, err);
out:
	ckpt_journal_free(j);
	return r;
}

int ckpt_restore_mixed(struct ckpt *c, const char *id, const char *also,
		       const struct ckpt_restore_opts *opts, ckpt_act_cb cb, void *arg,
		       struct ckpt_restored *res, struct err *err)
{
	struct ckpt_restored counts = { 0 };
	struct plan p;
	int r = plan_init(&p, c, id, also, opts, err);

	if (r == ERR_OK)
		r = plan_report(&p, cb, arg, &counts);
	if (r == ERR_OK && res)
		r = restore_run(&p, counts.saved_id, err);
	if (r == ERR_OK && res)
		*res = counts;
	plan_done(&p);
	return r;
}

static int restore_allowed(const struct ckpt *c, struct err *err)
{
	return c->switching ? err_set(err, ERR_BUSY, "a switch between checkpoints is open")
			    : ERR_OK;
}

int ckpt_restore_preview(struct ckpt *c, const char *id, const struct ckpt_restore_opts *opts,
			 ckpt_act_cb cb, void *arg, struct err *err)
{
	int r = restore_allowed(c, err);

	return r < 0 ? r : ckpt_restore_mixed(c, id, NULL, opts, cb, arg, NULL, err);
}

int ckpt_restore(struct ckpt *c, const char *id, const struct ckpt_restore_opts *opts,
		 ckpt_act_cb cb, void *arg, struct ckpt_restored *res, struct err *err)
{
	struct ckpt_restored ignored;
	int r = restore_allowed(c, err);

	if (r == ERR_OK)
		r = ckpt_journal_pending(c, err);
	return r < 0 ? r
		     : ckpt_restore_mixed(c, id, NULL, opts, cb, arg, res ? res : &ignored, err);
}

int ckpt_journal_pending(struct ckpt *c, struct err *err)
{
	if (faccessat(c->dir, CKPT_JOURNAL, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return ERR_OK;
	return err_set(err, ERR_STALE,
		       "a restoration is only half done; start again, which completes it");
}

/* What file_write_atomic() of a killed program left. */
static void restore_sweep(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		(void)close(fd);
	for (struct dirent *e; d && (e = readdir(d));) {
		size_t n = strlen(e->d_name);

		if (n > 4 && strcmp(e->d_name + n - 4, ".tmp") == 0)
			(void)unlinkat(dir_fd, e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
}

static int restore_complete(struct ckpt *c, struct err *err)
{
	AUTO_TREE struct ckpt_tree *target = NULL;
	struct ckpt_journal *j = NULL;
	int r = ckpt_journal_load(c, CKPT_JOURNAL, &j, err);

	if (r == ERR_NOT_FOUND)
		return ERR_OK;
	if (r < 0 || !j)
		return r;
	r = ckpt_load(c, j->id, &target, err);
	if (r == ERR_OK)
		r = ckpt_apply(c, j, target, err);
	if (r == ERR_OK)
		r = ckpt_journal_drop(c, CKPT_JOURNAL, err);
	if (r == ERR_OK)
		c->recovered = xasprintf("a restoration of checkpoint %s that had been cut short "
					 "is now complete",
					 j->id);
	else
		r = err_wrap(err, r, "completing the restoration of checkpoint %s", j->id);
	ckpt_journal_free(j);
	return r;
}

int ckpt_recover(struct ckpt *c, struct err *err)
{
	int r;

	restore_sweep(c->dir);
	restore_sweep(c->manifests);
	r = restore_complete(c, err);
	if (r == ERR_OK)
		r = ckpt_stage_drop(c, CKPT_STAGE, err);
	if (r == ERR_OK)
		r = ckpt_switch_recover(c, err);
	return r == ERR_OK ? ckpt_stage_drop(c, CKPT_STAGE_SWITCH, err) : r;
}
