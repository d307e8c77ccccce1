#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "measure/accept.h"

#define ALPHA (0.05 / 12)

static const double base5[] = { 1.000, 1.004, 0.997, 1.002, 1.001 };
static const double cand5[] = { 0.950, 0.953, 0.948, 0.951, 0.955 };
static const double mixed5[] = { 0.950, 0.953, 0.998, 0.951, 0.955 };
static const double slight5[] = { 0.994, 0.995, 0.993, 0.9945, 0.996 };

static struct stats_ratio ratio(size_t n, double r, double lower)
{
	return (struct stats_ratio){ .n = n,
				     .ratio = r,
				     .has_ci = true,
				     .ci95_low = lower,
				     .ci95_high = r + (r - lower),
				     .has_lower = true,
				     .lower = lower,
				     .alpha = ALPHA };
}

static struct accept_floor floor_of(double aa, double neutral)
{
	return (struct accept_floor){ .aa_pct = aa, .neutral_pct = neutral, .n_neutral = 4 };
}

static struct accept_out decide(struct accept_in in)
{
	struct accept_out out;

	memset(&out, 0x55, sizeof(out));
	accept_decide(&in, &out);
	for (int i = 0; i < ACCEPT_N_GUARDS; i++) {
		CHECK(out.guards[i].name && out.guards[i].why[0]);
		CHECK(accept_state_name(out.guards[i].state)[0]);
	}
	return out;
}

static void test_alpha(void)
{
	CHECK(accept_alpha(0) == 0.05 && accept_alpha(1) == 0.05);
	CHECK(fabs(accept_alpha(12) - ALPHA) < 1e-15);
	CHECK_INT(accept_pairs_min(1), 8);
	CHECK_INT(accept_pairs_min(12), 8);
	CHECK_INT(accept_pairs_min(13), 9);
	CHECK_INT(accept_pairs_min(100), 11);
	CHECK_INT(accept_neutral_min(1), 4);
	CHECK_INT(accept_neutral_min(12), 4);
	CHECK_INT(accept_neutral_min(13), 5);
}

static void test_floor(void)
{
	struct accept_floor f = floor_of(0.3, 0.4);

	CHECK(accept_floor_pct(&f) == 1);
	f = floor_of(2, 0.4);
	CHECK(accept_floor_pct(&f) == 2);
	f = floor_of(2, 3);
	CHECK(accept_floor_pct(&f) == 3);
	f = floor_of(NAN, -1);
	CHECK(accept_floor_pct(&f) == 1);
}

static void test_screen(void)
{
	struct stats_ratio r = { .n = 5, .ratio = 1.03 };
	struct accept_screen s;

	accept_screen(&r, 1, &s);
	CHECK(s.confirm);
	CHECK_STR(s.why, "gain of 3.00 % over 5 pairs is above the noise floor of 1.00 %");
	accept_screen(&r, 3.5, &s);
	CHECK(!s.confirm);
	CHECK_HAS(s.why, "not above the noise floor of 3.50 %");
	r.ratio = 0.5;
	accept_screen(&r, 1, &s);
	CHECK(!s.confirm);
	r.ratio = NAN;
	accept_screen(&r, 1, &s);
	CHECK(!s.confirm);
}

static void test_kept(void)
{
	struct stats_ratio r = ratio(20, 1.05, 1.042), wall = ratio(20, 1.01, 1.002);
	struct stats_ratio huge = ratio(20, 3.1, 3.0);
	struct accept_neutral n = { 5, 5, base5, cand5, STATS_LOWER_BETTER };
	struct accept_neutral rate = { 5, 5, cand5, base5, STATS_HIGHER_BETTER };
	struct accept_in in = { .fom = &r, .floor = floor_of(0.5, 0.7), .neutral = &n };
	struct accept_out out = decide(in);

	CHECK_INT(out.verdict, ACCEPT_KEPT);
	CHECK(out.floor_pct == 1);
	CHECK_INT(out.guards[ACCEPT_G_WALL].state, ACCEPT_NOT_APPLICABLE);
	CHECK_INT(out.guards[ACCEPT_G_NEUTRAL].state, ACCEPT_MET);
	CHECK_HAS(out.guards[ACCEPT_G_NEUTRAL].why, "chance 0.0040 (level 0.0042)");
	CHECK_STR(out.reason, "kept: gain 5.00 %, lower bound 4.20 %, above the noise floor of "
			      "1.00 % (the least that is ever kept)");
	in.neutral = &rate;
	CHECK_INT(decide(in).verdict, ACCEPT_KEPT);
	in.wall = &wall;
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_KEPT);
	CHECK_INT(out.guards[ACCEPT_G_WALL].state, ACCEPT_MET);
	/* nothing is rebuilt by this change: no layout to be lucky with */
	in.floor = (struct accept_floor){ 0.5, -1, 0, "only an environment variable changes" };
	in.neutral = NULL;
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_KEPT);
	CHECK_INT(out.guards[ACCEPT_G_NEUTRAL].state, ACCEPT_NOT_APPLICABLE);
	CHECK_HAS(out.guards[ACCEPT_G_NEUTRAL].why, "environment variable");
	/* a gain too large for code layout */
	in = (struct accept_in){ .fom = &huge, .floor = floor_of(0.5, 0.7) };
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_KEPT);
	CHECK_INT(out.guards[ACCEPT_G_NEUTRAL].state, ACCEPT_NOT_APPLICABLE);
	/* … but not for this program's */
	in.floor.neutral_pct = 150;
	CHECK_INT(decide(in).verdict, ACCEPT_NEEDS_NEUTRAL);
}

static void test_neutral(void)
{
	struct stats_ratio r = ratio(20, 1.05, 1.042);
	struct accept_neutral n = { 5, 5, base5, mixed5, STATS_LOWER_BETTER };
	struct accept_in in = { .fom = &r, .floor = floor_of(0.5, 0.7) };
	struct accept_out out = decide(in);

	CHECK_INT(out.verdict, ACCEPT_NEEDS_NEUTRAL);
	CHECK_INT(out.guards[ACCEPT_G_NEUTRAL].state, ACCEPT_OPEN);
	CHECK_HAS(out.reason, "under 100 %");
	/* one rebuild of the candidate is as slow as the base: layout luck */
	in.neutral = &n;
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_REJECTED);
	CHECK_HAS(out.reason, "rejected: over 5 builds before and 5 after");
	/* all are faster, but by less than the floor */
	n.cand = slight5;
	CHECK_INT(decide(in).verdict, ACCEPT_REJECTED);
	n.cand = cand5;
	CHECK_INT(decide(in).verdict, ACCEPT_KEPT);
	n.better = STATS_HIGHER_BETTER;
	CHECK_INT(decide(in).verdict, ACCEPT_REJECTED);
	n.better = STATS_LOWER_BETTER;
	n.n_cand = 4;
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_REJECTED);
	CHECK_HAS(out.reason, "5 builds before and 4 after, 5 to 16 of each are needed");
	n.n_cand = 17;
	CHECK_INT(decide(in).verdict, ACCEPT_REJECTED);
	/* at a stricter level five a side cannot convince */
	n.n_cand = 5;
	r.alpha = 0.05 / 20;
	CHECK_HAS(decide(in).reason, "6 to 16 of each");
}

static void test_rejected(void)
{
	struct stats_ratio good = ratio(20, 1.05, 1.042), small = ratio(20, 1.02, 1.009);
	struct stats_ratio few = ratio(7, 1.05, 1.042), weak = ratio(8, 1.05, 1.042);
	struct stats_ratio slow = ratio(20, 1.001, 0.998);
	struct accept_neutral n = { 5, 5, base5, cand5, STATS_LOWER_BETTER };
	struct accept_in in = { .fom = &small, .floor = floor_of(0.5, 0.7), .neutral = &n };
	struct accept_out out = decide(in);

	CHECK_INT(out.verdict, ACCEPT_REJECTED);
	CHECK_INT(out.guards[ACCEPT_G_GAIN].state, ACCEPT_FAILED);
	CHECK_STR(out.reason, "rejected: gain 2.00 %, lower bound 0.90 %, not above the noise "
			      "floor of 1.00 % (the least that is ever kept)");
	in.fom = &good;
	in.floor = floor_of(4.5, 0.7);
	CHECK_HAS(decide(in).reason, "4.50 % (same program against itself)");
	in.floor = floor_of(0.5, 4.5);
	CHECK_HAS(decide(in).reason, "4.50 % (spread over neutral rebuilds)");
	in.floor = floor_of(-1, 0.7);
	CHECK_HAS(decide(in).reason, "not measured against itself");
	in.floor = floor_of(0.5, NAN);
	CHECK_HAS(decide(in).reason, "0 neutral rebuilds, at least 4");
	in.floor = floor_of(0.5, 0.7);
	in.floor.n_neutral = 3;
	CHECK_HAS(decide(in).reason, "3 neutral rebuilds, at least 4");
	in.floor.n_neutral = 4;
	in.fom = &few;
	CHECK_HAS(decide(in).reason, "7 pairs, at least 8");
	weak.has_lower = false;
	weak.alpha = 0.003;
	in.fom = &weak;
	out = decide(in);
	CHECK_HAS(out.reason, "8 pairs give no lower bound at level 0.0030: it takes 9");
	CHECK_INT(out.guards[ACCEPT_G_GAIN].state, ACCEPT_FAILED);
	weak = ratio(8, 1.05, 1.042);
	weak.alpha = 0.2; /* no level that was ever asked for */
	CHECK_INT(decide(in).verdict, ACCEPT_REJECTED);
	in.fom = &good;
	in.wall = &slow;
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_REJECTED);
	CHECK_HAS(out.reason, "wall time ratio 1.0010, lower bound 0.9980, not shown");
	in.fom_only = true;
	out = decide(in);
	CHECK_INT(out.verdict, ACCEPT_KEPT);
	CHECK_INT(out.guards[ACCEPT_G_WALL].state, ACCEPT_NOT_APPLICABLE);
	slow.has_lower = false;
	in.fom_only = false;
	CHECK_INT(decide(in).verdict, ACCEPT_REJECTED);
	/* a failed guard outweighs an open one: no rebuilds for what is lost already */
	in.neutral = NULL;
	CHECK_INT(decide(in).verdict, ACCEPT_REJECTED);
}

int main(void)
{
	CHECK_STR(accept_verdict_name(ACCEPT_KEPT), "kept");
	CHECK_STR(accept_verdict_name(ACCEPT_REJECTED), "rejected");
	CHECK_STR(accept_state_name(ACCEPT_NOT_APPLICABLE), "not applicable");
	test_alpha();
	test_floor();
	test_screen();
	test_kept();
	test_neutral();
	test_rejected();
	return 0;
}
