/*
 * Plays whole sessions of plays that change nothing, and of plays that gain something, against the
 * accept rule: how often is a play kept that should not be, and one that should?  Without an
 * argument: 500 sessions of each kind.  With --full: more, other rules for comparison, and the
 * tables of docs/measuring.md are printed.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "measure/accept.h"
#include "measure/stats.h"
#include "noise.h"

enum {
	PLAYS = 12,
	BUILDS = ACCEPT_NEUTRAL_MIN + 1, /* of a side: the build itself comes first */
	AA_PAIRS = 10,
	THE_GOOD_PLAY = 6, /* the one that gains, where one does */
};

#define DEVIATION 0.01	 /* of a run */
#define WALK	  0.0005 /* of the machine's speed, from one run to the next */

static bool full;

/* What code layout does to a build, besides what the build is. */
enum layout {
	LAYOUT_NONE,
	LAYOUT_FINE,	  /* 0.5 % */
	LAYOUT_COARSE,	  /* 2 % */
	LAYOUT_UNLUCKY,	  /* 1 build in 4 is slower by 50 %, as measured with 8 bytes of padding */
	LAYOUT_RARE_LUCK, /* 1 build in 16 is faster by 20 % */
	N_LAYOUTS,
};

static const char *const layout_names[] = {
	[LAYOUT_NONE] = "no effect",
	[LAYOUT_FINE] = "normal, 0.5 %",
	[LAYOUT_COARSE] = "normal, 2 %",
	[LAYOUT_UNLUCKY] = "1 build in 4 slower by 50 %",
	[LAYOUT_RARE_LUCK] = "1 build in 16 faster by 20 %",
};

enum rule {
	RULE_INTERVAL, /* 8 pairs whose 95 % interval lies above 1 */
	RULE_CONFIRM,  /* screen, confirm against a floor that knows nothing of layout */
	RULE_SPREAD,   /* the floor has the spread; gains over twice the spread need no rebuilds */
	RULE_ACCEPT,  /* accept.h; neutral rebuilds are measured after a confirmation that passed */
	RULE_IN_TURN, /* accept.h; the confirmation's pairs go through all builds of both sides */
	N_RULES,
};

struct machine {
	struct noise s;
	double speed; /* logarithm */
	size_t runs;
};

struct side {
	double level[BUILDS]; /* true time of each build, s */
};

struct session {
	struct machine m;
	enum layout layout;
	struct side base;
	struct accept_floor floor;
};

static double machine_run(struct machine *m, double level)
{
	m->runs++;
	m->speed += WALK * noise_normal(&m->s);
	return level * exp(m->speed) * (1 + DEVIATION * noise_next(&m->s, NOISE_OUTLIERS));
}

static double layout_draw(struct noise *s, enum layout layout)
{
	switch (layout) {
	case LAYOUT_FINE:
		return exp(0.005 * noise_normal(s));
	case LAYOUT_COARSE:
		return exp(0.02 * noise_normal(s));
	case LAYOUT_UNLUCKY:
		return exp(0.0025 * noise_normal(s)) * (noise_below(s, 4) == 0 ? 1.5 : 1);
	case LAYOUT_RARE_LUCK:
		return exp(0.0025 * noise_normal(s)) / (noise_below(s, 16) == 0 ? 1.2 : 1);
	case LAYOUT_NONE:
	case N_LAYOUTS:
		break;
	}
	return 1;
}

static struct side side_draw(struct session *ses, double time)
{
	struct side side;

	for (int i = 0; i < BUILDS; i++)
		side.level[i] = time * layout_draw(&ses->m.s, ses->layout);
	return side;
}

/* A B B A … */
static struct stats_ratio pairs_run(struct machine *m, double a, double b, size_t n, double alpha)
{
	struct stats_pair p[ACCEPT_PAIRS_DEFAULT];
	struct stats_ratio r = { 0 };

	for (size_t i = 0; i < n; i++) {
		double first = machine_run(m, i % 2 ? b : a);
		double second = machine_run(m, i % 2 ? a : b);

		p[i] = i % 2 ? (struct stats_pair){ second, first }
			     : (struct stats_pair){ first, second };
	}
	CHECK_INT(stats_ratio(p, n, STATS_LOWER_BETTER, alpha, &r, NULL), 0);
	return r;
}

/* Rounds over all builds, each round in an order of its own. */
static void levels_run(struct machine *m, const double *times, size_t n, double *levels)
{
	double x[ACCEPT_NEUTRAL_ROUNDS * 2 * BUILDS];

	for (size_t r = 0; r < ACCEPT_NEUTRAL_ROUNDS; r++) {
		size_t order[2 * BUILDS] = { 0 };

		for (size_t i = 0; i < n; i++) {
			size_t k = noise_below(&m->s, i + 1);

			order[i] = order[k];
			order[k] = i;
		}
		for (size_t i = 0; i < n; i++)
			x[r * n + order[i]] = machine_run(m, times[order[i]]);
	}
	CHECK_INT(stats_levels(x, n, ACCEPT_NEUTRAL_ROUNDS, levels, NULL), 0);
}

static void session_start(struct session *ses, uint64_t seed, enum layout layout)
{
	struct stats_pair aa[AA_PAIRS];
	double levels[BUILDS];

	*ses = (struct session){ .m.s.state = seed, .layout = layout };
	noise_start(&ses->m.s);
	ses->base = side_draw(ses, 1);
	for (int i = 0; i < AA_PAIRS; i++) {
		aa[i].a = machine_run(&ses->m, ses->base.level[0]);
		aa[i].b = machine_run(&ses->m, ses->base.level[0]);
	}
	levels_run(&ses->m, ses->base.level, BUILDS, levels);
	ses->floor.n_neutral = ACCEPT_NEUTRAL_MIN;
	CHECK_INT(stats_aa_floor_pct(aa, AA_PAIRS, &ses->floor.aa_pct, NULL), 0);
	CHECK_INT(stats_spread_pct(levels, BUILDS, &ses->floor.neutral_pct, NULL), 0);
}

/* The accept rule as the workflow applies it; a kept candidate becomes the base. */
static bool play_accept(struct session *ses, struct side cand, double alpha)
{
	struct stats_ratio r;
	struct accept_screen screen;
	struct accept_out out;
	struct accept_in in = { .fom = &r, .floor = ses->floor };
	double times[2 * BUILDS], levels[2 * BUILDS];
	struct accept_neutral neutral = { BUILDS, BUILDS, levels, levels + BUILDS,
					  STATS_LOWER_BETTER };

	r = pairs_run(&ses->m, ses->base.level[0], cand.level[0], ACCEPT_SCREEN_PAIRS, alpha);
	accept_screen(&r, accept_floor_pct(&ses->floor), &screen);
	if (!screen.confirm)
		return false;
	r = pairs_run(&ses->m, ses->base.level[0], cand.level[0], ACCEPT_PAIRS_DEFAULT, alpha);
	accept_decide(&in, &out);
	if (out.verdict == ACCEPT_NEEDS_NEUTRAL) {
		memcpy(times, ses->base.level, sizeof(ses->base.level));
		memcpy(times + BUILDS, cand.level, sizeof(cand.level));
		levels_run(&ses->m, times, 2 * BUILDS, levels);
		in.neutral = &neutral;
		accept_decide(&in, &out);
		CHECK(out.verdict != ACCEPT_NEEDS_NEUTRAL);
	}
	if (out.verdict != ACCEPT_KEPT)
		return false;
	ses->base = cand;
	if (in.neutral)
		CHECK_INT(stats_spread_pct(levels + BUILDS, BUILDS, &ses->floor.neutral_pct, NULL),
			  0);
	return true;
}

/* Pair i runs the base's build i % 5, and over the rounds each of the candidate's beside it. */
static bool play_in_turn(struct session *ses, struct side cand, double alpha)
{
	struct stats_pair p[ACCEPT_PAIRS_DEFAULT];
	struct stats_ratio r = { 0 };
	struct accept_screen screen;
	struct accept_out out;
	double x[ACCEPT_PAIRS_DEFAULT * 2], levels[2 * BUILDS];
	struct accept_neutral neutral = { BUILDS, BUILDS, levels, levels + BUILDS,
					  STATS_LOWER_BETTER };
	struct accept_in in = { .fom = &r, .floor = ses->floor, .neutral = &neutral };
	size_t rounds = ACCEPT_PAIRS_DEFAULT / BUILDS;

	r = pairs_run(&ses->m, ses->base.level[0], cand.level[0], ACCEPT_SCREEN_PAIRS, alpha);
	accept_screen(&r, accept_floor_pct(&ses->floor), &screen);
	if (!screen.confirm)
		return false;
	for (size_t i = 0; i < ACCEPT_PAIRS_DEFAULT; i++) {
		size_t round = i / BUILDS, ka = i % BUILDS, kb = (i + round) % BUILDS;
		double *a = &x[round * 2 * BUILDS + ka], *b = &x[round * 2 * BUILDS + BUILDS + kb];

		if (i % 2 == 0)
			*a = machine_run(&ses->m, ses->base.level[ka]);
		*b = machine_run(&ses->m, cand.level[kb]);
		if (i % 2)
			*a = machine_run(&ses->m, ses->base.level[ka]);
		p[i] = (struct stats_pair){ *a, *b };
	}
	CHECK_INT(stats_ratio(p, ACCEPT_PAIRS_DEFAULT, STATS_LOWER_BETTER, alpha, &r, NULL), 0);
	CHECK_INT(stats_levels(x, 2 * BUILDS, rounds, levels, NULL), 0);
	accept_decide(&in, &out);
	if (out.verdict != ACCEPT_KEPT)
		return false;
	ses->base = cand;
	CHECK_INT(stats_spread_pct(levels + BUILDS, BUILDS, &ses->floor.neutral_pct, NULL), 0);
	return true;
}

/* Simpler rules, to show what each part of the accept rule is for. */
static bool play_simple(struct session *ses, struct side cand, double alpha, enum rule rule)
{
	double a = ses->base.level[0], b = cand.level[0];
	double floor_pct = fmax(ACCEPT_FLOOR_PCT, ses->floor.aa_pct);
	struct stats_ratio r;

	if (rule == RULE_INTERVAL)
		return pairs_run(&ses->m, a, b, ACCEPT_PAIRS_MIN, alpha).ci95_low > 1;
	if (rule == RULE_SPREAD)
		floor_pct = accept_floor_pct(&ses->floor);
	if (pairs_run(&ses->m, a, b, ACCEPT_SCREEN_PAIRS, alpha).ratio <= 1 + floor_pct / 100)
		return false;
	r = pairs_run(&ses->m, a, b, ACCEPT_PAIRS_DEFAULT, alpha);
	if (r.lower <= 1 + floor_pct / 100)
		return false;
	return rule == RULE_CONFIRM || r.ratio - 1 >= 2 * ses->floor.neutral_pct / 100;
}

struct outcome {
	size_t any_false, good_kept, runs;
};

/* gain: of the one good play, as time before over time after; 1: all plays change nothing */
static struct outcome sessions_play(enum layout layout, enum rule rule, double gain, size_t n)
{
	struct outcome o = { 0 };
	double alpha = accept_alpha(PLAYS);

	for (size_t i = 0; i < n; i++) {
		struct session ses;
		bool any_false = false;
		double time = 1;

		session_start(&ses, UINT64_C(1000003) * i + 17 * (uint64_t)layout, layout);
		for (int play = 0; play < PLAYS && !any_false; play++) {
			bool good = gain > 1 && play == THE_GOOD_PLAY, kept;
			double after = good ? time / gain : time;
			struct side cand = side_draw(&ses, after);

			if (rule == RULE_ACCEPT)
				kept = play_accept(&ses, cand, alpha);
			else if (rule == RULE_IN_TURN)
				kept = play_in_turn(&ses, cand, alpha);
			else
				kept = play_simple(&ses, cand, alpha, rule);
			o.good_kept += kept && good;
			any_false = kept && !good;
			time = kept ? after : time;
		}
		o.any_false += any_false;
		o.runs += ses.m.runs;
	}
	return o;
}

static void sim_null(size_t n)
{
	if (full)
		(void)printf(
			"| code layout | interval | confirmed | spread | accept rule | in turn | "
			"runs, accept rule | runs, in turn |\n|---|---|---|---|---|---|---|---|");
	for (int layout = 0; layout < N_LAYOUTS; layout++) {
		size_t runs[N_RULES] = { 0 };

		if (full)
			(void)printf("\n| %s |", layout_names[layout]);
		for (int rule = full ? 0 : RULE_ACCEPT; rule < N_RULES; rule++) {
			struct outcome o = sessions_play(layout, rule, 1, n);

			runs[rule] = o.runs;
			if (full)
				(void)printf(" %.1f |", 100 * (double)o.any_false / (double)n);
			/* at most 5 % of the sessions seen, no allowance made */
			if (rule < RULE_ACCEPT || o.any_false * 20 <= n)
				continue;
			(void)fprintf(stderr, "%s: a false gain in %zu of %zu sessions\n",
				      layout_names[layout], o.any_false, n);
			exit(1);
		}
		if (full)
			(void)printf(" %.0f | %.0f |", (double)runs[RULE_ACCEPT] / (double)n,
				     (double)runs[RULE_IN_TURN] / (double)n);
	}
}

static void sim_power(size_t n)
{
	static const double gains[] = { 1.02, 1.03, 1.05, 1.10, 1.30, 2.50 };

	if (full)
		(void)printf("\n\n| code layout | 2 %% | 3 %% | 5 %% | 10 %% | 30 %% | 150 %% |\n"
			     "|---|---|---|---|---|---|---|");
	for (int layout = 0; layout < N_LAYOUTS; layout++) {
		if (full)
			(void)printf("\n| %s |", layout_names[layout]);
		for (size_t i = 0; i < sizeof(gains) / sizeof(gains[0]); i++) {
			struct outcome o, turn;

			if (!full && gains[i] != 1.05)
				continue;
			o = sessions_play(layout, RULE_ACCEPT, gains[i], n);
			turn = sessions_play(layout, RULE_IN_TURN, gains[i], n);
			if (full)
				(void)printf(" %.0f, %.0f |", 100 * (double)o.good_kept / (double)n,
					     100 * (double)turn.good_kept / (double)n);
			/* the eleven others still are nothing */
			CHECK(o.any_false * 20 <= n && turn.any_false * 20 <= n);
			if (gains[i] == 1.05 && layout <= LAYOUT_FINE)
				CHECK(o.good_kept * 10 > n * 8 && turn.good_kept * 10 > n * 8);
		}
	}
	if (full)
		(void)printf("\n");
}

int main(int argc, char **argv)
{
	full = argc > 1 && strcmp(argv[1], "--full") == 0;
	sim_null(full ? 5000 : 500);
	sim_power(full ? 2000 : 500);
	return 0;
}
