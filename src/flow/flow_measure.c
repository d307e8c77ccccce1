/* Comparisons of two states of the tree, and the noise floor. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build.h"
#include "build/neutral.h"
#include "core/cleanup.h"
#include "core/rootfs.h"
#include "flow/flow_priv.h"
#include "measure/accept.h"
#include "measure/disturb.h"
#include "measure/fom.h"
#include "measure/record.h"
#include "proc/proc.h"

#define MEASURE_BUILDS (ACCEPT_NEUTRAL_MIN + 1)

/* ---- comparisons ---- */

struct measure_ctx {
	struct flow *f;
	struct flow_compare *c;
	struct ckpt_switch *sw; /* NULL: both sides are the same tree */
	struct flow_fresh *fresh;
};

static int measure_prepare(void *arg, enum compare_side side, struct err *err)
{
	struct measure_ctx *m = arg;
	int r = ERR_OK;

	flow_cmd_again(m->f);
	if (m->sw)
		r = ckpt_switch_to(m->sw, side == COMPARE_B, err);
	if (m->fresh)
		r = flow_tree_restore(m->f, m->c->ck[side], err);
	if (r == ERR_OK && m->fresh)
		r = flow_tree_before_run(m->f, m->c->ck[side], err);
	if (r == ERR_OK && m->fresh)
		r = flow_fresh_renew(m->fresh, err);
	if (r == ERR_OK)
		r = ledger_heartbeat(m->f->l, err);
	return r;
}

static int measure_check(void *arg, enum compare_side side, const struct bench_rep *rep,
			 struct err *err)
{
	struct measure_ctx *m = arg;
	char why[200];
	int r;

	/* what a cold run leaves in the project must not help the next one */
	if (m->fresh && (r = flow_tree_note_ours(m->f, m->c->ck[side], err)) < 0)
		return r;
	if (flow_truth_holds(m->f, &m->f->truth, rep, why, sizeof(why)))
		return ERR_OK;
	(void)snprintf(m->c->wrong, sizeof(m->c->wrong), "%s gave another result: %s",
		       side == COMPARE_A ? "the side before" : "the side after", why);
	return err_set(err, ERR_STALE, "%s", m->c->wrong);
}

static void measure_pair(void *arg, const struct compare_result *so_far)
{
	struct measure_ctx *m = arg;

	flow_boundary("pair");
	flow_detail(m->f, "%s: pair %zu of %u", m->c->role, so_far->n + so_far->n_floor,
		    m->c->pairs + m->c->floor_pairs);
}

static int measure_append(struct flow *f, struct flow_compare *c, const struct compare_opts *opts,
			  const struct disturb_report *d, struct err *err)
{
	const char *parents[4];
	struct record_ctx ctx = {
		.role = c->role, .iteration = f->iteration, .disturb = d, .parents = parents
	};

	struct record_files files = { 0 };
	int r;

	if (f->id_cand_build[0] && f->iteration)
		parents[ctx.n_parents++] = f->id_cand_build;
	if (f->id_build[0])
		parents[ctx.n_parents++] = f->id_build;
	r = record_files_of(&opts->cmd[COMPARE_B], &files, err);
	if (r < 0 && r != ERR_LIMIT) /* a command with very many files goes without their hashes */
		return r;
	ctx.files = files.v;
	ctx.n_files = files.n;
	flow_boundary("before-evidence");
	r = record_compare(f->l, &ctx, opts, &c->res, c->id, err);
	record_files_done(&files);
	return r < 0 ? r : flow_appended(f, c->id, err);
}

static int measure_run(struct flow *f, struct measure_ctx *m, struct compare_opts *opts,
		       struct err *err)
{
	struct flow_compare *c = m->c;
	struct disturb_where where = flow_where(f);
	struct disturb_snap before, after;
	struct disturb_report report;
	AUTO_CLOSE int root = rootfs_open("/", NULL);
	int r;

	disturb_read(root, &where, &before);
	r = compare_run(f->k, opts, &c->res, err);
	if (r < 0)
		return c->wrong[0] ? ERR_OK : r;
	disturb_read(root, &where, &after);
	disturb_compare(&before, &after, c->res.cpu_s, &report);
	if (c->res.end == BENCH_END_FAILED)
		(void)snprintf(c->failed, sizeof(c->failed), "a run of %s %.200s",
			       c->res.last_side == COMPARE_A ? "the side before" : "the side after",
			       c->res.last.why);
	if (c->res.end == BENCH_END_BUDGET) /* the next pair would not have fitted */
		f->over_budget = true;
	/* the hashes of what was run are those of the side after */
	if (m->sw && (r = ckpt_switch_to(m->sw, 1, err)) < 0)
		return r;
	return c->res.has_ratio && c->res.end == BENCH_END_REPS
		       ? measure_append(f, c, opts, &report, err)
		       : ERR_OK;
}

/* Puts the fresh folders' environment behind the command's own changes. */
static void measure_add_fresh(struct flow_cmd *cmd, const struct flow_fresh *fresh)
{
	size_t n = 0, k = 0;

	while (cmd->env[n])
		n++;
	while (fresh->env[k])
		k++;
	cmd->env = xrealloc_n(cmd->env, n + k + 1, sizeof(*cmd->env));
	memcpy(cmd->env + n, fresh->env, (k + 1) * sizeof(*cmd->env));
	cmd->m.env = cmd->env;
	cmd->m.mounts = fresh->mounts;
	cmd->m.n_mounts = fresh->n_mounts;
}

int flow_compare_run(struct flow *f, struct flow_compare *c, struct err *err)
{
	uint64_t left = flow_remaining_ns(f);
	struct flow_fresh fresh = { 0 };
	struct measure_ctx m = { .f = f, .c = c };
	struct flow_cmd cmd[COMPARE_N_SIDES];
	struct compare_opts opts = {
		.fom = f->fom,
		.pairs = c->pairs,
		.floor_pairs = c->floor_pairs,
		.warmup = c->cold ? 0 : 1,
		.alpha = c->alpha,
		.budget_ns = left == UINT64_MAX ? 0 : left,
		.hooks = { measure_prepare, measure_check, measure_pair, &m },
	};
	int side = 0, r = ERR_OK;

	c->wrong[0] = c->failed[0] = c->id[0] = '\0';
	if (!c->cold && strcmp(c->ck[COMPARE_A], c->ck[COMPARE_B]) != 0)
		r = ckpt_switch_open(f->c, c->ck[COMPARE_A], c->ck[COMPARE_B], &m.sw, &side, err);
	if (r == ERR_OK && c->cold && (r = flow_fresh_open(f, &fresh, err)) == ERR_OK)
		m.fresh = &fresh;
	(void)snprintf(c->note, sizeof(c->note), "%s", fresh.note);
	if (r == ERR_OK) {
		for (int i = 0; i < COMPARE_N_SIDES; i++) {
			flow_cmd_make(f, c->cfg[i], f->a.run, &cmd[i]);
			if (c->cold)
				measure_add_fresh(&cmd[i], &fresh);
			opts.cmd[i] = cmd[i].m;
		}
		r = measure_run(f, &m, &opts, err);
		for (int i = 0; i < COMPARE_N_SIDES; i++)
			flow_cmd_done(&cmd[i]);
	}
	flow_fresh_done(&fresh);
	if (m.sw) {
		struct err e = { 0 };
		int rc = ckpt_switch_close(m.sw, 1, &e);

		if (rc < 0 && r == ERR_OK) {
			r = rc;
			if (err)
				*err = e;
		}
	}
	return r;
}

/* ---- neutral rebuilds ---- */

/* Programs that the run may start: those it names, else all. */
static size_t measure_programs(const struct flow *f, const struct build_record *rec,
			       const struct build_program **v, size_t cap)
{
	size_t n = 0;

	for (int named = 1; named >= 0 && n == 0; named--) {
		for (size_t i = 0; i < rec->n_programs && n < cap; i++) {
			const char *base = strrchr(rec->programs[i].path, '/');

			base = base ? base + 1 : rec->programs[i].path;
			if (!named || strstr(f->a.run, base))
				v[n++] = &rec->programs[i];
		}
	}
	return n;
}

#define MEASURE_PROGRAMS 4

/* One build of a side: its programs, kept aside, ready to be put in place. */
struct measure_build {
	char *file[MEASURE_PROGRAMS]; /* NULL: as it is */
	char text[64];
};

struct measure_side {
	const struct flow_config *cfg;
	const struct build_record *rec;
	const char *ck;
	const struct build_program *prog[MEASURE_PROGRAMS];
	size_t n_prog;
	struct measure_build build[MEASURE_BUILDS];
	size_t n_builds;
};

static void measure_side_done(struct measure_side *s)
{
	for (size_t b = 0; b < MEASURE_BUILDS; b++) {
		for (size_t p = 0; p < MEASURE_PROGRAMS; p++)
			free(s->build[b].file[p]);
	}
}

static int measure_make_variant(struct flow *f, struct measure_side *s, const char *stage,
				unsigned variant, const char *tag, struct err *err)
{
	struct measure_build *b = &s->build[s->n_builds];
	AUTO_FREE const char **env = flow_build_env(f, s->cfg);
	struct build_opts opts;

	flow_build_opts(f, s->rec->command, env, &opts);
	for (size_t p = 0; p < s->n_prog; p++) {
		int r;

		free(b->file[p]);
		b->file[p] = xasprintf("%s/%s-%u-%zu", stage, tag, variant, p);
		r = build_neutral(f->k, &opts, s->rec, s->prog[p]->path, variant, b->file[p],
				  b->text, err);
		if (r < 0)
			return r;
	}
	s->n_builds++;
	return ERR_OK;
}

/* Build 0 is the build itself; the others are as many neutral rebuilds as can be made. */
static int measure_side_make(struct flow *f, struct measure_side *s, const char *stage,
			     const char *tag, struct err *err)
{
	struct err last = { 0 };
	int r = flow_tree_restore(f, s->ck, err);

	if (r < 0)
		return r;
	s->n_prog = measure_programs(f, s->rec, s->prog, MEASURE_PROGRAMS);
	for (size_t p = 0; p < s->n_prog; p++) {
		AUTO_FREE char *live = file_join(f->dir, s->prog[p]->path);

		s->build[0].file[p] = xasprintf("%s/%s-self-%zu", stage, tag, p);
		if ((r = build_install(live, s->build[0].file[p], err)) < 0)
			return r;
	}
	s->n_builds = 1;
	for (unsigned v = 0; s->n_prog && v < BUILD_N_NEUTRAL && s->n_builds < MEASURE_BUILDS;
	     v++) {
		struct err e = { 0 };

		flow_detail(f, "neutral rebuild %zu of %d", s->n_builds, ACCEPT_NEUTRAL_MIN);
		r = measure_make_variant(f, s, stage, v, tag, &e);
		if (r == ERR_CANCELLED || flow_must_stop(f))
			return err_set(err, ERR_CANCELLED, "stopped");
		if (r < 0)
			last = e;
	}
	if (s->n_builds > 1)
		return ERR_OK;
	return err_set(err, ERR_NOT_FOUND, "no program of the build can be linked again: %.300s",
		       last.msg);
}

static int measure_put(struct flow *f, const struct measure_side *s, size_t build, struct err *err)
{
	for (size_t p = 0; p < s->n_prog; p++) {
		AUTO_FREE char *live = file_join(f->dir, s->prog[p]->path);
		int r = build_install(s->build[build].file[p], live, err);

		if (r < 0)
			return r;
	}
	return ERR_OK;
}

static int measure_one(struct flow *f, const struct measure_side *s, double *figure,
		       struct err *err)
{
	struct bench_rep rep = { 0 };
	struct flow_cmd cmd;
	char why[200];
	int r;

	flow_cmd_make(f, s->cfg, f->a.run, &cmd);
	r = bench_once(f->k, &cmd.m, f->fom, &rep, err);
	flow_cmd_done(&cmd);
	if (r < 0)
		return r;
	if (!rep.ok)
		r = err_set(err, ERR_REFUSED, "a neutral rebuild %.200s", rep.why);
	else if (!flow_truth_holds(f, &f->truth, &rep, why, sizeof(why)))
		r = err_set(err, ERR_REFUSED, "a neutral rebuild gave another result: %s", why);
	else
		*figure = f->fom ? rep.sample.fom : rep.sample.wall_s;
	bench_rep_done(&rep);
	return r;
}

/* Rounds over all builds of the sides, the order turning; x as stats_levels() takes it. */
static int measure_rounds(struct flow *f, struct measure_side *sides, size_t n_sides,
			  struct ckpt_switch *sw, double *x, struct err *err)
{
	size_t total = 0;
	int r;

	for (size_t i = 0; i < n_sides; i++)
		total += sides[i].n_builds;
	for (size_t round = 0; round < ACCEPT_NEUTRAL_ROUNDS; round++) {
		for (size_t k = 0; k < total; k++) {
			size_t i = (round % 2 ? total - 1 - k : k), b = i, s = 0;

			if (flow_must_stop(f))
				return err_set(err, ERR_CANCELLED, "stopped");
			while (b >= sides[s].n_builds)
				b -= sides[s++].n_builds;
			if (sw && (r = ckpt_switch_to(sw, (int)s, err)) < 0)
				return r;
			if ((r = measure_put(f, &sides[s], b, err)) < 0 ||
			    (r = measure_one(f, &sides[s], &x[round * total + i], err)) < 0)
				return r;
			/* a switch exchanges what lies at the path: it must be the side's own */
			if (sw && (r = measure_put(f, &sides[s], 0, err)) < 0)
				return r;
			flow_detail(f, "neutral rebuilds: run %zu of %zu", round * total + k + 1,
				    total * ACCEPT_NEUTRAL_ROUNDS);
		}
	}
	return ERR_OK;
}

static int measure_neutral_record(struct flow *f, const struct measure_side *sides, size_t n_sides,
				  const double *x, const double *levels, double spread_pct,
				  char id[LEDGER_ID_CAP], struct err *err)
{
	struct ledger_value v = {
		.name = "spread", .value = spread_pct, .unit = "%", .n = ACCEPT_NEUTRAL_ROUNDS
	};
	AUTO_JSON struct json *detail = json_new_obj();
	struct ledger_rec rec = { .kind = LEDGER_COMPARE,
				  .command = f->a.run,
				  .values = &v,
				  .n_values = 1,
				  .detail = detail };
	struct json *arr = json_new_arr();
	size_t total = 0, i = 0;

	for (size_t s = 0; s < n_sides; s++)
		total += sides[s].n_builds;
	for (size_t s = 0; s < n_sides; s++) {
		for (size_t b = 0; b < sides[s].n_builds; b++, i++) {
			struct json *o = json_new_obj(), *runs = json_new_arr();

			json_set_str(o, "side", s ? "candidate" : "base");
			json_set_str(o, "rebuild", b ? sides[s].build[b].text : "as built");
			json_set_real(o, "level", levels[i]);
			for (size_t r = 0; r < ACCEPT_NEUTRAL_ROUNDS; r++)
				json_add(runs, json_new_real(x[r * total + i]));
			json_set(o, "runs", runs);
			json_add(arr, o);
		}
	}
	json_set_str(detail, "role", "neutral");
	json_set(detail, "iteration", f->iteration ? json_new_int(f->iteration) : json_new_null());
	json_set(detail, "builds", arr);
	return flow_append(f, &rec, id, err);
}

/* Levels of all builds of one or two sides; the tree is at the last side's checkpoint after it. */
static int measure_neutral(struct flow *f, struct measure_side *sides, size_t n_sides,
			   double *levels, char id[LEDGER_ID_CAP], struct err *err)
{
	double x[2 * MEASURE_BUILDS * ACCEPT_NEUTRAL_ROUNDS] = { 0 }, spread = 0;
	AUTO_FREE char *stage = xasprintf("%s/.rocbudai/stage-neutral", f->dir);
	struct ckpt_switch *sw = NULL;
	size_t total = 0;
	int side, r = file_mkdirs(stage, 0700, err);

	for (size_t i = 0; r == ERR_OK && i < n_sides; i++)
		r = measure_side_make(f, &sides[i], stage, i ? "cand" : "base", err);
	for (size_t i = 0; i < n_sides; i++)
		total += sides[i].n_builds;
	if (r == ERR_OK && n_sides == 2 && strcmp(sides[0].ck, sides[1].ck) != 0)
		r = ckpt_switch_open(f->c, sides[0].ck, sides[1].ck, &sw, &side, err);
	if (r == ERR_OK)
		r = measure_rounds(f, sides, n_sides, sw, x, err);
	if (sw) {
		int rc = ckpt_switch_close(sw, 1, r == ERR_OK ? err : NULL);

		r = r < 0 ? r : rc;
	}
	(void)file_remove_tree(AT_FDCWD, stage, NULL);
	if (r == ERR_OK)
		r = stats_levels(x, total, ACCEPT_NEUTRAL_ROUNDS, levels, err);
	if (r == ERR_OK)
		r = stats_spread_pct(levels, sides[0].n_builds, &spread, err);
	if (r == ERR_OK)
		r = flow_tree_restore(f, sides[n_sides - 1].ck, err);
	if (r == ERR_OK)
		r = measure_neutral_record(f, sides, n_sides, x, levels, spread, id, err);
	return r;
}

static int measure_floor_neutral(struct flow *f, struct flow_floor *fl, struct err *err)
{
	struct measure_side side = { .cfg = &f->best, .rec = f->rec_best, .ck = f->ck_best };
	double levels[2 * MEASURE_BUILDS];
	struct err e = { 0 };
	int r = measure_neutral(f, &side, 1, levels, fl->neutral_id, &e);

	fl->neutral_pct = -1;
	if (r == ERR_NOT_FOUND || r == ERR_REFUSED) {
		/* not applicable only where nothing is linked at all; else the guard fails */
		if (!f->rec_best->n_programs)
			(void)snprintf(fl->neutral_na, sizeof(fl->neutral_na),
				       "the build links no program");
		flow_say(f, "no neutral rebuilds: %s", e.msg);
		r = flow_tree_restore(f, f->ck_best, err);
	} else if (r < 0) {
		if (err)
			*err = e;
	} else {
		fl->n_neutral = (unsigned)side.n_builds - 1;
		r = stats_spread_pct(levels, side.n_builds, &fl->neutral_pct, err);
	}
	measure_side_done(&side);
	return r;
}

int flow_floor_ensure(struct flow *f, struct err *err)
{
	struct flow_floor fl = { .neutral_pct = -1 };
	struct flow_compare aa = {
		.role = "same_binary",
		.ck = { f->ck_best, f->ck_best },
		.cfg = { &f->best, &f->best },
		.pairs = FLOW_AA_PAIRS,
	};
	int r;

	if (f->floor.valid)
		return ERR_OK;
	if ((r = flow_tree_restore(f, f->ck_best, err)) < 0)
		return r;
	r = flow_compare_run(f, &aa, err);
	if (r == ERR_OK && aa.res.end != BENCH_END_REPS && flow_must_stop(f))
		r = err_set(err, ERR_CANCELLED, "stopped");
	if (r == ERR_OK && (aa.wrong[0] || aa.failed[0]))
		r = err_set(err, ERR_REFUSED, "the program as it was kept last does not hold: %s",
			    aa.wrong[0] ? aa.wrong : aa.failed);
	if (r == ERR_OK && f->over_budget)
		r = err_set(err, ERR_CANCELLED, "stopped");
	if (r == ERR_OK)
		r = stats_aa_floor_pct(f->fom ? aa.res.fom : aa.res.wall, aa.res.n, &fl.aa_pct,
				       err);
	(void)snprintf(fl.aa_id, sizeof(fl.aa_id), "%s", aa.id);
	compare_result_done(&aa.res);
	if (r == ERR_OK)
		r = measure_floor_neutral(f, &fl, err);
	if (r < 0)
		return r;
	fl.valid = true;
	f->floor = fl;
	return ERR_OK;
}

int flow_neutral_both(struct flow *f, double *base, size_t *n_base, double *cand, size_t *n_cand,
		      size_t cap, char id[LEDGER_ID_CAP], struct err *err)
{
	struct measure_side sides[2] = {
		{ .cfg = &f->best, .rec = f->rec_best, .ck = f->ck_best },
		{ .cfg = &f->cand, .rec = f->rec_cand, .ck = f->ck_cand },
	};
	double levels[2 * MEASURE_BUILDS];
	int r = measure_neutral(f, sides, 2, levels, id, err);

	if (r == ERR_OK) {
		*n_base = sides[0].n_builds < cap ? sides[0].n_builds : cap;
		*n_cand = sides[1].n_builds < cap ? sides[1].n_builds : cap;
		memcpy(base, levels, *n_base * sizeof(*base));
		memcpy(cand, levels + sides[0].n_builds, *n_cand * sizeof(*cand));
	}
	measure_side_done(&sides[0]);
	measure_side_done(&sides[1]);
	return r;
}
