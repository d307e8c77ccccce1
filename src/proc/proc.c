#include "proc/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/err.h"
#include "proc/proc_priv.h"

#define PROC_CAPTURE_MAX ((size_t)16 << 20)
#define PROC_GRACE_NS	 UINT64_C(2000000000)
#define PROC_TICK_NS	 UINT64_C(100000000)
#define PROC_PIPE_BYTES	 (256 << 10)
/* How long the keeper may take beyond the grace: two bounded kills, then it is held for dead. */
#define PROC_LATE_NS UINT64_C(25000000000)
#define PROC_LATE_S  25

struct proc_keeper {
	int ctl;
	int life; /* at its end when the guard has gone */
	pid_t guard, keeper;
	bool dead;
	bool has_cpus;
	cpu_set_t cpus; /* ours when the keeper was forked, so what it passes on unasked */
	char buf[64 << 10];
};

/* ---- open and close ---- */

static bool proc_pair(int fd[static 2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
		return false;
	for (int i = 0; i < 2; i++) {
		fd[i] = wire_fd_high(fd[i]);
		if (fd[i] < 0)
			return false;
	}
	return true;
}

static void proc_close_pair(int fd[static 2])
{
	for (int i = 0; i < 2; i++)
		core_closep(&fd[i]);
}

static pid_t proc_fork_guard(const int ctl[static 2], const int life[static 2], int opener)
{
	sigset_t all, old;
	pid_t pid;
	int e;

	/* no handler of ours may run in the guard */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = fork();
	if (pid == 0)
		keeper_guard_main(ctl[1], life[1], opener);
	e = errno;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = e;
	return pid;
}

static int proc_hello(struct proc_keeper *k, struct err *err)
{
	struct wire_hello hello;

	if (!wire_recv(k->life, &hello, sizeof(hello), NULL, NULL))
		return err_set(err, ERR_SYS,
			       "start the keeper process: it did not come up; is /dev/null there?");
	if (hello.errnum)
		return err_sys(err, hello.errnum, "start the keeper process");
	k->keeper = hello.keeper;
	return ERR_OK;
}

/* Processes are found in /proc: without it, or with that of another PID namespace, nothing that a
 * program leaves behind would be found, or the wrong ones. */
static int proc_check_procfs(struct err *err)
{
	char buf[32], want[32];
	ssize_t n = readlink("/proc/self", buf, sizeof(buf) - 1);

	if (n < 0)
		return err_sys(err, errno, "start the keeper process: read /proc/self");
	buf[n] = '\0';
	(void)snprintf(want, sizeof(want), "%d", (int)getpid());
	if (strcmp(buf, want) != 0)
		return err_set(err, ERR_SYS,
			       "start the keeper process: /proc says that we are process %s, but "
			       "we are %s: mount a /proc of this PID namespace",
			       buf, want);
	return ERR_OK;
}

int proc_keeper_open(struct proc_keeper **out, struct err *err)
{
	int ctl[2] = { -1, -1 }, life[2] = { -1, -1 };
	AUTO_CLOSE int opener = -1;
	struct timeval late = { .tv_sec = PROC_LATE_S };
	struct proc_keeper *k;
	int r = proc_check_procfs(err);

	if (r < 0)
		return r;
	k = calloc(1, sizeof(*k));
	if (!k)
		return err_set(err, ERR_NOMEM, "start the keeper process: out of memory");
	k->has_cpus = sched_getaffinity(0, sizeof(k->cpus), &k->cpus) == 0;
	opener = wire_fd_high(wire_pidfd_open(getpid()));
	if (!proc_pair(ctl) || !proc_pair(life) ||
	    setsockopt(ctl[0], SOL_SOCKET, SO_SNDTIMEO, &late, sizeof(late)) != 0 ||
	    setsockopt(life[0], SOL_SOCKET, SO_RCVTIMEO, &late, sizeof(late)) != 0 ||
	    (k->guard = proc_fork_guard(ctl, life, opener)) < 0) {
		r = err_sys(err, errno, "start the keeper process");
		proc_close_pair(ctl);
		proc_close_pair(life);
		free(k);
		return r;
	}
	k->ctl = TAKE_FD(ctl[0]);
	k->life = TAKE_FD(life[0]);
	proc_close_pair(ctl);
	proc_close_pair(life);
	r = proc_hello(k, err);
	if (r < 0) {
		proc_keeper_close(k);
		return r;
	}
	*out = k;
	return ERR_OK;
}

/* Until the other end is closed, at most ns. */
static bool proc_wait_end(int fd, uint64_t ns)
{
	uint64_t until = wire_now_ns() + ns;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = wire_now_ns();
		char buf[256];
		int r;

		if (now >= until)
			return false;
		r = poll(&p, 1, (int)((until - now) / 1000000 + 1));
		if (r > 0 && recv(fd, buf, sizeof(buf), MSG_DONTWAIT) == 0)
			return true;
		if (r > 0 && p.revents & (POLLERR | POLLNVAL))
			return true;
	}
}

/* The keeper is gone or has to go: the guard kills what it ran. */
static void proc_give_up(struct proc_keeper *k)
{
	if (k->dead)
		return;
	k->dead = true;
	(void)shutdown(k->ctl, SHUT_RDWR);
	(void)proc_wait_end(k->life, PROC_LATE_NS);
}

void proc_keeper_close(struct proc_keeper *k)
{
	if (!k)
		return;
	/* the keeper reads its end, kills what is left and ends; then so does the guard */
	(void)shutdown(k->ctl, SHUT_WR);
	if (!proc_wait_end(k->ctl, PROC_LATE_NS) && k->keeper > 0)
		(void)kill(k->keeper, SIGKILL);
	if (!proc_wait_end(k->life, PROC_LATE_NS))
		(void)kill(k->guard, SIGKILL);
	while (waitpid(k->guard, NULL, 0) < 0 && errno == EINTR)
		continue;
	(void)close(k->ctl);
	(void)close(k->life);
	free(k);
}

pid_t proc_keeper_pid(const struct proc_keeper *k)
{
	return k->keeper;
}

/* ---- the message ---- */

static int proc_add_strings(struct str *b, const char *const *list, uint32_t *n, const char *what,
			    struct err *err)
{
	*n = 0;
	for (; list && *list; list++) {
		if (*n >= WIRE_N_MAX)
			return err_set(err, ERR_LIMIT, "more than %zu %s", WIRE_N_MAX, what);
		str_add(b, *list, strlen(*list) + 1);
		(*n)++;
	}
	return ERR_OK;
}

/* The folder by name, as the child has to enter it after its mounts. */
static int proc_add_cwd(struct str *b, const struct proc_spec *spec, struct err *err)
{
	if (!spec->cwd || spec->cwd[0] != '/') {
		AUTO_FREE char *here = getcwd(NULL, 0);

		if (!here)
			return err_sys(err, errno, "run %.300s: name the working directory",
				       spec->argv[0]);
		str_adds(b, here);
		str_addc(b, '/');
	}
	str_add(b, spec->cwd ? spec->cwd : "", spec->cwd ? strlen(spec->cwd) + 1 : 1);
	return ERR_OK;
}

static int proc_check(const struct proc_spec *spec, struct err *err)
{
	if (!spec->argv || !spec->argv[0] || !spec->argv[0][0])
		return err_set(err, ERR_INVALID, "no program named to run");
	if (spec->n_mounts > WIRE_LIST_MAX || spec->n_limits > WIRE_LIST_MAX)
		return err_set(err, ERR_LIMIT, "run %.300s: more than %d mounts or limits",
			       spec->argv[0], WIRE_LIST_MAX);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct proc_mount *m = &spec->mounts[i];

		/* what is mounted on / is seen by nobody who is inside already */
		if (!m->dst || m->dst[0] != '/' || !m->dst[1] || (m->src && m->src[0] != '/'))
			return err_set(err, ERR_INVALID,
				       "run %.150s: mount %.120s on %.120s: both need full paths, "
				       "the second below /",
				       spec->argv[0], m->src ? m->src : "an empty folder",
				       m->dst ? m->dst : "(null)");
	}
	return ERR_OK;
}

static void proc_set_cpus(const struct proc_keeper *k, const struct proc_spec *spec,
			  struct wire_head *h)
{
	cpu_set_t now;

	if (spec->cpus) {
		h->cpus = *spec->cpus;
		h->flags |= WIRE_CPUS;
	} else if (k->has_cpus && sched_getaffinity(0, sizeof(now), &now) == 0 &&
		   !CPU_EQUAL(&now, &k->cpus)) {
		h->cpus = now;
		h->flags |= WIRE_CPUS;
	}
}

/* b begins with room for the head. */
static int proc_message(const struct proc_keeper *k, const struct proc_spec *spec,
			struct wire_head *h, struct str *b, struct err *err)
{
	const char *const *envp = spec->envp ? spec->envp : (const char *const *)environ;
	int r;

	str_add(b, h, sizeof(*h));
	str_add(b, spec->limits, spec->n_limits * sizeof(*spec->limits));
	r = proc_add_strings(b, spec->argv, &h->n_argv, "arguments", err);
	if (r == ERR_OK)
		r = proc_add_strings(b, envp, &h->n_envp, "environment variables", err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct proc_mount *m = &spec->mounts[i];

		if (m->src)
			str_addc(b, '=');
		str_add(b, m->src ? m->src : "", m->src ? strlen(m->src) + 1 : 1);
		str_add(b, m->dst, strlen(m->dst) + 1);
	}
	if (spec->n_mounts) {
		h->flags |= WIRE_CWD_TEXT;
		r = proc_add_cwd(b, spec, err);
		if (r < 0)
			return r;
	}
	h->n_mounts = (uint32_t)spec->n_mounts;
	h->n_limits = (uint32_t)spec->n_limits;
	proc_set_cpus(k, spec, h);
	r = str_check(b, "arguments and environment", err);
	if (r < 0)
		return err_wrap(err, r, "run %.150s", spec->argv[0]);
	h->body_bytes = b->len - sizeof(*h);
	memcpy(b->s, h, sizeof(*h));
	return ERR_OK;
}

/* ---- streams ---- */

struct proc_stream {
	int rd, wr; /* -1: none */
	bool captured;
	struct capture cap;
};

struct proc_run {
	struct proc_keeper *k;
	const struct proc_spec *spec;
	struct proc_stream s[2]; /* stdout, stderr */
	uint64_t give_up_at;	 /* ns; 0: not yet */
	uint64_t next_tick;
	bool stop_sent;
	bool replied;
	size_t body_bytes;
	struct wire_reply reply;
};

static void proc_run_done(struct proc_run *r)
{
	for (int i = 0; i < 2; i++) {
		core_closep(&r->s[i].rd);
		core_closep(&r->s[i].wr);
		capture_done(&r->s[i].cap);
	}
}

static int proc_stream_open(struct proc_stream *s, enum proc_io io, int ours, size_t max,
			    struct err *err)
{
	int fd[2];

	if (io == PROC_IO_INHERIT) {
		/* closed here is as good as /dev/null */
		s->wr = fcntl(ours, F_DUPFD_CLOEXEC, 3);
		return ERR_OK;
	}
	if (io != PROC_IO_CAPTURE)
		return ERR_OK;
	s->captured = true;
	if (!capture_init(&s->cap, max))
		return err_set(err, ERR_NOMEM, "capture output: out of memory");
	if (pipe2(fd, O_CLOEXEC) != 0)
		return err_sys(err, errno, "capture output: make a pipe");
	s->rd = wire_fd_high(fd[0]);
	s->wr = wire_fd_high(fd[1]);
	if (s->rd < 0 || s->wr < 0 || fcntl(s->rd, F_SETFL, O_NONBLOCK) != 0)
		return err_sys(err, errno, "capture output: make a pipe");
	/* a larger one lets the program wait for us less often; refused, it stays as it was */
	(void)fcntl(s->rd, F_SETPIPE_SZ, PROC_PIPE_BYTES);
	return ERR_OK;
}

/* One read; false when there is nothing more for now, or for ever (then rd is closed). */
static bool proc_stream_read(struct proc_run *r, int i)
{
	struct proc_stream *s = &r->s[i];
	char *buf = r->k->buf;
	ssize_t n;

	if (s->rd < 0)
		return false;
	n = read(s->rd, buf, sizeof(r->k->buf));
	if (n < 0 && errno == EINTR)
		return true;
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n <= 0) {
		(void)close(s->rd);
		s->rd = -1;
		return false;
	}
	capture_add(&s->cap, buf, (size_t)n);
	if (r->spec->on_output)
		r->spec->on_output(r->spec->arg, i == 1, buf, (size_t)n);
	return true;
}

/* The tree is dead, so all it wrote lies in the pipe now.  Not until the end: somebody outside the
 * tree may have been handed the other end, and may even go on writing. */
static void proc_stream_drain(struct proc_run *r, int i)
{
	struct proc_stream *s = &r->s[i];
	uint64_t until;
	int n = 0;

	if (s->rd < 0 || ioctl(s->rd, FIONREAD, &n) != 0)
		return;
	until = s->cap.total + (uint64_t)n;
	while (s->cap.total < until && proc_stream_read(r, i))
		continue;
}

/* ---- the run ---- */

static int proc_send_run(struct proc_run *r, struct err *err)
{
	const struct proc_spec *spec = r->spec;
	struct wire_head h = { .magic = WIRE_MAGIC,
			       .type = WIRE_RUN,
			       .flags = WIRE_FD_CWD,
			       .timeout_ns = spec->timeout_ns,
			       .grace_ns = spec->grace_ns };
	AUTO_CLOSE int cwd = -1;
	AUTO_STR struct str b = { .max = WIRE_BODY_MAX };
	int fds[3], rc;
	size_t n = 0;

	cwd = wire_fd_high(open(spec->cwd ? spec->cwd : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (cwd < 0) {
		struct wire_fail f = { .stage = STAGE_CHDIR, .errnum = errno };

		return text_fail(spec, &f, 0, err);
	}
	for (int i = 0; i < 2; i++) {
		if (r->s[i].wr < 0)
			continue;
		fds[n++] = r->s[i].wr;
		h.flags |= i == 0 ? WIRE_FD_OUT : WIRE_FD_ERR;
	}
	if (spec->merge_err)
		h.flags |= WIRE_MERGE;
	fds[n++] = cwd;
	rc = proc_message(r->k, spec, &h, &b, err);
	if (rc < 0)
		return rc;
	r->body_bytes = h.body_bytes;
	if (!wire_send(r->k->ctl, b.s, b.len, fds, n)) {
		rc = err_sys(err, ECHILD, "run %.200s: the keeper process is gone (%s)",
			     spec->argv[0], strerrordesc_np(errno));
		proc_give_up(r->k);
		return rc;
	}
	return ERR_OK;
}

static uint64_t proc_add_ns(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void proc_send_stop(struct proc_run *r)
{
	struct wire_head h = { .magic = WIRE_MAGIC, .type = WIRE_STOP };
	uint64_t grace = r->spec->grace_ns ? r->spec->grace_ns : PROC_GRACE_NS;
	uint64_t at = proc_add_ns(wire_now_ns(), proc_add_ns(grace, PROC_LATE_NS));

	r->stop_sent = true;
	if (!r->give_up_at || at < r->give_up_at)
		r->give_up_at = at;
	/* a keeper that is gone shows as the end of its socket */
	(void)wire_send(r->k->ctl, &h, sizeof(h), NULL, 0);
}

/* Milliseconds until something is due by time; -1: nothing is. */
static int proc_poll_ms(const struct proc_run *r)
{
	uint64_t at = UINT64_MAX, now = wire_now_ns(), ms;

	if (r->spec->on_tick)
		at = r->next_tick;
	if (r->give_up_at && r->give_up_at < at)
		at = r->give_up_at;
	if (at == UINT64_MAX)
		return -1;
	if (at <= now)
		return 0;
	ms = (at - now) / 1000000 + 1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* False when the keeper has to be held for dead. */
static bool proc_on_time(struct proc_run *r)
{
	uint64_t now;

	if (!r->spec->on_tick && !r->give_up_at)
		return true;
	now = wire_now_ns();
	if (r->spec->on_tick && now >= r->next_tick) {
		r->next_tick = now + PROC_TICK_NS;
		r->spec->on_tick(r->spec->arg);
	}
	return !r->give_up_at || now < r->give_up_at;
}

/* alive: its socket is not at its end, so that its number is still its own. */
static int proc_lost(struct proc_run *r, bool alive, const char *why, struct err *err)
{
	if (alive)
		(void)kill(r->k->keeper, SIGKILL);
	proc_give_up(r->k);
	return err_sys(err, ECHILD, "run %.150s: the keeper process %s; what it ran was killed",
		       r->spec->argv[0], why);
}

static int proc_wait(struct proc_run *r, struct err *err)
{
	const struct proc_spec *spec = r->spec;

	while (!r->replied) {
		struct pollfd p[4] = {
			{ .fd = r->k->ctl, .events = POLLIN },
			{ .fd = r->s[0].rd, .events = POLLIN },
			{ .fd = r->s[1].rd, .events = POLLIN },
			{ .fd = spec->stop_fd > 0 && !r->stop_sent ? spec->stop_fd : -1,
			  .events = POLLIN },
		};

		if (poll(p, 4, proc_poll_ms(r)) < 0 && errno != EINTR)
			return proc_lost(r, true, "cannot be waited for", err);
		if (!proc_on_time(r))
			return proc_lost(r, true, "did not answer in time", err);
		if (p[1].revents)
			(void)proc_stream_read(r, 0);
		if (p[2].revents)
			(void)proc_stream_read(r, 1);
		if (p[3].revents)
			proc_send_stop(r);
		if (!p[0].revents)
			continue;
		if (!wire_recv(r->k->ctl, &r->reply, sizeof(r->reply), NULL, NULL))
			return proc_lost(r, false, "was killed", err);
		r->replied = true;
	}
	return ERR_OK;
}

static uint64_t proc_tv_ns(struct timeval tv)
{
	return (uint64_t)tv.tv_sec * UINT64_C(1000000000) + (uint64_t)tv.tv_usec * 1000;
}

static void proc_fill(struct proc_run *r, struct proc_result *res)
{
	const struct rusage *ru = &r->reply.ru;
	int status = r->reply.status;

	*res = (struct proc_result){
		.wall_ns = r->reply.wall_ns,
		.user_ns = proc_tv_ns(ru->ru_utime),
		.sys_ns = proc_tv_ns(ru->ru_stime),
		.maxrss_bytes = (uint64_t)ru->ru_maxrss * 1024,
		.minflt = (uint64_t)ru->ru_minflt,
		.majflt = (uint64_t)ru->ru_majflt,
		.nvcsw = (uint64_t)ru->ru_nvcsw,
		.nivcsw = (uint64_t)ru->ru_nivcsw,
		.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
		.term_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		.timed_out = r->reply.timed_out,
		.stopped = r->reply.stopped,
		.n_leftover = r->reply.n_leftover,
		.n_unkillable = r->reply.n_unkillable,
	};
	if (r->s[0].captured)
		capture_take(&r->s[0].cap, &res->out);
	if (r->s[1].captured)
		capture_take(&r->s[1].cap, &res->err);
}

static int proc_run_inner(struct proc_run *r, struct err *err)
{
	const struct proc_spec *spec = r->spec;
	size_t max = spec->capture_max ? spec->capture_max : PROC_CAPTURE_MAX;
	uint64_t now = wire_now_ns();
	int rc = proc_stream_open(&r->s[0], spec->out, 1, max, err);

	if (rc == ERR_OK && !spec->merge_err)
		rc = proc_stream_open(&r->s[1], spec->err, 2, max, err);
	if (rc < 0)
		return err_wrap(err, rc, "run %.150s", spec->argv[0]);
	rc = proc_send_run(r, err);
	if (rc < 0)
		return rc;
	core_closep(&r->s[0].wr);
	core_closep(&r->s[1].wr);
	r->s[0].wr = r->s[1].wr = -1;
	r->next_tick = now + PROC_TICK_NS;
	if (spec->timeout_ns)
		r->give_up_at = proc_add_ns(
			proc_add_ns(now, spec->timeout_ns),
			proc_add_ns(spec->grace_ns ? spec->grace_ns : PROC_GRACE_NS, PROC_LATE_NS));
	rc = proc_wait(r, err);
	if (rc < 0)
		return rc;
	proc_stream_drain(r, 0);
	proc_stream_drain(r, 1);
	return ERR_OK;
}

int proc_run(struct proc_keeper *k, const struct proc_spec *spec, struct proc_result *res,
	     struct err *err)
{
	struct proc_run r = { .k = k,
			      .spec = spec,
			      .s = { { .rd = -1, .wr = -1 }, { .rd = -1, .wr = -1 } } };
	int rc = proc_check(spec, err);

	if (rc < 0)
		return rc;
	if (k->dead)
		return err_sys(err, ECHILD, "run %.200s: the keeper process was killed before",
			       spec->argv[0]);
	rc = proc_run_inner(&r, err);
	if (rc == ERR_OK && r.reply.fail.stage != STAGE_NONE)
		rc = text_fail(spec, &r.reply.fail, r.body_bytes, err);
	if (rc == ERR_OK)
		proc_fill(&r, res);
	proc_run_done(&r);
	return rc;
}

void proc_result_done(struct proc_result *res)
{
	if (!res)
		return;
	free(res->out.head);
	free(res->out.tail);
	free(res->err.head);
	free(res->err.tail);
	res->out = res->err = (struct proc_capture){ 0 };
}

/* ---- mounts ---- */

static bool proc_try_mount(void)
{
	static const struct proc_mount m = { .src = NULL, .dst = "/tmp" };
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct wire_fail f = { 0 };

		_exit(spawn_mount_ns(&m, 1, &f) ? 0 : 1);
	}
	if (pid < 0)
		return false;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return false;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool proc_can_mount(void)
{
	static atomic_int known; /* 1: yes, 2: no */
	int v = atomic_load(&known);

	if (!v) {
		v = proc_try_mount() ? 1 : 2;
		atomic_store(&known, v);
	}
	return v == 1;
}
