#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ckpt/ckpt_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

#define SWITCH_NEW   "new" /* in the stage: a file that is being written */
#define SWITCH_THIRD ".x"  /* a slot's second name during a slow exchange */

/* A path at which the two checkpoints differ.  The file "slot" of the stage always is what the
 * side that the tree is not at has there. */
struct switch_item {
	const char *path;
	const struct ckpt_node *n[2]; /* NULL: not there */
	uint32_t slot;
};

/* A folder whose mode and time are to be set after a flip. */
struct switch_folders {
	const struct ckpt_node **v;
	size_t n, cap;
};

struct ckpt_switch {
	struct ckpt *c;
	char id[2][CKPT_ID_CAP];
	struct ckpt_tree *t[2];
	struct switch_item *items; /* contents that differ, in tree order */
	size_t n_items, cap_items;
	struct switch_item *metas; /* files and links of which only mode, owner or time differs */
	size_t n_metas, cap_metas;
	struct switch_folders folders[2];
	struct ckpt_dirs dirs;
	int stage;
	int side;	/* where the tree is */
	bool meta_done; /* and its times too */
	bool broken;	/* a flip failed: the tree is a mixture */
};

static void switch_add(struct switch_item **v, size_t *n, size_t *cap,
		       const struct switch_item *item)
{
	if (*n == *cap) {
		*cap = *cap ? *cap * 2 : 64;
		*v = xrealloc_n(*v, *cap, sizeof(**v));
	}
	(*v)[(*n)++] = *item;
}

static bool switch_is_dir(const struct ckpt_node *n)
{
	return n && n->type == CKPT_DIR;
}

static bool switch_is_file(const struct ckpt_node *n)
{
	return n && n->type != CKPT_DIR;
}

static void switch_add_folder(struct switch_folders *f, const struct ckpt_node *n)
{
	if (f->n == f->cap) {
		f->cap = f->cap ? f->cap * 2 : 64;
		f->v = xrealloc_n(f->v, f->cap, sizeof(const struct ckpt_node *));
	}
	f->v[f->n++] = n;
}

static int switch_cmp_deepest(const void *a, const void *b)
{
	const struct ckpt_node *x = *(const struct ckpt_node *const *)a;
	const struct ckpt_node *y = *(const struct ckpt_node *const *)b;

	return ckpt_path_cmp(y->path, x->path);
}

/* The folder that holds path changes its time at each flip. */
static void switch_add_parent(struct ckpt_switch *sw, int side, const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	AUTO_FREE char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;
	const struct ckpt_node *n = dir ? ckpt_tree_find(sw->t[side], dir) : NULL;

	if (switch_is_dir(n))
		switch_add_folder(&sw->folders[side], n);
}

static void switch_compare(struct ckpt_switch *sw, const struct ckpt_node *a,
			   const struct ckpt_node *b, uint32_t slot)
{
	struct switch_item it = { .path = a ? a->path : b ? b->path : "", .n = { a, b } };
	bool same = a && b && ckpt_node_same_content(a, b);

	if (same && !ckpt_node_same_meta(a, b) && a->type != CKPT_DIR)
		switch_add(&sw->metas, &sw->n_metas, &sw->cap_metas, &it);
	if (!same || !ckpt_node_same_meta(a, b)) {
		for (int s = 0; s < 2; s++) {
			if (switch_is_dir(it.n[s]))
				switch_add_folder(&sw->folders[s], it.n[s]);
		}
	}
	if (same)
		return;
	it.slot = slot;
	switch_add(&sw->items, &sw->n_items, &sw->cap_items, &it);
	for (int s = 0; s < 2; s++)
		switch_add_parent(sw, s, it.path);
}

/* Deepest first, each once. */
static void switch_sort_folders(struct switch_folders *f)
{
	size_t n = 0;

	if (f->n)
		qsort(f->v, f->n, sizeof(const struct ckpt_node *), switch_cmp_deepest);
	for (size_t i = 0; i < f->n; i++) {
		if (n == 0 || f->v[n - 1] != f->v[i])
			f->v[n++] = f->v[i];
	}
	f->n = n;
}

static int switch_load(struct ckpt_switch *sw, int side, const char *id, struct err *err)
{
	int r = ckpt_load_whole(sw->c, id, &sw->t[side], err);

	if (r == ERR_OK)
		(void)snprintf(sw->id[side], sizeof(sw->id[side]), "%s", id);
	return r;
}

/* Loads both checkpoints and finds where they differ. */
static int switch_init(struct ckpt_switch *sw, struct ckpt *c, const char *id_a, const char *id_b,
		       struct err *err)
{
	const struct ckpt_node *a, *b;
	struct ckpt_merge m;
	const char *skip = NULL;
	uint32_t slot = 0;
	int r;

	sw->c = c;
	sw->stage = -1;
	ckpt_dirs_init(&sw->dirs, c->root);
	r = switch_load(sw, 0, id_a, err);
	if (r == ERR_OK)
		r = switch_load(sw, 1, id_b, err);
	if (r < 0)
		return r;
	m = (struct ckpt_merge){ .a = sw->t[0], .b = sw->t[1] };
	while (ckpt_merge_next(&m, &a, &b)) {
		const char *path = a ? a->path : b->path;
		bool out = (a && a->type == CKPT_UNCOVERED) || (b && b->type == CKPT_UNCOVERED) ||
			   ckpt_excluded(c, path) != CKPT_WHY_NONE;

		if (!(skip && ckpt_path_below(path, skip)))
			skip = out ? path : NULL;
		if (!skip)
			switch_compare(sw, a, b, slot);
		/* counted whatever is excluded by now, so that a crash's stage can be read */
		slot++;
	}
	switch_sort_folders(&sw->folders[0]);
	switch_sort_folders(&sw->folders[1]);
	return ERR_OK;
}

static void switch_free(struct ckpt_switch *sw)
{
	if (sw->stage >= 0)
		(void)close(sw->stage);
	ckpt_dirs_done(&sw->dirs);
	for (int s = 0; s < 2; s++) {
		ckpt_tree_free(sw->t[s]);
		free(sw->folders[s].v);
	}
	free(sw->items);
	free(sw->metas);
	free(sw);
}

static bool switch_is_like(const struct ckpt_node *live, const struct ckpt_node *n)
{
	return live && n && ckpt_node_same_content(live, n);
}

/*
 * At which side is the tree?  A file that only one side has, with another content than it has
 * there, was made by the program that runs on the other side, and says nothing.
 */
static int switch_find_side(struct ckpt_switch *sw, int *side, struct err *err)
{
	AUTO_TREE struct ckpt_tree *live = NULL;
	const char *seen[2] = { NULL, NULL };
	int r = ckpt_scan(sw->c, false, &live, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < sw->n_items; i++) {
		const struct switch_item *it = &sw->items[i];
		const struct ckpt_node *l = ckpt_tree_find(live, it->path);
		int only = !it->n[0] ? 1 : !it->n[1] ? 0 : -1; /* the side that has it */

		if (switch_is_dir(only < 0 ? NULL : it->n[only]))
			continue; /* other files may keep it there */
		if (switch_is_like(l, it->n[0]) || (!l && !it->n[0]))
			seen[0] = it->path;
		else if (switch_is_like(l, it->n[1]) || (!l && !it->n[1]))
			seen[1] = it->path;
		else if (only < 0)
			return err_set(err, ERR_STALE,
				       "%.200s: is neither as in checkpoint %s nor as in %s",
				       it->path, sw->id[0], sw->id[1]);
	}
	if (seen[0] && seen[1])
		return err_set(err, ERR_STALE,
			       "the tree is partly at checkpoint %s (%.150s) and partly at %s "
			       "(%.150s)",
			       sw->id[0], seen[0], sw->id[1], seen[1]);
	*side = seen[1] ? 1 : 0;
	return ERR_OK;
}

/* Whole or not at all, so that a crash leaves nothing that looks like a user's change. */
static int switch_make(struct ckpt_switch *sw, int dir, const char *name,
		       const struct ckpt_node *node, struct err *err)
{
	int r;

	(void)unlinkat(sw->stage, SWITCH_NEW, 0);
	r = ckpt_materialise(sw->c, sw->stage, SWITCH_NEW, node, err);
	if (r == ERR_OK && renameat(sw->stage, SWITCH_NEW, dir, name) < 0)
		r = err_sys(err, errno, "put back %s", node->path);
	return r;
}

static int switch_fill(struct ckpt_switch *sw, struct err *err)
{
	int other = !sw->side;
	int r = ckpt_stage_make(sw->c, CKPT_STAGE_SWITCH, &sw->stage, err);
	struct stat root, stage;

	if (r == ERR_OK && fstat(sw->c->root, &root) == 0 && fstat(sw->stage, &stage) == 0 &&
	    root.st_dev != stage.st_dev)
		r = err_sys(err, EXDEV, "%s/%s lies on another file system than the project",
			    sw->c->project, CKPT_OWN_DIR);
	for (size_t i = 0; r == ERR_OK && i < sw->n_items; i++) {
		const struct switch_item *it = &sw->items[i];
		char slot[16];

		(void)snprintf(slot, sizeof(slot), "%u", it->slot);
		if (switch_is_file(it->n[other]))
			r = switch_make(sw, sw->stage, slot, it->n[other], err);
	}
	return r;
}

int ckpt_switch_open(struct ckpt *c, const char *id_a, const char *id_b, struct ckpt_switch **out,
		     int *side, struct err *err)
{
	struct ckpt_switch *sw;
	struct ckpt_journal *j;
	int r = c->switching ? err_set(err, ERR_BUSY, "another switch is open")
			     : ckpt_journal_pending(c, err);

	if (r < 0)
		return r;
	sw = xcalloc(1, sizeof(*sw));
	r = switch_init(sw, c, id_a, id_b, err);
	if (r == ERR_OK)
		r = switch_find_side(sw, &sw->side, err);
	if (r < 0)
		goto fail;
	j = ckpt_journal_new();
	j->id = sw->id[sw->side];
	j->side[0] = sw->id[0];
	j->side[1] = sw->id[1];
	r = ckpt_journal_save(c, CKPT_JOURNAL_SW, j, err);
	ckpt_journal_free(j);
	if (r == ERR_OK)
		r = switch_fill(sw, err);
	if (r < 0) {
		(void)ckpt_stage_drop(c, CKPT_STAGE_SWITCH, NULL);
		(void)ckpt_journal_drop(c, CKPT_JOURNAL_SW, NULL);
		goto fail;
	}
	c->switching = true;
	*out = sw;
	*side = sw->side;
	return ERR_OK;
fail:
	switch_free(sw);
	return r;
}

size_t ckpt_switch_count(const struct ckpt_switch *sw)
{
	return sw->n_items;
}

/* One name to another; *moved says whether there was anything. */
static int switch_move(int from_dir, const char *from, int to_dir, const char *to, bool *moved)
{
	*moved = renameat(from_dir, from, to_dir, to) == 0;
	return *moved || errno == ENOENT ? 0 : -1;
}

/* Exchange on a file system that cannot: a crash in between is what the journal is for. */
static int switch_swap_slow(int stage, const char *slot, int dir, const char *name, bool *in)
{
	char third[24];
	bool out;

	(void)snprintf(third, sizeof(third), "%s" SWITCH_THIRD, slot);
	if (switch_move(dir, name, stage, third, &out) < 0 ||
	    switch_move(stage, slot, dir, name, in) < 0)
		return -1;
	return out ? switch_move(stage, third, stage, slot, &out) : 0;
}

/* Exchanges what is in the slot and at the path; either may be missing.  *in: now something is at
 * the path. */
static int switch_swap(struct ckpt_switch *sw, const struct switch_item *it, int dir,
		       const char *name, bool *in, struct err *err)
{
	char slot[16];

	(void)snprintf(slot, sizeof(slot), "%u", it->slot);
	*in = true;
	if (renameat2(sw->stage, slot, dir, name, RENAME_EXCHANGE) == 0)
		return ERR_OK;
	if (errno == ENOENT) {
		if (renameat2(sw->stage, slot, dir, name, RENAME_NOREPLACE) == 0)
			return ERR_OK;
		*in = false;
		if (errno == ENOENT &&
		    (renameat2(dir, name, sw->stage, slot, RENAME_NOREPLACE) == 0 ||
		     errno == ENOENT))
			return ERR_OK;
	}
	if ((errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) &&
	    switch_swap_slow(sw->stage, slot, dir, name, in) == 0)
		return ERR_OK;
	return err_sys(err, errno, "exchange %s", it->path);
}

static int switch_one_file(struct ckpt_switch *sw, const struct switch_item *it, int to,
			   struct err *err)
{
	bool in = false;
	const char *name;
	int dir = ckpt_dirs_at(&sw->dirs, it->path, true, &name, err);
	int r = dir < 0 ? dir : switch_swap(sw, it, dir, name, &in, err);

	/* the program that ran removed it */
	if (r == ERR_OK && !in && switch_is_file(it->n[to]))
		r = switch_make(sw, dir, name, it->n[to], err);
	return r;
}

static int switch_rmdir(struct ckpt_switch *sw, const struct switch_item *it, int to,
			struct err *err)
{
	const char *name;
	int dir = ckpt_dirs_at(&sw->dirs, it->path, true, &name, err);

	if (dir < 0)
		return dir;
	ckpt_dirs_reset(&sw->dirs);
	dir = ckpt_dirs_at(&sw->dirs, it->path, true, &name, err);
	if (dir < 0)
		return dir;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return ERR_OK;
	if ((errno == ENOTEMPTY || errno == EEXIST) && !it->n[to])
		return ERR_OK; /* it holds what is in neither checkpoint, and stays with it */
	return err_sys(err, errno, "remove folder %s", it->path);
}

static int switch_mkdir(struct ckpt_switch *sw, const struct switch_item *it, struct err *err)
{
	const char *name;
	int dir = ckpt_dirs_at(&sw->dirs, it->path, true, &name, err);

	if (dir < 0)
		return dir;
	if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "create folder %s", it->path);
	return ERR_OK;
}

/* What only the side that is left has goes first, deepest first; then what the other has. */
static int switch_contents(struct ckpt_switch *sw, int to, struct err *err)
{
	int from = !to, r = ERR_OK;

	for (size_t i = sw->n_items; r == ERR_OK && i-- > 0;) {
		const struct switch_item *it = &sw->items[i];

		if (switch_is_dir(it->n[from]))
			r = switch_rmdir(sw, it, to, err);
		else if (it->n[from] && !switch_is_file(it->n[to]))
			r = switch_one_file(sw, it, to, err);
	}
	for (size_t i = 0; r == ERR_OK && i < sw->n_items; i++) {
		const struct switch_item *it = &sw->items[i];

		if (switch_is_dir(it->n[to]))
			r = switch_mkdir(sw, it, err);
		else if (it->n[to])
			r = switch_one_file(sw, it, to, err);
	}
	return r;
}

/* Times of what is the same otherwise, and of folders.  What a program removed has none. */
static int switch_meta(struct ckpt_switch *sw, const struct ckpt_node *n, struct err *err)
{
	struct err e = { 0 };
	const char *name;
	int dir = ckpt_dirs_at(&sw->dirs, n->path, false, &name, &e);
	int r = dir < 0 ? dir : ckpt_set_meta(dir, name, n, &e);

	if (r == ERR_OK || (e.code == ERR_SYS && e.sys_errno == ENOENT))
		return ERR_OK;
	if (err)
		*err = e;
	return err_wrap(err, r, "%.200s", n->path);
}

static int switch_metas(struct ckpt_switch *sw, int to, struct err *err)
{
	int r = ERR_OK;

	for (size_t i = 0; r == ERR_OK && i < sw->n_metas; i++)
		r = switch_meta(sw, sw->metas[i].n[to], err);
	for (size_t i = 0; r == ERR_OK && i < sw->folders[to].n; i++)
		r = switch_meta(sw, sw->folders[to].v[i], err);
	return r;
}

int ckpt_switch_to(struct ckpt_switch *sw, int side, struct err *err)
{
	int r = ERR_OK;

	if (side != 0 && side != 1)
		return err_set(err, ERR_INVALID, "side %d of a switch: only 0 and 1 exist", side);
	if (sw->broken)
		return err_set(err, ERR_STALE,
			       "the switch between %s and %s failed before; close it", sw->id[0],
			       sw->id[1]);
	if (side == sw->side && sw->meta_done)
		return ERR_OK;
	if (side != sw->side)
		r = switch_contents(sw, side, err);
	if (r == ERR_OK)
		r = switch_metas(sw, side, err);
	ckpt_dirs_reset(&sw->dirs);
	if (r < 0) {
		sw->broken = true;
		return err_wrap(err, r, "switch to checkpoint %s", sw->id[side]);
	}
	sw->side = side;
	sw->meta_done = true;
	return ERR_OK;
}

/* Is this file of the stage one of the two that belong there, as far as stat can tell? */
static bool switch_is_known(const struct switch_item *it, const struct ckpt_node *now)
{
	for (int s = 0; s < 2; s++) {
		const struct ckpt_node *n = it->n[s];

		if (switch_is_file(n) && n->type == now->type && n->size == now->size &&
		    n->mtime_ns == now->mtime_ns)
			return true;
	}
	return false;
}

/* Adds the folders above path, as either checkpoint knows them, unless they are there. */
static int switch_add_above(struct ckpt_switch *sw, struct ckpt_tree *t, const char *path,
			    struct err *err)
{
	int r = ERR_OK;

	for (const char *p = strchr(path, '/'); r == ERR_OK && p; p = strchr(p + 1, '/')) {
		AUTO_FREE char *dir = xstrndup(path, (size_t)(p - path));
		const struct ckpt_node *n = ckpt_tree_find(sw->t[0], dir);

		if (!switch_is_dir(n))
			n = ckpt_tree_find(sw->t[1], dir);
		if (switch_is_dir(n) && !ckpt_tree_find(t, dir))
			r = ckpt_tree_add(t, n, err);
	}
	return r;
}

/*
 * What programs made or changed while the tree was at the other side now lies in the stage.  What
 * no checkpoint has is saved.
 */
static int switch_save_leftovers(struct ckpt_switch *sw, struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = ckpt_tree_new();
	char id[CKPT_ID_CAP], slot[64];
	int r = ERR_OK;

	for (size_t i = 0; r == ERR_OK && i < 2 * sw->n_items; i++) {
		const struct switch_item *it = &sw->items[i / 2];
		struct ckpt_node n = { .path = it->path, .type = CKPT_FILE };
		struct stat st;

		(void)snprintf(slot, sizeof(slot), "%s/%s/%u%s", CKPT_OWN_DIR, CKPT_STAGE_SWITCH,
			       it->slot, i % 2 ? SWITCH_THIRD : "");
		if (fstatat(sw->c->root, slot, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		ckpt_node_from_stat(&n, &st);
		if (switch_is_known(it, &n) || ckpt_tree_find(t, it->path))
			continue;
		n.target = ckpt_tree_strdup(t, slot);
		r = switch_add_above(sw, t, it->path, err);
		if (r == ERR_OK)
			r = ckpt_tree_add(t, &n, err);
	}
	if (r < 0 || t->len == 0)
		return r;
	return ckpt_save_some(sw->c, t, "changed by runs on the side that was left", id, err);
}

/* After a failure or a crash: back to one checkpoint by force. */
static int switch_restore(struct ckpt_switch *sw, int side, struct err *err)
{
	struct ckpt_restored res;

	return ckpt_restore_mixed(sw->c, sw->id[side], sw->id[!side], NULL, NULL, NULL, &res, err);
}

static int switch_finish(struct ckpt_switch *sw, int side, struct err *err)
{
	int r = switch_save_leftovers(sw, err);

	if (r == ERR_OK && sw->broken)
		r = switch_restore(sw, side, err);
	else if (r == ERR_OK && syncfs(sw->c->root) < 0)
		r = err_sys(err, errno, "save the files of %s", sw->c->project);
	if (r == ERR_OK)
		r = ckpt_journal_drop(sw->c, CKPT_JOURNAL_SW, err);
	return r == ERR_OK ? ckpt_stage_drop(sw->c, CKPT_STAGE_SWITCH, err) : r;
}

int ckpt_switch_close(struct ckpt_switch *sw, int side, struct err *err)
{
	int r;

	if (!sw)
		return ERR_OK;
	side = side == 1;
	if (!sw->broken && (side != sw->side || !sw->meta_done))
		(void)ckpt_switch_to(sw, side, NULL); /* failing, it is brought there by force */
	r = switch_finish(sw, side, err);
	sw->c->switching = false;
	switch_free(sw);
	return r;
}

int ckpt_switch_recover(struct ckpt *c, struct err *err)
{
	struct ckpt_journal *j = NULL;
	struct ckpt_switch *sw;
	int r = ckpt_journal_load(c, CKPT_JOURNAL_SW, &j, err);

	if (r == ERR_NOT_FOUND)
		return ERR_OK;
	if (r < 0 || !j)
		return r;
	sw = xcalloc(1, sizeof(*sw));
	r = switch_init(sw, c, j->side[0], j->side[1], err);
	sw->broken = true;
	if (r == ERR_OK)
		r = switch_finish(sw, strcmp(j->id, j->side[1]) == 0, err);
	if (r == ERR_OK) {
		free(c->recovered);
		c->recovered = xasprintf("a switch between checkpoints %s and %s that had been cut "
					 "short was brought back to %s",
					 j->side[0], j->side[1], j->id);
	} else {
		r = err_wrap(err, r, "bringing the tree back to checkpoint %s", j->id);
	}
	switch_free(sw);
	ckpt_journal_free(j);
	return r;
}
