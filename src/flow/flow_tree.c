/* The project's files between steps: back to a checkpoint, and who changed what. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "flow/flow_priv.h"

/* What our runs leave, and what our builds write. */
static const char **flow_ours_list(const struct flow *f)
{
	const struct build_record *rec = f->rec_orig;
	size_t n = json_len(f->ours) + 1;
	const char **v;

	for (size_t i = 0; rec && i < rec->n_steps; i++)
		n += rec->steps[i].n_outputs;
	n += rec ? rec->n_programs : 0;
	v = xcalloc(n, sizeof(*v));
	n = 0;
	for (void *it = json_iter(f->ours); it; it = json_next(f->ours, it))
		v[n++] = json_iter_key(it);
	for (size_t i = 0; rec && i < rec->n_steps; i++) {
		for (size_t k = 0; k < rec->steps[i].n_outputs; k++)
			v[n++] = rec->steps[i].outputs[k];
	}
	for (size_t i = 0; rec && i < rec->n_programs; i++)
		v[n++] = rec->programs[i].path;
	return v;
}

int flow_tree_restore(struct flow *f, const char *id, struct err *err)
{
	AUTO_FREE const char **ours = flow_ours_list(f);
	struct ckpt_restore_opts opts = { .policy = CKPT_KEEP_UNKNOWN, .ours = ours };
	struct ckpt_restored res = { 0 };
	int r = ckpt_restore(f->c, id, &opts, NULL, NULL, &res, err);

	if (r < 0)
		return err_wrap(err, r, "bring the project back to checkpoint %s", id);
	if (res.saved_id[0])
		flow_say(
			f,
			"%llu files were changed meanwhile by somebody else; they were put back and "
			"their new content is kept in checkpoint %s",
			(unsigned long long)res.n_replaced, res.saved_id);
	return ERR_OK;
}

static int flow_note_one(void *arg, const struct ckpt_diff *d)
{
	struct flow *f = arg;

	/* names that are not UTF-8 cannot be keys; such a file stays and is only not cleaned up */
	if (d->change == CKPT_ADDED && d->b && json_len(f->ours) < FLOW_OUR_FILES_MAX) {
		AUTO_JSON struct json *name = json_new_str(d->b->path);

		if (strcmp(json_str(name), d->b->path) == 0)
			json_set_bool(f->ours, d->b->path, true);
	}
	return 0;
}

int flow_tree_note_ours(struct flow *f, const char *since, struct err *err)
{
	return ckpt_diff(f->c, since, CKPT_LIVE, flow_note_one, f, err);
}

struct tree_foreign {
	const struct flow *f;
	char *first;
};

static bool tree_made_by(const struct build_record *r, const char *path)
{
	for (size_t i = 0; r && i < r->n_steps; i++) {
		const struct build_step *s = &r->steps[i];

		for (size_t k = 0; k < s->n_outputs; k++) {
			if (strcmp(s->outputs[k], path) == 0)
				return true;
		}
	}
	for (size_t i = 0; r && i < r->n_programs; i++) {
		const struct build_program *p = &r->programs[i];

		if (strcmp(p->path, path) == 0)
			return true;
		for (size_t k = 0; k < p->n_copies; k++) {
			if (strcmp(p->copies[k], path) == 0)
				return true;
		}
	}
	return false;
}

/* What build systems and compilers write for themselves: never an input of the program. */
static bool tree_is_bookkeeping(const char *path)
{
	static const char *const ends[] = { ".d",   ".o",	  ".lo",	 ".la",	 ".a",
					    ".so",  ".gcda",	  ".gcno",	 ".mod", ".smod",
					    ".log", ".ninja_log", ".ninja_deps", ".dwo", ".gch",
					    ".pch", ".Plo",	  ".Po" };
	static const char *const parts[] = { "CMakeFiles/",    "CMakeCache.txt",
					     ".deps/",	       "compile_commands.json",
					     "config.log",     "config.status",
					     "autom4te.cache/" };
	size_t n = strlen(path);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t k = strlen(ends[i]);

		if (n >= k && strcmp(path + n - k, ends[i]) == 0)
			return true;
	}
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strstr(path, parts[i]))
			return true;
	}
	return false;
}

static int tree_foreign_one(void *arg, const struct ckpt_diff *d)
{
	struct tree_foreign *t = arg;
	const struct ckpt_entry *e = d->b ? d->b : d->a;

	if (d->change == CKPT_META || d->change == CKPT_ADDED || e->type == CKPT_DIR)
		return 0;
	if (json_get(t->f->ours, e->path) || tree_is_bookkeeping(e->path) ||
	    tree_made_by(t->f->rec_orig, e->path) || tree_made_by(t->f->rec_cand, e->path) ||
	    tree_made_by(t->f->rec_best, e->path))
		return 0;
	t->first = xstrdup(e->path);
	return 1;
}

int flow_tree_foreign_change(struct flow *f, const char *id_a, const char *id_b, char **first,
			     struct err *err)
{
	struct tree_foreign t = { .f = f };
	int r = ckpt_diff(f->c, id_a, id_b, tree_foreign_one, &t, err);

	if (r < 0)
		return r;
	*first = t.first;
	return ERR_OK;
}
