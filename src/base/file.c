#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"

int file_read(int dir_fd, const char *path, size_t max, char **out, size_t *len, struct err *err)
{
	AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	AUTO_FREE char *buf = NULL;
	size_t n = 0, cap;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	if ((unsigned long long)st.st_size > max)
		return err_set(err, ERR_LIMIT, "%s: %lld bytes, more than the limit of %zu", path,
			       (long long)st.st_size, max);
	cap = (size_t)st.st_size + 1;
	for (;;) {
		char *p = realloc(buf, cap + 1);
		ssize_t r;

		if (!p)
			return err_set(err, ERR_NOMEM, "%s: no memory for %zu bytes", path, cap);
		buf = p;
		r = read(fd, buf + n, cap - n);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(err, errno, "read %s", path);
		if (r == 0)
			break;
		n += (size_t)r;
		if (n > max)
			return err_set(err, ERR_LIMIT, "%s: more than the limit of %zu bytes", path,
				       max);
		if (n == cap)
			cap *= 2;
	}
	buf[n] = '\0';
	*out = TAKE_PTR(buf);
	if (len)
		*len = n;
	return ERR_OK;
}

int file_write_all(int fd, const void *data, size_t n, const char *what, struct err *err)
{
	const char *p = data;

	while (n) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(err, errno, "write %s", what);
		p += r;
		n -= (size_t)r;
	}
	return ERR_OK;
}

/* The folder part of path, opened; for fsync after a rename. */
static int file_open_parent(int dir_fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *dir =
		slash ? xstrndup(path, (size_t)(slash - path) + (slash == path)) : xstrdup(".");

	return openat(dir_fd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int file_write_atomic(int dir_fd, const char *path, const void *data, size_t len, mode_t mode,
		      struct err *err)
{
	unsigned long long salt = 0;
	AUTO_FREE char *tmp = NULL;
	AUTO_CLOSE int parent = file_open_parent(dir_fd, path);
	int fd, r;

	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) < 0)
		salt = (unsigned long long)getpid();
	tmp = xasprintf("%s.%016llx.tmp", path, salt);
	fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_sys(err, errno, "create %s", tmp);
	r = file_write_all(fd, data, len, path, err);
	if (r == ERR_OK && fsync(fd) < 0)
		r = err_sys(err, errno, "fsync %s", path);
	if (close(fd) < 0 && r == ERR_OK)
		r = err_sys(err, errno, "close %s", path);
	if (r == ERR_OK && renameat(dir_fd, tmp, dir_fd, path) < 0)
		r = err_sys(err, errno, "rename %s to %s", tmp, path);
	if (r < 0) {
		(void)unlinkat(dir_fd, tmp, 0);
		return r;
	}
	if (parent >= 0)
		(void)fsync(parent); /* some network file systems refuse it on folders */
	return ERR_OK;
}

int file_mkdirs(const char *path, mode_t mode, struct err *err)
{
	AUTO_FREE char *p = xstrdup(path);

	for (char *s = p + 1; *p; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(p, mode) < 0 && errno != EEXIST) {
			struct stat st;

			/* EROFS and EACCES also come for folders that exist */
			if (stat(p, &st) < 0 || !S_ISDIR(st.st_mode))
				return err_sys(err, errno, "create folder %s", p);
		}
		if (c == '\0')
			break;
		*s = c;
	}
	return ERR_OK;
}

static int file_remove_dir(int dir_fd, const char *path, struct err *err)
{
	int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = ERR_OK;

	if (!d) {
		r = err_sys(err, errno, "open folder %s", path);
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	for (struct dirent *e; r == ERR_OK && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = file_remove_tree(dirfd(d), e->d_name, err);
	}
	(void)closedir(d);
	if (r == ERR_OK && unlinkat(dir_fd, path, AT_REMOVEDIR) < 0)
		r = err_sys(err, errno, "remove folder %s", path);
	return r;
}

int file_remove_tree(int dir_fd, const char *path, struct err *err)
{
	struct stat st;

	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? ERR_OK : err_sys(err, errno, "stat %s", path);
	if (S_ISDIR(st.st_mode))
		return file_remove_dir(dir_fd, path, err);
	if (unlinkat(dir_fd, path, 0) < 0 && errno != ENOENT)
		return err_sys(err, errno, "remove %s", path);
	return ERR_OK;
}

bool file_exists(int dir_fd, const char *path)
{
	struct stat st;

	return fstatat(dir_fd, path, &st, 0) == 0;
}

char *file_join(const char *dir, const char *name)
{
	size_t n = strlen(dir);

	if (n == 0)
		return xstrdup(name);
	return xasprintf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

/* "<prefix of the running program>/<sub>/<name>", where the program is <prefix>/bin/rocbudai. */
static char *file_own_path(const char *sub, const char *name)
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[n > 0 ? n : 0] = '\0';
	for (int i = 0; i < 2; i++) {
		if ((slash = strrchr(exe, '/')))
			*slash = '\0';
	}
	return xasprintf("%s/%s/%s", exe, sub, name);
}

char *file_data_path(const char *name)
{
	return file_own_path("share/rocbudai", name);
}

char *file_lib_path(const char *name)
{
	return file_own_path("lib/rocbudai", name);
}
