/*
 * What one run does: status, streams, limits, environment.  Called with a word it is one of the
 * programs that are run.  test_proc_stop.c has stops and leftovers, test_proc_kill.c what happens
 * when we are killed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/err.h"
#include "proc/proc.h"
#include "proctest.h"

static char dir[] = "/tmp/rb proc-XXXXXX";

/* ---- the programs ---- */

static int prog_memory(void)
{
	size_t n = (size_t)96 << 20;
	char *p = malloc(n);

	CHECK(p);
	for (size_t i = 0; i < n; i += 4096)
		((volatile char *)p)[i] = 1;
	free(p);
	return 0;
}

static int prog_burn(void)
{
	struct timespec ts;
	volatile unsigned x = 0;

	do {
		for (int i = 0; i < 100000; i++)
			x = x + (unsigned)i;
		CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0);
	} while (ts.tv_sec == 0 && ts.tv_nsec < 100000000);
	return 0;
}

static int prog_signals(void)
{
	sigset_t set;
	struct sigaction sa;
	int bad = 0;

	CHECK(sigprocmask(SIG_SETMASK, NULL, &set) == 0);
	for (int s = 1; s < 65; s++) {
		bad += sigismember(&set, s) == 1;
		if (s != SIGKILL && s != SIGSTOP && sigaction(s, NULL, &sa) == 0)
			bad += sa.sa_handler == SIG_IGN;
	}
	return bad;
}

static int prog(const char *word)
{
	static const struct {
		const char *word;
		int (*run)(void);
	} progs[] = {
		{ "memory", prog_memory },
		{ "burn", prog_burn },
		{ "signals", prog_signals },
	};

	for (size_t i = 0; i < sizeof(progs) / sizeof(progs[0]); i++) {
		if (strcmp(word, progs[i].word) == 0)
			return progs[i].run();
	}
	return 98;
}

static void put_file(const char *name, const char *text, mode_t mode)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0 && chmod(path, mode) == 0);
}

/* ---- status and start ---- */

static void test_status(void)
{
	struct proc_result res;
	char text[128];

	run_sh("exit 3", capture, &res);
	CHECK_INT(res.exit_code, 3);
	CHECK_INT(res.term_signal, 0);
	CHECK_INT(res.n_leftover, 0);
	CHECK_INT(res.n_unkillable, 0);
	CHECK(!res.timed_out && !res.stopped);
	CHECK_INT(res.out.total, 0);
	CHECK_STR(res.out.head, "");
	proc_result_text(&res, text, sizeof(text));
	CHECK_STR(text, "exited with status 3");
	proc_result_done(&res);
	run_sh("kill -SEGV $$", capture, &res);
	CHECK_INT(res.exit_code, -1);
	CHECK_INT(res.term_signal, SIGSEGV);
	proc_result_text(&res, text, sizeof(text));
	CHECK_STR(text, "killed by signal 11 (Segmentation fault)");
	proc_result_done(&res);
	run_sh("exit 255", (struct proc_spec){ 0 }, &res);
	CHECK_INT(res.exit_code, 255);
	CHECK(!res.out.head && !res.err.head);
	proc_result_done(&res);
	proc_result_done(&res);
	proc_result_done(NULL);
}

static void test_start_errors(void)
{
	const char *none[] = { NULL }, *absent[] = { "/no/such/program", NULL };
	const char *bare[] = { "no-such-program", NULL }, *folder[] = { "/tmp", NULL };
	const char *ok[] = { "true", NULL }, *env[] = { "PATH=/no/where", NULL };
	char path[256];
	const char *plain[] = { path, NULL };

	expect_fail((struct proc_spec){ .argv = NULL }, ERR_INVALID, 0, "no program");
	expect_fail((struct proc_spec){ .argv = none }, ERR_INVALID, 0, "no program");
	expect_fail((struct proc_spec){ .argv = absent }, ERR_SYS, ENOENT, "/no/such/program");
	expect_fail((struct proc_spec){ .argv = bare }, ERR_SYS, ENOENT, "'no-such-program'");
	expect_fail((struct proc_spec){ .argv = folder }, ERR_SYS, EACCES, "/tmp");
	expect_fail((struct proc_spec){ .argv = ok, .cwd = "/no/folder" }, ERR_SYS, ENOENT,
		    "/no/folder");
	expect_fail((struct proc_spec){ .argv = ok, .cwd = "/dev/null" }, ERR_SYS, ENOTDIR,
		    "/dev/null");
	expect_fail((struct proc_spec){ .argv = ok, .envp = env }, ERR_SYS, ENOENT, "/no/where");
	put_file("plain", "#!/no/interpreter\n", 0600);
	(void)snprintf(path, sizeof(path), "%s/plain", dir);
	expect_fail((struct proc_spec){ .argv = plain }, ERR_SYS, EACCES, "rb proc-");
	CHECK(chmod(path, 0700) == 0);
	expect_fail((struct proc_spec){ .argv = plain }, ERR_SYS, ENOENT, "interpreter");
}

static void test_path(void)
{
	char entry[256];
	const char *env[] = { entry, NULL };
	const char *argv[] = { "tool", "a b", "\xff\xfe", "", NULL };
	struct proc_spec spec = { .argv = argv, .envp = env, .out = PROC_IO_CAPTURE };
	struct proc_result res;

	/* without a first line it goes to sh; found where the given PATH says, not ours */
	put_file("tool", "printf '%s|' \"$0\" \"$#\" \"$@\"\n", 0755);
	(void)snprintf(entry, sizeof(entry), "PATH=/no/where:%s:/bin", dir);
	run_spec(spec, &res);
	CHECK_HAS(res.out.head, "/tool|3|a b|\xff\xfe||");
	CHECK_INT(res.exit_code, 0);
	proc_result_done(&res);
	/* an empty element is the working directory, which is the one of the run */
	(void)snprintf(entry, sizeof(entry), "PATH=/no/where::/bin");
	spec.cwd = dir;
	run_spec(spec, &res);
	CHECK_STR(res.out.head, "./tool|3|a b|\xff\xfe||");
	proc_result_done(&res);
	/* a file that may not be run does not end the search */
	put_file("tool", "exit 1\n", 0600);
	put_file("sub", "", 0600);
	(void)snprintf(entry, sizeof(entry), "PATH=%s:%s/sub", dir, dir);
	expect_fail(spec, ERR_SYS, EACCES, "'tool'");
	(void)snprintf(entry, sizeof(entry), "NOPATH=1");
	argv[0] = "true";
	run_spec(spec, &res);
	CHECK_INT(res.exit_code, 0);
	proc_result_done(&res);
}

static void test_cwd(void)
{
	char old[4096], want[300];
	struct proc_spec spec = capture;

	CHECK(getcwd(old, sizeof(old)));
	spec.cwd = "/usr";
	expect_sh("pwd", spec, "/usr\n");
	/* ours at the time of the call, not of the opening */
	CHECK(chdir(dir) == 0);
	(void)snprintf(want, sizeof(want), "%s\n", dir);
	expect_sh("pwd -P", capture, want);
	CHECK(mkdir("in ner", 0700) == 0);
	spec.cwd = "in ner";
	(void)snprintf(want, sizeof(want), "%s/in ner\n", dir);
	expect_sh("pwd -P", spec, want);
	CHECK(rmdir("in ner") == 0 && chdir(old) == 0);
}

static void test_env(void)
{
	const char *base[] = { "A=1", "B=2", "A=dup", "ODD", "=X=1", NULL };
	const char *changes[] = { "B", "C=3", "A=9", "C=4", "NONE", NULL };
	const char *argv[] = { "env", NULL };
	const char **env = proc_env(base, changes);
	struct proc_spec spec = { .argv = argv, .out = PROC_IO_CAPTURE };
	struct proc_result res;

	CHECK(env);
	CHECK_STR(env[0], "ODD");
	CHECK_STR(env[1], "=X=1");
	CHECK_STR(env[2], "A=9");
	CHECK_STR(env[3], "C=4");
	CHECK(!env[4]);
	free(env);
	base[3] = NULL;
	env = proc_env(base, (const char *const[]){ "C=3", NULL });
	CHECK(env);
	spec.envp = env;
	run_spec(spec, &res);
	CHECK_STR(res.out.head, "A=1\nB=2\nA=dup\nC=3\n");
	proc_result_done(&res);
	free(env);
	CHECK(setenv("RB_TEST_OURS", "y", 1) == 0);
	expect_sh("echo $RB_TEST_OURS", capture, "y\n");
	env = proc_env(NULL, (const char *const[]){ "RB_TEST_OURS", NULL });
	CHECK(env);
	spec = capture;
	spec.envp = env;
	expect_sh("echo ${RB_TEST_OURS-unset}", spec, "unset\n");
	free(env);
	env = proc_env(NULL, NULL);
	CHECK(env && env[0]);
	free(env);
	CHECK(unsetenv("RB_TEST_OURS") == 0);
}

/* The message outgrows any packet; what outgrows the kernel is an error that says so. */
static void test_big(void)
{
	enum { N = 3000, LEN = 120 };
	const char **env = calloc(N + 2, sizeof(*env));
	char *text = malloc((size_t)N * LEN), *arg = malloc(300000);
	const char *argv[] = { "sh", "-c", "env | grep -c ^RBBIG", NULL };
	struct proc_spec spec = { .argv = argv, .envp = env, .out = PROC_IO_CAPTURE };
	struct proc_result res;

	CHECK(env && text && arg);
	env[0] = "PATH=/bin:/usr/bin";
	for (int i = 0; i < N; i++) {
		char *p = text + (size_t)i * LEN;

		(void)snprintf(p, LEN, "RBBIG%05d=%0100d", i, i);
		env[i + 1] = p;
	}
	run_spec(spec, &res);
	CHECK_STR(res.out.head, "3000\n");
	proc_result_done(&res);
	memset(arg, 'x', 299999);
	arg[299999] = '\0';
	argv[2] = arg;
	expect_fail(spec, ERR_SYS, E2BIG, "bytes of arguments and environment");
	argv[2] = "exit 4";
	run_spec(spec, &res);
	CHECK_INT(res.exit_code, 4);
	proc_result_done(&res);
	free(env);
	free(text);
	free(arg);
}

/* More than we would even send: refused here, and the keeper lives on. */
static void test_too_big(void)
{
	size_t n = (size_t)33 << 20;
	char *arg = malloc(n);
	const char *argv[] = { "true", arg, NULL };
	struct proc_spec spec = { .argv = argv };

	CHECK(arg);
	memset(arg, 'x', n - 1);
	arg[n - 1] = '\0';
	expect_fail(spec, ERR_LIMIT, 0, "arguments and environment");
	arg[(16 << 20)] = '\0';
	expect_fail(spec, ERR_SYS, E2BIG, "16");
	expect_sh("echo on", capture, "on\n");
	free(arg);
}

/* ---- streams ---- */

static void test_capture(void)
{
	struct proc_spec spec = capture;
	struct proc_result res;

	run_sh("echo out; echo err >&2; printf 'a\\0b'", spec, &res);
	CHECK_INT(res.out.head_len, 7);
	CHECK(memcmp(res.out.head, "out\na\0b", 8) == 0);
	CHECK_INT(res.out.total, 7);
	CHECK(!res.out.tail);
	CHECK_STR(res.err.head, "err\n");
	proc_result_done(&res);
	spec.merge_err = true;
	run_sh("for i in 1 2 3; do echo o$i; echo e$i >&2; done", spec, &res);
	CHECK_STR(res.out.head, "o1\ne1\no2\ne2\no3\ne3\n");
	CHECK(!res.err.head);
	proc_result_done(&res);
	/* merged into nothing */
	spec.out = PROC_IO_NULL;
	run_sh("echo x; echo y >&2", spec, &res);
	CHECK(!res.out.head && !res.err.head);
	proc_result_done(&res);
	/* stdin is empty, and nothing of ours or the keeper's is open (3 is the folder ls reads) */
	expect_sh("cat; ls /proc/self/fd", capture, "0\n1\n2\n3\n");
}

static void test_capture_edges(void)
{
	struct proc_spec spec = capture;
	struct proc_result res;

	spec.capture_max = 4;
	run_sh("printf abcd", spec, &res);
	CHECK_STR(res.out.head, "abcd");
	CHECK(!res.out.tail);
	proc_result_done(&res);
	run_sh("printf abc; sleep 0.05; printf defg", spec, &res);
	CHECK_STR(res.out.head, "abcd");
	CHECK_STR(res.out.tail, "efg");
	CHECK_INT(res.out.tail_len, 3);
	CHECK_INT(res.out.total, 7);
	proc_result_done(&res);
}

struct seen {
	uint64_t out, err;
};

static void on_count(void *arg, bool is_err, const char *data, size_t n)
{
	struct seen *s = arg;

	CHECK(data && n);
	*(is_err ? &s->err : &s->out) += n;
}

static void test_flood(void)
{
	struct seen seen = { 0, 0 };
	struct proc_spec spec = capture;
	struct proc_result res;

	spec.capture_max = (size_t)1 << 20;
	spec.on_output = on_count;
	spec.arg = &seen;
	run_sh("printf START; head -c 100000000 /dev/zero; printf END; printf e >&2", spec, &res);
	CHECK_INT(res.exit_code, 0);
	CHECK_INT(res.out.total, 100000008);
	CHECK_INT(seen.out, 100000008);
	CHECK_INT(seen.err, 1);
	CHECK_INT(res.out.head_len, 1 << 20);
	CHECK(memcmp(res.out.head, "START\0\0", 7) == 0);
	CHECK_INT(res.out.tail_len, 64 << 10);
	CHECK(memcmp(res.out.tail + res.out.tail_len - 4, "\0END", 5) == 0);
	CHECK_INT(res.out.tail[0], 0);
	proc_result_done(&res);
}

static void on_slow(void *arg, bool is_err, const char *data, size_t n)
{
	pause_ms(20);
	on_count(arg, is_err, data, n);
}

/* The program has ended before its output is read: it lies in the pipes still. */
static void test_slow_reader(void)
{
	struct seen seen = { 0, 0 };
	struct proc_spec spec = capture;
	struct proc_result res;

	spec.on_output = on_slow;
	spec.arg = &seen;
	run_sh("head -c 250000 /dev/zero; head -c 200000 /dev/zero >&2", spec, &res);
	CHECK_INT(res.out.total, 250000);
	CHECK_INT(res.err.total, 200000);
	CHECK_INT(seen.out, 250000);
	CHECK_INT(seen.err, 200000);
	CHECK_INT(res.out.head_len, 250000);
	proc_result_done(&res);
}

static void test_inherit(void)
{
	struct proc_spec spec = { .out = PROC_IO_INHERIT, .err = PROC_IO_INHERIT };
	int old = fcntl(1, F_DUPFD_CLOEXEC, 3);
	struct proc_result res;
	char path[256], buf[32] = "";
	int fd;

	(void)snprintf(path, sizeof(path), "%s/inherit", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(old >= 0 && fd >= 0 && dup2(fd, 1) == 1);
	run_sh("echo hello", spec, &res);
	CHECK(dup2(old, 1) == 1 && close(old) == 0);
	CHECK_INT(res.exit_code, 0);
	CHECK(!res.out.head);
	CHECK(pread(fd, buf, sizeof(buf) - 1, 0) == 6);
	CHECK_STR(buf, "hello\n");
	CHECK(close(fd) == 0 && unlink(path) == 0);
	proc_result_done(&res);
}

/* With 0 to 2 closed nothing of ours may slip into their places. */
static void test_closed(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		struct proc_keeper *k;
		struct proc_spec spec = capture;
		struct proc_result res;
		const char *argv[] = { "sh", "-c", "echo x; echo y >&2", NULL };

		for (int fd = 0; fd < 3; fd++)
			(void)close(fd);
		if (proc_keeper_open(&k, NULL) < 0)
			_exit(10);
		spec.argv = argv;
		if (proc_run(k, &spec, &res, NULL) < 0 || strcmp(res.out.head, "x\n") != 0 ||
		    strcmp(res.err.head, "y\n") != 0)
			_exit(11);
		proc_result_done(&res);
		spec.out = spec.err = PROC_IO_INHERIT;
		if (proc_run(k, &spec, &res, NULL) < 0 || res.exit_code != 0)
			_exit(12);
		proc_result_done(&res);
		if (fcntl(0, F_GETFD) >= 0 || fcntl(1, F_GETFD) >= 0 || fcntl(2, F_GETFD) >= 0)
			_exit(13);
		proc_keeper_close(k);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_INT(status, 0);
}

/* ---- what the child is given ---- */

static void test_limits(void)
{
	static const struct proc_limit limits[] = { { RLIMIT_NOFILE, 64 }, { RLIMIT_CORE, 0 } };
	static const struct proc_limit wrong = { RLIMIT_NOFILE, UINT64_C(1) << 40 };
	const char *argv[] = { "true", NULL };
	struct proc_spec spec = capture;

	spec.limits = limits;
	spec.n_limits = 2;
	expect_sh("ulimit -n; ulimit -H -n; ulimit -c", spec, "64\n64\n0\n");
	spec.argv = argv;
	spec.limits = &wrong;
	spec.n_limits = 1;
	expect_fail(spec, ERR_SYS, EPERM, "resource limit 7 to 1099511627776");
	spec.n_limits = 65;
	expect_fail(spec, ERR_LIMIT, 0, "limits");
}

static void test_affinity(void)
{
	cpu_set_t all, one, none;
	struct proc_spec spec = capture;
	const char *argv[] = { "true", NULL };
	char want[32];
	int last = -1;

	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &all))
			last = i;
	}
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	spec.cpus = &one;
	(void)snprintf(want, sizeof(want), "%d\n", last);
	expect_sh("sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status", spec, want);
	/* ours of now is passed on as well */
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
	spec.cpus = NULL;
	expect_sh("sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status", spec, want);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	CPU_ZERO(&none);
	spec.cpus = &none;
	spec.argv = argv;
	expect_fail(spec, ERR_SYS, EINVAL, "CPUs");
}

static void test_signals(void)
{
	struct proc_result res;
	sigset_t set, old;

	CHECK(signal(SIGUSR1, SIG_IGN) == SIG_DFL);
	CHECK(sigemptyset(&set) == 0 && sigaddset(&set, SIGUSR2) == 0);
	CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
	run_self("signals", capture, &res);
	CHECK_INT(res.exit_code, 0);
	proc_result_done(&res);
	CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
	CHECK(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	/* a process group of its own */
	expect_sh("[ \"$(sed 's/.*) . [0-9]* //; s/ .*//' /proc/$$/stat)\" = $$ ] && echo own",
		  capture, "own\n");
}

static void test_rusage(void)
{
	struct proc_result res;

	run_self("memory", (struct proc_spec){ 0 }, &res);
	CHECK_INT(res.exit_code, 0);
	CHECK(res.maxrss_bytes >= (uint64_t)96 << 20);
	CHECK(res.maxrss_bytes < (uint64_t)1 << 40);
	CHECK(res.minflt >= 1);
	run_self("burn", (struct proc_spec){ 0 }, &res);
	CHECK_INT(res.exit_code, 0);
	CHECK(res.user_ns + res.sys_ns >= 90 * MS);
	CHECK(res.wall_ns >= 90 * MS);
	/* one thread cannot use more than all the time; the kernel's clocks may differ by a tick */
	CHECK(res.user_ns + res.sys_ns <= res.wall_ns + 20 * MS);
	run_sh("sleep 0.1", (struct proc_spec){ 0 }, &res);
	CHECK(res.wall_ns >= 100 * MS);
	CHECK(res.nvcsw >= 1);
}

/* ---- mounts ---- */

static void test_mounts(void)
{
	char src[256], dst[256], text[600];
	struct proc_mount m[] = { { .src = src, .dst = dst }, { .src = NULL, .dst = dir } };
	const char *argv[] = { "true", NULL };
	struct proc_spec spec = capture;

	if (!proc_can_mount()) {
		(void)printf("skipped: mounts: no right to make a mount namespace here\n");
		return;
	}
	(void)snprintf(src, sizeof(src), "%s/s r c", dir);
	(void)snprintf(dst, sizeof(dst), "%s/dst", dir);
	CHECK(mkdir(src, 0755) == 0 && mkdir(dst, 0755) == 0);
	put_file("s r c/here", "1", 0644);
	spec.mounts = m;
	spec.n_mounts = 1;
	spec.cwd = dst;
	/* the working directory is what is mounted there, not what lies under it */
	expect_sh("ls; ls \"$PWD\"", spec, "here\nhere\n");
	spec.cwd = "/";
	(void)snprintf(text, sizeof(text), "ls '%s' | wc -l; touch '%s/new' && ls '%s'", dir, dir,
		       dir);
	m[0] = m[1];
	expect_sh(text, spec, "0\nnew\n");
	/* nothing of it is seen outside */
	(void)snprintf(text, sizeof(text), "%s/new", dir);
	CHECK(access(text, F_OK) != 0);
	CHECK(access(src, F_OK) == 0);
	/* a folder is kept while all around it is hidden, and written to for good */
	m[0] = (struct proc_mount){ .dst = dir };
	m[1] = (struct proc_mount){ .src = src, .dst = src };
	spec.n_mounts = 2;
	spec.cwd = src;
	(void)snprintf(text, sizeof(text), "ls '%s'; ls; touch kept", dir);
	expect_sh(text, spec, "s r c\nhere\n");
	(void)snprintf(text, sizeof(text), "%s/kept", src);
	CHECK(unlink(text) == 0);
	spec.n_mounts = 1;
	spec.cwd = "/";
	spec.argv = argv;
	m[0] = (struct proc_mount){ .src = "/no/source", .dst = dst };
	expect_fail(spec, ERR_SYS, ENOENT, "/no/source");
	m[0] = (struct proc_mount){ .dst = "/no/target" };
	expect_fail(spec, ERR_SYS, ENOENT, "/no/target");
	(void)snprintf(text, sizeof(text), "%s/absent", dir);
	m[0] = (struct proc_mount){ .src = src, .dst = text };
	expect_fail(spec, ERR_SYS, ENOENT, text);
	CHECK(access(text, F_OK) != 0);
	m[0] = (struct proc_mount){ .dst = "relative" };
	expect_fail(spec, ERR_INVALID, 0, "relative");
	(void)snprintf(text, sizeof(text), "%s/here", src);
	CHECK(unlink(text) == 0 && rmdir(src) == 0 && rmdir(dst) == 0);
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	static const char *const files[] = { "plain", "tool", "sub" };

	find_self();
	if (argc > 1)
		return prog(argv[1]);
	CHECK(mkdtemp(dir));
	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	CHECK(proc_keeper_pid(keeper) > 0);
	test_status();
	test_start_errors();
	test_path();
	test_cwd();
	test_env();
	test_big();
	test_too_big();
	test_capture();
	test_capture_edges();
	test_flood();
	test_slow_reader();
	test_inherit();
	test_closed();
	test_limits();
	test_affinity();
	test_signals();
	test_rusage();
	test_mounts();
	proc_keeper_close(keeper);
	proc_keeper_close(NULL);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char path[256];

		(void)snprintf(path, sizeof(path), "%s/%s", dir, files[i]);
		CHECK(unlink(path) == 0);
	}
	CHECK(rmdir(dir) == 0);
	return 0;
}
