#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/measure_site.h"
#include "cmd/measure_text.h"
#include "cmd/opt.h"
#include "cmd/stop.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger.h"
#include "measure/compare.h"
#include "measure/fom.h"
#include "measure/record.h"
#include "proc/proc.h"

extern const struct cmd cmd_compare;

#define CMD_COMPARE_CAPTURE ((size_t)1 << 20)
#define CMD_COMPARE_ROWS    24 /* pairs that get a row each */
#define CMD_COMPARE_WIDTH   51
#define CMD_COMPARE_SPARK   60

struct cmd_compare_args {
	struct measure_args m; /* first: see MEASURE_OPTS */
	const char *a, *b;
	unsigned pairs, floor_pairs, warmup;
};

static const struct opt cmd_compare_opts[] = {
	{ OPT_STR, "a", 0, offsetof(struct cmd_compare_args, a), "CMD", "the program before" },
	{ OPT_STR, "b", 0, offsetof(struct cmd_compare_args, b), "CMD", "the program after" },
	{ OPT_UINT, "pairs", 0, offsetof(struct cmd_compare_args, pairs), "N",
	  "pairs, fixed beforehand (20)" },
	{ OPT_UINT, "floor-pairs", 0, offsetof(struct cmd_compare_args, floor_pairs), "N",
	  "pairs of A against A (10; 0: none)" },
	{ OPT_UINT, "warmup", 0, offsetof(struct cmd_compare_args, warmup), "N",
	  "runs of each to drop at the beginning (1)" },
	MEASURE_OPTS,
	{ .type = OPT_END },
};

struct cmd_compare_run {
	const struct cmd_compare_args *args;
	struct measure_site site;
	struct compare_opts opts;
	struct compare_result res;
	struct disturb_report disturb;
	struct record_rerun rerun[COMPARE_N_SIDES];
	const char *ids[COMPARE_N_SIDES]; /* the evidence compared; NULL: commands */
	const char *unit;
	char id[LEDGER_ID_CAP]; /* "" not recorded */
};

/* ---- what is compared ---- */

static bool cmd_compare_same_fom(const struct record_rerun *a, const struct record_rerun *b)
{
	return a->has_fom == b->has_fom &&
	       (!a->has_fom ||
		(strcmp(a->fom.pattern, b->fom.pattern) == 0 &&
		 strcmp(a->fom.unit, b->fom.unit) == 0 && a->fom.higher == b->fom.higher));
}

/* Two bench records become commands again, with the figure of merit that they had. */
static int cmd_compare_evidence(struct cmd_compare_run *c, struct measure_args *m, struct err *err)
{
	AUTO_FREE char *project = measure_project();
	struct ledger *l = NULL;
	int r = 0;

	if (!project)
		return err_set(err, ERR_NOT_FOUND,
			       "%s and %s are looked for in a project, and there is no .rocbudai "
			       "here or above",
			       c->ids[0], c->ids[1]);
	if ((r = ledger_open_read(project, &l, err)) < 0)
		return r;
	for (int s = 0; s < COMPARE_N_SIDES && r == 0; s++)
		r = record_rerun(l, c->ids[s], &c->rerun[s], err);
	ledger_close(l);
	if (r < 0)
		return r;
	for (int s = 0; s < COMPARE_N_SIDES; s++)
		c->opts.cmd[s] = c->rerun[s].cmd;
	if (m->fom)
		return ERR_OK;
	if (!cmd_compare_same_fom(&c->rerun[COMPARE_A], &c->rerun[COMPARE_B]))
		return err_set(err, ERR_INVALID,
			       "%s and %s have different figures of merit; say which with --fom",
			       c->ids[0], c->ids[1]);
	if (c->rerun[COMPARE_A].has_fom) {
		m->fom = c->rerun[COMPARE_A].fom.pattern;
		m->unit = c->rerun[COMPARE_A].fom.unit;
		m->higher = c->rerun[COMPARE_A].fom.higher;
		m->lower = !m->higher;
	}
	return ERR_OK;
}

static int cmd_compare_setup(struct cmd_compare_run *c, struct cmd_compare_args *a, int n,
			     char **operands, struct err *err)
{
	c->opts = (struct compare_opts){
		.pairs = a->pairs,
		.floor_pairs = a->floor_pairs,
		.warmup = a->warmup,
		.budget_ns = a->m.budget_ns,
	};
	if (n == COMPARE_N_SIDES && !a->a && !a->b) {
		c->ids[COMPARE_A] = operands[0];
		c->ids[COMPARE_B] = operands[1];
		return cmd_compare_evidence(c, &a->m, err);
	}
	if (n != 0 || !a->a || !a->b)
		return err_set(err, ERR_INVALID,
			       "two commands (--a CMD --b CMD) or two evidence ids are needed");
	c->opts.cmd[COMPARE_A].shell = a->a;
	c->opts.cmd[COMPARE_B].shell = a->b;
	return ERR_OK;
}

static void cmd_compare_progress(void *arg, const struct compare_result *so_far)
{
	const struct cmd_compare_run *c = arg;

	if (measure_site_progress(&c->site))
		(void)fprintf(stderr, "\r\033[Kpair %zu of %u, A against A %zu of %u", so_far->n,
			      c->opts.pairs, so_far->n_floor, c->opts.floor_pairs);
}

/* ---- text ---- */

static const struct stats_pair *cmd_compare_pairs(const struct compare_result *r)
{
	return r->fom ? r->fom : r->wall;
}

static double cmd_compare_ratio(const struct cmd_compare_run *c, size_t i)
{
	const struct stats_pair *p = &cmd_compare_pairs(&c->res)[i];

	return c->opts.fom && fom_higher(c->opts.fom) ? p->b / p->a : p->a / p->b;
}

/* One row a pair: both values, their ratio, and its place on an axis where '|' is 1. */
static void cmd_compare_row(const struct cmd_compare_run *c, size_t i, double low, double high)
{
	char line[CMD_COMPARE_WIDTH + 1], a[64], b[64];
	double x = cmd_compare_ratio(c, i), span = high - low;
	const struct stats_pair *p = &cmd_compare_pairs(&c->res)[i];

	memset(line, ' ', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	line[(size_t)((1 - low) / span * (CMD_COMPARE_WIDTH - 1) + 0.5)] = '|';
	line[(size_t)((x - low) / span * (CMD_COMPARE_WIDTH - 1) + 0.5)] = '*';
	measure_value(p->a, c->unit, a, sizeof(a));
	measure_value(p->b, c->unit, b, sizeof(b));
	printf("  %3zu %12s %12s  %7.4f %s\n", i + 1, a, b, x, line);
}

static void cmd_compare_chart(const struct cmd_compare_run *c)
{
	size_t n = c->res.n;
	AUTO_FREE double *x = xcalloc(n, sizeof(*x));
	double low = 1, high = 1;

	for (size_t i = 0; i < n; i++) {
		x[i] = cmd_compare_ratio(c, i);
		low = fmin(low, x[i]);
		high = fmax(high, x[i]);
	}
	if (n > CMD_COMPARE_ROWS || !(high > low)) {
		printf("%-13s ", "ratios");
		measure_spark(stdout, x, n, CMD_COMPARE_SPARK);
		printf("  %.4f to %.4f\n", low, high);
		measure_histogram(stdout, x, n, "1");
		return;
	}
	printf(" pair            A            B    ratio\n");
	for (size_t i = 0; i < n; i++)
		cmd_compare_row(c, i, low, high);
}

static void cmd_compare_ratio_line(const char *name, const struct stats_ratio *r)
{
	printf("%-13s %.4f", name, r->ratio);
	if (r->has_ci)
		printf(", 95 %% interval %.4f to %.4f", r->ci95_low, r->ci95_high);
	else
		printf(" (no interval below %d pairs)", STATS_N_CI_MIN);
	printf(", %zu pair%s\n", r->n, r->n == 1 ? "" : "s");
}

static void cmd_compare_verdict(const struct cmd_compare_run *c)
{
	const struct compare_result *r = &c->res;

	switch (r->verdict) {
	case COMPARE_FASTER:
		printf("verdict       B is %s by %.2f %% (at least %.2f %%)\n",
		       r->fom ? "better" : "faster", (r->ratio.ratio - 1) * 100,
		       (r->ratio.ci95_low - 1) * 100);
		break;
	case COMPARE_SLOWER:
		printf("verdict       B is %s: A is better by %.2f %% (at least %.2f %%)\n",
		       r->fom ? "worse" : "slower", (1 / r->ratio.ratio - 1) * 100,
		       (1 / r->ratio.ci95_high - 1) * 100);
		break;
	case COMPARE_NO_DIFFERENCE:
		printf("verdict       no difference seen\n");
		break;
	case COMPARE_UNDECIDED:
		printf("verdict       undecided: %s\n",
		       r->end == BENCH_END_STOPPED ? "interrupted" : "too few pairs");
		break;
	}
}

static void cmd_compare_floor(const struct compare_result *r)
{
	printf("noise floor   %.2f %%", r->floor_pct);
	if (r->has_aa)
		printf("; A against A showed %.2f %% in %zu pairs\n", r->aa_pct, r->n_floor);
	else
		printf("; A was not measured against A\n");
	if (r->has_smallest_visible)
		printf("visible from  %.2f %%: a smaller effect may have been missed\n",
		       r->smallest_visible_pct);
}

static void cmd_compare_print(const struct cmd_compare_run *c)
{
	const struct compare_result *r = &c->res;
	char text[160];

	for (int s = 0; s < COMPARE_N_SIDES; s++) {
		AUTO_FREE char *command = measure_cmd_text(&c->opts.cmd[s]);

		printf("%c: %s%s%s%s\n", 'A' + s, command, c->ids[s] ? "  (" : "",
		       c->ids[s] ? c->ids[s] : "", c->ids[s] ? ")" : "");
	}
	printf("\n");
	if (!r->has_ratio) {
		printf("interrupted before the first pair was measured\n");
		return;
	}
	cmd_compare_chart(c);
	measure_interval(&r->a, c->unit, text, sizeof(text));
	printf("\n%-13s %s\n", "A", text);
	measure_interval(&r->b, c->unit, text, sizeof(text));
	printf("%-13s %s\n", "B", text);
	cmd_compare_ratio_line("ratio", &r->ratio);
	if (r->fom)
		cmd_compare_ratio_line("of wall time", &r->wall_ratio);
	cmd_compare_floor(r);
	cmd_compare_verdict(c);
	if (r->end == BENCH_END_BUDGET)
		printf("%-13s the budget was spent before all %u pairs\n", "", c->opts.pairs);
	printf("%-13s over 1: B is better.  What the layout of code in memory does by chance is\n"
	       "%-13s not seen by such pairs; 'rocbudai optimize' rebuilds to see it\n",
	       "", "");
	printf("%-13s %s\n", "ran on", c->site.pin.text);
	measure_disturbances(stdout, &c->disturb);
	if (c->id[0])
		printf("%-13s %s\n", "evidence", c->id);
}

static void cmd_compare_print_failure(const struct cmd_compare_run *c)
{
	AUTO_FREE char *lines = bench_rep_last_lines(&c->res.last, BENCH_LAST_LINES);
	AUTO_FREE char *command = measure_cmd_text(&c->opts.cmd[c->res.last_side]);

	(void)fflush(stdout);
	(void)fputs(lines, stderr);
	(void)fprintf(stderr, "rocbudai compare: %c (%s): %s\n",
		      c->res.last_side == COMPARE_A ? 'A' : 'B', command, c->res.last.why);
}

/* ---- JSON ---- */

static struct json *cmd_compare_ratio_json(const struct stats_ratio *r)
{
	struct json *o = json_new_obj();

	json_set_int(o, "n", (int64_t)r->n);
	json_set_real(o, "ratio", r->ratio);
	json_set(o, "ci95_low", r->has_ci ? json_new_real(r->ci95_low) : json_new_null());
	json_set(o, "ci95_high", r->has_ci ? json_new_real(r->ci95_high) : json_new_null());
	json_set(o, "lower_bound", r->has_lower ? json_new_real(r->lower) : json_new_null());
	json_set_real(o, "alpha", r->alpha);
	json_set_real(o, "spread_pct", r->spread_pct);
	return o;
}

static struct json *cmd_compare_pairs_json(const struct stats_pair *p, size_t n)
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

static void cmd_compare_numbers_json(const struct cmd_compare_run *c, struct json *o)
{
	const struct compare_result *r = &c->res;

	json_set(o, "ratio", cmd_compare_ratio_json(&r->ratio));
	json_set(o, "wall_ratio", cmd_compare_ratio_json(&r->wall_ratio));
	json_set(o, "a", measure_summary_json(&r->a, c->unit));
	json_set(o, "b", measure_summary_json(&r->b, c->unit));
	json_set_real(o, "floor_pct", r->floor_pct);
	json_set(o, "same_binary_pct", r->has_aa ? json_new_real(r->aa_pct) : json_new_null());
	json_set(o, "smallest_visible_pct",
		 r->has_smallest_visible ? json_new_real(r->smallest_visible_pct)
					 : json_new_null());
}

static void cmd_compare_print_json(const struct cmd_compare_run *c)
{
	const struct compare_result *r = &c->res;
	AUTO_JSON struct json *o = json_new_obj();
	struct json *commands = json_new_arr(), *failure;
	AUTO_FREE char *text = NULL, *lines = NULL;

	json_set_str(o, "verdict", compare_verdict_name(r->verdict));
	json_set_str(o, "end", bench_end_name(r->end));
	if (r->has_ratio)
		cmd_compare_numbers_json(c, o);
	for (int s = 0; s < COMPARE_N_SIDES; s++) {
		AUTO_FREE char *command = measure_cmd_text(&c->opts.cmd[s]);

		json_add(commands, json_new_str(command));
	}
	json_set(o, "commands", commands);
	json_set(o, "pairs", cmd_compare_pairs_json(cmd_compare_pairs(r), r->n));
	json_set(o, "same_binary_pairs",
		 cmd_compare_pairs_json(r->fom ? r->floor_fom : r->floor_wall, r->n_floor));
	measure_site_json(&c->site, &c->disturb, o);
	if (r->end == BENCH_END_FAILED) {
		failure = json_new_obj();
		lines = bench_rep_last_lines(&r->last, BENCH_LAST_LINES);
		json_set_str(failure, "side", r->last_side == COMPARE_A ? "a" : "b");
		json_set_str(failure, "why", r->last.why);
		json_set_str(failure, "last_lines", lines);
		json_set(o, "failure", failure);
	}
	if (c->id[0])
		json_set_str(o, "evidence", c->id);
	text = json_dump_pretty(o);
	printf("%s\n", text);
}

/* ---- the command ---- */

static bool cmd_compare_has_file(const struct record_files *f, const char *path)
{
	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->v[i].path, path) == 0)
			return true;
	}
	return false;
}

static int cmd_compare_record(struct cmd_compare_run *c, struct err *err)
{
	struct record_ctx ctx = { .role = "user",
				  .label = c->args->m.label,
				  .disturb = &c->disturb };
	struct record_files files[COMPARE_N_SIDES] = { { 0 } };
	AUTO_FREE struct ledger_file *all = NULL;
	struct ledger *l;
	int r;

	if (!c->res.has_ratio || c->res.end == BENCH_END_STOPPED)
		return ERR_OK;
	if ((r = measure_site_ledger(&c->site, &l, err)) < 0 || !l)
		return r;
	for (int s = 0; s < COMPARE_N_SIDES && r == 0; s++)
		r = record_files_of(&c->opts.cmd[s], &files[s], err);
	if (r == 0) {
		all = xcalloc(files[0].n + files[1].n + 1, sizeof(*all));
		for (size_t i = 0; i < files[0].n; i++)
			all[ctx.n_files++] = files[0].v[i];
		for (size_t i = 0; i < files[1].n; i++) {
			if (!cmd_compare_has_file(&files[0], files[1].v[i].path))
				all[ctx.n_files++] = files[1].v[i];
		}
		ctx.files = all;
		if (c->ids[COMPARE_A]) {
			ctx.parents = c->ids;
			ctx.n_parents = COMPARE_N_SIDES;
		}
		r = record_compare(l, &ctx, &c->opts, &c->res, c->id, err);
	}
	record_files_done(&files[0]);
	record_files_done(&files[1]);
	ledger_close(l);
	return r;
}

static int cmd_compare_finish(struct cmd_compare_run *c, struct err *err)
{
	int r;

	measure_site_disturbed(&c->site, c->res.cpu_s, &c->disturb);
	if (measure_site_progress(&c->site))
		(void)fprintf(stderr, "\r\033[K");
	r = cmd_compare_record(c, err);
	if (c->args->m.json)
		cmd_compare_print_json(c);
	else if (c->res.end != BENCH_END_FAILED)
		cmd_compare_print(c);
	if (c->res.end == BENCH_END_FAILED) {
		cmd_compare_print_failure(c);
		return CMD_EXIT_FAIL;
	}
	if (r < 0)
		return r;
	return c->res.end == BENCH_END_STOPPED ? stop_exit_code() : CMD_EXIT_OK;
}

static int cmd_compare_measure(struct cmd_compare_run *c, struct err *err)
{
	int r;

	for (int s = 0; s < COMPARE_N_SIDES; s++) {
		measure_site_apply(&c->site, &c->opts.cmd[s]);
		c->opts.cmd[s].capture_max = CMD_COMPARE_CAPTURE;
	}
	c->opts.fom = c->site.fom;
	c->unit = c->site.fom ? fom_unit(c->site.fom) : "s";
	c->opts.hooks.on_pair = cmd_compare_progress;
	c->opts.hooks.arg = c;
	r = compare_run(c->site.keeper, &c->opts, &c->res, err);
	return r < 0 ? r : cmd_compare_finish(c, err);
}

/* Options may stand behind the two ids as well; n_ids operands are at argv[*first]. */
static int cmd_compare_parse(const struct cmd *self, int argc, char **argv,
			     struct cmd_compare_args *a, int *n_ids, struct err *err)
{
	int first = opt_parse(self->opts, argc, argv, a, err), more;

	if (first < 0)
		return first;
	*n_ids = argc - first;
	if (argc - first <= COMPARE_N_SIDES || argv[first + COMPARE_N_SIDES][0] != '-')
		return first;
	/* the second id stands where the parser expects the command's name */
	more = opt_parse(self->opts, argc - first - 1, argv + first + 1, a, err);
	if (more < 0)
		return more;
	*n_ids = argc - first - more + 1;
	return first;
}

static int cmd_compare_main(const struct cmd *self, int argc, char **argv, struct err *err)
{
	struct cmd_compare_args a = {
		.m = MEASURE_ARGS_DEFAULT, .pairs = 20, .floor_pairs = 10, .warmup = 1
	};
	struct cmd_compare_run c = { .args = &a };
	int n_ids = 0, r;
	int first = cmd_compare_parse(self, argc, argv, &a, &n_ids, err);

	if (first < 0)
		return first;
	r = cmd_compare_setup(&c, &a, n_ids, argv + first, err);
	if (r == 0) {
		r = measure_site_open(&c.site, &a.m, &c.opts.cmd[COMPARE_A], err);
		if (r == 0)
			r = cmd_compare_measure(&c, err);
		compare_result_done(&c.res);
		measure_site_close(&c.site);
	}
	record_rerun_done(&c.rerun[COMPARE_A]);
	record_rerun_done(&c.rerun[COMPARE_B]);
	return r;
}

const struct cmd cmd_compare = {
	.name = "compare",
	.summary = "measure two programs against each other, in interleaved pairs",
	.operands = "[E0003 E0007]",
	.details =
		"A and B run by turns (A B B A ...), so that a machine that slows down slows both.\n"
		"Printed are the ratio (over 1: B is better) with its 95 % interval, the noise floor\n"
		"(at least 1 %, and what A shows against itself), a verdict, and the smallest effect\n"
		"that these pairs would have shown.  Two evidence ids of bench records are run\n"
		"again; they are refused when a file that they were measured with has changed.\n\n"
		"Exit status: 0, whatever the verdict; 1 a run failed; 2 wrong usage; 3 there is no\n"
		"way to see how busy the GPU is; 130 interrupted.\n",
	.opts = cmd_compare_opts,
	.flags = CMD_JSON,
	.run = cmd_compare_main,
};
