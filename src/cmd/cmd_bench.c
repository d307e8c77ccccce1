#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/measure_site.h"
#include "cmd/measure_text.h"
#include "cmd/opt.h"
#include "cmd/stop.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "ledger/ledger.h"
#include "measure/bench.h"
#include "measure/fom.h"
#include "measure/record.h"
#include "proc/proc.h"

extern const struct cmd cmd_bench;

#define CMD_BENCH_CAPTURE    ((size_t)1 << 20)
#define CMD_BENCH_SPARK	     60
#define CMD_BENCH_NAMED	     5 /* outliers that are named */
#define CMD_BENCH_WARMUP_MAX 999

struct cmd_bench_args {
	struct measure_args m; /* first: see MEASURE_OPTS */
	unsigned reps;	       /* UINT_MAX: not given */
	const char *warmup;
	double target_ci_pct;
};

static const struct opt cmd_bench_opts[] = {
	{ OPT_UINT, "reps", 'n', offsetof(struct cmd_bench_args, reps), "N",
	  "repetitions, warm-up included (4)" },
	{ OPT_DOUBLE, "target-ci", 0, offsetof(struct cmd_bench_args, target_ci_pct), "PCT",
	  "repeat until the interval is at most +-PCT % wide" },
	{ OPT_STR, "warmup", 0, offsetof(struct cmd_bench_args, warmup), "N|auto",
	  "repetitions to drop at the beginning (1)" },
	MEASURE_OPTS,
	{ .type = OPT_END },
};

struct cmd_bench_run {
	const struct cmd_bench_args *args;
	struct measure_site site;
	struct bench_opts opts;
	struct bench_result res;
	struct disturb_report disturb;
	char id[LEDGER_ID_CAP]; /* "" not recorded */
};

/* ---- options ---- */

static int cmd_bench_warmup(const struct cmd_bench_args *a, struct bench_opts *o, struct err *err)
{
	uint64_t v;

	if (!a->warmup) {
		/* the only repetition asked for is not thrown away */
		o->warmup = a->reps == 1 ? 0 : 1;
		return ERR_OK;
	}
	if (strcmp(a->warmup, "auto") == 0) {
		o->warmup_auto = true;
		return ERR_OK;
	}
	if (num_u64(a->warmup, &v, NULL) < 0 || v > CMD_BENCH_WARMUP_MAX)
		return err_set(err, ERR_INVALID,
			       "--warmup: '%.40s' is neither a number up to %d nor 'auto'",
			       a->warmup, CMD_BENCH_WARMUP_MAX);
	o->warmup = (unsigned)v;
	return ERR_OK;
}

static int cmd_bench_setup(const struct cmd_bench_args *a, char **command, struct bench_opts *o,
			   struct err *err)
{
	*o = (struct bench_opts){
		.cmd = { .argv = (const char *const *)command, .capture_max = CMD_BENCH_CAPTURE },
		.reps = a->reps == UINT_MAX ? 0 : a->reps,
		.target_ci_pct = a->target_ci_pct,
		.budget_ns = a->m.budget_ns,
	};
	if (!command[0])
		return err_set(err, ERR_INVALID, "which command? put it behind --");
	if (a->reps == 0)
		return err_set(err, ERR_INVALID, "--reps: at least 1 is needed");
	return cmd_bench_warmup(a, o, err);
}

static void cmd_bench_progress(void *arg, const struct bench_result *so_far)
{
	const struct cmd_bench_run *b = arg;
	const struct bench_sample *s = &so_far->samples[so_far->n - 1];
	char text[64];

	if (!measure_site_progress(&b->site))
		return;
	if (s->has_fom)
		measure_value(s->fom, fom_unit(b->opts.fom), text, sizeof(text));
	else
		measure_value(s->wall_s, "s", text, sizeof(text));
	(void)fprintf(stderr, "\r\033[Krepetition %zu: %s", so_far->n, text);
}

/* ---- output ---- */

/* What the program printed, with a remark where the middle was not kept. */
static void cmd_bench_program_output(const struct bench_rep *rep, FILE *to)
{
	const struct proc_capture *c = &rep->res->out;
	uint64_t kept = (uint64_t)c->head_len + c->tail_len;

	if (c->head_len == 0)
		return;
	(void)fwrite(c->head, 1, c->head_len, to);
	if (c->tail) {
		if (kept < c->total)
			(void)fprintf(to, "\n[... %llu bytes left out ...]\n",
				      (unsigned long long)(c->total - kept));
		/* an end that overlaps the beginning is shown once */
		size_t skip = kept > c->total ? (size_t)(kept - c->total) : 0;

		(void)fwrite(c->tail + skip, 1, c->tail_len - skip, to);
	}
	if (c->total > 0 && (c->tail ? c->tail[c->tail_len - 1] : c->head[c->head_len - 1]) != '\n')
		(void)fputc('\n', to);
}

static void cmd_bench_line(const char *name, const struct stats_summary *s, const char *unit,
			   const char *tag)
{
	char text[160];

	measure_interval(s, unit, text, sizeof(text));
	printf("%-13s %s%s%s%s\n", name, text, tag ? "  [" : "", tag ? tag : "", tag ? "]" : "");
}

static void cmd_bench_outliers(const struct bench_result *r, const double *x, const char *unit)
{
	if (r->n_outliers == 0)
		return;
	printf("outliers     ");
	for (size_t i = 0; i < r->n_outliers && i < CMD_BENCH_NAMED; i++) {
		char text[64];

		measure_value(x[r->outliers[i]], unit, text, sizeof(text));
		printf("%s repetition %zu (%s)", i ? "," : "", r->outliers[i] + 1, text);
	}
	if (r->n_outliers > CMD_BENCH_NAMED)
		printf(", and %zu more", r->n_outliers - CMD_BENCH_NAMED);
	printf("\n");
}

static void cmd_bench_chart(const struct cmd_bench_run *b)
{
	const struct bench_result *r = &b->res;
	const char *unit = r->has_fom ? fom_unit(b->opts.fom) : "s";
	AUTO_FREE double *x = xcalloc(r->n, sizeof(*x));

	for (size_t i = 0; i < r->n; i++)
		x[i] = r->has_fom ? r->samples[i].fom : r->samples[i].wall_s;
	printf("repetitions   ");
	if (r->n_warmup > 0) {
		measure_spark(stdout, x, r->n_warmup, CMD_BENCH_SPARK);
		printf(" | ");
	}
	measure_spark(stdout, x + r->n_warmup, r->n - r->n_warmup, CMD_BENCH_SPARK);
	if (r->n_warmup > 0)
		printf("  (the first %zu dropped as warm-up)", r->n_warmup);
	printf("\n");
	cmd_bench_outliers(r, x, unit);
	measure_histogram(stdout, x + r->n_warmup, r->n - r->n_warmup, unit);
}

static const char *cmd_bench_why_ended(const struct cmd_bench_run *b)
{
	switch (b->res.end) {
	case BENCH_END_TARGET:
		return "the interval is as narrow as asked";
	case BENCH_END_BUDGET:
		return "the budget is spent";
	case BENCH_END_STOPPED:
		return "interrupted";
	case BENCH_END_REPS:
		return b->opts.target_ci_pct > 0
			       ? "the largest number of repetitions; the interval is not as narrow "
				 "as asked"
			       : NULL;
	case BENCH_END_FAILED:
		break;
	}
	return "a repetition failed";
}

static void cmd_bench_print(const struct cmd_bench_run *b)
{
	const struct bench_result *r = &b->res;
	AUTO_FREE char *command = measure_cmd_text(&b->opts.cmd);
	const char *why = cmd_bench_why_ended(b);
	char user[160], sys[160], peak[160];

	if (r->last.res)
		cmd_bench_program_output(&r->last, stdout);
	printf("\n%s: %zu repetition%s that count%s%s%s%s\n", command, bench_effective(r),
	       bench_effective(r) == 1 ? "" : "s", bench_effective(r) == 1 ? "s" : "",
	       why ? " (" : "", why ? why : "", why ? ")" : "");
	if (!r->has_summary)
		return;
	if (r->has_fom)
		cmd_bench_line("figure", &r->fom, fom_unit(b->opts.fom), bench_tag(r));
	cmd_bench_line("wall time", &r->wall, "s", bench_tag(r));
	measure_value(r->user.median, "s", user, sizeof(user));
	measure_value(r->system.median, "s", sys, sizeof(sys));
	measure_value(r->peak.median, "bytes", peak, sizeof(peak));
	printf("%-13s user %s, system %s, peak memory %s\n", "medians", user, sys, peak);
	cmd_bench_chart(b);
	printf("%-13s %s\n", "ran on", b->site.pin.text);
	measure_disturbances(stdout, &b->disturb);
	if (b->id[0])
		printf("%-13s %s\n", "evidence", b->id);
}

/* A failed repetition: its last lines and its status, and no summary. */
static void cmd_bench_print_failure(const struct cmd_bench_run *b)
{
	AUTO_FREE char *lines = bench_rep_last_lines(&b->res.last, BENCH_LAST_LINES);
	AUTO_FREE char *command = measure_cmd_text(&b->opts.cmd);

	(void)fflush(stdout);
	(void)fputs(lines, stderr);
	(void)fprintf(stderr, "rocbudai bench: repetition %zu of %s: %s\n", b->res.n + 1, command,
		      b->res.last.why);
}

/* ---- JSON ---- */

static struct json *cmd_bench_failure_json(const struct bench_rep *rep)
{
	AUTO_FREE char *lines = bench_rep_last_lines(rep, BENCH_LAST_LINES);
	struct json *o = json_new_obj();

	json_set_str(o, "why", rep->why);
	if (rep->res->term_signal)
		json_set_int(o, "signal", rep->res->term_signal);
	else
		json_set_int(o, "exit_status", rep->res->exit_code);
	json_set_str(o, "last_lines", lines);
	return o;
}

/* The earlier tool's keys first, in seconds as they were. */
static void cmd_bench_summary_json(const struct cmd_bench_run *b, struct json *o)
{
	const struct bench_result *r = &b->res;
	struct json *fom, *outliers = json_new_arr();

	json_set_int(o, "reps", (int64_t)r->n);
	json_set_int(o, "effective", (int64_t)bench_effective(r));
	json_set_real(o, "median", r->wall.median);
	json_set_real(o, "min", r->wall.min);
	json_set_real(o, "max", r->wall.max);
	json_set_str(o, "tag", bench_tag(r));
	json_set(o, "wall", measure_summary_json(&r->wall, "s"));
	json_set(o, "user", measure_summary_json(&r->user, "s"));
	json_set(o, "system", measure_summary_json(&r->system, "s"));
	json_set(o, "peak_memory", measure_summary_json(&r->peak, "bytes"));
	if (r->has_fom) {
		fom = measure_summary_json(&r->fom, fom_unit(b->opts.fom));
		json_set_str(fom, "pattern", fom_pattern(b->opts.fom));
		json_set_bool(fom, "higher", fom_higher(b->opts.fom));
		json_set(o, "fom", fom);
	}
	for (size_t i = 0; i < r->n_outliers && i < BENCH_OUTLIERS; i++)
		json_add(outliers, json_new_int((int64_t)r->outliers[i] + 1));
	json_set(o, "outliers", outliers);
}

static void cmd_bench_print_json(const struct cmd_bench_run *b)
{
	const struct bench_result *r = &b->res;
	AUTO_FREE char *command = measure_cmd_text(&b->opts.cmd), *text = NULL;
	AUTO_JSON struct json *o = json_new_obj();

	if (r->has_summary) {
		cmd_bench_summary_json(b, o);
	} else {
		json_set_int(o, "reps", (int64_t)r->n);
		json_set_int(o, "effective", 0);
	}
	json_set_int(o, "warmup", (int64_t)r->n_warmup);
	json_set_str(o, "end", bench_end_name(r->end));
	json_set_str(o, "command", command);
	json_set(o, "samples", record_samples(r->samples, r->n, r->n_warmup));
	measure_site_json(&b->site, &b->disturb, o);
	if (r->end == BENCH_END_FAILED)
		json_set(o, "failure", cmd_bench_failure_json(&r->last));
	if (b->id[0])
		json_set_str(o, "evidence", b->id);
	text = json_dump_pretty(o);
	printf("%s\n", text);
}

/* ---- the command ---- */

static int cmd_bench_record(struct cmd_bench_run *b, struct err *err)
{
	struct record_ctx ctx = { .role = "user",
				  .label = b->args->m.label,
				  .disturb = &b->disturb };
	struct record_files files = { 0 };
	struct ledger *l;
	char gpu[32];
	int r;

	if (!b->res.has_summary || b->res.end == BENCH_END_STOPPED)
		return ERR_OK;
	if ((r = measure_site_ledger(&b->site, &l, err)) < 0 || !l)
		return r;
	if (b->site.pin.has_gpu) {
		(void)snprintf(gpu, sizeof(gpu), "GPU %u", b->site.pin.gpu);
		ctx.gpu = gpu;
	}
	if ((r = record_files_of(&b->opts.cmd, &files, err)) == 0) {
		ctx.files = files.v;
		ctx.n_files = files.n;
		r = record_bench(l, &ctx, &b->opts, &b->res, b->id, err);
	}
	record_files_done(&files);
	ledger_close(l);
	return r;
}

static int cmd_bench_finish(struct cmd_bench_run *b, struct err *err)
{
	int r;

	measure_site_disturbed(&b->site, b->res.cpu_s, &b->disturb);
	if (measure_site_progress(&b->site))
		(void)fprintf(stderr, "\r\033[K");
	r = cmd_bench_record(b, err);
	if (b->args->m.json) {
		if (b->res.last.res && b->res.end != BENCH_END_FAILED)
			cmd_bench_program_output(&b->res.last, stderr);
		cmd_bench_print_json(b);
	} else if (b->res.end != BENCH_END_FAILED) {
		cmd_bench_print(b);
	}
	if (b->res.end == BENCH_END_FAILED) {
		cmd_bench_print_failure(b);
		return CMD_EXIT_FAIL;
	}
	if (r < 0)
		return r;
	return b->res.end == BENCH_END_STOPPED ? stop_exit_code() : CMD_EXIT_OK;
}

static int cmd_bench_main(const struct cmd *self, int argc, char **argv, struct err *err)
{
	struct cmd_bench_args a = { .m = MEASURE_ARGS_DEFAULT, .reps = UINT_MAX };
	struct cmd_bench_run b = { .args = &a };
	int first = opt_parse(self->opts, argc, argv, &a, err), r;

	if (first < 0)
		return first;
	if ((r = cmd_bench_setup(&a, argv + first, &b.opts, err)) < 0)
		return r;
	r = measure_site_open(&b.site, &a.m, &b.opts.cmd, err);
	if (r == 0) {
		measure_site_apply(&b.site, &b.opts.cmd);
		b.opts.fom = b.site.fom;
		b.opts.on_rep = cmd_bench_progress;
		b.opts.arg = &b;
		r = bench_run(b.site.keeper, &b.opts, &b.res, err);
		if (r == 0)
			r = cmd_bench_finish(&b, err);
	}
	bench_result_done(&b.res);
	measure_site_close(&b.site);
	return r;
}

const struct cmd cmd_bench = {
	.name = "bench",
	.summary = "measure a program: repetitions, interval, disturbances",
	.operands = "-- COMMAND...",
	.details =
		"The program's last output is shown, then the median of its wall time with a 95 %\n"
		"interval (from 6 repetitions on) and what disturbed it.  A value from fewer than\n"
		"3 repetitions is no [FACT].  With --budget or --target-ci, without -n, as many\n"
		"repetitions are made as that takes.  In a project (a folder with .rocbudai/) the\n"
		"result is kept as evidence; 'rocbudai compare E0003 E0007' measures two of them\n"
		"against each other.\n\n"
		"Exit status: 0; 1 a repetition failed; 2 wrong usage; 3 there is no way to see\n"
		"how busy the GPU is; 130 interrupted.\n",
	.opts = cmd_bench_opts,
	.flags = CMD_JSON,
	.run = cmd_bench_main,
};
