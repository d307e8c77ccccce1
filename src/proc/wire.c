#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proc/proc_priv.h"

#define WIRE_FDS_MAX 4

uint64_t wire_now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

int wire_pidfd_open(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

int wire_fd_high(int fd)
{
	int high;

	if (fd < 0 || fd > 2)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	(void)close(fd);
	return high;
}

bool wire_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
	} ctl = { 0 };
	const char *p = data;
	size_t left = n;

	while (left) {
		struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = left };
		struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
		ssize_t r;

		if (n_fds && left == n) {
			struct cmsghdr *c = &ctl.align; /* the first and only one */

			m.msg_control = ctl.buf;
			m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
			c->cmsg_level = SOL_SOCKET;
			c->cmsg_type = SCM_RIGHTS;
			c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
			memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
		}
		r = sendmsg(sock, &m, MSG_NOSIGNAL);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return false;
		p += r;
		left -= (size_t)r;
	}
	return true;
}

/* Descriptors beyond the caller's room are closed, not leaked. */
static void wire_take_fds(struct msghdr *m, int *fds, size_t room, size_t *got)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t k;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (*got < room)
				fds[(*got)++] = fd;
			else
				(void)close(fd);
		}
	}
}

bool wire_recv(int sock, void *data, size_t n, int *fds, size_t *n_fds)
{
	size_t room = n_fds ? *n_fds : 0, got = 0, have = 0;

	while (have < n) {
		union {
			struct cmsghdr align;
			char buf[CMSG_SPACE(WIRE_FDS_MAX * sizeof(int))];
		} ctl = { 0 };
		struct iovec iov = { .iov_base = (char *)data + have, .iov_len = n - have };
		struct msghdr m = { .msg_iov = &iov,
				    .msg_iovlen = 1,
				    .msg_control = ctl.buf,
				    .msg_controllen = sizeof(ctl.buf) };
		ssize_t r = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		wire_take_fds(&m, fds, room, &got);
		have += (size_t)r;
	}
	if (have < n) {
		while (got)
			(void)close(fds[--got]);
	}
	if (n_fds)
		*n_fds = got;
	return have == n;
}
