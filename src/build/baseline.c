/* The first build: everything must be made, so that everything is recorded. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

/* Old enough that every source is newer, and not 0, which some tools take for "absent". */
#define OLD_TIME 86400

struct aged {
	char *path;
	struct timespec atime, mtime;
	bool object;
};

struct ageing {
	struct aged *v;
	size_t n;
};

static bool has_ext(const char *path, const char *const *exts)
{
	const char *dot = strrchr(build_path_base(path), '.');

	for (; dot && *exts; exts++) {
		if (strcmp(dot + 1, *exts) == 0)
			return true;
	}
	return false;
}

static bool is_elf(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	char magic[4];

	return fd >= 0 && read(fd, magic, 4) == 4 && memcmp(magic, "\177ELF", 4) == 0;
}

static void age(void *arg, const char *path, const struct stat *st)
{
	static const char *const objects[] = { "o", "lo", "obj", NULL };
	static const char *const others[] = { "a", "la", "so", "mod", "smod", "gch", NULL };
	struct ageing *a = arg;
	bool object = has_ext(path, objects);
	struct timespec old[2] = { st->st_atim, { .tv_sec = OLD_TIME } };

	if (!object && !has_ext(path, others) && !((st->st_mode & S_IXUSR) && is_elf(path)))
		return;
	if (utimensat(AT_FDCWD, path, old, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	a->v = xrealloc_n(a->v, a->n + 1, sizeof(*a->v));
	a->v[a->n++] = (struct aged){
		.path = xstrdup(path), .atime = st->st_atim, .mtime = st->st_mtim, .object = object
	};
}

static bool still_old(const struct aged *a)
{
	struct stat st;

	return lstat(a->path, &st) == 0 && st.st_mtim.tv_sec == OLD_TIME;
}

/* Gives those that were not made again their times back. */
static void rejuvenate(const struct ageing *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct timespec times[2] = { a->v[i].atime, a->v[i].mtime };

		if (still_old(&a->v[i]))
			(void)utimensat(AT_FDCWD, a->v[i].path, times, AT_SYMLINK_NOFOLLOW);
	}
}

static void ageing_done(struct ageing *a)
{
	for (size_t i = 0; i < a->n; i++)
		free(a->v[i].path);
	free(a->v);
}

/* ---- objects that age does not impress ---- */

/* Ninja's "restat" rules (CMake's for Fortran) keep a time of their own for what they made, so an
 * object that looks old is not made again.  Those that are linked are set aside for one build. */

static char *aside_name(const char *path)
{
	return xasprintf("%s.rb-aside", path);
}

static bool is_linked(const struct build_record *r, const char *path)
{
	AUTO_FREE char *shown = build_path_show(r->dir, path);

	for (size_t i = 0; i < r->n_steps; i++) {
		const struct build_step *s = &r->steps[i];

		if (s->kind != BUILD_PROBE && build_strv_has(s->objects, s->n_objects, shown))
			return true;
	}
	return false;
}

/* Renames them; those that stay where they are get object = false.  Returns how many moved. */
static size_t set_aside(struct ageing *a, const struct build_record *r)
{
	bool all = build_record_made(r) == 0;
	size_t n = 0;

	for (size_t i = 0; i < a->n; i++) {
		AUTO_FREE char *aside = aside_name(a->v[i].path);

		a->v[i].object = a->v[i].object && still_old(&a->v[i]) &&
				 (all || is_linked(r, a->v[i].path)) &&
				 rename(a->v[i].path, aside) == 0;
		n += a->v[i].object;
	}
	return n;
}

/* Puts back what was not made again, or everything. */
static void put_back(const struct ageing *a, bool everything)
{
	for (size_t i = 0; i < a->n; i++) {
		AUTO_FREE char *aside = a->v[i].object ? aside_name(a->v[i].path) : NULL;
		struct stat st;

		if (!aside)
			continue;
		if (everything || lstat(a->v[i].path, &st) < 0)
			(void)rename(aside, a->v[i].path);
		else
			(void)unlink(aside);
	}
	rejuvenate(a);
}

/* The steps of more behind those of r; status and time are of both. */
static void append(struct build_record *r, struct build_record *more)
{
	r->steps = xrealloc_n(r->steps, r->n_steps + more->n_steps + 1, sizeof(*r->steps));
	for (size_t i = 0; i < more->n_steps; i++)
		r->steps[r->n_steps++] = more->steps[i];
	more->n_steps = 0;
	r->exit_code = more->exit_code;
	r->term_signal = more->term_signal;
	r->timed_out = more->timed_out;
	r->stopped = more->stopped;
	r->truncated |= more->truncated;
	r->wall_ns += more->wall_ns;
	free(r->status);
	free(r->tail);
	r->status = TAKE_PTR(more->status);
	r->tail = TAKE_PTR(more->tail);
	for (size_t i = 0; i < r->n_programs; i++)
		build_program_done(&r->programs[i]);
	r->n_programs = 0;
	build_find_programs(r);
	build_record_free(more);
}

static int build_the_rest(struct proc_keeper *k, const struct build_opts *opts, struct ageing *a,
			  struct build_record *r, struct err *err)
{
	struct build_record *more = NULL;
	int n;

	if (!set_aside(a, r))
		return 0;
	n = build_run(k, opts, &more, err);
	if (n == 0 && build_record_ok(more)) {
		put_back(a, false);
		append(r, more);
		return 0;
	}
	/* objects without sources: they belong there */
	put_back(a, true);
	build_record_free(more);
	if (n == 0)
		n = build_run(k, opts, &more, err);
	if (n == 0)
		append(r, more);
	return n;
}

int build_baseline(struct proc_keeper *k, const struct build_opts *opts, struct build_record **out,
		   struct err *err)
{
	struct build_record *r = NULL;
	struct ageing a = { 0 };
	char real[PATH_MAX];
	int n;

	if (!realpath(opts->dir, real))
		return err_sys(err, errno, "the project's folder '%s'", opts->dir);
	build_walk(real, age, &a);
	n = build_run(k, opts, &r, err);
	if (n == 0 && build_record_ok(r))
		n = build_the_rest(k, opts, &a, r, err);
	rejuvenate(&a);
	ageing_done(&a);
	if (n == 0 && build_record_ok(r) && build_record_made(r) == 0)
		n = err_set(err, ERR_NOT_FOUND,
			    "the build '%s' compiled nothing that could be seen; give a build "
			    "command that builds everything (for make: make -B), with a compiler "
			    "that is not linked statically",
			    opts->command);
	if (n < 0)
		build_record_free(r);
	else
		*out = r;
	return n;
}
