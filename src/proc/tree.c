/*
 * Descendants, found by a scan of /proc.  A scan is no snapshot: what is forked meanwhile is seen
 * by the next one, and because root is a sub-reaper nothing below it can get out of reach, so that
 * repeated scans converge as soon as processes are stopped faster than they fork.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "proc/proc_priv.h"

#define TREE_MAX	((size_t)4 << 20) /* the kernel's largest pid_max */
#define TREE_KILL_NS	UINT64_C(10000000000)
#define TREE_KILL_TRIES 3 /* plain passes before processes are stopped first */
#define TREE_TERM_TRIES 10
#define TREE_STOP_NS	UINT64_C(2000000000)

struct tree_entry {
	pid_t pid, ppid;
	char state;
	bool live;  /* not a zombie */
	bool below; /* a descendant of root */
};

struct tree {
	struct tree_entry *e; /* by pid, ascending */
	size_t n, cap;
};

static void tree_done(struct tree *t)
{
	free(t->e);
	*t = (struct tree){ 0 };
}

/* Field k (1 is the one after the name) of a line of /proc/PID/stat whose name was skipped. */
static long tree_field(const char *p, int k)
{
	while (k > 1 && *p) {
		if (*p++ == ' ')
			k--;
	}
	return strtol(p, NULL, 10);
}

static bool tree_read(int proc_fd, pid_t pid, struct tree_entry *out)
{
	char path[32], buf[1024];
	const char *p;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%d/stat", (int)pid);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, buf, sizeof(buf) - 1);
	(void)close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	/* the name may hold blanks and brackets itself */
	p = strrchr(buf, ')');
	if (!p || p[1] != ' ' || !p[2])
		return false;
	p += 2;
	*out = (struct tree_entry){ .pid = pid, .state = *p, .ppid = (pid_t)tree_field(p, 2) };
	/* a process whose first thread has ended shows as a zombie while the others run */
	out->live = (*p != 'Z' && *p != 'X') || tree_field(p, 18) > 1;
	return true;
}

static bool tree_add(struct tree *t, const struct tree_entry *e)
{
	if (t->n == t->cap) {
		size_t cap = t->cap ? t->cap * 2 : 512;
		struct tree_entry *p;

		if (cap > TREE_MAX)
			return false;
		p = realloc(t->e, cap * sizeof(*p));
		if (!p)
			return false;
		t->e = p;
		t->cap = cap;
	}
	t->e[t->n++] = *e;
	return true;
}

static int tree_cmp(const void *a, const void *b)
{
	pid_t x = ((const struct tree_entry *)a)->pid, y = ((const struct tree_entry *)b)->pid;

	return (x > y) - (x < y);
}

static struct tree_entry *tree_find(const struct tree *t, pid_t pid)
{
	struct tree_entry key = { .pid = pid };

	return t->n ? bsearch(&key, t->e, t->n, sizeof(key), tree_cmp) : NULL;
}

/* All processes there are.  Without memory or /proc: what was read so far. */
static void tree_read_all(struct tree *t, int proc_fd)
{
	_Alignas(struct dirent64) char buf[4096];
	ssize_t n;

	while ((n = getdents64(proc_fd, buf, sizeof(buf))) > 0) {
		for (ssize_t at = 0; at < n;) {
			struct tree_entry e;
			const struct dirent64 *d = (const struct dirent64 *)(buf + at);
			char *end;
			long pid = strtol(d->d_name, &end, 10);

			at += d->d_reclen;
			if (*end || pid <= 0 || !tree_read(proc_fd, (pid_t)pid, &e))
				continue;
			if (!tree_add(t, &e))
				return;
		}
	}
}

/* Leaves the descendants of root in t; the number of those that live. */
static size_t tree_scan(struct tree *t, int proc_fd, pid_t root)
{
	size_t kept = 0, live = 0;
	bool more = true;

	t->n = 0;
	if (lseek(proc_fd, 0, SEEK_SET) < 0)
		return 0;
	tree_read_all(t, proc_fd);
	/* /proc is in order of pid, but no manual page promises it */
	if (t->n)
		qsort(t->e, t->n, sizeof(*t->e), tree_cmp);
	while (more) {
		more = false;
		for (size_t i = 0; i < t->n; i++) {
			struct tree_entry *e = &t->e[i];
			const struct tree_entry *parent;

			if (e->below)
				continue;
			parent = e->ppid == root ? NULL : tree_find(t, e->ppid);
			if (e->ppid != root && !(parent && parent->below))
				continue;
			e->below = true;
			more = true;
		}
	}
	for (size_t i = 0; i < t->n; i++) {
		if (!t->e[i].below)
			continue;
		live += t->e[i].live;
		t->e[kept++] = t->e[i];
	}
	t->n = kept;
	return live;
}

/*
 * Signals one member of t, and only that: the number may have been given to another process since
 * the scan, so a pidfd is taken first and the parent is looked at again.  0 or an errno.
 */
static int tree_send(const struct tree *t, int proc_fd, pid_t root, pid_t pid, int sig)
{
	AUTO_CLOSE int fd = wire_pidfd_open(pid);
	struct tree_entry now;
	long r;

	if (fd < 0 && errno == ESRCH)
		return ESRCH;
	if (!tree_read(proc_fd, pid, &now) || !now.live)
		return ESRCH;
	if (now.ppid != root && !tree_find(t, now.ppid))
		return ESRCH;
	if (fd >= 0)
		r = syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
	else
		r = kill(pid, sig);
	return r < 0 ? errno : 0;
}

/* Each one once: a second TERM would end what the first one made it do in order. */
void tree_term(pid_t root)
{
	AUTO_CLOSE int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct tree t = { 0 }, told = { 0 };
	size_t n_new = 1;

	/* again, for what was forked between a scan and its parent's signal */
	for (int pass = 0; proc_fd >= 0 && n_new && pass < TREE_TERM_TRIES; pass++) {
		struct tree tmp = told;

		n_new = 0;
		(void)tree_scan(&t, proc_fd, root);
		for (size_t i = 0; i < t.n; i++) {
			if (!t.e[i].live || tree_find(&told, t.e[i].pid))
				continue;
			n_new++;
			(void)tree_send(&t, proc_fd, root, t.e[i].pid, SIGTERM);
			/* a stopped process acts on it only when somebody continues it */
			(void)tree_send(&t, proc_fd, root, t.e[i].pid, SIGCONT);
		}
		told = t;
		t = tmp;
	}
	tree_done(&t);
	tree_done(&told);
}

/* Against programs that fork faster than they are killed: nothing is freed until all stand still.
 */
static void tree_stop(int proc_fd, pid_t root, uint64_t deadline)
{
	struct tree t = { 0 };
	size_t moving = 1;

	while (moving && wire_now_ns() < deadline) {
		moving = 0;
		(void)tree_scan(&t, proc_fd, root);
		for (size_t i = 0; i < t.n; i++) {
			if (!t.e[i].live || t.e[i].state == 'T')
				continue;
			if (tree_send(&t, proc_fd, root, t.e[i].pid, SIGSTOP) == 0)
				moving++;
		}
	}
	tree_done(&t);
}

static bool tree_is_stuck(const struct tree_stuck *s, pid_t pid)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->pid[i] == pid)
			return true;
	}
	return false;
}

struct tree_pass {
	struct tree cur, prev;
	int proc_fd;
};

/* One scan and a SIGKILL for each.  Returns how many may still end from it. */
static size_t tree_kill_pass(const struct tree_job *job, struct tree_pass *p,
			     struct tree_count *out)
{
	struct tree tmp = p->prev;
	size_t hope = 0;

	p->prev = p->cur;
	p->cur = tmp;
	(void)tree_scan(&p->cur, p->proc_fd, job->root);
	for (size_t i = 0; i < p->cur.n; i++) {
		const struct tree_entry *e = &p->cur.e[i];
		int r;

		if (!e->live || tree_is_stuck(job->stuck, e->pid)) {
			/* ours to reap; another's goes with its parent */
			hope += !e->live && e->ppid == job->root;
			continue;
		}
		if (e->pid != job->program && !tree_find(&p->prev, e->pid))
			out->n_leftover++;
		r = tree_send(&p->cur, p->proc_fd, job->root, e->pid, SIGKILL);
		hope += r != EPERM;
	}
	return hope;
}

/* What lives still is remembered, and counted where it is new. */
static void tree_note_stuck(const struct tree_job *job, struct tree_pass *p, struct tree_count *out)
{
	struct tree_stuck now = { .n = 0 };

	(void)tree_scan(&p->cur, p->proc_fd, job->root);
	for (size_t i = 0; i < p->cur.n; i++) {
		const struct tree_entry *e = &p->cur.e[i];

		if (!e->live)
			continue;
		if (!tree_is_stuck(job->stuck, e->pid))
			out->n_unkillable++;
		if (now.n < TREE_STUCK_MAX)
			now.pid[now.n++] = e->pid;
	}
	*job->stuck = now;
}

void tree_kill(const struct tree_job *job, struct tree_count *out)
{
	struct tree_pass p = { .proc_fd = -1 };
	uint64_t deadline = 0;

	*out = (struct tree_count){ 0 };
	if (job->reap(job->arg)) {
		job->stuck->n = 0;
		return;
	}
	deadline = wire_now_ns() + TREE_KILL_NS;
	p.proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned pass = 0;; pass++) {
		struct pollfd pfd = { .fd = job->sigchld_fd, .events = POLLIN };

		if (p.proc_fd < 0 || wire_now_ns() > deadline) {
			tree_note_stuck(job, &p, out);
			break;
		}
		if (pass >= TREE_KILL_TRIES)
			tree_stop(p.proc_fd, job->root, wire_now_ns() + TREE_STOP_NS);
		if (tree_kill_pass(job, &p, out) == 0) {
			tree_note_stuck(job, &p, out);
			break;
		}
		(void)poll(&pfd, 1, pass < 10 ? 1 : 10);
		if (job->reap(job->arg)) {
			job->stuck->n = 0;
			break;
		}
	}
	tree_done(&p.cur);
	tree_done(&p.prev);
	if (p.proc_fd >= 0)
		(void)close(p.proc_fd);
}
