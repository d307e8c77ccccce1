/* The project's files between steps: back to a checkpoint, and who changed what. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "flow/flow_priv.h"

#define TREE_ASIDE_MAX                                                                             \
	((size_t)64 << 20) /* bytes of a file that is copied; larger ones are in a checkpoint */

static size_t tree_count_made(const struct build_record *rec)
{
	size_t n = rec ? rec->n_programs : 0;

	for (size_t i = 0; rec && i < rec->n_steps; i++)
		n += rec->steps[i].n_outputs;
	for (size_t i = 0; rec && i < rec->n_programs; i++)
		n += rec->programs[i].n_copies;
	return n;
}

static size_t tree_list_made(const struct build_record *rec, const char **v)
{
	size_t n = 0;

	for (size_t i = 0; rec && i < rec->n_steps; i++) {
		for (size_t k = 0; k < rec->steps[i].n_outputs; k++)
			v[n++] = rec->steps[i].outputs[k];
	}
	for (size_t i = 0; rec && i < rec->n_programs; i++) {
		v[n++] = rec->programs[i].path;
		for (size_t k = 0; k < rec->programs[i].n_copies; k++)
			v[n++] = rec->programs[i].copies[k];
	}
	return n;
}

/* What our runs leave, and what our builds write. */
static const char **flow_ours_list(const struct flow *f)
{
	const char **v =
		xcalloc(json_len(f->ours) + tree_count_made(f->rec_orig) +
				tree_count_made(f->rec_best) + tree_count_made(f->rec_cand) + 1,
			sizeof(*v));
	size_t n = 0;

	for (void *it = json_iter(f->ours); it; it = json_next(f->ours, it))
		v[n++] = json_iter_key(it);
	n += tree_list_made(f->rec_orig, v + n);
	n += tree_list_made(f->rec_best, v + n);
	(void)tree_list_made(f->rec_cand, v + n);
	return v;
}

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

/* Files that the delivery may have touched: build files are changed while it is being proven. */
static bool tree_is_delivered(const struct flow *f, const char *path)
{
	static const char *const names[] = { "CMakeLists.txt", "Makefile", "makefile",
					     "GNUmakefile" };
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (size_t i = 0; f->state == FLOW_DELIVER && i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(base, names[i]) == 0)
			return true;
	}
	return false;
}

/* What a restoration is about to undo although none of our builds or runs made it. */
struct tree_aside {
	struct flow *f;
	size_t n;
	char *first;
};

static bool tree_is_ours(const struct flow *f, const char *path)
{
	return json_get(f->ours, path) || json_get(f->built, path) || tree_is_bookkeeping(path) ||
	       tree_made_by(f->rec_orig, path) || tree_made_by(f->rec_best, path) ||
	       tree_made_by(f->rec_cand, path) || tree_is_delivered(f, path);
}

/* A copy in .rocbudai/set-aside, so that nothing of a user's is lost by being put back. */
static int tree_set_aside(void *arg, enum ckpt_act act, const char *path)
{
	struct tree_aside *t = arg;
	AUTO_FREE char *from = NULL;
	AUTO_FREE char *to = NULL;
	AUTO_FREE char *text = NULL;
	char *slash;
	size_t len = 0;

	if (act == CKPT_ACT_META || act == CKPT_ACT_KEEP || tree_is_ours(t->f, path))
		return 0;
	from = file_join(t->f->dir, path);
	if (file_read(AT_FDCWD, from, TREE_ASIDE_MAX, &text, &len, NULL) < 0)
		return 0; /* a folder, or it is gone: the restoration makes it again */
	to = xasprintf("%s/.rocbudai/set-aside/%s", t->f->dir, path);
	slash = strrchr(to, '/');
	*slash = '\0';
	(void)file_mkdirs(to, 0700, NULL);
	*slash = '/';
	if (file_write_atomic(AT_FDCWD, to, text, len, 0600, NULL) < 0)
		return 0; /* its content is in a checkpoint all the same */
	if (t->n++ == 0)
		t->first = xstrdup(path);
	return 0;
}

int flow_tree_restore(struct flow *f, const char *id, struct err *err)
{
	AUTO_FREE const char **ours = flow_ours_list(f);
	struct ckpt_restore_opts opts = { .policy = CKPT_KEEP_UNKNOWN, .ours = ours };
	struct ckpt_restored res = { 0 };
	struct tree_aside aside = { .f = f };
	int r = ckpt_restore(f->c, id, &opts, tree_set_aside, &aside, &res, err);

	if (aside.n && r == ERR_OK)
		flow_say(
			f,
			"%zu files that were made or changed meanwhile were put back (the first: %s); "
			"what they held lies in .rocbudai/set-aside",
			aside.n, aside.first);
	free(aside.first);
	return r < 0 ? err_wrap(err, r, "bring the project back to checkpoint %s", id) : ERR_OK;
}

/* Names that are not UTF-8 cannot be keys; such a file stays and is only not cleaned up. */
static void tree_note(struct json *set, const char *path)
{
	AUTO_JSON struct json *name = json_new_str(path);

	if (json_len(set) < FLOW_OUR_FILES_MAX && strcmp(json_str(name), path) == 0)
		json_set_bool(set, path, true);
}

static int tree_note_run(void *arg, const struct ckpt_diff *d)
{
	struct flow *f = arg;

	if (d->b && d->change != CKPT_META && !json_get(f->before_run, d->b->path))
		tree_note(f->ours, d->b->path);
	return 0;
}

static int tree_note_before(void *arg, const struct ckpt_diff *d)
{
	struct flow *f = arg;

	if (d->b && d->change != CKPT_META)
		tree_note(f->before_run, d->b->path);
	return 0;
}

static int tree_note_built(void *arg, const struct ckpt_diff *d)
{
	struct flow *f = arg;

	if (d->b && d->change != CKPT_META)
		tree_note(f->built, d->b->path);
	return 0;
}

int flow_tree_before_run(struct flow *f, const char *since, struct err *err)
{
	json_unref(f->before_run);
	f->before_run = json_new_obj();
	return ckpt_diff(f->c, since, CKPT_LIVE, tree_note_before, f, err);
}

int flow_tree_note_ours(struct flow *f, const char *since, struct err *err)
{
	return ckpt_diff(f->c, since, CKPT_LIVE, tree_note_run, f, err);
}

int flow_tree_note_built(struct flow *f, struct err *err)
{
	return ckpt_diff(f->c, f->ck_orig, f->ck_best, tree_note_built, f, err);
}

struct tree_foreign {
	const struct flow *f;
	char *first;
};

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
