#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/ckpt_priv.h"
#include "core/err.h"

void ckpt_dirs_init(struct ckpt_dirs *d, int root)
{
	*d = (struct ckpt_dirs){ .root = root, .fd = -1 };
}

void ckpt_dirs_reset(struct ckpt_dirs *d)
{
	if (d->fd >= 0)
		(void)close(d->fd);
	d->fd = -1;
}

void ckpt_dirs_done(struct ckpt_dirs *d)
{
	ckpt_dirs_reset(d);
}

/* Opens dir (not "") component by component, so that no link is followed anywhere in it. */
static int dirs_open(int root, const char *dir)
{
	char name[256];
	int fd = root;

	for (const char *p = dir;;) {
		size_t n = strcspn(p, "/");
		int next;

		if (n >= sizeof(name)) {
			errno = ENAMETOOLONG;
			next = -1;
		} else {
			memcpy(name, p, n);
			name[n] = '\0';
			next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		}
		if (fd != root) {
			int e = errno;

			(void)close(fd);
			errno = e;
		}
		if (next < 0)
			return -1;
		fd = next;
		p += n;
		if (!*p)
			return fd;
		p++;
	}
}

/* Gives ourselves the right to change what is in the folder; root has it anyway. */
static void dirs_make_writable(int fd)
{
	struct stat st;

	if (geteuid() != 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    (st.st_mode & 0300) != 0300)
		(void)fchmod(fd, (st.st_mode & 07777) | 0700); /* failing shows at the next call */
}

int ckpt_dirs_at(struct ckpt_dirs *d, const char *path, bool write, const char **name,
		 struct err *err)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;

	*name = slash ? slash + 1 : path;
	if (!slash)
		return d->root;
	if (n >= sizeof(d->path))
		return err_set(err, ERR_LIMIT, "%.200s...: path too long", path);
	if (d->fd < 0 || strncmp(d->path, path, n) != 0 || d->path[n] != '\0') {
		ckpt_dirs_reset(d);
		memcpy(d->path, path, n);
		d->path[n] = '\0';
		d->may_write = false;
		d->fd = dirs_open(d->root, d->path);
		if (d->fd < 0)
			return err_sys(err, errno, "open folder %s", d->path);
	}
	if (write && !d->may_write) {
		dirs_make_writable(d->fd);
		d->may_write = true;
	}
	return d->fd;
}
