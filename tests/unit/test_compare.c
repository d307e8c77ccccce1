#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "measure/compare.h"
#include "measure/fom.h"
#include "proc/proc.h"

static struct proc_keeper *k;
static struct fom *lower, *higher;

/* What the hooks saw: one letter a run, capitals where A or B was prepared, then what was checked.
 */
struct seen {
	char order[256];
	size_t n, n_checked, n_pairs;
	size_t fail_check_at; /* 0: never */
	bool fail_prepare;
};

static int prepare(void *arg, enum compare_side side, struct err *err)
{
	struct seen *s = arg;

	CHECK(s->n + 1 < sizeof(s->order));
	if (s->fail_prepare)
		return err_set(err, ERR_STALE, "cannot prepare");
	s->order[s->n++] = side == COMPARE_A ? 'A' : 'B';
	return 0;
}

static int check(void *arg, enum compare_side side, const struct bench_rep *rep, struct err *err)
{
	struct seen *s = arg;

	CHECK(rep->ok && rep->res->out.head);
	CHECK_HAS(rep->res->out.head, "v=");
	CHECK_INT(s->order[s->n - 1], side == COMPARE_A ? 'A' : 'B');
	if (++s->n_checked == s->fail_check_at)
		return err_set(err, ERR_REFUSED, "the result is wrong");
	return 0;
}

static void on_pair(void *arg, const struct compare_result *so_far)
{
	struct seen *s = arg;

	s->n_pairs++;
	CHECK_INT(so_far->n + so_far->n_floor, s->n_pairs);
}

/* Two sides whose figures are the given ones, so that no clock decides what is seen. */
static struct compare_opts sides(const char *a, const char *b, unsigned pairs, struct seen *s)
{
	return (struct compare_opts){
		.cmd = { { .shell = a }, { .shell = b } },
		.fom = lower,
		.pairs = pairs,
		.hooks = { .prepare = prepare, .check = check, .on_pair = on_pair, .arg = s },
	};
}

static void test_order(void)
{
	struct seen s = { .n = 0 };
	struct compare_opts o = sides("echo v=2", "echo v=1", 4, &s);
	struct compare_result r;
	struct err err = { 0 };

	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_STR(s.order, "ABBAABBA");
	CHECK_INT(s.n_checked, 8);
	CHECK_INT(s.n_pairs, 4);
	CHECK_INT(r.n, 4);
	for (size_t i = 0; i < r.n; i++) {
		CHECK(r.fom[i].a == 2 && r.fom[i].b == 1);
		CHECK(r.samples[i].side[COMPARE_A].fom == 2);
		CHECK(r.wall[i].a == r.samples[i].side[COMPARE_A].wall_s);
		CHECK(r.wall[i].b == r.samples[i].side[COMPARE_B].wall_s);
	}
	CHECK(r.has_ratio && !r.has_aa && r.ratio.n == 4);
	CHECK(fabs(r.ratio.ratio - 2) < 1e-12);
	/* four pairs have no interval, so nothing is said */
	CHECK_INT(r.verdict, COMPARE_UNDECIDED);
	CHECK(!r.ratio.has_ci && !r.has_smallest_visible);
	compare_result_done(&r);

	/* warm-ups, and A/A pairs spread over the run: after the first and the third pair */
	memset(&s, 0, sizeof(s));
	o.warmup = 1;
	o.floor_pairs = 2;
	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_INT(s.n, 2 + 8 + 4);
	CHECK_STR(s.order, "ABABAABAABAABA");
	CHECK(r.n_floor == 2 && r.has_aa && r.aa_pct == 0 && r.floor_fom[1].a == 2);
	CHECK(r.floor_wall[1].a > 0);
	compare_result_done(&r);
	compare_result_done(NULL);
}

static const struct {
	const char *a, *b;
	bool higher;
	double ratio;
	enum compare_verdict verdict;
} verdicts[] = {
	{ "echo v=3", "echo v=2", false, 1.5, COMPARE_FASTER },
	{ "echo v=2", "echo v=3", true, 1.5, COMPARE_FASTER },
	{ "echo v=2", "echo v=4", false, 0.5, COMPARE_SLOWER },
	{ "echo v=4", "echo v=2", true, 0.5, COMPARE_SLOWER },
	{ "echo v=2", "echo v=2", false, 1, COMPARE_NO_DIFFERENCE },
	/* certain, but below the floor of 1 % */
	{ "echo v=1.005", "echo v=1", false, 1.005, COMPARE_NO_DIFFERENCE },
	{ "echo v=1", "echo v=1.005", false, 1 / 1.005, COMPARE_NO_DIFFERENCE },
};

static void test_verdicts(void)
{
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		struct seen s = { .n = 0 };
		struct compare_opts o = sides(verdicts[i].a, verdicts[i].b, 8, &s);
		struct compare_result r;
		struct err err = { 0 };

		o.fom = verdicts[i].higher ? higher : lower;
		CHECK_OK(compare_run(k, &o, &r, &err), &err);
		CHECK(fabs(r.ratio.ratio - verdicts[i].ratio) < 1e-9);
		CHECK_STR(compare_verdict_name(r.verdict),
			  compare_verdict_name(verdicts[i].verdict));
		CHECK(r.floor_pct == 1);
		CHECK(r.has_smallest_visible && r.smallest_visible_pct >= 1);
		CHECK(r.wall_ratio.n == 8 && r.cpu_s > 0);
		compare_result_done(&r);
	}
}

/* A side that swings by itself: the floor rises, and a gain within it is none. */
static void test_noisy_floor(void)
{
	static const char name[] = "/tmp/rb-compare-count";
	struct seen s = { .n = 0 };
	char a[256] = "";
	struct compare_opts o = sides(a, "echo v=90", 8, &s);
	struct compare_result r;
	struct err err = { 0 };
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && write(fd, "0\n", 2) == 2 && close(fd) == 0);
	/* 100 and 125 by turns of two, so that A/A pairs differ by a quarter */
	(void)snprintf(a, sizeof(a),
		       "read n <%s; n=$((n + 1)); echo $n >%s; echo v=$((100 + n %% 2 * 25))", name,
		       name);
	o.floor_pairs = 8;
	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_INT(r.n_floor, 8);
	CHECK(r.has_aa && r.aa_pct > 5 && r.floor_pct == r.aa_pct);
	CHECK_INT(r.verdict, r.ratio.ci95_low > 1 + r.floor_pct / 100 ? COMPARE_FASTER
								      : COMPARE_NO_DIFFERENCE);
	compare_result_done(&r);
	CHECK(unlink(name) == 0);
}

static void test_failures(void)
{
	struct seen s = { .fail_check_at = 3 };
	struct compare_opts o = sides("echo v=1", "echo v=1; exit 4", 8, &s);
	struct compare_result r = { .n = 77 };
	struct err err = { 0 };

	/* B fails: said, with its output, and no ratio */
	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_FAILED);
	CHECK(!r.has_ratio && r.n == 0 && r.last_side == COMPARE_B);
	CHECK_HAS(r.last.why, "status 4");
	compare_result_done(&r);
	/* a hook's word is law */
	r.n = 77;
	o.cmd[1].shell = "echo v=1";
	memset(&s, 0, sizeof(s));
	s.fail_check_at = 3;
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_REFUSED);
	CHECK_STR(err.msg, "the result is wrong");
	CHECK_INT(s.n, 3);
	CHECK_INT(r.n, 77);
	memset(&s, 0, sizeof(s));
	s.fail_prepare = true;
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_STALE);
	memset(&s, 0, sizeof(s));
	/* a figure that has no ratio */
	o.cmd[1].shell = "echo v=0";
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_INVALID);
	o.cmd[1].shell = NULL;
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "side B: no command");
	o.cmd[1].shell = "echo v=1";
	o.pairs = 0;
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_INVALID);
	o.pairs = STATS_PAIRS_MAX + 1;
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_INVALID);
	o.pairs = 3;
	o.alpha = 0.7;
	CHECK_INT(compare_run(k, &o, &r, &err), ERR_INVALID);
	CHECK_INT(r.n, 77);
}

static void test_ends(void)
{
	struct seen s = { .n = 0 };
	struct compare_opts o = sides("echo v=1; exec sleep 0.02", "echo v=1", 100, &s);
	struct compare_result r;
	struct err err = { 0 };
	int fds[2];

	o.budget_ns = 200 * NS_PER_MS;
	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_BUDGET);
	CHECK(r.n >= 1 && r.n < 12 && r.has_ratio);
	compare_result_done(&r);

	memset(&s, 0, sizeof(s));
	CHECK(pipe2(fds, O_CLOEXEC) == 0 && write(fds[1], "x", 1) == 1);
	o.cmd[0].shell = "echo v=1; exec sleep 60";
	o.cmd[0].stop_fd = fds[0];
	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_INT(r.end, BENCH_END_STOPPED);
	CHECK(r.n == 0 && !r.has_ratio && r.verdict == COMPARE_UNDECIDED);
	compare_result_done(&r);
	CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
}

int main(void)
{
	struct fom_spec low = { .pattern = "v=([0-9.]+)", .unit = "s" };
	struct fom_spec high = { .pattern = "v=([0-9.]+)", .unit = "GLUPS", .higher = true };
	struct err err = { 0 };

	CHECK_OK(proc_keeper_open(&k, &err), &err);
	CHECK_OK(fom_new(&low, &lower, &err), &err);
	CHECK_OK(fom_new(&high, &higher, &err), &err);
	test_order();
	test_verdicts();
	test_noisy_floor();
	test_failures();
	test_ends();
	fom_free(lower);
	fom_free(higher);
	proc_keeper_close(k);
	return 0;
}
