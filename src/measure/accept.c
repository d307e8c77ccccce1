#include "measure/accept.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/cleanup.h"
#include "measure/stats_priv.h"

double accept_alpha(unsigned confirmations)
{
	return ACCEPT_SESSION_ALPHA / (confirmations > 0 ? confirmations : 1);
}

unsigned accept_pairs_min(unsigned confirmations)
{
	size_t n = stats_pairs_min(accept_alpha(confirmations));

	return n > ACCEPT_PAIRS_MIN ? (unsigned)n : ACCEPT_PAIRS_MIN;
}

unsigned accept_neutral_min(unsigned confirmations)
{
	size_t n = stats_separation_min(accept_alpha(confirmations)) - 1;

	return n > ACCEPT_NEUTRAL_MIN ? (unsigned)n : ACCEPT_NEUTRAL_MIN;
}

const char *accept_state_name(enum accept_state s)
{
	static const char *const names[] = {
		[ACCEPT_MET] = "met",
		[ACCEPT_FAILED] = "failed",
		[ACCEPT_NOT_APPLICABLE] = "not applicable",
		[ACCEPT_OPEN] = "open",
	};

	return names[s];
}

const char *accept_verdict_name(enum accept_verdict v)
{
	static const char *const names[] = {
		[ACCEPT_KEPT] = "kept",
		[ACCEPT_REJECTED] = "rejected",
		[ACCEPT_NEEDS_NEUTRAL] = "needs neutral rebuilds",
	};

	return names[v];
}

static double accept_gain_pct(double ratio)
{
	return 100 * (ratio - 1);
}

/* Neither negative nor NaN. */
static bool accept_measured(double pct)
{
	return pct >= 0;
}

double accept_floor_pct(const struct accept_floor *f)
{
	double pct = ACCEPT_FLOOR_PCT;

	if (accept_measured(f->aa_pct))
		pct = fmax(pct, f->aa_pct);
	if (accept_measured(f->neutral_pct))
		pct = fmax(pct, f->neutral_pct);
	return pct;
}

/* Which of its components the floor is. */
static const char *accept_floor_source(const struct accept_floor *f)
{
	double pct = accept_floor_pct(f);

	if (accept_measured(f->neutral_pct) && f->neutral_pct >= pct)
		return "spread over neutral rebuilds";
	if (accept_measured(f->aa_pct) && f->aa_pct >= pct)
		return "same program against itself";
	return "the least that is ever kept";
}

void accept_screen(const struct stats_ratio *ratio, double floor_pct, struct accept_screen *out)
{
	double gain = accept_gain_pct(ratio->ratio);

	out->confirm = gain > floor_pct;
	(void)snprintf(out->why, sizeof(out->why),
		       "gain of %.2f %% over %zu pairs is %s the noise floor of %.2f %%", gain,
		       ratio->n, out->confirm ? "above" : "not above", floor_pct);
}

__attribute__((format(printf, 3, 4))) static void
accept_guard_set(struct accept_guard *g, enum accept_state state, const char *fmt, ...)
{
	va_list ap;

	g->state = state;
	va_start(ap, fmt);
	(void)vsnprintf(g->why, sizeof(g->why), fmt, ap);
	va_end(ap);
}

static void accept_judge_pairs(const struct accept_in *in, struct accept_guard *g)
{
	const struct stats_ratio *r = in->fom;

	if (r->n < ACCEPT_PAIRS_MIN)
		accept_guard_set(g, ACCEPT_FAILED, "%zu pairs, at least %d are needed", r->n,
				 ACCEPT_PAIRS_MIN);
	else if (!r->has_lower || r->alpha > ACCEPT_SESSION_ALPHA)
		accept_guard_set(g, ACCEPT_FAILED,
				 "%zu pairs give no lower bound at level %.4f: it takes %zu", r->n,
				 r->alpha, stats_pairs_min(r->alpha));
	else
		accept_guard_set(g, ACCEPT_MET, "%zu fresh pairs, bound at level %.4f", r->n,
				 r->alpha);
}

static void accept_judge_floor(const struct accept_in *in, struct accept_guard *g)
{
	const struct accept_floor *f = &in->floor;
	double pct = accept_floor_pct(f);

	if (!accept_measured(f->aa_pct))
		accept_guard_set(g, ACCEPT_FAILED,
				 "the same program was not measured against itself");
	else if (f->neutral_na)
		accept_guard_set(g, ACCEPT_MET,
				 "%.2f %%: against itself %.2f %%; no neutral rebuilds, %s", pct,
				 f->aa_pct, f->neutral_na);
	else if (!accept_measured(f->neutral_pct) || f->n_neutral < ACCEPT_NEUTRAL_MIN)
		accept_guard_set(g, ACCEPT_FAILED, "%u neutral rebuilds, at least %d are needed",
				 accept_measured(f->neutral_pct) ? f->n_neutral : 0,
				 ACCEPT_NEUTRAL_MIN);
	else
		accept_guard_set(
			g, ACCEPT_MET,
			"%.2f %%: against itself %.2f %%, spread over %u neutral rebuilds %.2f %%",
			pct, f->aa_pct, f->n_neutral, f->neutral_pct);
}

static void accept_judge_gain(const struct accept_in *in, struct accept_guard *g)
{
	const struct stats_ratio *r = in->fom;
	double pct = accept_floor_pct(&in->floor), gain = accept_gain_pct(r->lower);

	if (!r->has_lower)
		accept_guard_set(g, ACCEPT_FAILED, "no lower bound of the gain");
	else
		accept_guard_set(
			g, gain > pct ? ACCEPT_MET : ACCEPT_FAILED,
			"gain %.2f %%, lower bound %.2f %%, %s the noise floor of %.2f %% (%s)",
			accept_gain_pct(r->ratio), gain, gain > pct ? "above" : "not above", pct,
			accept_floor_source(&in->floor));
}

static void accept_judge_wall(const struct accept_in *in, struct accept_guard *g)
{
	const struct stats_ratio *r = in->wall;

	if (!r) {
		accept_guard_set(g, ACCEPT_NOT_APPLICABLE, "wall time is the figure of merit");
		return;
	}
	if (in->fom_only) {
		accept_guard_set(g, ACCEPT_NOT_APPLICABLE,
				 "only the figure of merit was to be judged; wall time changed by "
				 "a ratio of %.4f",
				 r->ratio);
		return;
	}
	if (!r->has_lower)
		accept_guard_set(g, ACCEPT_FAILED, "%zu pairs give no lower bound for wall time",
				 r->n);
	else
		accept_guard_set(g, r->lower > 1 ? ACCEPT_MET : ACCEPT_FAILED,
				 "wall time ratio %.4f, lower bound %.4f, %s", r->ratio, r->lower,
				 r->lower > 1 ? "faster" : "not shown to be faster");
}

/* Median of the ratios of each base build with each candidate build, over 1 is better. */
static double accept_builds_ratio(const struct accept_neutral *n)
{
	double all[STATS_SIDE_MAX * STATS_SIDE_MAX];
	AUTO_FREE double *s = NULL;
	size_t m = 0;

	for (size_t i = 0; i < n->n_base; i++) {
		for (size_t k = 0; k < n->n_cand; k++)
			all[m++] = n->better == STATS_LOWER_BETTER ? n->base[i] / n->cand[k]
								   : n->cand[k] / n->base[i];
	}
	s = stats_sorted(all, m);
	return s ? stats_median_sorted(s, m) : 0;
}

static void accept_judge_neutral(const struct accept_in *in, struct accept_guard *g)
{
	const struct accept_neutral *n = in->neutral;
	double pct = accept_floor_pct(&in->floor), gain, p;
	double layout = fmax(ACCEPT_LAYOUT_PCT, in->floor.neutral_pct);
	size_t least = accept_measured(in->fom->alpha) ? stats_separation_min(in->fom->alpha) : 0;

	if (in->floor.neutral_na) {
		accept_guard_set(g, ACCEPT_NOT_APPLICABLE, "%s", in->floor.neutral_na);
		return;
	}
	if (!n) {
		gain = in->fom->has_lower ? accept_gain_pct(in->fom->lower) : 0;
		if (gain >= 2 * layout)
			accept_guard_set(g, ACCEPT_NOT_APPLICABLE,
					 "a gain of %.0f %% or more is over twice what code layout "
					 "does (%.0f %%)",
					 gain, layout);
		else
			accept_guard_set(g, ACCEPT_OPEN,
					 "a gain under %.0f %% is to be seen over neutral rebuilds "
					 "of the candidate too",
					 2 * layout);
		return;
	}
	if (least < ACCEPT_NEUTRAL_MIN + 1)
		least = ACCEPT_NEUTRAL_MIN + 1;
	if (n->n_base < least || n->n_cand < least || n->n_base > STATS_SIDE_MAX ||
	    n->n_cand > STATS_SIDE_MAX) {
		accept_guard_set(g, ACCEPT_FAILED,
				 "%zu builds before and %zu after, %zu to %d of each are needed",
				 n->n_base, n->n_cand, least, STATS_SIDE_MAX);
		return;
	}
	gain = accept_gain_pct(accept_builds_ratio(n));
	p = stats_separation_p(n->base, n->n_base, n->cand, n->n_cand, n->better);
	accept_guard_set(g, gain > pct && p <= in->fom->alpha ? ACCEPT_MET : ACCEPT_FAILED,
			 "over %zu builds before and %zu after: gain %.2f %% (floor %.2f %%), "
			 "chance %.4f (level %.4f)",
			 n->n_base, n->n_cand, gain, pct, p, in->fom->alpha);
}

void accept_decide(const struct accept_in *in, struct accept_out *out)
{
	static const struct {
		const char *name;
		void (*judge)(const struct accept_in *in, struct accept_guard *g);
	} guards[ACCEPT_N_GUARDS] = {
		[ACCEPT_G_PAIRS] = { "enough pairs", accept_judge_pairs },
		[ACCEPT_G_FLOOR] = { "noise floor measured", accept_judge_floor },
		[ACCEPT_G_GAIN] = { "gain above the noise floor", accept_judge_gain },
		[ACCEPT_G_WALL] = { "wall time faster as well", accept_judge_wall },
		[ACCEPT_G_NEUTRAL] = { "gain over neutral rebuilds", accept_judge_neutral },
	};
	const struct accept_guard *decisive = &out->guards[ACCEPT_G_GAIN];

	out->floor_pct = accept_floor_pct(&in->floor);
	out->verdict = ACCEPT_KEPT;
	for (int i = 0; i < ACCEPT_N_GUARDS; i++) {
		struct accept_guard *g = &out->guards[i];

		g->name = guards[i].name;
		guards[i].judge(in, g);
		if (out->verdict == ACCEPT_REJECTED)
			continue;
		if (g->state == ACCEPT_FAILED)
			out->verdict = ACCEPT_REJECTED;
		else if (g->state == ACCEPT_OPEN)
			out->verdict = ACCEPT_NEEDS_NEUTRAL;
		else
			continue;
		decisive = g;
	}
	(void)snprintf(out->reason, sizeof(out->reason), "%s: %s",
		       accept_verdict_name(out->verdict), decisive->why);
}
