#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/proc_priv.h"

/* Fixed places, so that all others can be closed. */
enum keeper_fd {
	KEEPER_NULL = 0, /* to 2 */
	KEEPER_CTL = 3,
	KEEPER_LIFE,
	KEEPER_OPENER, /* its pidfd, or /dev/null where there is none */
	KEEPER_N_FDS,
};

#define KEEPER_BODY_KEEP ((size_t)1 << 20) /* a larger message buffer is given back */
#define KEEPER_GRACE_NS	 UINT64_C(2000000000)
/* How long the guard lets a keeper clean up after the opener: longer than a kill takes at most. */
#define KEEPER_LAST_MS 15000

struct keeper {
	int sigfd;
	bool has_opener_fd;
	char *body;
	size_t body_cap;
	struct tree_stuck stuck;
};

enum keeper_phase {
	KEEPER_RUNNING,
	KEEPER_TERM, /* told to end; kill_at says until when */
	KEEPER_KILL,
};

struct keeper_run {
	struct keeper *k;
	pid_t pid;
	int status_fd; /* -1 once the start is known to have worked or failed */
	bool ended;
	enum keeper_phase phase;
	uint64_t t0, deadline, kill_at, grace; /* ns; deadline 0: none */
	struct wire_reply reply;
};

/* ---- a fresh process ---- */

static void keeper_close_others(void)
{
	DIR *d;
	const struct dirent *e;

	if (syscall(SYS_close_range, (unsigned)KEEPER_N_FDS, ~0U, 0) == 0)
		return;
	d = opendir("/proc/self/fd");
	if (!d)
		return;
	while ((e = readdir(d))) {
		int fd = (int)strtol(e->d_name, NULL, 10);

		if (fd >= KEEPER_N_FDS && fd != dirfd(d))
			(void)close(fd);
	}
	(void)closedir(d);
}

/* Copies fd far up first: the places may be taken by one another. */
static bool keeper_place(int from[static 3])
{
	for (int i = 0; i < 3; i++) {
		from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 16);
		if (from[i] < 0)
			return false;
	}
	for (int i = 0; i < 3; i++) {
		if (dup3(from[i], KEEPER_CTL + i, O_CLOEXEC) < 0)
			return false;
	}
	return true;
}

static bool keeper_fds(int ctl, int life, int opener_pidfd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int from[3] = { ctl, life, opener_pidfd >= 0 ? opener_pidfd : null };
	int high;

	if (null < 0 || !keeper_place(from))
		return false;
	high = fcntl(null, F_DUPFD_CLOEXEC, 16);
	if (high < 0)
		return false;
	for (int i = 0; i < 3; i++) {
		if (dup2(high, i) < 0)
			return false;
	}
	keeper_close_others();
	return true;
}

/* All signals stay blocked for life; only SIGKILL and SIGSTOP reach guard and keeper. */
static int keeper_signals(void)
{
	struct sigaction sa = { .sa_handler = SIG_DFL };
	sigset_t set;

	(void)sigfillset(&set);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	for (int s = 1; s < NSIG; s++)
		(void)sigaction(s, &sa, NULL);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void keeper_drain(int sigfd)
{
	struct signalfd_siginfo si[4];

	while (read(sigfd, si, sizeof(si)) > 0)
		continue;
}

/* ---- one run ---- */

/* Reaps all that ended, notes the program's end; true when no child is left. */
static bool keeper_reap_now(struct keeper_run *r)
{
	struct rusage ru;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0) {
		if (pid != r->pid || r->ended)
			continue;
		r->reply.wall_ns = wire_now_ns() - r->t0;
		r->reply.status = status;
		r->reply.ru = ru;
		r->ended = true;
	}
	return pid < 0 && errno == ECHILD;
}

/* Waits first, since the time is being taken; and again, for what ended before the signals were
 * taken off.  They always are: a signal that stays would make every poll return at once. */
static bool keeper_reap(void *arg)
{
	struct keeper_run *r = arg;
	bool alone = keeper_reap_now(r);

	keeper_drain(r->k->sigfd);
	return alone || keeper_reap_now(r);
}

static void keeper_kill_all(struct keeper_run *r)
{
	struct tree_count n;
	struct tree_job job = { .root = getpid(),
				.program = r->ended ? 0 : r->pid,
				.sigchld_fd = r->k->sigfd,
				.reap = keeper_reap,
				.arg = r,
				.stuck = &r->k->stuck };

	tree_kill(&job, &n);
	r->reply.n_leftover += n.n_leftover;
	r->reply.n_unkillable += n.n_unkillable;
}

/* The opener is gone: so is all we run, and then we. */
_Noreturn static void keeper_leave(struct keeper *k)
{
	struct keeper_run r = { .k = k, .status_fd = -1 };

	keeper_kill_all(&r);
	_exit(0);
}

static void keeper_begin_term(struct keeper_run *r, uint64_t now)
{
	if (r->phase != KEEPER_RUNNING)
		return;
	r->phase = KEEPER_TERM;
	r->kill_at = now + r->grace;
	tree_term(getpid());
}

static void keeper_on_ctl(struct keeper_run *r)
{
	struct wire_head h;

	if (!wire_recv(KEEPER_CTL, &h, sizeof(h), NULL, NULL) || h.magic != WIRE_MAGIC ||
	    h.type != WIRE_STOP)
		keeper_leave(r->k);
	r->reply.stopped = r->reply.stopped || r->phase == KEEPER_RUNNING;
	keeper_begin_term(r, wire_now_ns());
}

/* The start's status pipe: a failure, or its end. */
static void keeper_on_status(struct keeper_run *r)
{
	struct wire_fail f;
	ssize_t n;

	do {
		n = read(r->status_fd, &f, sizeof(f));
	} while (n < 0 && errno == EINTR);
	if (n == sizeof(f))
		r->reply.fail = f;
	(void)close(r->status_fd);
	r->status_fd = -1;
}

/* Milliseconds to the next thing to do by time, rounded up; -1: none. */
static int keeper_timeout(const struct keeper_run *r, uint64_t now)
{
	uint64_t at = r->phase == KEEPER_TERM ? r->kill_at : r->deadline;
	uint64_t ms;

	if (!at)
		return -1;
	if (at <= now)
		return 0;
	ms = (at - now) / 1000000 + 1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void keeper_on_time(struct keeper_run *r)
{
	uint64_t now = wire_now_ns();

	if (r->phase == KEEPER_RUNNING && r->deadline && now >= r->deadline) {
		r->reply.timed_out = true;
		keeper_begin_term(r, now);
	}
	if (r->phase == KEEPER_TERM && now >= r->kill_at)
		r->phase = KEEPER_KILL;
}

/* Returns when the program has ended and nothing it left has a grace left, or all is to be killed.
 */
static void keeper_watch(struct keeper_run *r)
{
	bool alone = false;

	while (!(r->ended && (alone || r->phase != KEEPER_TERM)) && r->phase != KEEPER_KILL) {
		struct pollfd p[4] = {
			{ .fd = r->k->sigfd, .events = POLLIN },
			{ .fd = KEEPER_CTL, .events = POLLIN },
			{ .fd = r->k->has_opener_fd ? KEEPER_OPENER : -1, .events = POLLIN },
			{ .fd = r->status_fd, .events = POLLIN },
		};
		bool timed = r->phase == KEEPER_TERM || r->deadline;

		if (poll(p, 4, timed ? keeper_timeout(r, wire_now_ns()) : -1) < 0)
			continue;
		if (p[0].revents)
			alone = keeper_reap(r);
		if (p[3].revents)
			keeper_on_status(r);
		if (p[2].revents)
			keeper_leave(r->k);
		if (p[1].revents)
			keeper_on_ctl(r);
		if (timed)
			keeper_on_time(r);
	}
}

static uint64_t keeper_add_ns(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void keeper_start(struct keeper_run *r, struct spawn *s)
{
	int pipe_fd[2];

	if (pipe2(pipe_fd, O_CLOEXEC) != 0) {
		r->reply.fail = (struct wire_fail){ .stage = STAGE_FORK, .errnum = errno };
		return;
	}
	s->status_fd = pipe_fd[1];
	s->keeper = getpid();
	r->status_fd = pipe_fd[0];
	r->t0 = wire_now_ns();
	r->pid = spawn_start(s);
	if (r->pid < 0)
		r->reply.fail = (struct wire_fail){ .stage = STAGE_FORK, .errnum = errno };
	(void)close(pipe_fd[1]);
}

static void keeper_close_fds(const struct spawn *s)
{
	const int fds[] = { s->out_fd, s->err_fd, s->cwd_fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
}

static void keeper_run(struct keeper *k, const struct wire_head *h, struct spawn *s)
{
	struct keeper_run r = { .k = k,
				.status_fd = -1,
				.grace = h->grace_ns ? h->grace_ns : KEEPER_GRACE_NS };

	r.reply.fail.errnum = spawn_parse(s, h, k->body, h->body_bytes);
	if (r.reply.fail.errnum)
		r.reply.fail.stage = STAGE_MESSAGE;
	else
		keeper_start(&r, s);
	if (r.pid > 0) {
		r.deadline = h->timeout_ns ? keeper_add_ns(r.t0, h->timeout_ns) : 0;
		keeper_watch(&r);
		keeper_kill_all(&r);
		if (!r.ended)
			r.reply.fail = (struct wire_fail){ .stage = STAGE_STUCK,
							   .errnum = EPERM,
							   .index = (uint32_t)r.pid };
	}
	if (r.status_fd >= 0)
		keeper_on_status(&r);
	/* not before: the end of its streams would wake the opener while the program ends, and that
	 * is within the time that is taken */
	keeper_close_fds(s);
	free(s->block);
	if (!wire_send(KEEPER_CTL, &r.reply, sizeof(r.reply), NULL, 0))
		keeper_leave(k);
}

static bool keeper_head_ok(const struct wire_head *h, size_t n_fds)
{
	size_t want = !!(h->flags & WIRE_FD_OUT) + !!(h->flags & WIRE_FD_ERR) +
		      !!(h->flags & WIRE_FD_CWD);

	return h->magic == WIRE_MAGIC && n_fds == want && h->body_bytes <= WIRE_BODY_MAX &&
	       h->n_argv <= WIRE_N_MAX && h->n_envp <= WIRE_N_MAX && h->n_mounts <= WIRE_LIST_MAX &&
	       h->n_limits <= WIRE_LIST_MAX;
}

static bool keeper_body_room(struct keeper *k, size_t n)
{
	if (n > k->body_cap || (k->body_cap > KEEPER_BODY_KEEP && n <= KEEPER_BODY_KEEP)) {
		size_t cap = n > 65536 ? n : 65536;

		free(k->body);
		k->body = malloc(cap);
		k->body_cap = k->body ? cap : 0;
	}
	return k->body != NULL;
}

/* A message that cannot be read leaves nothing to go on with: the opener sees our end. */
static void keeper_message(struct keeper *k)
{
	struct wire_head h;
	struct spawn s = { .out_fd = -1, .err_fd = -1, .cwd_fd = -1, .status_fd = -1 };
	int fds[3];
	size_t n_fds = 3, at = 0;

	if (!wire_recv(KEEPER_CTL, &h, sizeof(h), fds, &n_fds))
		keeper_leave(k);
	if (h.magic == WIRE_MAGIC && h.type == WIRE_STOP && n_fds == 0)
		return;
	if (!keeper_head_ok(&h, n_fds) || !keeper_body_room(k, h.body_bytes) ||
	    !wire_recv(KEEPER_CTL, k->body, h.body_bytes, NULL, NULL))
		keeper_leave(k);
	if (h.flags & WIRE_FD_OUT)
		s.out_fd = fds[at++];
	if (h.flags & WIRE_FD_ERR)
		s.err_fd = fds[at++];
	if (h.flags & WIRE_FD_CWD)
		s.cwd_fd = fds[at++];
	keeper_run(k, &h, &s);
}

_Noreturn static void keeper_main(int guard_sigfd, bool has_opener_fd)
{
	struct keeper k = { .has_opener_fd = has_opener_fd };

	(void)setsid();
	(void)prctl(PR_SET_NAME, "rb-keeper");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)close(KEEPER_LIFE);
	(void)close(guard_sigfd);
	k.sigfd = keeper_signals();
	if (k.sigfd < 0)
		_exit(1);
	for (;;) {
		struct keeper_run idle = { .k = &k };
		struct pollfd p[3] = {
			{ .fd = KEEPER_CTL, .events = POLLIN },
			{ .fd = has_opener_fd ? KEEPER_OPENER : -1, .events = POLLIN },
			{ .fd = k.sigfd, .events = POLLIN },
		};

		if (poll(p, 3, -1) < 0)
			continue;
		if (p[1].revents)
			keeper_leave(&k);
		if (p[2].revents)
			(void)keeper_reap(&idle);
		if (p[0].revents)
			keeper_message(&k);
	}
}

/* ---- the guard ---- */

struct keeper_guard {
	int sigfd;
	pid_t keeper;
	bool keeper_ended;
};

static bool keeper_guard_reap(void *arg)
{
	struct keeper_guard *g = arg;
	pid_t pid;

	keeper_drain(g->sigfd);
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		g->keeper_ended = g->keeper_ended || pid == g->keeper;
	return pid < 0 && errno == ECHILD;
}

/* Waits for the keeper's end, and at most ms once the opener has gone. */
static void keeper_guard_wait(struct keeper_guard *g, bool has_opener_fd)
{
	bool opener_gone = false;
	uint64_t until = 0;

	while (!g->keeper_ended) {
		struct pollfd p[3] = {
			{ .fd = g->sigfd, .events = POLLIN },
			{ .fd = opener_gone ? -1 : KEEPER_LIFE, .events = POLLIN },
			{ .fd = has_opener_fd && !opener_gone ? KEEPER_OPENER : -1,
			  .events = POLLIN },
		};
		uint64_t now = wire_now_ns();

		if (opener_gone && now >= until)
			return;
		if (poll(p, 3, opener_gone ? (int)((until - now) / 1000000 + 1) : -1) < 0)
			continue;
		if (p[0].revents)
			(void)keeper_guard_reap(g);
		if (!opener_gone && (p[1].revents || p[2].revents)) {
			opener_gone = true;
			until = wire_now_ns() + (uint64_t)KEEPER_LAST_MS * 1000000;
		}
	}
}

_Noreturn void keeper_guard_main(int ctl, int life, int opener_pidfd)
{
	bool has_opener_fd = opener_pidfd >= 0;
	struct keeper_guard g = { .sigfd = -1 };
	struct tree_stuck stuck = { .n = 0 };
	struct tree_job job = {
		.root = getpid(), .reap = keeper_guard_reap, .arg = &g, .stuck = &stuck
	};
	struct wire_hello hello = { .errnum = 0 };
	struct tree_count count;

	(void)setsid();
	(void)prctl(PR_SET_NAME, "rb-guard");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	/* without a word the opener sees the end of the socket */
	if (!keeper_fds(ctl, life, opener_pidfd) || chdir("/") != 0)
		_exit(1);
	g.sigfd = keeper_signals();
	if (g.sigfd < 0)
		_exit(1);
	g.keeper = fork();
	if (g.keeper == 0)
		keeper_main(g.sigfd, has_opener_fd);
	if (g.keeper < 0)
		hello.errnum = errno;
	hello.keeper = g.keeper;
	(void)close(KEEPER_CTL);
	(void)wire_send(KEEPER_LIFE, &hello, sizeof(hello), NULL, 0);
	job.sigchld_fd = g.sigfd;
	if (g.keeper > 0)
		keeper_guard_wait(&g, has_opener_fd);
	tree_kill(&job, &count);
	_exit(0);
}
