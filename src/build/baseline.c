/* The first build: everything must be made, so that everything is recorded. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

/* Gives those that were not made again their times back. */
static void rejuvenate(struct ageing *a)
{
	for (size_t i = 0; i < a->n; i++) {
		struct timespec times[2] = { a->v[i].atime, a->v[i].mtime };
		struct stat st;

		if (lstat(a->v[i].path, &st) == 0 && st.st_mtim.tv_sec == OLD_TIME)
			(void)utimensat(AT_FDCWD, a->v[i].path, times, AT_SYMLINK_NOFOLLOW);
		free(a->v[i].path);
	}
	free(a->v);
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
	rejuvenate(&a);
	if (n < 0)
		return n;
	if (build_record_ok(r) && build_record_made(r) == 0) {
		build_record_free(r);
		return err_set(
			err, ERR_NOT_FOUND,
			"the build '%s' compiled nothing that could be seen; give a build "
			"command that builds everything (for make: make -B), with a compiler "
			"that is not linked statically",
			opts->command);
	}
	*out = r;
	return 0;
}
