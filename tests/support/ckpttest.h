/* A project, a state folder and an open object for the tests of checkpoints. */
#ifndef SUPPORT_CKPTTEST_H
#define SUPPORT_CKPTTEST_H

#include "base/file.h"
#include "ckpt/ckpt.h"
#include "core/err.h"
#include "tree.h"

static struct err e;

struct place {
	char *top;
	char project[PATH_MAX], state[PATH_MAX];
	struct ckpt *c;
};

static inline void place_reopen(struct place *p, const struct ckpt_opts *opts)
{
	ckpt_close(p->c);
	p->c = NULL;
	CHECK_OK(ckpt_open(p->state, p->project, opts, &p->c, &e), &e);
}

static inline void place_init(struct place *p, const struct ckpt_opts *opts)
{
	*p = (struct place){ .top = tree_tmp() };
	(void)snprintf(p->project, sizeof(p->project), "%s/my 'project'", p->top);
	(void)snprintf(p->state, sizeof(p->state), "%s/state", p->top);
	CHECK(mkdir(p->project, 0755) == 0);
	place_reopen(p, opts);
}

static inline void place_done(struct place *p)
{
	ckpt_close(p->c);
	CHECK_OK(file_remove_tree(AT_FDCWD, p->top, &e), &e);
	free(p->top);
}

static inline void set_mtime(const char *dir, const char *path, time_t sec, long ns)
{
	const struct timespec t[2] = { { .tv_nsec = UTIME_OMIT },
				       { .tv_sec = sec, .tv_nsec = ns } };
	char full[2 * PATH_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK(utimensat(AT_FDCWD, full, t, AT_SYMLINK_NOFOLLOW) == 0);
}

static inline void set_mode(const char *dir, const char *path, mode_t mode)
{
	char full[2 * PATH_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK(chmod(full, mode) == 0);
}

static inline void make_link(const char *dir, const char *path, const char *target)
{
	char full[2 * PATH_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK(symlink(target, full) == 0);
}

static inline void remove_path(const char *dir, const char *path)
{
	char full[2 * PATH_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK_OK(file_remove_tree(AT_FDCWD, full, &e), &e);
}

#endif
