#include "measure/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "measure/disturb.h"
#include "measure/pin.h"

/* A record has a largest length; beyond so many repetitions the summary has to do. */
#define RECORD_SAMPLES_MAX 5000

/* ---- parts ---- */

struct json *record_samples(const struct bench_sample *s, size_t n, size_t n_warmup)
{
	struct json *a = json_new_arr();

	for (size_t i = 0; i < n; i++) {
		struct json *o = json_new_obj();

		json_set_real(o, "wall_s", s[i].wall_s);
		json_set_real(o, "user_s", s[i].user_s);
		json_set_real(o, "system_s", s[i].system_s);
		json_set_int(o, "peak_memory_bytes", (int64_t)s[i].peak_bytes);
		json_set_int(o, "minor_faults", (int64_t)s[i].minor_faults);
		json_set_int(o, "major_faults", (int64_t)s[i].major_faults);
		json_set_int(o, "voluntary_switches", (int64_t)s[i].voluntary_switches);
		json_set_int(o, "involuntary_switches", (int64_t)s[i].involuntary_switches);
		if (s[i].has_fom)
			json_set_real(o, "fom", s[i].fom);
		if (i < n_warmup)
			json_set_bool(o, "warmup", true);
		json_add(a, o);
	}
	return a;
}

static struct ledger_value record_summary(const char *name, const char *unit,
					  const struct stats_summary *s)
{
	return (struct ledger_value){
		.name = name,
		.value = s->median,
		.unit = unit,
		.n = (unsigned)s->n,
		.has_range = true,
		.min = s->min,
		.max = s->max,
		.median = s->median,
		.has_ci = s->has_ci,
		.ci95_low = s->ci95_low,
		.ci95_high = s->ci95_high,
	};
}

static struct ledger_value record_number(const char *name, const char *unit, double v, size_t n)
{
	return (struct ledger_value){ .name = name, .value = v, .unit = unit, .n = (unsigned)n };
}

static struct json *record_fom_json(const struct fom *f)
{
	struct json *o;

	if (!f)
		return json_new_null();
	o = json_new_obj();
	json_set_str(o, "pattern", fom_pattern(f));
	json_set_str(o, "unit", fom_unit(f));
	json_set_bool(o, "higher", fom_higher(f));
	return o;
}

/* All that it takes to run the command again, but for its environment, which the record has. */
static struct json *record_run_json(const struct measure_cmd *cmd)
{
	struct json *o = json_new_obj();
	AUTO_FREE char *here = NULL;

	if (cmd->argv) {
		struct json *argv = json_new_arr();

		for (const char *const *a = cmd->argv; *a; a++)
			json_add(argv, json_new_str(*a));
		json_set(o, "argv", argv);
	} else {
		json_set_str(o, "shell", cmd->shell);
	}
	if (cmd->cwd || (here = getcwd(NULL, 0)))
		json_set_str(o, "cwd", cmd->cwd ? cmd->cwd : here);
	if (cmd->cpus) {
		char list[PIN_LIST_MAX];

		pin_format_cpus(cmd->cpus, list, sizeof(list));
		json_set_str(o, "cpus", list);
	}
	if (cmd->timeout_ns)
		json_set_real(o, "timeout_s", (double)cmd->timeout_ns / 1e9);
	return o;
}

static struct json *record_detail(const struct record_ctx *ctx)
{
	struct json *d = json_new_obj(), *notes = json_new_arr();

	json_set_str(d, "role", ctx->role);
	json_set(d, "iteration", ctx->iteration ? json_new_int(ctx->iteration) : json_new_null());
	if (ctx->label)
		json_set_str(d, "label", ctx->label);
	if (ctx->disturb) {
		for (size_t i = 0; i < ctx->disturb->n_notes; i++)
			json_add(notes, json_new_str(ctx->disturb->notes[i]));
		json_set(d, "machine", disturb_json(ctx->disturb));
	}
	json_set(d, "disturbances", notes);
	return d;
}

/* Completes the record, whose kind, command, values and detail the caller has set. */
static int record_append(struct ledger *l, const struct record_ctx *ctx,
			 const struct measure_cmd *cmd, struct ledger_rec *rec,
			 char id[LEDGER_ID_CAP], struct err *err)
{
	AUTO_JSON struct json *env = measure_cmd_env_json(cmd);

	rec->env = env;
	rec->gpu = ctx->gpu;
	rec->files = ctx->files;
	rec->n_files = ctx->n_files;
	rec->parents = ctx->parents;
	rec->n_parents = ctx->n_parents;
	return ledger_append(l, rec, id, err);
}

/* ---- bench ---- */

static struct json *record_outliers(const struct bench_result *r)
{
	struct json *a = json_new_arr();

	for (size_t i = 0; i < r->n_outliers && i < BENCH_OUTLIERS; i++)
		json_add(a, json_new_int((int64_t)r->outliers[i] + 1));
	return a;
}

int record_bench(struct ledger *l, const struct record_ctx *ctx, const struct bench_opts *opts,
		 const struct bench_result *r, char id[LEDGER_ID_CAP], struct err *err)
{
	size_t n = r->n > RECORD_SAMPLES_MAX ? RECORD_SAMPLES_MAX : r->n, n_values = 0;
	AUTO_FREE char *command = measure_cmd_text(&opts->cmd);
	AUTO_JSON struct json *d = NULL;
	struct ledger_value v[5];
	struct ledger_rec rec;

	if (!r->has_summary)
		return err_set(err, ERR_INVALID,
			       "a benchmark without a repetition that counts is no evidence");
	v[n_values++] = record_summary("wall", "s", &r->wall);
	v[n_values++] = record_summary("user", "s", &r->user);
	v[n_values++] = record_summary("system", "s", &r->system);
	v[n_values++] = record_summary("peak_memory", "bytes", &r->peak);
	if (r->has_fom)
		v[n_values++] = record_summary("fom", fom_unit(opts->fom), &r->fom);
	d = record_detail(ctx);
	json_set_str(d, "tag", bench_tag(r));
	json_set_str(d, "end", bench_end_name(r->end));
	json_set_int(d, "warmup", (int64_t)r->n_warmup);
	json_set(d, "outliers", record_outliers(r));
	json_set(d, "fom", record_fom_json(opts->fom));
	json_set(d, "run", record_run_json(&opts->cmd));
	json_set(d, "samples", record_samples(r->samples, n, r->n_warmup));
	if (n < r->n)
		json_set_int(d, "samples_left_out", (int64_t)(r->n - n));
	rec = (struct ledger_rec){ .kind = LEDGER_BENCH,
				   .command = command,
				   .values = v,
				   .n_values = n_values,
				   .detail = d };
	return record_append(l, ctx, &opts->cmd, &rec, id, err);
}

/* ---- compare ---- */

/* The estimate and its interval, with the range of the single pairs' ratios. */
static int record_ratio(const char *name, const struct stats_ratio *ratio,
			const struct stats_pair *pairs, bool higher, struct ledger_value *out,
			struct err *err)
{
	AUTO_FREE double *x = xcalloc(ratio->n, sizeof(*x));
	struct stats_summary s;
	int r;

	for (size_t i = 0; i < ratio->n; i++)
		x[i] = higher ? pairs[i].b / pairs[i].a : pairs[i].a / pairs[i].b;
	if ((r = stats_summarise(x, ratio->n, &s, err)) < 0)
		return r;
	*out = record_summary(name, "1", &s);
	out->value = ratio->ratio;
	out->has_ci = ratio->has_ci;
	out->ci95_low = ratio->ci95_low;
	out->ci95_high = ratio->ci95_high;
	return ERR_OK;
}

static struct json *record_pairs(const struct stats_pair *p, size_t n)
{
	struct json *a = json_new_arr();

	for (size_t i = 0; i < n; i++) {
		struct json *pair = json_new_arr();

		json_add(pair, json_new_real(p[i].a));
		json_add(pair, json_new_real(p[i].b));
		json_add(a, pair);
	}
	return a;
}

static struct json *record_compare_detail(const struct record_ctx *ctx,
					  const struct compare_opts *opts,
					  const struct compare_result *r)
{
	struct json *d = record_detail(ctx), *runs = json_new_arr(), *envs = json_new_arr();

	json_set_str(d, "verdict", compare_verdict_name(r->verdict));
	json_set_str(d, "end", bench_end_name(r->end));
	json_set_real(d, "alpha", r->ratio.alpha);
	json_set_int(d, "pairs_planned", opts->pairs);
	json_set(d, "fom", record_fom_json(opts->fom));
	for (int s = 0; s < COMPARE_N_SIDES; s++) {
		json_add(runs, record_run_json(&opts->cmd[s]));
		json_add(envs, measure_cmd_env_json(&opts->cmd[s]));
	}
	json_set(d, "runs", runs);
	json_set(d, "envs", envs);
	json_set(d, "pairs", record_pairs(r->fom ? r->fom : r->wall, r->n));
	json_set(d, "same_binary_pairs",
		 record_pairs(r->fom ? r->floor_fom : r->floor_wall, r->n_floor));
	if (r->fom)
		json_set(d, "wall_pairs", record_pairs(r->wall, r->n));
	return d;
}

static char *record_compare_command(const struct compare_opts *opts)
{
	AUTO_FREE char *a = measure_cmd_text(&opts->cmd[COMPARE_A]);
	AUTO_FREE char *b = measure_cmd_text(&opts->cmd[COMPARE_B]);

	/* the same text twice: files are swapped between the runs */
	return strcmp(a, b) == 0 ? TAKE_PTR(a) : xasprintf("A: %s; B: %s", a, b);
}

int record_compare(struct ledger *l, const struct record_ctx *ctx, const struct compare_opts *opts,
		   const struct compare_result *r, char id[LEDGER_ID_CAP], struct err *err)
{
	const char *unit = opts->fom ? fom_unit(opts->fom) : "s";
	bool higher = opts->fom && fom_higher(opts->fom);
	AUTO_FREE char *command = record_compare_command(opts);
	AUTO_JSON struct json *d = NULL;
	struct ledger_value v[8];
	struct ledger_rec rec;
	size_t n = 0;
	int code;

	if (!r->has_ratio)
		return err_set(err, ERR_INVALID, "a comparison without a pair is no evidence");
	if ((code = record_ratio("ratio", &r->ratio, r->fom ? r->fom : r->wall, higher, &v[n++],
				 err)) < 0 ||
	    (code = record_ratio("wall_ratio", &r->wall_ratio, r->wall, false, &v[n++], err)) < 0)
		return code;
	if (r->ratio.has_lower)
		v[n++] = record_number("lower_bound", "1", r->ratio.lower, r->n);
	v[n++] = record_number("floor", "%", r->floor_pct, r->n_floor ? r->n_floor : 1);
	if (r->has_aa)
		v[n++] = record_number("same_binary", "%", r->aa_pct, r->n_floor);
	v[n++] = record_summary("a", unit, &r->a);
	v[n++] = record_summary("b", unit, &r->b);
	if (r->has_smallest_visible)
		v[n++] = record_number("smallest_visible", "%", r->smallest_visible_pct, r->n);
	d = record_compare_detail(ctx, opts, r);
	rec = (struct ledger_rec){
		.kind = LEDGER_COMPARE, .command = command, .values = v, .n_values = n, .detail = d
	};
	return record_append(l, ctx, &opts->cmd[COMPARE_B], &rec, id, err);
}
