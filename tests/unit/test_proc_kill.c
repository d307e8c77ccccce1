/*
 * What is left when our own processes are killed: nothing.  An opener, in a process of its own,
 * runs a tree whose members fork twice, start sessions, ignore TERM and keep forking; then SIGKILL
 * hits the opener, the keeper, the guard, or two of them, when all is up or at some early moment.
 * All carry a mark in their environment, and the mark has to vanish.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "proc/proc.h"
#include "proctest.h"

/* the sanitizers make each process start many times slower */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 6
#else
#define ROUNDS 20
#endif
#define TREE_SIZE 6 /* long-lived members of the tree */

static char mark[64]; /* RB_MARK=... */

/* ---- the tree ---- */

static void ignore_all(void)
{
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGINT, SIG_IGN);
}

_Noreturn static void stay(void)
{
	pause_ms(60000);
	_exit(0);
}

/* Children that come and go, one after another. */
_Noreturn static void spawn_on(void)
{
	for (int i = 0; i < 10000; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			pause_ms(3);
			_exit(0);
		}
		(void)waitpid(pid, NULL, 0);
	}
	_exit(0);
}

static int prog_tree(void)
{
	ignore_all();
	for (int kind = 0; kind < 5; kind++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (pid)
			continue;
		if (kind == 1 || kind == 3)
			(void)setsid();
		/* daemons */
		if (kind >= 2 && fork())
			_exit(0);
		if (kind == 3)
			(void)setsid();
		if (kind >= 3) {
			for (int fd = 0; fd < 3; fd++)
				(void)close(fd);
		}
		if (kind == 4)
			spawn_on();
		stay();
	}
	stay();
}

/* ---- the opener ---- */

/* Opens a keeper, names it on fd 3 and runs the tree, or waits idle for fd 4. */
static int prog_opener(bool idle)
{
	const char *argv[] = { self, "tree", NULL };
	const char *quick[] = { "true", NULL };
	struct proc_spec spec = { .argv = argv, .out = PROC_IO_CAPTURE, .err = PROC_IO_CAPTURE };
	struct proc_result res;
	struct err err = { 0 };
	pid_t pid;
	char c;

	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	pid = proc_keeper_pid(keeper);
	CHECK(write(3, &pid, sizeof(pid)) == sizeof(pid));
	if (idle) {
		spec.argv = quick;
		CHECK_OK(proc_run(keeper, &spec, &res, &err), &err);
		proc_result_done(&res);
		CHECK(write(3, &pid, sizeof(pid)) == sizeof(pid));
		CHECK(read(4, &c, 1) == 1);
	}
	CHECK_INT(proc_run(keeper, &spec, &res, &err), ERR_SYS);
	CHECK_INT(err.sys_errno, ECHILD);
	CHECK_HAS(err.msg, "keeper");
	/* and so does every later one, at once */
	CHECK_INT(proc_run(keeper, &spec, &res, &err), ERR_SYS);
	CHECK_INT(err.sys_errno, ECHILD);
	proc_keeper_close(keeper);
	return 42;
}

/* ---- what is left ---- */

static bool read_proc(pid_t pid, const char *name, char *buf, size_t cap, size_t *n)
{
	char path[64];
	int fd;
	ssize_t r;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	r = read(fd, buf, cap - 1);
	(void)close(fd);
	if (r < 0)
		return false;
	buf[r] = '\0';
	*n = (size_t)r;
	return true;
}

/* A zombie's environment is empty, so that it does not count. */
static unsigned count_marked(void)
{
	static char env[256 << 10];
	const struct dirent *e;
	unsigned count = 0;
	DIR *d = opendir("/proc");
	size_t n;

	CHECK(d);
	while ((e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		if (pid > 0 && read_proc(pid, "environ", env, sizeof(env), &n))
			count += memmem(env, n, mark, strlen(mark) + 1) != NULL;
	}
	CHECK(closedir(d) == 0);
	return count;
}

static pid_t parent_of(pid_t pid)
{
	char buf[1024];
	const char *p;
	size_t n;

	CHECK(read_proc(pid, "stat", buf, sizeof(buf), &n));
	p = strrchr(buf, ')');
	CHECK(p && strlen(p) > 4);
	return (pid_t)strtol(p + 4, NULL, 10);
}

static void reap_orphans(void)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		continue;
}

static void expect_none(const char *what, int round)
{
	uint64_t until = now_ns() + 20 * SEC;
	unsigned n;

	while ((n = count_marked()) && now_ns() < until)
		pause_ms(5);
	if (n)
		(void)fprintf(stderr, "%s, round %d: %u processes survive\n", what, round, n);
	CHECK_INT(n, 0);
}

/* ---- the kills ---- */

struct opener {
	pid_t pid, keeper, guard;
	int hello, go;
};

static void opener_start(struct opener *o, bool idle)
{
	int hello[2], go[2];

	(void)snprintf(mark, sizeof(mark), "RB_MARK=%d-%llu", (int)getpid(),
		       (unsigned long long)now_ns());
	CHECK(pipe2(hello, O_CLOEXEC) == 0 && pipe2(go, O_CLOEXEC) == 0);
	*o = (struct opener){ .hello = hello[0], .go = go[1] };
	o->pid = fork();
	CHECK(o->pid >= 0);
	if (o->pid == 0) {
		int w = fcntl(hello[1], F_DUPFD, 10), r = fcntl(go[0], F_DUPFD, 10);

		(void)dup2(w, 3);
		(void)dup2(r, 4);
		(void)close(w);
		(void)close(r);
		(void)putenv(mark);
		(void)execl(self, self, idle ? "idle" : "opener", (char *)NULL);
		_exit(99);
	}
	CHECK(close(hello[1]) == 0 && close(go[0]) == 0);
}

static void opener_meet(struct opener *o)
{
	CHECK(read(o->hello, &o->keeper, sizeof(o->keeper)) == sizeof(o->keeper));
	o->guard = parent_of(o->keeper);
	CHECK_INT(parent_of(o->guard), o->pid);
}

static void opener_done(struct opener *o)
{
	CHECK(close(o->hello) == 0 && close(o->go) == 0);
	reap_orphans();
}

static void opener_wait(const struct opener *o, int want)
{
	int status;

	CHECK(waitpid(o->pid, &status, 0) == o->pid);
	CHECK_INT(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), want);
}

/* opener, guard, keeper and the tree */
static void wait_up(void)
{
	uint64_t until = now_ns() + 30 * SEC;

	while (count_marked() < 3 + TREE_SIZE) {
		CHECK(now_ns() < until);
		pause_ms(2);
	}
}

enum victim {
	OPENER = 1,
	KEEPER = 2,
	GUARD = 4,
};

static void hit(const struct opener *o, int victims)
{
	/* the opener last: the others would see that it is gone */
	if (victims & KEEPER)
		CHECK(kill(o->keeper, SIGKILL) == 0);
	if (victims & GUARD)
		CHECK(kill(o->guard, SIGKILL) == 0);
	if (victims & OPENER)
		CHECK(kill(o->pid, SIGKILL) == 0);
}

static void test_running(int victims, int rounds, const char *what)
{
	for (int i = 0; i < rounds; i++) {
		struct opener o;

		opener_start(&o, false);
		opener_meet(&o);
		wait_up();
		hit(&o, victims);
		/* an opener that lives says that its keeper does not */
		if (victims & OPENER)
			opener_wait(&o, -SIGKILL);
		else
			opener_wait(&o, 42);
		expect_none(what, i);
		opener_done(&o);
	}
}

/* The guard alone: the run goes on, and the opener's death ends it still. */
static void test_guard_first(void)
{
	for (int i = 0; i < ROUNDS / 4; i++) {
		struct opener o;

		opener_start(&o, false);
		opener_meet(&o);
		wait_up();
		hit(&o, GUARD);
		pause_ms(i * 5);
		CHECK(kill(o.keeper, 0) == 0);
		hit(&o, OPENER);
		opener_wait(&o, -SIGKILL);
		expect_none("guard, then opener", i);
		opener_done(&o);
	}
}

static void test_idle(int victims, int rounds, const char *what)
{
	for (int i = 0; i < rounds; i++) {
		struct opener o;

		opener_start(&o, true);
		opener_meet(&o);
		CHECK(read(o.hello, &o.keeper, sizeof(o.keeper)) == sizeof(o.keeper));
		hit(&o, victims);
		if (victims & OPENER) {
			opener_wait(&o, -SIGKILL);
		} else {
			CHECK(write(o.go, "g", 1) == 1);
			opener_wait(&o, 42);
		}
		expect_none(what, i);
		opener_done(&o);
	}
}

/* At any moment from the first on: while guard and keeper start, or the tree grows. */
static void test_early(void)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		struct opener o;

		opener_start(&o, false);
		pause_ms(i % 20);
		hit(&o, OPENER);
		opener_wait(&o, -SIGKILL);
		expect_none("opener, early", i);
		opener_done(&o);
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct opener o;

		opener_start(&o, false);
		opener_meet(&o);
		pause_ms(i % 10);
		hit(&o, KEEPER);
		opener_wait(&o, 42);
		expect_none("keeper, early", i);
		opener_done(&o);
	}
}

/* A process that has copies of the opener's sockets does not keep the tree alive. */
static void test_copied_sockets(void)
{
	struct opener o = { 0 };
	int said[2];
	pid_t copy;

	(void)snprintf(mark, sizeof(mark), "RB_MARK=%d-c", (int)getpid());
	CHECK(pipe2(said, O_CLOEXEC) == 0);
	o.pid = fork();
	CHECK(o.pid >= 0);
	if (o.pid == 0) {
		const char *env[] = { mark, NULL }, *argv[] = { self, "tree", NULL };
		struct proc_spec spec = { .argv = argv, .envp = env };
		struct proc_result res;

		if (proc_keeper_open(&keeper, NULL) < 0)
			_exit(1);
		/* forked after the opening, and no exec: has all our descriptors */
		copy = fork();
		if (copy == 0)
			stay();
		if (write(said[1], &copy, sizeof(copy)) == sizeof(copy))
			(void)proc_run(keeper, &spec, &res, NULL);
		_exit(2);
	}
	CHECK(read(said[0], &copy, sizeof(copy)) == sizeof(copy));
	for (uint64_t until = now_ns() + 30 * SEC; count_marked() < TREE_SIZE; pause_ms(2))
		CHECK(now_ns() < until);
	hit(&o, OPENER);
	opener_wait(&o, -SIGKILL);
	expect_none("opener, with its sockets copied", 0);
	/* the copy is our child by now, as we are a sub-reaper */
	CHECK(kill(copy, SIGKILL) == 0);
	CHECK(waitpid(copy, NULL, 0) == copy);
	CHECK(close(said[0]) == 0 && close(said[1]) == 0);
}

int main(int argc, char **argv)
{
	find_self();
	if (argc > 1 && strcmp(argv[1], "tree") == 0)
		return prog_tree();
	if (argc > 1)
		return prog_opener(strcmp(argv[1], "idle") == 0);
	/* what is orphaned and dead comes to us, and is taken away */
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	test_running(OPENER, ROUNDS, "opener");
	test_running(KEEPER, ROUNDS, "keeper");
	test_running(KEEPER | OPENER, ROUNDS / 2, "keeper and opener");
	test_running(GUARD | OPENER, ROUNDS / 2, "guard and opener");
	test_guard_first();
	test_idle(OPENER, ROUNDS, "opener, idle");
	test_idle(KEEPER, ROUNDS, "keeper, idle");
	test_idle(KEEPER | OPENER, ROUNDS / 4, "keeper and opener, idle");
	test_early();
	test_copied_sockets();
	return 0;
}
