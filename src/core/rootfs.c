#include "core/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/err.h"

int rootfs_open(const char *root, struct err *err)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, errno, "open %s", root);
	return fd;
}

/* Component by component without following links: for kernels before 5.6, and where seccomp denies
 * openat2.  Links inside the root are refused, so what is read is a subset of the openat2 case. */
static int rootfs_openat_walk(int root_fd, const char *path)
{
	AUTO_CLOSE int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
	char part[256];

	while (at >= 0) {
		size_t n = strcspn(path, "/");
		bool last = path[n] == '\0';
		int fd;

		if (n == 0 || n >= sizeof(part) || (n == 2 && memcmp(path, "..", 2) == 0)) {
			errno = EINVAL;
			return -1;
		}
		memcpy(part, path, n);
		part[n] = '\0';
		fd = openat(at, part, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
		if (last || fd < 0)
			return fd;
		(void)close(at);
		at = fd;
		path += n + 1;
	}
	return -1;
}

static int rootfs_openat(int root_fd, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return rootfs_openat_walk(root_fd, path);
	return fd;
}

int rootfs_read(int root_fd, const char *path, char *buf, size_t cap, struct err *err)
{
	AUTO_CLOSE int fd = rootfs_openat(root_fd, path);
	char small[4096]; /* buf stays untouched on failure */
	AUTO_FREE char *large = cap - 1 > sizeof(small) ? malloc(cap - 1) : NULL;
	char *tmp = large ? large : small;
	size_t n = 0, want = cap - 1;

	if (fd < 0)
		return err_sys(err, errno, "open %s", path);
	if (want > sizeof(small) && !large)
		return err_set(err, ERR_NOMEM, "no memory to read %s", path);
	while (n < want) {
		ssize_t r = read(fd, tmp + n, want - n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(err, errno, "read %s", path);
		if (r == 0)
			break;
		n += (size_t)r;
	}
	memcpy(buf, tmp, n);
	if (n && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return (int)n;
}

int rootfs_read_u64(int root_fd, const char *path, uint64_t *out, struct err *err)
{
	char buf[64] = "";
	char *end;
	unsigned long long v;
	int r = rootfs_read(root_fd, path, buf, sizeof(buf), err);

	if (r < 0)
		return r;
	errno = 0;
	v = strtoull(buf, &end, strncmp(buf, "0x", 2) == 0 ? 16 : 10);
	if (end == buf || errno != 0 || buf[0] == '-' || *end != '\0')
		return err_set(err, ERR_PARSE, "%s: '%.40s' is not an unsigned number", path, buf);
	*out = v;
	return ERR_OK;
}
