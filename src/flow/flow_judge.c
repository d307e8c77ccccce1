/* Screening, confirmation, the decision, and the way back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "flow/flow_priv.h"
#include "measure/accept.h"
#include "report/report.h"
#include "session/session.h"

static struct accept_floor judge_floor(const struct flow *f)
{
	/* without a new link both sides have the same layout */
	if (flow_nothing_built(f))
		return (struct accept_floor){ .aa_pct = f->floor.valid ? f->floor.aa_pct : -1,
					      .neutral_pct = -1,
					      .neutral_na = "nothing is built by this change" };
	return (struct accept_floor){
		.aa_pct = f->floor.valid ? f->floor.aa_pct : -1,
		.neutral_pct = f->floor.valid ? f->floor.neutral_pct : -1,
		.n_neutral = f->floor.n_neutral,
		.neutral_na = f->floor.valid && f->floor.neutral_na[0] ? f->floor.neutral_na : NULL,
	};
}

/* What a comparison that did not end well means for the candidate; true: it is over. */
static bool judge_spoilt(struct flow *f, const struct flow_compare *c, enum flow_guard which)
{
	if (!c->wrong[0] && !c->failed[0])
		return false;
	flow_guard_set(&f->guards, c->wrong[0] ? FLOW_G_CORRECT : which, FLOW_NOT_MET, "%.190s",
		       c->wrong[0] ? c->wrong : c->failed);
	return true;
}

int flow_do_screen(struct flow *f, struct err *err)
{
	struct flow_compare c = {
		.role = "screen",
		.ck = { f->ck_best, f->ck_cand },
		.cfg = { &f->best, &f->cand },
		.pairs = ACCEPT_SCREEN_PAIRS,
	};
	struct accept_floor floor = judge_floor(f);
	struct accept_screen s = { 0 };
	int r;

	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	r = flow_compare_run(f, &c, err);
	if (r < 0) {
		compare_result_done(
			&c.res); /* filled where only its record or the way back failed */
		return r;
	}
	(void)snprintf(f->id_screen, sizeof(f->id_screen), "%s", c.id);
	if (c.res.end != BENCH_END_REPS && !c.wrong[0] && flow_must_stop(f)) {
		r = FLOW_EV_BUDGET;
	} else if (judge_spoilt(f, &c, FLOW_G_SCREENED) || c.res.end != BENCH_END_REPS) {
		r = FLOW_EV_FAILED;
	} else {
		accept_screen(&c.res.ratio, accept_floor_pct(&floor), &s);
		flow_guard_set(&f->guards, FLOW_G_SCREENED, s.confirm ? FLOW_MET : FLOW_NOT_MET,
			       "%.190s", s.why);
		r = s.confirm ? FLOW_OK : FLOW_EV_FAILED;
	}
	compare_result_done(&c.res);
	return r;
}

static enum flow_guard_state judge_state(enum accept_state s)
{
	switch (s) {
	case ACCEPT_MET:
		return FLOW_MET;
	case ACCEPT_FAILED:
		return FLOW_NOT_MET;
	case ACCEPT_NOT_APPLICABLE:
		return FLOW_NOT_APPLICABLE;
	case ACCEPT_OPEN:
		break;
	}
	return FLOW_NOT_REACHED;
}

static void judge_guard(struct flow *f, enum flow_guard to, const struct accept_guard *from)
{
	flow_guard_set(&f->guards, to, judge_state(from->state), "%.190s", from->why);
}

static void judge_take(struct flow *f, const struct accept_out *a)
{
	const struct accept_guard *g = a->guards;
	enum accept_guard_id worst = ACCEPT_G_GAIN;

	/* pairs and floor are conditions of the same guard: the first that fails is told */
	if (g[ACCEPT_G_FLOOR].state == ACCEPT_FAILED)
		worst = ACCEPT_G_FLOOR;
	if (g[ACCEPT_G_PAIRS].state == ACCEPT_FAILED)
		worst = ACCEPT_G_PAIRS;
	judge_guard(f, FLOW_G_CONFIRMED, &g[worst]);
	judge_guard(f, FLOW_G_WALL, &g[ACCEPT_G_WALL]);
	judge_guard(f, FLOW_G_LAYOUT, &g[ACCEPT_G_NEUTRAL]);
}

static int judge_neutral(struct flow *f, struct accept_in *in, struct accept_out *a,
			 struct err *err)
{
	double base[STATS_SIDE_MAX], cand[STATS_SIDE_MAX];
	struct accept_neutral n = {
		.base = base,
		.cand = cand,
		.better = f->fom && f->a.fom_higher ? STATS_HIGHER_BETTER : STATS_LOWER_BETTER,
	};
	char id[LEDGER_ID_CAP];
	struct err e = { 0 };
	int r = flow_neutral_both(f, base, &n.n_base, cand, &n.n_cand, STATS_SIDE_MAX, id, &e);

	if (r == ERR_CANCELLED || r == ERR_SYS || r == ERR_PARSE) {
		if (err)
			*err = e;
		return r;
	}
	if (r < 0) {
		flow_guard_set(
			&f->guards, FLOW_G_LAYOUT, FLOW_NOT_MET,
			"a small gain, and it could not be tested over neutral rebuilds: %.100s",
			e.msg);
		a->verdict = ACCEPT_REJECTED;
		return flow_tree_restore(f, f->ck_cand, err);
	}
	in->neutral = &n;
	accept_decide(in, a);
	in->neutral = NULL;
	judge_take(f, a);
	return ERR_OK;
}

static int judge_confirmed(struct flow *f, struct flow_compare *c, struct err *err)
{
	struct accept_in in = {
		.fom = &c->res.ratio,
		.wall = f->fom ? &c->res.wall_ratio : NULL,
		.fom_only = f->o->fom_only,
		.floor = judge_floor(f),
	};
	struct accept_out a;
	int r = ERR_OK;

	accept_decide(&in, &a);
	judge_take(f, &a);
	if (a.verdict == ACCEPT_NEEDS_NEUTRAL && flow_nothing_built(f))
		/* nothing was linked again, so layout did not change between the sides */
		flow_guard_set(&f->guards, FLOW_G_LAYOUT, FLOW_NOT_APPLICABLE,
			       "both sides run the same program");
	else if (a.verdict == ACCEPT_NEEDS_NEUTRAL)
		r = judge_neutral(f, &in, &a, err);
	if (r < 0)
		return r;
	if (a.verdict == ACCEPT_REJECTED)
		return FLOW_EV_FAILED;
	return FLOW_OK;
}

int flow_do_confirm(struct flow *f, struct err *err)
{
	struct flow_compare c = {
		.role = "confirmation",
		.ck = { f->ck_best, f->ck_cand },
		.cfg = { &f->best, &f->cand },
		.pairs = f->o->pairs ? f->o->pairs : ACCEPT_PAIRS_DEFAULT,
		.alpha = accept_alpha(FLOW_CONFIRMATIONS),
	};
	double ratio = 0;
	int r = flow_floor_ensure(f, err);

	if (r < 0)
		return r;
	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	f->confirmations++;
	if ((r = flow_snapshot(f, err)) < 0) /* it counts, also if it is killed */
		return r;
	r = flow_compare_run(f, &c, err);
	(void)snprintf(f->id_confirm, sizeof(f->id_confirm), "%s", c.id);
	if (r == ERR_OK && c.res.end != BENCH_END_REPS && !c.wrong[0] && flow_must_stop(f))
		r = FLOW_EV_BUDGET;
	else if (r == ERR_OK &&
		 (judge_spoilt(f, &c, FLOW_G_CONFIRMED) || c.res.end != BENCH_END_REPS))
		r = FLOW_EV_FAILED;
	else if (r == ERR_OK)
		r = judge_confirmed(f, &c, err);
	ratio = c.res.has_ratio ? c.res.ratio.ratio : 0;
	compare_result_done(&c.res);
	if (r != FLOW_OK)
		return r;
	if ((r = flow_cold_check(f, ratio, err)) < 0)
		return r;
	if (flow_must_stop(f) && f->guards.state[FLOW_G_COLD] == FLOW_NOT_REACHED)
		return FLOW_EV_BUDGET;
	return flow_guards_hold(&f->guards) ? FLOW_OK : FLOW_EV_FAILED;
}

/* ---- decide ---- */

static const char *judge_decision(const struct flow *f)
{
	if (flow_guards_hold(&f->guards))
		return "kept";
	return f->guards.state[FLOW_G_APPLIED] == FLOW_NOT_MET ? "void" : "rejected";
}

static void judge_add_id(struct json *o, const char *key, const char *id)
{
	json_set_str(o, key, id[0] ? id : NULL);
}

static struct json *judge_pending(const struct flow *f)
{
	struct json *o = json_new_obj();
	int open = flow_guards_first_open(&f->guards);

	json_set_str(o, "what", "iteration");
	json_set_str(o, "session", session_id(f->s));
	json_set_int(o, "iteration", f->iteration);
	json_set_str(o, "play", json_get_str(f->candidate, "play", ""));
	json_set_str(o, "hypothesis", json_get_str(f->candidate, "hypothesis", ""));
	json_set_str(o, "change", json_get_str(f->candidate, "change", ""));
	json_set_str(o, "label", json_get_str(f->candidate, "label", NULL));
	json_set_str(o, "decision", judge_decision(f));
	if (open < 0)
		json_set_str(o, "reason", f->guards.why[FLOW_G_CONFIRMED]);
	else
		json_set_str(o, "reason",
			     f->guards.why[open][0] ? f->guards.why[open] : "not reached");
	json_set(o, "guards", flow_guards_json(&f->guards));
	judge_add_id(o, "build", f->id_cand_build);
	judge_add_id(o, "check", f->id_cand_check);
	judge_add_id(o, "screen", f->id_screen);
	judge_add_id(o, "confirmation", f->id_confirm);
	judge_add_id(o, "cold", f->id_cold);
	return o;
}

/* The decision of this iteration, where an earlier run already recorded it. */
static bool judge_recorded(const struct flow *f)
{
	for (size_t i = ledger_count(f->l); i > 0; i--) {
		const struct json *d = json_get(ledger_at(f->l, i - 1), "detail");

		if (strcmp(json_get_str(d, "what", ""), "iteration") == 0 &&
		    strcmp(json_get_str(d, "session", ""), session_id(f->s)) == 0)
			return json_get_int(d, "iteration", 0) == (int64_t)f->iteration;
	}
	return false;
}

static int judge_append(struct flow *f, struct err *err)
{
	const char *ids[] = {
		f->id_profile, f->id_cand_build, f->id_cand_check, f->id_screen,
		f->id_confirm, f->id_cold,	 f->floor.aa_id,   f->floor.neutral_id
	};
	const char *parents[sizeof(ids) / sizeof(ids[0])];
	struct ledger_value ratio;
	struct ledger_rec rec = { .kind = LEDGER_DECISION,
				  .detail = f->pending,
				  .parents = parents };
	const struct json *from;
	char id[LEDGER_ID_CAP];

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		if (ids[i][0])
			parents[rec.n_parents++] = ids[i];
	}
	from = ledger_get(f->l, f->id_confirm[0] ? f->id_confirm : f->id_screen);
	if (from && ledger_find_value(from, "ratio", &ratio) == ERR_OK) {
		rec.values = &ratio;
		rec.n_values = 1;
	}
	return flow_append(f, &rec, id, err);
}

/* Two clean builds and a comparison of both ends: what the delivery of this will take. */
static void judge_reserve(struct flow *f)
{
	double builds = 3 * (double)(f->rec_orig->wall_ns + f->rec_best->wall_ns);

	f->reserve_ns =
		(uint64_t)(builds + 2e9 * f->base_wall_s * (ACCEPT_PAIRS_MIN + 4)) + NS_PER_SEC;
}

static int judge_keep(struct flow *f, struct err *err)
{
	AUTO_FREE char *path = NULL;

	flow_config_copy(&f->best, &f->cand);
	(void)snprintf(f->ck_best, sizeof(f->ck_best), "%s", f->ck_cand);
	build_record_free(f->rec_best);
	f->rec_best = TAKE_PTR(f->rec_cand);
	f->floor.valid = false;
	judge_reserve(f);
	path = xasprintf("%s/records/best.json", ledger_state_dir(f->l));
	return build_record_save(f->rec_best, path, err);
}

static void judge_count(struct flow *f, const char *decision)
{
	f->out->iterations = f->iteration;
	f->out->kept += strcmp(decision, "kept") == 0;
	f->out->rejected += strcmp(decision, "rejected") == 0;
	f->out->voids += strcmp(decision, "void") == 0;
}

/* The candidate's build record, so that a decision can still be carried out after a kill. */
static int judge_save_candidate(struct flow *f, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/records/cand.json", ledger_state_dir(f->l));

	return build_record_save(f->rec_cand ? f->rec_cand : f->rec_best, path, err);
}

int flow_do_decide(struct flow *f, struct err *err)
{
	AUTO_FREE char *decision = NULL;
	int r;

	if (!f->pending) {
		f->pending = judge_pending(f);
		if ((r = judge_save_candidate(f, err)) < 0)
			return r;
		/* from here on a killed program finds the decision and only has to write it down */
		if ((r = flow_snapshot(f, err)) < 0)
			return r;
	}
	flow_boundary("decided");
	if (!judge_recorded(f) && (r = judge_append(f, err)) < 0)
		return r;
	flow_boundary("decision-recorded");
	decision = xstrdup(json_get_str(f->pending, "decision", "void"));
	json_set_str(f->tried, json_get_str(f->candidate, "key", ""), decision);
	judge_count(f, decision);
	flow_say(f, "iteration %u: %s: %s", f->iteration, decision,
		 json_get_str(f->pending, "reason", ""));
	json_unref(f->pending);
	f->pending = NULL;
	if (strcmp(decision, "kept") != 0)
		r = FLOW_EV_FAILED;
	else if ((r = judge_keep(f, err)) == ERR_OK)
		r = FLOW_EV_KEPT;
	if (r >= 0)
		(void)report_write(f->l, f->dir, NULL, NULL); /* the last one tells of failures */
	return r;
}

int flow_do_restore(struct flow *f, struct err *err)
{
	int r;

	build_record_free(f->rec_cand);
	f->rec_cand = NULL;
	r = flow_tree_restore(f, f->ck_best, err);
	if (r < 0)
		return r;
	return flow_must_stop(f) ? FLOW_EV_BUDGET : FLOW_OK;
}
