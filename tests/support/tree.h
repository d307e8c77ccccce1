/*
 * Folders for tests: making them, and a text that says all about them, found without the code under
 * test.  Failing calls end the test.
 */
#ifndef SUPPORT_TREE_H
#define SUPPORT_TREE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

struct tree_text {
	char *s;
	size_t n, cap;
};

static inline void tree_add(struct tree_text *t, const void *data, size_t n)
{
	if (t->n + n + 1 > t->cap) {
		t->cap = (t->n + n + 1) * 2;
		t->s = realloc(t->s, t->cap);
		CHECK(t->s);
	}
	memcpy(t->s + t->n, data, n);
	t->n += n;
	t->s[t->n] = '\0';
}

/* A new folder below TMPDIR or /tmp. */
static inline char *tree_tmp(void)
{
	const char *base = getenv("TMPDIR");
	char path[PATH_MAX];
	char *real;

	(void)snprintf(path, sizeof(path), "%s/rb-test-XXXXXX", base && *base ? base : "/tmp");
	CHECK(mkdtemp(path));
	real = realpath(path, NULL);
	CHECK(real);
	return real;
}

static inline void tree_write_n(const char *dir, const char *path, const void *data, size_t n)
{
	char full[2 * PATH_MAX];
	FILE *f;

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	f = fopen(full, "we");
	CHECK(f);
	CHECK(fwrite(data, 1, n, f) == n);
	CHECK(fclose(f) == 0);
}

static inline void tree_write(const char *dir, const char *path, const char *text)
{
	tree_write_n(dir, path, text, strlen(text));
}

static inline void tree_mkdir(const char *dir, const char *path)
{
	char full[2 * PATH_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK(mkdir(full, 0755) == 0);
}

static inline bool tree_has(const char *dir, const char *path)
{
	char full[2 * PATH_MAX];
	struct stat st;

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	return lstat(full, &st) == 0;
}

static inline void tree_describe_file(int dir_fd, const char *name, struct tree_text *out)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t h =
		UINT64_C(1469598103934665603); /* FNV-1a: not the hash of the code under test */
	char buf[4096];
	ssize_t n;

	CHECK(fd >= 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			h = (h ^ (unsigned char)buf[i]) * UINT64_C(1099511628211);
	}
	CHECK(n == 0);
	CHECK(close(fd) == 0);
	n = snprintf(buf, sizeof(buf), " %016llx", (unsigned long long)h);
	tree_add(out, buf, (size_t)n);
}

static inline int tree_cmp_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in an open folder, sorted; *n of them. */
static inline char **tree_names(int fd, size_t *n)
{
	int dup_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fdopendir(dup_fd);
	char **v = NULL;

	CHECK(d);
	*n = 0;
	for (struct dirent *e; (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		v = realloc(v, (*n + 1) * sizeof(*v));
		CHECK(v);
		v[*n] = strdup(e->d_name);
		CHECK(v[(*n)++]);
	}
	(void)closedir(d);
	if (*n)
		qsort(v, *n, sizeof(*v), tree_cmp_names);
	return v;
}

/* top: leave out .git and .rocbudai, which checkpoints leave alone. */
static inline void tree_describe_fd(int fd, const char *prefix, bool top, struct tree_text *out)
{
	size_t n;
	char **v = tree_names(fd, &n);

	for (size_t i = 0; i < n; i++) {
		char line[256], path[PATH_MAX], target[PATH_MAX];
		struct stat st;
		int len;

		(void)snprintf(path, sizeof(path), "%s%s", prefix, v[i]);
		if (top && (strcmp(v[i], ".git") == 0 || strcmp(v[i], ".rocbudai") == 0)) {
			free(v[i]);
			continue;
		}
		CHECK(fstatat(fd, v[i], &st, AT_SYMLINK_NOFOLLOW) == 0);
		len = snprintf(line, sizeof(line), "%07o %u:%u %lld.%09ld %lld ", st.st_mode,
			       st.st_uid, st.st_gid, (long long)st.st_mtim.tv_sec,
			       st.st_mtim.tv_nsec,
			       S_ISDIR(st.st_mode) ? 0LL : (long long)st.st_size);
		tree_add(out, line, (size_t)len);
		tree_add(out, path, strlen(path));
		if (S_ISREG(st.st_mode))
			tree_describe_file(fd, v[i], out);
		if (S_ISLNK(st.st_mode)) {
			ssize_t k = readlinkat(fd, v[i], target, sizeof(target));

			CHECK(k > 0);
			tree_add(out, " -> ", 4);
			tree_add(out, target, (size_t)k);
		}
		tree_add(out, "\n", 1);
		if (S_ISDIR(st.st_mode)) {
			int sub = openat(fd, v[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			CHECK(sub >= 0);
			(void)snprintf(path, sizeof(path), "%s%s/", prefix, v[i]);
			tree_describe_fd(sub, path, false, out);
			CHECK(close(sub) == 0);
		}
		free(v[i]);
	}
	free(v);
}

/* Types, modes, owners, times, sizes, contents and targets of all that is in dir; free(). */
static inline char *tree_describe(const char *dir)
{
	struct tree_text t = { 0 };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	tree_add(&t, "", 0);
	tree_describe_fd(fd, "", true, &t);
	CHECK(close(fd) == 0);
	CHECK(t.s);
	return t.s;
}

/* Fails with the first line that differs. */
static inline void tree_check_same_at(const char *file, int line, const char *got, const char *want)
{
	size_t n = strcspn(got, "\n"), m = strcspn(want, "\n");

	if (strcmp(got, want) == 0)
		return;
	while (n == m && memcmp(got, want, n) == 0 && got[n] && want[m]) {
		got += n + 1;
		want += m + 1;
		n = strcspn(got, "\n");
		m = strcspn(want, "\n");
	}
	(void)fprintf(stderr, "%s:%d: the trees differ:\n  got:  %.*s\n  want: %.*s\n", file, line,
		      (int)n, got, (int)m, want);
	exit(1);
}
#define TREE_CHECK_SAME(got, want) tree_check_same_at(__FILE__, __LINE__, got, want)

#endif
