/* All play files of the built-in folder and of the user's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "diagnose/diagnose_priv.h"

static void plays_error(struct diagnose_plays *p, char *take)
{
	p->errors = xrealloc_n(p->errors, p->n_errors + 1, sizeof(*p->errors));
	p->errors[p->n_errors++] = take;
}

static int plays_is_file(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return e->d_name[0] != '.' && n > 3 && strcmp(e->d_name + n - 3, ".md") == 0;
}

static void plays_add(struct diagnose_plays *p, const char *dir, const char *name, bool builtin)
{
	AUTO_FREE char *path = file_join(dir, name);
	AUTO_FREE char *text = NULL;
	struct diagnose_play play = { 0 };
	struct err err = { 0 };
	size_t len = 0;

	if (file_read(AT_FDCWD, path, DIAGNOSE_PLAY_MAX, &text, &len, &err) < 0) {
		plays_error(p, xasprintf("%s:1: %s", path, err.msg));
		return;
	}
	if (diagnose_play_parse(text, len, path, &play, &err) < 0) {
		plays_error(p, xstrdup(err.msg));
		return;
	}
	for (size_t i = 0; i < p->n; i++) {
		if (strcmp(p->v[i].id, play.id) != 0)
			continue;
		plays_error(p, xasprintf("%s:1: the id '%s' is taken by %s; give this play another",
					 path, play.id, p->v[i].path));
		diagnose_play_done(&play);
		return;
	}
	play.builtin = builtin;
	p->v = xrealloc_n(p->v, p->n + 1, sizeof(*p->v));
	p->v[p->n++] = play;
}

static int plays_folder(struct diagnose_plays *p, const char *dir, bool builtin, struct err *err)
{
	struct dirent **names;
	int n = scandir(dir, &names, plays_is_file, alphasort);
	int r = ERR_OK;

	if (n < 0)
		return err_sys(err, errno, "read the folder of plays %s", dir);
	if (n > DIAGNOSE_PLAYS_MAX)
		r = err_set(err, ERR_LIMIT, "%s holds %d plays, more than %d", dir, n,
			    DIAGNOSE_PLAYS_MAX);
	for (int i = 0; i < n; i++) {
		if (r == ERR_OK)
			plays_add(p, dir, names[i]->d_name, builtin);
		free(names[i]);
	}
	free(names);
	return r;
}

static int plays_compare(const void *a, const void *b)
{
	const struct diagnose_play *x = a, *y = b;

	return x->order != y->order ? (x->order > y->order) - (x->order < y->order)
				    : strcmp(x->id, y->id);
}

int diagnose_plays_load(const char *builtin_dir, const char *user_dir, struct diagnose_plays **out,
			struct err *err)
{
	AUTO_FREE char *own = builtin_dir ? xstrdup(builtin_dir) : file_data_path("plays");
	const char *user = user_dir ? user_dir : env_get(ENV_PLAYS_DIR);
	struct diagnose_plays *p = xcalloc(1, sizeof(*p));
	int r = plays_folder(p, own, true, err);

	if (r == ERR_OK && user)
		r = plays_folder(p, user, false, err);
	if (r < 0) {
		diagnose_plays_free(p);
		return r;
	}
	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), plays_compare);
	*out = p;
	return ERR_OK;
}

void diagnose_plays_free(struct diagnose_plays *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		diagnose_play_done(&p->v[i]);
	for (size_t i = 0; i < p->n_errors; i++)
		free(p->errors[i]);
	free(p->v);
	free(p->errors);
	free(p);
}
