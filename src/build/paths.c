#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"

#define WALK_MAX_FILES 1000000U
#define WALK_MAX_DEPTH 64

void build_strv_add(char ***v, size_t *n, char *take)
{
	*v = xrealloc_n(*v, *n + 1, sizeof(**v));
	(*v)[(*n)++] = take;
}

bool build_strv_has(char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i], s) == 0)
			return true;
	}
	return false;
}

void build_strv_free(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

const char *build_path_base(const char *path)
{
	const char *b = strrchr(path, '/');

	return b ? b + 1 : path;
}

/* Adds the components of path to the absolute path in out (which has room), resolving dots. */
static size_t add_components(char *out, size_t n, const char *path)
{
	while (*path) {
		size_t l = strcspn(path, "/");

		if (l == 2 && path[0] == '.' && path[1] == '.') {
			while (n && out[--n] != '/')
				;
		} else if (l && !(l == 1 && path[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, path, l);
			n += l;
		}
		path += l;
		path += strspn(path, "/");
	}
	return n;
}

char *build_path_abs(const char *cwd, const char *path)
{
	char *out = xcalloc(strlen(cwd) + strlen(path) + 4, 1);
	size_t n = 0;

	if (path[0] != '/')
		n = add_components(out, n, cwd);
	n = add_components(out, n, path);
	if (!n)
		out[n++] = '/';
	out[n] = '\0';
	return out;
}

bool build_path_below(const char *dir, const char *abs)
{
	size_t n = strlen(dir);

	while (n && dir[n - 1] == '/')
		n--;
	return strncmp(abs, dir, n) == 0 && abs[n] == '/' && abs[n + 1];
}

char *build_path_show(const char *dir, const char *abs)
{
	size_t n = strlen(dir);

	if (!build_path_below(dir, abs))
		return xstrdup(abs);
	while (n && dir[n - 1] == '/')
		n--;
	return xstrdup(abs + n + 1);
}

char *build_path_full(const struct build_record *r, const char *shown)
{
	return build_path_abs(r->dir, shown);
}

struct walk {
	build_walk_cb cb;
	void *arg;
	unsigned n;
};

static void walk_dir(struct walk *w, int dir_fd, const char *path, int depth)
{
	DIR *d = fdopendir(dir_fd);

	if (!d) {
		(void)close(dir_fd);
		return;
	}
	for (struct dirent *e; w->n < WALK_MAX_FILES && (e = readdir(d));) {
		AUTO_FREE char *sub = NULL;
		struct stat st;
		int fd;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    strcmp(e->d_name, ".git") == 0 || strcmp(e->d_name, ".rocbudai") == 0 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		sub = file_join(path, e->d_name);
		if (S_ISREG(st.st_mode)) {
			w->n++;
			w->cb(w->arg, sub, &st);
		} else if (S_ISDIR(st.st_mode) && depth < WALK_MAX_DEPTH) {
			fd = openat(dirfd(d), e->d_name,
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
			if (fd >= 0)
				walk_dir(w, fd, sub, depth + 1);
		}
	}
	(void)closedir(d);
}

void build_walk(const char *dir, build_walk_cb cb, void *arg)
{
	struct walk w = { .cb = cb, .arg = arg };
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		walk_dir(&w, fd, dir, 0);
}
