/*
 * A throw-away project with a state folder of its own, for tests that need a ledger.  Its path
 * holds blanks, quotes and bytes that are no UTF-8, so that every test meets them.
 */
#ifndef SUPPORT_LEDGER_PROJECT_H
#define SUPPORT_LEDGER_PROJECT_H

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"

struct project {
	char root[64];
	char *dir;   /* the project */
	char *state; /* XDG_STATE_HOME */
};

static inline void project_init(struct project *p)
{
	/* many small writes, each with fsync: in memory where that can be had */
	(void)snprintf(p->root, sizeof(p->root), "/dev/shm/rb-project-XXXXXX");
	if (!mkdtemp(p->root)) {
		(void)snprintf(p->root, sizeof(p->root), "/tmp/rb-project-XXXXXX");
		CHECK(mkdtemp(p->root));
	}
	p->dir = file_join(p->root, "a \"pro'ject\" \xff$x");
	p->state = file_join(p->root, "state");
	CHECK(mkdir(p->dir, 0755) == 0);
	CHECK(setenv("XDG_STATE_HOME", p->state, 1) == 0);
}

static inline void project_done(struct project *p)
{
	struct err err = { 0 };

	CHECK_OK(file_remove_tree(AT_FDCWD, p->root, &err), &err);
	free(p->dir);
	free(p->state);
}

/* A file of the project's .rocbudai; caller frees. */
static inline char *project_file(const struct project *p, const char *name)
{
	AUTO_FREE char *dot = file_join(p->dir, ".rocbudai");

	return file_join(dot, name);
}

static inline char *slurp(const char *path)
{
	char *text = NULL;
	struct err err = { 0 };

	CHECK_OK(file_read(AT_FDCWD, path, (size_t)64 << 20, &text, NULL, &err), &err);
	return text;
}

/* Replaces the content in place: the inode stays. */
static inline void spew(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(close(fd) == 0);
}

static inline void append_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(close(fd) == 0);
}

#endif
