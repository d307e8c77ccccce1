#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "measure/bench.h"
#include "measure/fom.h"
#include "proc/proc.h"

static struct proc_keeper *k;
static char count_file[] = "/tmp/rb-bench-XXXXXX";

/* ---- commands ---- */

static void test_cmd(void)
{
	const char *const argv[] = { "./a b", "it's", "-x", NULL };
	const char *const env[] = { "A=1=2", "B", "C=", NULL };
	struct measure_cmd c = { .argv = argv, .env = env };
	struct err err = { 0 };
	AUTO_FREE char *text = measure_cmd_text(&c), *shell = NULL, *dump = NULL;
	AUTO_JSON struct json *e = measure_cmd_env_json(&c);

	CHECK_STR(text, "'./a b' 'it'\\''s' -x");
	dump = json_dump(e);
	CHECK_STR(dump, "{\"A\":\"1=2\",\"B\":null,\"C\":\"\"}");
	CHECK_OK(measure_cmd_check(&c, &err), &err);
	c = (struct measure_cmd){ .shell = "a | b" };
	shell = measure_cmd_text(&c);
	CHECK_STR(shell, "a | b");
	c.shell = " \n";
	CHECK_INT(measure_cmd_check(&c, &err), ERR_INVALID);
	c = (struct measure_cmd){ .argv = argv + 3, .shell = "x" };
	CHECK_INT(measure_cmd_check(&c, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "no command");
}

/* ---- one repetition ---- */

static void once(const char *shell, const struct fom *fom, struct bench_rep *rep)
{
	struct measure_cmd c = { .shell = shell, .timeout_ns = 20 * NS_PER_SEC };
	struct err err = { 0 };

	CHECK_OK(bench_once(k, &c, fom, rep, &err), &err);
}

static void test_once(void)
{
	struct bench_rep rep = { 0 };
	AUTO_FREE char *lines = NULL;

	once("i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); done; echo oops >&2; exit 3",
	     NULL, &rep);
	CHECK(!rep.ok);
	CHECK_HAS(rep.why, "status 3");
	lines = bench_rep_last_lines(&rep, 2);
	CHECK_STR(lines, "line 29\noops\n");
	bench_rep_done(&rep);
	bench_rep_done(&rep);
	bench_rep_done(NULL);

	once("kill -SEGV $$", NULL, &rep);
	CHECK(!rep.ok);
	CHECK_HAS(rep.why, "signal 11");
	bench_rep_done(&rep);

	/* a second of work of the CPU would be too slow a test; some is seen in user time */
	once("i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; printf end", NULL, &rep);
	CHECK(rep.ok);
	CHECK(rep.sample.wall_s > 0 && rep.sample.user_s > 0 && !rep.sample.has_fom);
	CHECK(rep.sample.user_s <= rep.sample.wall_s * 1.5 + 0.02);
	CHECK(rep.sample.peak_bytes > 100000 && rep.sample.peak_bytes < (UINT64_C(1) << 30));
	CHECK(rep.sample.minor_faults > 0);
	free(lines);
	lines = bench_rep_last_lines(&rep, 20);
	CHECK_STR(lines, "end\n");
	bench_rep_done(&rep);
}

static void test_once_surroundings(void)
{
	const char *const env[] = { "RB_SEEN=yes", "HOME", NULL };
	const char *const argv[] = { "sh", "-c", "echo $RB_SEEN-$HOME-$PWD; echo err >&2", NULL };
	struct measure_cmd c = { .argv = argv, .env = env, .cwd = "/", .split_err = true };
	const char *const none[] = { "/nonexistent/program", NULL };
	struct bench_rep rep = { 0 };
	struct err err = { 0 };
	cpu_set_t one, had;
	AUTO_FREE char *lines = NULL;

	CHECK_OK(bench_once(k, &c, NULL, &rep, &err), &err);
	CHECK_STR(rep.res->out.head, "yes--/\n");
	CHECK_STR(rep.res->err.head, "err\n");
	lines = bench_rep_last_lines(&rep, 5);
	CHECK_STR(lines, "yes--/\nerr\n");
	bench_rep_done(&rep);

	CPU_ZERO(&one);
	CHECK(sched_getaffinity(0, sizeof(had), &had) == 0);
	for (int i = CPU_SETSIZE - 1; i >= 0 && CPU_COUNT(&one) == 0; i--) {
		if (CPU_ISSET(i, &had))
			CPU_SET(i, &one);
	}
	c = (struct measure_cmd){ .shell =
					  "grep Cpus_allowed_list /proc/self/status | tr ',' '-' | "
					  "grep -c -- -",
				  .cpus = &one };
	CHECK_OK(bench_once(k, &c, NULL, &rep, &err), &err);
	CHECK_STR(rep.res->out.head, "0\n");
	bench_rep_done(&rep);

	c = (struct measure_cmd){ .argv = none };
	CHECK_INT(bench_once(k, &c, NULL, &rep, &err), ERR_SYS);
	CHECK_HAS(err.msg, "/nonexistent/program");
	c = (struct measure_cmd){ .shell = "exec sleep 60", .timeout_ns = 50 * NS_PER_MS };
	CHECK_OK(bench_once(k, &c, NULL, &rep, &err), &err);
	CHECK(!rep.ok);
	CHECK_HAS(rep.why, "timed out");
	bench_rep_done(&rep);
}

static void test_once_fom(void)
{
	struct fom_spec spec = { .pattern = "speed ([0-9.]+)", .unit = "m/s", .higher = true };
	struct bench_rep rep = { 0 };
	struct measure_cmd c = { .shell = "echo out; echo speed 3 >&2", .split_err = true };
	struct err err = { 0 };
	struct fom *f;

	CHECK_OK(fom_new(&spec, &f, &err), &err);
	once("echo speed 1; echo speed 2.5", f, &rep);
	CHECK(rep.ok && rep.sample.has_fom && rep.sample.fom == 2.5);
	bench_rep_done(&rep);
	once("echo no figure", f, &rep);
	CHECK(!rep.ok);
	CHECK_HAS(rep.why, "nothing matches 'speed");
	CHECK_HAS(rep.why, "no figure");
	bench_rep_done(&rep);
	CHECK_OK(bench_once(k, &c, f, &rep, &err), &err);
	CHECK(rep.ok && rep.sample.fom == 3);
	bench_rep_done(&rep);
	fom_free(f);
}

/* ---- repetitions ---- */

/* A command that prints how often it ran since the last reset. */
static void reset_count(void)
{
	int fd = open(count_file, O_WRONLY | O_TRUNC | O_CLOEXEC);

	CHECK(fd >= 0 && write(fd, "0\n", 2) == 2 && close(fd) == 0);
}

static char counting[256];

static void seen_rep(void *arg, const struct bench_result *so_far)
{
	unsigned *n = arg;

	CHECK_INT(so_far->n, *n + 1);
	(*n)++;
}

static void test_run_counts(void)
{
	struct fom_spec spec = { .pattern = "count ([0-9]+)", .higher = true };
	unsigned n_seen = 0;
	struct bench_opts o = {
		.cmd = { .shell = counting }, .warmup = 1, .on_rep = seen_rep, .arg = &n_seen
	};
	struct bench_result r;
	struct err err = { 0 };
	struct fom *f;

	CHECK_OK(fom_new(&spec, &f, &err), &err);
	o.fom = f;
	reset_count();
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	/* four with the warm-up, which is the first: 2, 3, 4 are left */
	CHECK_INT(r.n, 4);
	CHECK_INT(n_seen, 4);
	CHECK_INT(bench_effective(&r), 3);
	CHECK_INT(r.end, BENCH_END_REPS);
	CHECK(r.has_summary && r.has_fom);
	CHECK(bench_figure(&r) == &r.fom);
	CHECK(r.fom.median == 3 && r.fom.min == 2 && r.fom.max == 4 && !r.fom.has_ci);
	CHECK(r.wall.n == 3 && r.wall.min > 0 && r.peak.min > 0);
	CHECK_STR(bench_tag(&r), "FACT");
	CHECK(r.last.ok && r.cpu_s > 0);
	CHECK_STR(r.last.res->out.head, "count 4\n");
	bench_result_done(&r);

	n_seen = 0;
	o.reps = 12;
	o.warmup = 2;
	reset_count();
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK(r.n == 12 && r.fom.n == 10 && r.fom.min == 3 && r.fom.has_ci);
	CHECK(r.fom.ci95_low >= 3 && r.fom.ci95_high <= 12);
	bench_result_done(&r);
	bench_result_done(NULL);
	fom_free(f);

	o = (struct bench_opts){ .cmd = { .shell = "true" }, .reps = 2 };
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK(!r.has_fom && bench_figure(&r) == &r.wall);
	CHECK_STR(bench_tag(&r), "OPINION"); /* two are no fact */
	bench_result_done(&r);
}

static void test_run_fails(void)
{
	struct bench_opts o = { .cmd = { .shell = counting }, .reps = 10 };
	struct bench_result r;
	struct err err = { 0 };
	char shell[400];

	(void)snprintf(shell, sizeof(shell), "%s; [ $n -lt 3 ]", counting);
	o.cmd.shell = shell;
	reset_count();
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_FAILED);
	CHECK_INT(r.n, 2);
	CHECK(!r.has_summary && !bench_figure(&r));
	CHECK_STR(bench_tag(&r), "");
	CHECK(!r.last.ok);
	CHECK_STR(r.last.res->out.head, "count 3\n");
	bench_result_done(&r);

	o.reps = 3;
	o.warmup = 3;
	CHECK_INT(bench_run(k, &o, &r, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "leaves none");
	o = (struct bench_opts){ .cmd = { .shell = "true" }, .reps = BENCH_REPS_MAX + 1 };
	CHECK_INT(bench_run(k, &o, &r, &err), ERR_INVALID);
	o = (struct bench_opts){ .cmd = { .shell = "true" }, .target_ci_pct = -1 };
	CHECK_INT(bench_run(k, &o, &r, &err), ERR_INVALID);
	o = (struct bench_opts){ .reps = 3 };
	CHECK_INT(bench_run(k, &o, &r, &err), ERR_INVALID);
}

/* Figures that the command makes up, so that no clock decides what this test sees. */
static void test_run_target(void)
{
	struct fom_spec spec = { .pattern = "v=([0-9.]+)" };
	struct bench_opts o = { .cmd = { .shell = "echo v=100" }, .target_ci_pct = 1 };
	struct bench_result r;
	struct err err = { 0 };
	struct fom *f;
	char shell[400];

	CHECK_OK(fom_new(&spec, &f, &err), &err);
	o.fom = f;
	/* an interval of no width is met at the first look, never before */
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_TARGET);
	CHECK_INT(r.n, stats_next_look(0));
	bench_result_done(&r);
	/* one that swings between 100 and 200 for ever never is */
	(void)snprintf(shell, sizeof(shell), "%s; echo v=$((100 + n %% 2 * 100))", counting);
	o.cmd.shell = shell;
	o.reps = 24;
	reset_count();
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_REPS);
	CHECK_INT(r.n, 24);
	CHECK(r.has_summary);
	bench_result_done(&r);
	fom_free(f);
}

static void test_run_auto_warmup(void)
{
	struct fom_spec spec = { .pattern = "v=([0-9.]+)" };
	struct bench_opts o = { .reps = 20, .warmup_auto = true };
	struct bench_result r;
	struct err err = { 0 };
	struct fom *f;
	char shell[400];

	/* three slow ones, then a level; repetition 15 is far out */
	(void)snprintf(shell, sizeof(shell),
		       "%s; if [ $n -le 3 ]; then v=$((200 - n)); elif [ $n = 15 ]; then v=300; "
		       "else v=$((100 + n %% 3)); fi; echo v=$v",
		       counting);
	CHECK_OK(fom_new(&spec, &f, &err), &err);
	o.fom = f;
	o.cmd.shell = shell;
	reset_count();
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.n, 20);
	CHECK_INT(r.n_warmup, 3);
	CHECK(r.fom.median >= 100 && r.fom.median <= 102);
	CHECK_INT(r.n_outliers, 1);
	CHECK_INT(r.outliers[0], 14);
	bench_result_done(&r);
	fom_free(f);
}

static void test_run_ends(void)
{
	struct bench_opts o = { .cmd = { .shell = "exec sleep 0.02" },
				.budget_ns = 150 * NS_PER_MS,
				.warmup = 1 };
	struct bench_result r;
	struct err err = { 0 };
	int fds[2];

	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_BUDGET);
	CHECK(r.n >= 2 && r.n < 10 && r.has_summary);
	bench_result_done(&r);
	/* however small the budget, one that counts is run */
	o.budget_ns = 1;
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.n, 2);
	bench_result_done(&r);

	CHECK(pipe2(fds, O_CLOEXEC) == 0 && write(fds[1], "x", 1) == 1);
	o = (struct bench_opts){ .cmd = { .shell = "exec sleep 60", .stop_fd = fds[0] } };
	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_STOPPED);
	CHECK(r.n == 0 && !r.has_summary && !r.last.res);
	bench_result_done(&r);
	CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
	CHECK_STR(bench_end_name(BENCH_END_STOPPED), "interrupted");
}

int main(void)
{
	struct err err = { 0 };
	int fd = mkstemp(count_file);

	CHECK(fd >= 0 && close(fd) == 0);
	(void)snprintf(counting, sizeof(counting),
		       "read n <%s; n=$((n + 1)); echo $n >%s; echo count $n", count_file,
		       count_file);
	CHECK_OK(proc_keeper_open(&k, &err), &err);
	test_cmd();
	test_once();
	test_once_surroundings();
	test_once_fom();
	test_run_counts();
	test_run_fails();
	test_run_target();
	test_run_auto_warmup();
	test_run_ends();
	proc_keeper_close(k);
	CHECK(unlink(count_file) == 0);
	return 0;
}
