#include "ckpt/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"

static bool plan_is_ours(const struct plan *p, const char *path)
{
	const char *const *o = p->opts->ours;

	for (; o && *o; o++) {
		if (ckpt_path_below(path, *o))
			return true;
	}
	return false;
}

/* Paths that are left alone, with all below them. */
static bool plan_hands_off(const struct plan *p, const struct ckpt_node *t,
			   const struct ckpt_node *l)
{
	if (t && t->type == CKPT_UNCOVERED)
		return true;
	if (l && l->type == CKPT_UNCOVERED && l->why != CKPT_WHY_SIZE && l->why != CKPT_WHY_SPECIAL)
		return true;
	return ckpt_excluded(p->c, t ? t->path : l->path) != CKPT_WHY_NONE;
}

static bool plan_same_but_time(const struct ckpt_node *a, const struct ckpt_node *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid;
}

/* A path that both trees have, and neither leaves alone. */
static int plan_both(struct plan *p, size_t it, size_t il, struct err *err)
{
	const struct ckpt_node *t = &p->target->v[it], *l = &p->live->v[il];

	p->t_live[it] = (uint32_t)il + 1;
	if ((t->type == CKPT_DIR) != (l->type == CKPT_DIR)) {
		p->l_forced[il] = true;
		p->l_act[il] = plan_is_ours(p, l->path) ? PLAN_REMOVE : PLAN_ASK;
		p->t_act[it] = PLAN_WRITE;
		return ERR_OK;
	}
	if (ckpt_node_same_content(t, l)) {
		if (!ckpt_node_same_meta(t, l))
			p->t_act[it] = t->type == CKPT_DIR && plan_same_but_time(t, l) ? PLAN_TIMES
										       : PLAN_META;
		return ERR_OK;
	}
	if (plan_is_ours(p, t->path)) {
		p->t_act[it] = PLAN_WRITE;
		return ERR_OK;
	}
	if (l->type != CKPT_UNCOVERED) {
		p->t_act[it] = PLAN_ASK;
		return ERR_OK;
	}
	if (p->opts->policy != CKPT_DELETE)
		return err_set(
			err, ERR_REFUSED,
			"%.200s: is now %s and cannot be saved before it is replaced; move it "
			"away and try again",
			t->path, ckpt_reason_text((enum ckpt_reason)l->why));
	p->t_act[it] = PLAN_REPLACE;
	return ERR_OK;
}

static int plan_compare(struct plan *p, struct err *err)
{
	struct ckpt_merge m = { .a = p->target, .b = p->live };
	const struct ckpt_node *t, *l;
	const char *skip = NULL;
	int r = ERR_OK;

	while (r == ERR_OK && ckpt_merge_next(&m, &t, &l)) {
		const char *path = t ? t->path : l->path;
		size_t it = m.ia - 1, il = m.ib - 1;

		if (!(skip && ckpt_path_below(path, skip)))
			skip = plan_hands_off(p, t, l) ? path : NULL;
		if (skip) {
			if (l)
				p->l_act[il] = PLAN_LEFT;
		} else if (t && l) {
			r = plan_both(p, it, il, err);
		} else if (t) {
			p->t_act[it] = PLAN_WRITE;
		} else if (plan_is_ours(p, path)) {
			p->l_act[il] = PLAN_REMOVE;
		} else {
			p->l_act[il] = l->type == CKPT_UNCOVERED ? PLAN_LEFT : PLAN_ASK;
		}
	}
	return r;
}

/* Settles what is in this checkpoint, too: then nothing is lost. */
static void plan_look_up(struct plan *p, const struct ckpt_tree *m)
{
	for (size_t i = 0; i < p->live->len; i++) {
		const struct ckpt_node *n;

		/* a user who makes again what was discarded by consent wants it */
		if (p->l_act[i] != PLAN_ASK || (m->partial && !p->l_forced[i]))
			continue;
		n = ckpt_tree_find(m, p->live->v[i].path);
		if (n && ckpt_node_same_content(n, &p->live->v[i]))
			p->l_act[i] = PLAN_REMOVE;
	}
	for (size_t i = 0; i < p->target->len; i++) {
		const struct ckpt_node *n;

		if (p->t_act[i] != PLAN_ASK)
			continue;
		n = ckpt_tree_find(m, p->target->v[i].path);
		if (n && ckpt_node_same_content(n, &p->live->v[p->t_live[i] - 1]))
			p->t_act[i] = PLAN_WRITE;
	}
}

static bool plan_has_questions(const struct plan *p)
{
	return (p->live->len && memchr(p->l_act, PLAN_ASK, p->live->len)) ||
	       (p->target->len && memchr(p->t_act, PLAN_ASK, p->target->len));
}

static int plan_ask(struct plan *p, struct err *err)
{
	AUTO_FREE uint64_t *v = NULL;
	size_t n = 0;
	int r;

	if (p->also)
		plan_look_up(p, p->also);
	if (!plan_has_questions(p))
		return ERR_OK;
	r = ckpt_numbers(p->c, &v, &n, err);
	for (size_t i = n; r == ERR_OK && i-- > 0 && plan_has_questions(p);) {
		AUTO_TREE struct ckpt_tree *m = NULL;
		char id[CKPT_ID_CAP];

		ckpt_format_id(v[i], id);
		r = ckpt_load(p->c, id, &m, err);
		if (r == ERR_OK)
			plan_look_up(p, m);
	}
	return r;
}

/* What is left is known to nobody. */
static int plan_settle(struct plan *p, struct err *err)
{
	bool del = p->opts->policy == CKPT_DELETE;

	for (size_t i = 0; i < p->target->len; i++) {
		if (p->t_act[i] == PLAN_ASK)
			p->t_act[i] = PLAN_REPLACE;
	}
	for (size_t i = p->live->len; i-- > 0;) {
		uint32_t up = p->live->v[i].parent;

		if (p->l_act[i] == PLAN_ASK)
			p->l_act[i] = del ? PLAN_DISCARD : PLAN_KEEP;
		if (p->l_act[i] != PLAN_KEEP && p->l_act[i] != PLAN_LEFT)
			continue;
		if (p->l_forced[i])
			return err_set(
				err, ERR_REFUSED,
				"%.200s: made meanwhile, and stands where the checkpoint has "
				"something else; move it away and try again",
				p->live->v[i].path);
		if (up == CKPT_NO_PARENT || p->l_act[up] == PLAN_NONE)
			continue;
		/* a folder stays with what stays in it */
		if (p->l_act[up] == PLAN_REMOVE || p->l_act[up] == PLAN_ASK ||
		    p->l_act[up] == PLAN_DISCARD)
			p->l_act[up] = PLAN_LEFT;
	}
	return ERR_OK;
}

int plan_init(struct plan *p, struct ckpt *c, const char *id, const char *also,
	      const struct ckpt_restore_opts *opts, struct err *err)
{
	static const struct ckpt_restore_opts none = { .policy = CKPT_KEEP_UNKNOWN };
	int r;

	*p = (struct plan){ .c = c, .id = id, .opts = opts ? opts : &none };
	r = ckpt_load_whole(c, id, &p->target, err);
	if (r == ERR_OK && also)
		r = ckpt_load(c, also, &p->also, err);
	if (r == ERR_OK)
		r = ckpt_scan(c, false, &p->live, err);
	if (r < 0)
		return r;
	p->t_act = xcalloc(p->target->len + 1, sizeof(*p->t_act));
	p->t_live = xcalloc(p->target->len + 1, sizeof(*p->t_live));
	p->l_act = xcalloc(p->live->len + 1, sizeof(*p->l_act));
	p->l_forced = xcalloc(p->live->len + 1, sizeof(*p->l_forced));
	r = plan_compare(p, err);
	if (r == ERR_OK)
		r = plan_ask(p, err);
	return r == ERR_OK ? plan_settle(p, err) : r;
}

void plan_done(struct plan *p)
{
	ckpt_tree_free(p->target);
	ckpt_tree_free(p->live);
	ckpt_tree_free(p->also);
	free(p->t_act);
	free(p->t_live);
	free(p->l_act);
	free(p->l_forced);
}

static int plan_tell(uint8_t act, const char *path, ckpt_act_cb cb, void *arg,
		     struct ckpt_restored *res)
{
	uint64_t *const counts[] = {
		[CKPT_ACT_WRITE] = &res->n_written,	[CKPT_ACT_META] = &res->n_meta,
		[CKPT_ACT_REMOVE] = &res->n_removed,	[CKPT_ACT_KEEP] = &res->n_kept,
		[CKPT_ACT_DISCARD] = &res->n_discarded, [CKPT_ACT_REPLACE] = &res->n_replaced,
	};

	if (act < PLAN_WRITE)
		return ERR_OK;
	(*counts[act - PLAN_WRITE])++;
	return cb ? cb(arg, (enum ckpt_act)(act - PLAN_WRITE), path) : ERR_OK;
}

int plan_report(const struct plan *p, ckpt_act_cb cb, void *arg, struct ckpt_restored *res)
{
	struct ckpt_merge m = { .a = p->target, .b = p->live };
	const struct ckpt_node *t, *l;
	int r = ERR_OK;

	while (r == ERR_OK && ckpt_merge_next(&m, &t, &l)) {
		if (l)
			r = plan_tell(p->l_act[m.ib - 1], l->path, cb, arg, res);
		if (r == ERR_OK && t)
			r = plan_tell(p->t_act[m.ia - 1], t->path, cb, arg, res);
	}
	return r;
}

/* Folders whose mode and time have to be set in the end. */
struct plan_folders {
	const struct ckpt_node **v;
	size_t n, cap;
};

static void plan_add_folder(struct plan_folders *f, const struct ckpt_node *n)
{
	if (f->n && f->v[f->n - 1] == n)
		return;
	if (f->n == f->cap) {
		f->cap = f->cap ? f->cap * 2 : 64;
		f->v = xrealloc_n(f->v, f->cap, sizeof(const struct ckpt_node *));
	}
	f->v[f->n++] = n;
}

static int plan_cmp_deepest(const void *a, const void *b)
{
	const struct ckpt_node *x = *(const struct ckpt_node *const *)a;
	const struct ckpt_node *y = *(const struct ckpt_node *const *)b;

	return ckpt_path_cmp(y->path, x->path);
}

/* The folder that holds a live entry, as the checkpoint knows it, or as it is. */
static void plan_add_live_parent(const struct plan *p, struct plan_folders *f, size_t il)
{
	uint32_t up = p->live->v[il].parent;
	const struct ckpt_node *t;

	if (up == CKPT_NO_PARENT)
		return;
	t = ckpt_tree_find(p->target, p->live->v[up].path);
	if (t && t->type == CKPT_DIR)
		plan_add_folder(f, t);
	else if (p->l_act[up] != PLAN_REMOVE && p->l_act[up] != PLAN_DISCARD)
		plan_add_folder(f, &p->live->v[up]);
}

static void plan_find_folders(const struct plan *p, struct plan_folders *f)
{
	for (size_t i = 0; i < p->live->len; i++) {
		if (p->l_act[i] == PLAN_REMOVE || p->l_act[i] == PLAN_DISCARD)
			plan_add_live_parent(p, f, i);
	}
	for (size_t i = 0; i < p->target->len; i++) {
		const struct ckpt_node *t = &p->target->v[i];

		if (p->t_act[i] == PLAN_NONE)
			continue;
		if (p->t_act[i] != PLAN_META && p->t_act[i] != PLAN_TIMES &&
		    t->parent != CKPT_NO_PARENT)
			plan_add_folder(f, &p->target->v[t->parent]);
		if (t->type == CKPT_DIR)
			plan_add_folder(f, t);
	}
	if (f->n)
		qsort(f->v, f->n, sizeof(const struct ckpt_node *), plan_cmp_deepest);
}

struct ckpt_journal *plan_journal(const struct plan *p)
{
	struct ckpt_journal *j = ckpt_journal_new();
	struct plan_folders f = { 0 };

	j->id = ckpt_tree_strdup(j->store, p->id);
	for (size_t i = p->live->len; i-- > 0;) {
		if (p->l_act[i] == PLAN_REMOVE || p->l_act[i] == PLAN_DISCARD)
			ckpt_journal_add(j, CKPT_OP_REMOVE, p->live->v[i].path, &p->live->v[i]);
	}
	for (size_t i = 0; i < p->target->len; i++) {
		if (p->t_act[i] == PLAN_WRITE && p->target->v[i].type == CKPT_DIR)
			ckpt_journal_add(j, CKPT_OP_MKDIR, p->target->v[i].path, NULL);
	}
	for (size_t i = 0; i < p->target->len; i++) {
		const struct ckpt_node *t = &p->target->v[i];

		if (t->type == CKPT_DIR)
			continue;
		if (p->t_act[i] == PLAN_WRITE || p->t_act[i] == PLAN_REPLACE)
			ckpt_journal_add(j, CKPT_OP_PLACE, t->path, NULL);
		else if (p->t_act[i] == PLAN_META)
			ckpt_journal_add(j, CKPT_OP_META, t->path, NULL);
	}
	plan_find_folders(p, &f);
	for (size_t i = 0; i < f.n; i++) {
		if (i == 0 || strcmp(f.v[i]->path, f.v[i - 1]->path) != 0)
			ckpt_journal_add(j, CKPT_OP_FOLDER, f.v[i]->path, f.v[i]);
	}
	free(f.v);
	return j;
}
