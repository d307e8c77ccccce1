#include "measure/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "measure/accept.h"
#include "measure/fom.h"

#define COMPARE_ALPHA	   0.05
#define COMPARE_TWO_SIDED  0.025 /* each end of the 95 % interval, which the verdict is made of */
#define COMPARE_POWER	   0.8
#define COMPARE_WARMUP_MAX 1000
#define COMPARE_FLOOR_MAX  ((unsigned)STATS_PAIRS_MAX)

const char *compare_verdict_name(enum compare_verdict v)
{
	static const char *const names[] = {
		[COMPARE_UNDECIDED] = "undecided",
		[COMPARE_FASTER] = "faster",
		[COMPARE_SLOWER] = "slower",
		[COMPARE_NO_DIFFERENCE] = "no difference seen",
	};

	return names[v];
}

static const char *compare_side_name(enum compare_side side)
{
	return side == COMPARE_A ? "A" : "B";
}

struct compare_loop {
	struct proc_keeper *k;
	const struct compare_opts *o;
	struct compare_result *r;
	uint64_t start_ns;
	double longest_pair_s;
};

static int compare_check(const struct compare_opts *o, struct err *err)
{
	for (int s = 0; s < COMPARE_N_SIDES; s++) {
		int r = measure_cmd_check(&o->cmd[s], err);

		if (r < 0)
			return err_wrap(err, r, "side %s", compare_side_name(s));
	}
	if (o->pairs == 0 || o->pairs > STATS_PAIRS_MAX)
		return err_set(err, ERR_INVALID, "a comparison takes 1 to %d pairs, not %u",
			       STATS_PAIRS_MAX, o->pairs);
	if (o->floor_pairs > COMPARE_FLOOR_MAX)
		return err_set(err, ERR_INVALID,
			       "%u pairs of A against A are more than the %u taken", o->floor_pairs,
			       COMPARE_FLOOR_MAX);
	if (o->warmup > COMPARE_WARMUP_MAX)
		return err_set(err, ERR_INVALID, "%u runs of warm-up are more than the %d taken",
			       o->warmup, COMPARE_WARMUP_MAX);
	if (!(o->alpha >= 0 && o->alpha <= 0.5))
		return err_set(err, ERR_INVALID, "alpha lies between 0 and 0.5, not at %g",
			       o->alpha);
	return ERR_OK;
}

/* One run of one side.  Returns 1 with its numbers, 0 when the comparison has ended, or ERR_*. */
static int compare_once(struct compare_loop *l, enum compare_side side, struct bench_sample *out,
			struct err *err)
{
	const struct compare_hooks *h = &l->o->hooks;
	struct bench_rep rep = { 0 };
	struct err why = { 0 };
	int r;

	if (h->prepare && (r = h->prepare(h->arg, side, err)) < 0)
		return r;
	r = bench_once(l->k, &l->o->cmd[side], l->o->fom, &rep, &why);
	if (r == ERR_CANCELLED) {
		l->r->end = BENCH_END_STOPPED;

		return 0;
	}
	if (r < 0)
		return err_set(err, r, "side %s: %s", compare_side_name(side), why.msg);
	l->r->cpu_s += rep.sample.user_s + rep.sample.system_s;
	bench_rep_done(&l->r->last);
	l->r->last = rep;
	l->r->last_side = side;
	if (!rep.ok) {
		l->r->end = BENCH_END_FAILED;

		return 0;
	}
	if (h->check && (r = h->check(h->arg, side, &l->r->last, err)) < 0)
		return r;
	*out = rep.sample;
	return 1;
}

/* Two runs, one after the other.  As compare_once(). */
static int compare_two(struct compare_loop *l, enum compare_side first, enum compare_side second,
		       struct bench_sample out[2], struct err *err)
{
	int r = compare_once(l, first, &out[0], err);

	if (r > 0)
		r = compare_once(l, second, &out[1], err);
	if (r > 0)
		l->longest_pair_s = fmax(l->longest_pair_s, out[0].wall_s + out[1].wall_s);
	return r;
}

static int compare_pair(struct compare_loop *l, struct err *err)
{
	struct compare_result *res = l->r;
	bool turned = res->n % 2 == 1; /* A B, then B A, ... */
	struct bench_sample s[2] = { 0 }, *a = &s[turned], *b = &s[!turned];
	int r = compare_two(l, turned ? COMPARE_B : COMPARE_A, turned ? COMPARE_A : COMPARE_B, s,
			    err);

	if (r <= 0)
		return r;
	res->samples[res->n].side[COMPARE_A] = *a;
	res->samples[res->n].side[COMPARE_B] = *b;
	res->wall[res->n] = (struct stats_pair){ a->wall_s, b->wall_s };
	if (res->fom)
		res->fom[res->n] = (struct stats_pair){ a->fom, b->fom };
	res->n++;
	return r;
}

/* Which of the two runs is called a alternates as well, so that drift has no direction. */
static int compare_floor_pair(struct compare_loop *l, struct err *err)
{
	struct compare_result *res = l->r;
	bool turned = res->n_floor % 2 == 1;
	struct bench_sample s[2] = { 0 }, *a = &s[turned], *b = &s[!turned];
	int r = compare_two(l, COMPARE_A, COMPARE_A, s, err);

	if (r <= 0)
		return r;
	res->floor_wall[res->n_floor] = (struct stats_pair){ a->wall_s, b->wall_s };
	if (res->floor_fom)
		res->floor_fom[res->n_floor] = (struct stats_pair){ a->fom, b->fom };
	res->n_floor++;
	return r;
}

static bool compare_budget_spent(const struct compare_loop *l)
{
	double used = (double)(clock_mono_ns() - l->start_ns);

	return l->o->budget_ns && l->r->n > 0 &&
	       used + l->longest_pair_s * 1e9 > (double)l->o->budget_ns;
}

/* The A/A pairs are spread evenly over the others, so that both see the same machine. */
static bool compare_floor_due(const struct compare_loop *l)
{
	return l->r->n_floor < l->o->floor_pairs &&
	       (uint64_t)l->r->n_floor * l->o->pairs < (uint64_t)l->o->floor_pairs * l->r->n;
}

static int compare_warm_up(struct compare_loop *l, struct err *err)
{
	struct bench_sample dropped[2] = { 0 };
	int r = 1;

	for (unsigned i = 0; r > 0 && i < l->o->warmup; i++)
		r = compare_two(l, COMPARE_A, COMPARE_B, dropped, err);
	l->longest_pair_s = 0;
	return r;
}

static int compare_loop(struct compare_loop *l, struct err *err)
{
	struct compare_result *res = l->r;
	int r = compare_warm_up(l, err);

	while (r > 0 && res->n < l->o->pairs) {
		if (compare_budget_spent(l)) {
			res->end = BENCH_END_BUDGET;
			return ERR_OK;
		}
		r = compare_pair(l, err);
		if (r > 0 && l->o->hooks.on_pair)
			l->o->hooks.on_pair(l->o->hooks.arg, res);
		while (r > 0 && compare_floor_due(l)) {
			r = compare_floor_pair(l, err);
			if (r > 0 && l->o->hooks.on_pair)
				l->o->hooks.on_pair(l->o->hooks.arg, res);
		}
	}
	return r < 0 ? r : ERR_OK;
}

/* ---- summing up ---- */

static enum stats_better compare_better(const struct compare_opts *o)
{
	return o->fom && fom_higher(o->fom) ? STATS_HIGHER_BETTER : STATS_LOWER_BETTER;
}

static int compare_floor(struct compare_result *r, struct err *err)
{
	struct accept_floor f = { .aa_pct = -1, .neutral_pct = -1 };
	const struct stats_pair *pairs = r->fom ? r->floor_fom : r->floor_wall;
	int code;

	if (r->n_floor > 0) {
		if ((code = stats_aa_floor_pct(pairs, r->n_floor, &r->aa_pct, err)) < 0)
			return err_wrap(err, code, "A against A");
		r->has_aa = true;
		f.aa_pct = r->aa_pct;
	}
	r->floor_pct = accept_floor_pct(&f);
	return ERR_OK;
}

static int compare_summaries(struct compare_result *r, const struct stats_pair *pairs,
			     struct err *err)
{
	AUTO_FREE double *x = xcalloc(r->n, sizeof(*x));
	int code;

	for (size_t i = 0; i < r->n; i++)
		x[i] = pairs[i].a;
	if ((code = stats_summarise(x, r->n, &r->a, err)) < 0)
		return code;
	for (size_t i = 0; i < r->n; i++)
		x[i] = pairs[i].b;
	return stats_summarise(x, r->n, &r->b, err);
}

static enum compare_verdict compare_judge(const struct compare_result *r)
{
	double floor = 1 + r->floor_pct / 100;

	if (!r->ratio.has_ci || r->end == BENCH_END_STOPPED)
		return COMPARE_UNDECIDED;
	if (r->ratio.ci95_low > floor)
		return COMPARE_FASTER;
	if (r->ratio.ci95_high < 1 / floor)
		return COMPARE_SLOWER;
	return COMPARE_NO_DIFFERENCE;
}

static int compare_sum_up(struct compare_loop *l, struct err *err)
{
	struct compare_result *r = l->r;
	const struct stats_pair *pairs = r->fom ? r->fom : r->wall;
	double alpha = l->o->alpha > 0 ? l->o->alpha : COMPARE_ALPHA;
	int code;

	if (r->end == BENCH_END_FAILED || r->n == 0)
		return ERR_OK;
	if ((code = stats_ratio(pairs, r->n, compare_better(l->o), alpha, &r->ratio, err)) < 0 ||
	    (code = stats_ratio(r->wall, r->n, STATS_LOWER_BETTER, alpha, &r->wall_ratio, err)) <
		    0 ||
	    (code = compare_summaries(r, pairs, err)) < 0 || (code = compare_floor(r, err)) < 0)
		return code;
	r->has_ratio = true;
	r->verdict = compare_judge(r);
	r->has_smallest_visible =
		r->n >= stats_pairs_min(COMPARE_TWO_SIDED) &&
		stats_smallest_visible(pairs, r->n, COMPARE_TWO_SIDED, COMPARE_POWER, r->floor_pct,
				       &r->smallest_visible_pct, NULL) == 0;
	return ERR_OK;
}

int compare_run(struct proc_keeper *k, const struct compare_opts *opts, struct compare_result *out,
		struct err *err)
{
	struct compare_result res = { .end = BENCH_END_REPS };
	struct compare_loop l = { .k = k, .o = opts, .r = &res, .start_ns = clock_mono_ns() };
	int r = compare_check(opts, err);

	if (r < 0)
		return r;
	res.samples = xcalloc(opts->pairs, sizeof(*res.samples));
	res.wall = xcalloc(opts->pairs, sizeof(*res.wall));
	res.floor_wall = xcalloc(opts->floor_pairs + 1, sizeof(*res.floor_wall));
	if (opts->fom) {
		res.fom = xcalloc(opts->pairs, sizeof(*res.fom));
		res.floor_fom = xcalloc(opts->floor_pairs + 1, sizeof(*res.floor_fom));
	}
	r = compare_loop(&l, err);
	if (r == 0)
		r = compare_sum_up(&l, err);
	if (r < 0) {
		compare_result_done(&res);
		return r;
	}
	*out = res;
	return ERR_OK;
}

void compare_result_done(struct compare_result *r)
{
	if (!r)
		return;
	free(r->samples);
	free(r->wall);
	free(r->fom);
	free(r->floor_wall);
	free(r->floor_fom);
	bench_rep_done(&r->last);
	*r = (struct compare_result){ 0 };
}
