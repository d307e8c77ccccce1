/*
 * How runs end that do not end by themselves: timeouts, stops, leftovers, fork bombs, processes of
 * another user.  Called with a word it is one of the programs that are run.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/err.h"
#include "proc/proc.h"
#include "proctest.h"

static char dir[] = "/tmp/rb-proc-XXXXXX";

/* ---- the programs ---- */

/* Leaves three processes of different kinds and ends. */
static int prog_leave(void)
{
	int ready[2];
	char c[3];

	CHECK(pipe2(ready, O_CLOEXEC) == 0);
	for (int kind = 0; kind < 3; kind++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid)
			continue;
		if (kind >= 1)
			(void)setsid();
		/* the third is a daemon: forked twice, without its streams */
		if (kind == 2 && fork())
			_exit(0);
		if (kind == 2) {
			for (int fd = 0; fd < 3; fd++)
				(void)close(fd);
			CHECK(chdir("/") == 0);
		}
		(void)signal(SIGTERM, SIG_IGN);
		(void)signal(SIGHUP, SIG_IGN);
		CHECK(write(ready[1], "r", 1) == 1);
		pause_ms(100000);
		_exit(0);
	}
	for (int i = 0; i < 3; i++)
		CHECK(read(ready[0], c, 1) == 1);
	return 7;
}

/* Chains of processes that each fork the next and end: never more than a few, never one for long.
 */
static int prog_chains(void)
{
	for (int i = 0; i < 6; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid)
			continue;
		(void)signal(SIGTERM, SIG_IGN);
		if (i % 2)
			(void)setsid();
		for (;;) {
			if (fork() > 0)
				_exit(0);
		}
	}
	return 0;
}

/* Every process forks all the time, up to a limit that holds for a user without rights. */
static int prog_bomb(void)
{
	struct rlimit rl = { 120, 120 };

	if (geteuid() == 0)
		CHECK(setgid(64999) == 0 && setuid(64999) == 0);
	(void)setrlimit(RLIMIT_NPROC, &rl);
	(void)signal(SIGTERM, SIG_IGN);
	CHECK(write(1, "up", 2) == 2);
	for (;;) {
		if (fork() < 0)
			pause_ms(1);
	}
}

/* What a set-user-id program becomes when it takes the other user's place wholly. */
static int prog_suid(void)
{
	if (setuid(0) != 0)
		return 9;
	CHECK(write(1, "u", 1) == 1);
	pause_ms(3000);
	return 0;
}

static int prog(const char *word)
{
	static const struct {
		const char *word;
		int (*run)(void);
	} progs[] = {
		{ "leave", prog_leave },
		{ "chains", prog_chains },
		{ "bomb", prog_bomb },
		{ "suid", prog_suid },
	};

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		if (strcmp(word, progs[i].word) == 0)
			return progs[i].run();
	}
	return 98;
}

/* ---- stops ---- */

/*
 * A run that its timeout ends after it has said "up".  On a busy machine a program may need long to
 * come so far: then again, with twice the time.
 */
static void run_up(const char *const *argv, struct proc_spec spec, struct proc_result *res)
{
	spec.argv = argv;
	spec.out = PROC_IO_CAPTURE;
	for (spec.timeout_ns = 200 * MS; spec.timeout_ns < 100 * SEC; spec.timeout_ns *= 2) {
		run_spec(spec, res);
		CHECK(res->timed_out);
		CHECK(res->wall_ns >= spec.timeout_ns);
		if (strncmp(res->out.head, "up", 2) == 0)
			return;
		proc_result_done(res);
	}
	CHECK(!"the program comes up");
}

static void run_up_sh(const char *script, struct proc_spec spec, struct proc_result *res)
{
	const char *argv[] = { "sh", "-c", script, NULL };

	run_up(argv, spec, res);
}

static void test_timeout(void)
{
	struct proc_spec spec = capture;
	struct proc_result res;
	char text[128];

	spec.timeout_ns = 200 * MS;
	run_sh("sleep 100", spec, &res);
	CHECK(res.timed_out && !res.stopped);
	CHECK_INT(res.term_signal, SIGTERM);
	CHECK(res.wall_ns >= 200 * MS);
	proc_result_text(&res, text, sizeof(text));
	CHECK_HAS(text, "timed out after");
	proc_result_done(&res);
	spec.grace_ns = 200 * MS;
	run_up_sh("trap '' TERM; echo up; while :; do sleep 0.02; done", spec, &res);
	CHECK_INT(res.term_signal, SIGKILL);
	CHECK(res.wall_ns >= 400 * MS);
	CHECK_STR(res.out.head, "up\n");
	proc_result_done(&res);
	/* a program that ends by itself within the grace says so */
	spec.grace_ns = 60 * SEC;
	run_up_sh("trap 'exit 5' TERM; echo up; while :; do sleep 0.02; done", spec, &res);
	CHECK_INT(res.exit_code, 5);
	proc_result_done(&res);
	/* in time is in time */
	spec.timeout_ns = 100 * SEC;
	run_sh("exit 0", spec, &res);
	CHECK(!res.timed_out);
	proc_result_done(&res);
}

/* TERM reaches what left the process group, and it has the grace to end in order. */
static void test_term_tree(void)
{
	struct proc_spec spec = capture;
	struct proc_result res;

	spec.grace_ns = 60 * SEC;
	run_up_sh("setsid sh -c 'trap \"sleep 0.3; echo bye; exit\" TERM; echo up; while :; do "
		  "sleep 0.02; done' & sleep 100",
		  spec, &res);
	CHECK_INT(res.term_signal, SIGTERM);
	CHECK_STR(res.out.head, "up\nbye\n");
	CHECK_INT(res.n_leftover, 0);
	proc_result_done(&res);
}

struct stopper {
	int fd;
	unsigned ticks;
};

static void on_stop_tick(void *arg)
{
	struct stopper *s = arg;

	if (++s->ticks == 2)
		CHECK(write(s->fd, "x", 1) == 1);
}

static void test_stop(void)
{
	struct proc_spec spec = capture;
	struct proc_result res;
	struct stopper s = { 0 };
	int fd[2];

	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	s.fd = fd[1];
	spec.stop_fd = fd[0];
	spec.on_tick = on_stop_tick;
	spec.arg = &s;
	run_sh("sleep 100", spec, &res);
	CHECK(res.stopped && !res.timed_out);
	CHECK_INT(res.term_signal, SIGTERM);
	CHECK_INT(s.ticks >= 2, 1);
	proc_result_done(&res);
	/* still readable: the next one is stopped at once, and one after that is not disturbed */
	run_sh("sleep 100", spec, &res);
	CHECK(res.stopped);
	proc_result_done(&res);
	for (int i = 0; i < 20; i++) {
		/* what the shell forks just then is told to end as well, not left for the grace */
		run_sh("sleep 100; :", spec, &res);
		CHECK(res.stopped);
		CHECK_INT(res.n_leftover, 0);
		proc_result_done(&res);
	}
	for (int i = 0; i < 20; i++) {
		/* the stop may cross the end */
		run_sh("exit 0", spec, &res);
		proc_result_done(&res);
	}
	spec.stop_fd = 0;
	spec.on_tick = NULL;
	expect_sh("sleep 0.05; echo whole", spec, "whole\n");
	CHECK(close(fd[0]) == 0 && close(fd[1]) == 0);
}

/* ---- leftovers ---- */

static void test_leftover(void)
{
	struct proc_result res;
	uint64_t t0 = now_ns();

	run_self("leave", capture, &res);
	CHECK_INT(res.exit_code, 7);
	CHECK_INT(res.n_leftover, 3);
	CHECK_INT(res.n_unkillable, 0);
	proc_result_done(&res);
	/* it holds the pipe open; that must not make us wait */
	run_sh("sleep 100 & echo on", capture, &res);
	CHECK_STR(res.out.head, "on\n");
	CHECK_INT(res.n_leftover, 1);
	CHECK(res.wall_ns < 50 * SEC);
	proc_result_done(&res);
	CHECK(now_ns() - t0 < 50 * SEC);
	run_sh("exit 0", capture, &res);
	CHECK_INT(res.n_leftover, 0);
	proc_result_done(&res);
}

/* Takes a copy of the program's stdout into our own process: the pipe never ends. */
static void on_steal(void *arg, bool is_err, const char *data, size_t n)
{
	char path[64];

	(void)is_err;
	(void)snprintf(path, sizeof(path), "/proc/%.*s/fd/1", (int)n - 1, data);
	*(int *)arg = open(path, O_WRONLY | O_CLOEXEC);
}

static void test_held_pipe(void)
{
	int held = -1;
	struct proc_spec spec = { .out = PROC_IO_CAPTURE, .on_output = on_steal, .arg = &held };
	struct proc_result res;

	run_sh("echo $$; sleep 0.2", spec, &res);
	CHECK(held >= 0);
	CHECK_INT(res.exit_code, 0);
	CHECK(close(held) == 0);
	proc_result_done(&res);
}

static void test_bombs(void)
{
	const char *argv[] = { self, "bomb", NULL };
	struct proc_spec spec = { .grace_ns = 100 * MS };
	struct proc_result res;

	run_self("chains", (struct proc_spec){ 0 }, &res);
	CHECK_INT(res.exit_code, 0);
	CHECK(res.n_leftover > 0);
	CHECK_INT(res.n_unkillable, 0);
	run_up(argv, spec, &res);
	CHECK_INT(res.term_signal, SIGKILL);
	CHECK_INT(res.n_unkillable, 0);
	proc_result_done(&res);
	expect_sh("echo on", capture, "on\n");
}

/* ---- idle means asleep ---- */

/* 'S' where it sleeps, 'R' where it runs; of a process that is there. */
static char state_of(pid_t pid)
{
	char path[64], buf[512];
	const char *p;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	n = read(fd, buf, sizeof(buf) - 1);
	CHECK(n > 0 && close(fd) == 0);
	buf[n] = '\0';
	p = strrchr(buf, ')');
	CHECK(p && p[1] == ' ');
	return p[2];
}

static void on_asleep_tick(void *arg)
{
	unsigned *n = arg;

	n[0]++;
	n[1] += state_of(proc_keeper_pid(keeper)) == 'S';
}

/* A keeper that turns round and round would take a CPU from what is being measured. */
static void test_asleep(void)
{
	unsigned n[2] = { 0, 0 };
	struct proc_spec spec = { .on_tick = on_asleep_tick, .arg = n };
	struct proc_result res;

	/* with orphans to be reaped on the way */
	run_sh("(sleep 0.01 &); (sleep 0.3 & (true &)); sleep 1.2", spec, &res);
	CHECK_INT(res.exit_code, 0);
	CHECK(n[0] >= 2 && n[1] * 2 >= n[0]);
	n[0] = n[1] = 0;
	for (int i = 0; i < 20; i++) {
		pause_ms(10);
		on_asleep_tick(n);
	}
	CHECK(n[1] >= 10);
}

/* ---- as a user without rights ---- */

/* Stops the run as soon as the program has become what it becomes. */
static void on_first(void *arg, bool is_err, const char *data, size_t n)
{
	(void)is_err;
	(void)data;
	(void)n;
	CHECK(write(*(int *)arg, "x", 1) == 1);
}

static void check_suid(void)
{
	struct proc_spec spec = { 0 };
	struct proc_result res;
	char script[600];
	const char *argv[] = { script, "suid", NULL };
	int fd[2];

	(void)snprintf(script, sizeof(script), "{ '%s/suid' suid & } | head -c 1", dir);
	run_sh(script, spec, &res);
	if (res.n_leftover == 0) {
		(void)printf("skipped: set-user-id: not honoured below /tmp\n");
		return;
	}
	CHECK_INT(res.n_leftover, 1);
	CHECK_INT(res.n_unkillable, 1);
	/* told once, and what else is left is killed as ever */
	run_sh("sleep 100 & exit 2", spec, &res);
	CHECK_INT(res.exit_code, 2);
	CHECK_INT(res.n_leftover, 1);
	CHECK_INT(res.n_unkillable, 0);
	pause_ms(4000);
	run_sh("exit 0", spec, &res);
	CHECK_INT(res.n_leftover, 0);
	/* the program itself: the run cannot end it, and says so */
	(void)snprintf(script, sizeof(script), "%s/suid", dir);
	CHECK(pipe2(fd, O_CLOEXEC) == 0);
	spec.argv = argv;
	spec.out = PROC_IO_CAPTURE;
	spec.on_output = on_first;
	spec.arg = &fd[1];
	spec.stop_fd = fd[0];
	spec.grace_ns = 100 * MS;
	expect_fail(spec, ERR_SYS, EPERM, "cannot be killed");
	CHECK(close(fd[0]) == 0 && close(fd[1]) == 0);
	spec = (struct proc_spec){ 0 };
	run_sh("exit 4", spec, &res);
	CHECK_INT(res.exit_code, 4);
	CHECK_INT(res.n_leftover, 0);
}

/* Runs in a program started by test_plain_user(). */
static int check_plain_user(void)
{
	static const struct proc_limit up = { RLIMIT_CORE, 1 };
	const char *argv[] = { "true", NULL };
	struct rlimit none = { 0, 0 };
	struct err err = { 0 };

	CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	expect_fail((struct proc_spec){ .argv = argv, .limits = &up, .n_limits = 1 }, ERR_SYS,
		    EPERM, "resource limit");
	check_suid();
	if (proc_can_mount()) {
		struct proc_mount m = { .dst = dir };
		struct proc_spec spec = capture;

		spec.mounts = &m;
		spec.n_mounts = 1;
		/* the same user as before, in a view of its own */
		expect_sh("id -u; ls \"$PWD\" >/dev/null && echo seen", spec, "64998\nseen\n");
	} else {
		(void)printf("skipped: mounts of a plain user: no user namespaces here\n");
	}
	proc_keeper_close(keeper);
	return 0;
}

static void test_plain_user(void)
{
	static const char *const copies[] = { "suid", "user" };
	char path[256];
	pid_t pid;
	int status;

	if (geteuid() != 0) {
		(void)printf("skipped: change of user: needs root\n");
		return;
	}
	/* where the other user may read it, unlike perhaps the folder of the build */
	for (int i = 0; i < 2; i++) {
		const char *argv[] = { "cp", self, path, NULL };
		struct proc_spec spec = { .argv = argv };
		struct proc_result res;

		(void)snprintf(path, sizeof(path), "%s/%s", dir, copies[i]);
		run_spec(spec, &res);
		CHECK_INT(res.exit_code, 0);
		CHECK(chmod(path, i ? 0755 : 04755) == 0);
	}
	CHECK(chmod(dir, 0755) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (setgid(64998) != 0 || setuid(64998) != 0)
			_exit(3);
		(void)execl(path, path, "user", dir, (char *)NULL);
		_exit(4);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, copies[i]);
		CHECK(unlink(path) == 0);
	}
}

/* ---- other kernels ---- */

/* Answers calls that came with Linux 5.1 to 5.9 as a kernel before them does. */
static void deny_new_calls(void)
{
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	struct sock_fprog prog_old = { .len = sizeof(f) / sizeof(f[0]), .filter = f };

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog_old) == 0);
	CHECK(syscall(SYS_pidfd_open, getpid(), 0) < 0 && errno == ENOSYS);
}

static void in_child(void (*what)(void))
{
	pid_t pid;
	int status;

	(void)fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		what();
		(void)fflush(stdout);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

static void on_old_kernel(void)
{
	struct err err = { 0 };

	/* descriptors to be closed without close_range */
	CHECK(fcntl(1, F_DUPFD, 100) >= 100);
	deny_new_calls();
	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	expect_sh("ls /proc/$PPID/fd | grep -c '^1[0-9][0-9]$' || :", capture, "0\n");
	test_timeout();
	test_term_tree();
	test_leftover();
	test_bombs();
	proc_keeper_close(keeper);
}

/* Nothing could be found there, so nothing is started. */
static void without_procfs(void)
{
	struct err err = { 0 };

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", "/proc", "tmpfs", 0, NULL) != 0) {
		(void)printf("skipped: no /proc: no right to cover it here\n");
		return;
	}
	CHECK_INT(proc_keeper_open(&keeper, &err), ERR_SYS);
	CHECK_HAS(err.msg, "/proc");
	/* that of another process is as bad */
	CHECK(symlink("1", "/proc/self") == 0);
	CHECK_INT(proc_keeper_open(&keeper, &err), ERR_SYS);
	CHECK_HAS(err.msg, "PID namespace");
}

int main(int argc, char **argv)
{
	struct err err = { 0 };

	find_self();
	if (argc == 3) {
		CHECK(strlen(argv[2]) < sizeof(dir));
		(void)snprintf(dir, sizeof(dir), "%s", argv[2]);
		return check_plain_user();
	}
	if (argc > 1)
		return prog(argv[1]);
	CHECK(mkdtemp(dir));
	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	test_timeout();
	test_term_tree();
	test_stop();
	test_leftover();
	test_held_pipe();
	test_bombs();
	test_asleep();
	test_plain_user();
	proc_keeper_close(keeper);
	in_child(on_old_kernel);
	in_child(without_procfs);
	proc_keeper_close(NULL);
	CHECK(rmdir(dir) == 0);
	return 0;
}
