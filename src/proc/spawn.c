/*
 * The child between fork and exec.  It shares the keeper's memory (CLONE_VM), as posix_spawn does:
 * a fork would copy the keeper's page tables for each run.  So it calls nothing that locks or
 * allocates, and writes to no memory but its own stack.  A child with mounts is forked: mounting
 * may take long, and the keeper must stay able to react.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proc/proc_priv.h"

#define SPAWN_STACK ((size_t)64 << 10)

/* Sanitizers keep state of their own for each stack, which a shared memory would upset. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPAWN_SHARE_VM 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
	__has_feature(memory_sanitizer)
#define SPAWN_SHARE_VM 0
#endif
#endif
#ifndef SPAWN_SHARE_VM
#define SPAWN_SHARE_VM 1
#endif

/* The next string of the body, or NULL when none is left. */
static char *spawn_next(char **at, const char *end)
{
	char *p = *at;
	const char *nul = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;

	if (!nul)
		return NULL;
	*at = p + (nul - p) + 1;
	return p;
}

static bool spawn_parse_strings(char **out, uint32_t n, char **at, const char *end)
{
	for (uint32_t i = 0; i < n; i++) {
		out[i] = spawn_next(at, end);
		if (!out[i])
			return false;
	}
	out[n] = NULL;
	return true;
}

/* A source is "=" and the path, or "" for a tmpfs. */
static bool spawn_parse_mounts(struct proc_mount *out, uint32_t n, char **at, const char *end)
{
	for (uint32_t i = 0; i < n; i++) {
		const char *src = spawn_next(at, end);

		out[i].dst = src ? spawn_next(at, end) : NULL;
		if (!out[i].dst)
			return false;
		out[i].src = *src ? src + 1 : NULL;
	}
	return true;
}

int spawn_parse(struct spawn *s, const struct wire_head *head, char *body, size_t n)
{
	size_t limits = head->n_limits * sizeof(struct proc_limit);
	const char *end = body + n;
	size_t mounts = head->n_mounts * sizeof(struct proc_mount);
	char *at = body + limits;
	char *block;

	if (head->n_argv == 0 || limits > n)
		return EBADMSG;
	block = malloc(limits + mounts +
		       ((size_t)head->n_argv + head->n_envp + 4) * sizeof(char *));
	if (!block)
		return ENOMEM;
	s->head = head;
	s->block = block;
	s->limits = (struct proc_limit *)(void *)block;
	s->mounts = (struct proc_mount *)(void *)(block + limits);
	s->argv = (char **)(void *)(block + limits + mounts) + 1;
	s->envp = s->argv + head->n_argv + 2;
	if (limits)
		memcpy(s->limits, body, limits);
	if (!spawn_parse_strings(s->argv, head->n_argv, &at, end) ||
	    !spawn_parse_strings(s->envp, head->n_envp, &at, end) ||
	    !spawn_parse_mounts(s->mounts, head->n_mounts, &at, end))
		return EBADMSG;
	if (head->flags & WIRE_CWD_TEXT) {
		s->cwd = spawn_next(&at, end);
		if (!s->cwd)
			return EBADMSG;
	}
	return at == end ? 0 : EBADMSG;
}

_Noreturn static void spawn_fail(const struct spawn *s, enum wire_stage stage, int errnum,
				 uint32_t index)
{
	struct wire_fail f = { .stage = (int32_t)stage, .errnum = errnum, .index = index };

	(void)!write(s->status_fd, &f, sizeof(f));
	_exit(127);
}

/* ---- mounts ---- */

static bool spawn_write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);
	bool ok;

	if (fd < 0)
		return false;
	ok = write(fd, text, n) == (ssize_t)n;
	(void)close(fd);
	return ok;
}

/* As root, or where that is forbidden in a user namespace in which we keep our ids. */
static bool spawn_unshare(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(CLONE_NEWNS) == 0)
		return true;
	if (errno != EPERM || unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return false;
	/* the kernel wants setgroups given up before an unprivileged gid map */
	if (!spawn_write_file("/proc/self/setgroups", "deny") && errno != ENOENT)
		return false;
	(void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)uid, (unsigned)uid);
	if (!spawn_write_file("/proc/self/uid_map", map))
		return false;
	(void)snprintf(map, sizeof(map), "%u %u 1", (unsigned)gid, (unsigned)gid);
	return spawn_write_file("/proc/self/gid_map", map);
}

/* An empty folder with the mode and owner of the one it covers. */
static bool spawn_mount_tmpfs(const char *dst)
{
	struct stat st;
	char opt[64];

	if (stat(dst, &st) != 0)
		return false;
	(void)snprintf(opt, sizeof(opt), "mode=%o", (unsigned)st.st_mode & 07777U);
	if (mount("tmpfs", dst, "tmpfs", MS_NOSUID | MS_NODEV, opt) != 0)
		return false;
	/* in a user namespace the owner may have no number here; then the folder is ours */
	(void)!chown(dst, st.st_uid, st.st_gid);
	return true;
}

/* Makes the folder dst where an empty one of ours hides it; elsewhere nothing is made. */
static void spawn_mount_point(const struct proc_mount *mounts, size_t n, const char *dst)
{
	char path[PATH_MAX];
	size_t top = 0, len = strlen(dst);

	for (size_t i = 0; i < n; i++) {
		size_t have = strlen(mounts[i].dst);

		if (!mounts[i].src && have < len && dst[have] == '/' &&
		    memcmp(mounts[i].dst, dst, have) == 0)
			top = have;
	}
	if (!top || len >= sizeof(path))
		return;
	memcpy(path, dst, len + 1);
	for (size_t i = top + 1; i <= len; i++) {
		if (path[i] == '/' || path[i] == '\0') {
			path[i] = '\0';
			(void)mkdir(path, 0755);
			path[i] = dst[i];
		}
	}
}

bool spawn_mount_ns(const struct proc_mount *mounts, size_t n, struct wire_fail *f)
{
	int src[WIRE_LIST_MAX];

	f->stage = STAGE_NAMESPACE;
	if (!spawn_unshare())
		goto fail;
	/* or the mounts would spread to everybody's view */
	f->stage = STAGE_PRIVATE;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		goto fail;
	f->stage = STAGE_MOUNT;
	/* all sources are opened first: a mount may hide the source of a later one */
	for (f->index = 0; f->index < n; f->index++) {
		const char *path = mounts[f->index].src;

		src[f->index] = path ? open(path, O_PATH | O_CLOEXEC) : -1;
		if (path && src[f->index] < 0)
			goto fail;
	}
	for (f->index = 0; f->index < n; f->index++) {
		const struct proc_mount *m = &mounts[f->index];
		char path[32];

		spawn_mount_point(mounts, f->index, m->dst);
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", src[f->index]);
		if (m->src ? mount(path, m->dst, NULL, MS_BIND | MS_REC, NULL) != 0
			   : !spawn_mount_tmpfs(m->dst))
			goto fail;
	}
	f->stage = STAGE_NONE;
	return true;
fail:
	f->errnum = errno;
	return false;
}

/* ---- exec ---- */

/* execve, and the shell for a script without a first line that says who reads it. */
static int spawn_exec_path(const struct spawn *s, char *path)
{
	char **argv = s->argv;
	char *old[2];
	int e;

	(void)execve(path, argv, s->envp);
	if (errno != ENOEXEC)
		return errno;
	old[0] = argv[-1];
	old[1] = argv[0];
	argv[-1] = (char *)(uintptr_t) "/bin/sh";
	argv[0] = path;
	(void)execve("/bin/sh", argv - 1, s->envp);
	e = errno;
	argv[-1] = old[0];
	argv[0] = old[1];
	return e;
}

static const char *spawn_path(const struct spawn *s)
{
	for (char **e = s->envp; *e; e++) {
		if (strncmp(*e, "PATH=", 5) == 0)
			return *e + 5;
	}
	return "/bin:/usr/bin";
}

/* The errno that a look-up along PATH goes on after. */
static bool spawn_goes_on(int e)
{
	return e == ENOENT || e == ENOTDIR || e == EACCES || e == ENODEV || e == ESTALE ||
	       e == ETIMEDOUT || e == ENAMETOOLONG || e == ELOOP;
}

static int spawn_exec(const struct spawn *s)
{
	char *name = s->argv[0];
	size_t len = strlen(name);
	int result = ENOENT;
	char buf[4096 + 256];

	if (strchr(name, '/'))
		return spawn_exec_path(s, name);
	if (len == 0 || len > 255)
		return len ? ENAMETOOLONG : ENOENT;
	for (const char *p = spawn_path(s);; p++) {
		size_t n = strcspn(p, ":");
		size_t at = 0;

		if (n < 4096) {
			memcpy(buf, p, n);
			at = n;
			/* an empty element is the working directory */
			if (n == 0)
				buf[at++] = '.';
			buf[at++] = '/';
			memcpy(buf + at, name, len + 1);
			int e = spawn_exec_path(s, buf);

			if (!spawn_goes_on(e))
				return e;
			/* there, but not ours to run, tells more than not found; a folder that we
			 * may not look into tells nothing */
			if (e == EACCES && access(buf, F_OK) == 0)
				result = e;
		}
		p += n;
		if (!*p)
			return result;
	}
}

/* ---- the child ---- */

static void spawn_streams(const struct spawn *s)
{
	int err_fd = s->head->flags & WIRE_MERGE ? s->out_fd : s->err_fd;

	/* 0, 1 and 2 of the keeper are /dev/null; what it received lies above */
	if (s->out_fd >= 0 && dup2(s->out_fd, 1) < 0)
		spawn_fail(s, STAGE_STREAMS, errno, 0);
	if (err_fd >= 0 && dup2(err_fd, 2) < 0)
		spawn_fail(s, STAGE_STREAMS, errno, 0);
}

static void spawn_limits(const struct spawn *s)
{
	for (uint32_t i = 0; i < s->head->n_limits; i++) {
		struct rlimit rl = { .rlim_cur = s->limits[i].value,
				     .rlim_max = s->limits[i].value };

		if (setrlimit((__rlimit_resource_t)s->limits[i].resource, &rl) != 0)
			spawn_fail(s, STAGE_LIMIT, errno, i);
	}
}

static int spawn_child(void *arg)
{
	const struct spawn *s = arg;
	const struct wire_head *h = s->head;
	sigset_t none;

	(void)setpgid(0, 0);
	spawn_streams(s);
	if (h->n_mounts) {
		struct wire_fail f = { 0 };

		if (!spawn_mount_ns(s->mounts, h->n_mounts, &f))
			spawn_fail(s, (enum wire_stage)f.stage, f.errnum, f.index);
	}
	if (s->cwd ? chdir(s->cwd) != 0 : fchdir(s->cwd_fd) != 0)
		spawn_fail(s, STAGE_CHDIR, errno, 0);
	if (h->flags & WIRE_CPUS && sched_setaffinity(0, sizeof(h->cpus), &h->cpus) != 0)
		spawn_fail(s, STAGE_AFFINITY, errno, 0);
	spawn_limits(s);
	/* after the namespace, which clears it */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != s->keeper)
		_exit(127);
	/* all of ours are CLOEXEC already; this is for what a library may have opened */
	(void)syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC);
	/* the keeper has default actions only */
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	spawn_fail(s, STAGE_EXEC, spawn_exec(s), 0);
}

pid_t spawn_start(const struct spawn *s)
{
	pid_t pid;

#if SPAWN_SHARE_VM
	/* the keeper has one thread and starts one program at a time */
	static _Alignas(16) char stack[SPAWN_STACK];

	if (!s->head->n_mounts)
		return clone(spawn_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
			     (void *)(uintptr_t)s);
#endif
	pid = fork();
	if (pid == 0)
		_exit(spawn_child((void *)(uintptr_t)s));
	return pid;
}
