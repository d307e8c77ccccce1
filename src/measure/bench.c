#include "measure/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/fom.h"
#include "proc/proc.h"

#define BENCH_LAST_BYTES 65536

/* ---- one repetition ---- */

static void bench_sample_of(const struct proc_result *res, struct bench_sample *s)
{
	*s = (struct bench_sample){
		.wall_s = (double)res->wall_ns / 1e9,
		.user_s = (double)res->user_ns / 1e9,
		.system_s = (double)res->sys_ns / 1e9,
		.peak_bytes = res->maxrss_bytes,
		.minor_faults = res->minflt,
		.major_faults = res->majflt,
		.voluntary_switches = res->nvcsw,
		.involuntary_switches = res->nivcsw,
	};
}

static void bench_judge(struct bench_rep *rep, const struct fom *fom)
{
	const struct proc_result *res = rep->res;
	struct err err = { 0 };

	if (res->exit_code != 0 || res->timed_out) {
		proc_result_text(res, rep->why, sizeof(rep->why));
		return;
	}
	/* on stderr only where stdout has no match: programs report there too */
	if (fom && fom_read_capture(fom, &res->out, &rep->sample.fom, &err) < 0 &&
	    (err.code != ERR_NOT_FOUND || !res->err.head ||
	     fom_read_capture(fom, &res->err, &rep->sample.fom, NULL) < 0)) {
		(void)snprintf(rep->why, sizeof(rep->why), "%s", err.msg);
		return;
	}
	rep->sample.has_fom = fom != NULL;
	rep->ok = true;
}

int bench_once(struct proc_keeper *k, const struct measure_cmd *cmd, const struct fom *fom,
	       struct bench_rep *out, struct err *err)
{
	const char *const shell[] = { "/bin/sh", "-c", cmd->shell, NULL };
	const char *const *base = cmd->base_env ? cmd->base_env : (const char *const *)environ;
	AUTO_FREE const char **envp = NULL;
	struct proc_spec spec = {
		.argv = cmd->argv ? cmd->argv : shell,
		.cwd = cmd->cwd,
		.out = PROC_IO_CAPTURE,
		.err = PROC_IO_CAPTURE,
		.merge_err = !cmd->split_err,
		.timeout_ns = cmd->timeout_ns,
		.capture_max = cmd->capture_max,
		.cpus = cmd->cpus,
		.mounts = cmd->mounts,
		.n_mounts = cmd->n_mounts,
		.stop_fd = cmd->stop_fd,
		.on_output = cmd->on_output,
		.on_tick = cmd->on_tick,
		.arg = cmd->arg,
	};
	struct bench_rep rep = { 0 };
	struct proc_result *res;
	int r;

	if ((r = measure_cmd_check(cmd, err)) < 0)
		return r;
	if (!(envp = proc_env(base, cmd->env)))
		return err_set(err, ERR_NOMEM, "no memory for the environment of a command");
	spec.envp = envp;
	res = xcalloc(1, sizeof(*res));
	if ((r = proc_run(k, &spec, res, err)) < 0) {
		free(res);
		return r;
	}
	rep.res = res;
	if (res->stopped) {
		bench_rep_done(&rep);
		return err_set(err, ERR_CANCELLED, "the measurement was interrupted");
	}
	bench_sample_of(res, &rep.sample);
	bench_judge(&rep, fom);
	*out = rep;
	return ERR_OK;
}

void bench_rep_done(struct bench_rep *rep)
{
	if (!rep || !rep->res)
		return;
	proc_result_done(rep->res);
	free(rep->res);
	rep->res = NULL;
}

static void bench_add_lines(struct str *s, const struct proc_capture *c, unsigned n)
{
	const char *text = c->tail ? c->tail : c->head;
	size_t len = c->tail ? c->tail_len : c->head_len, at;

	if (!text || len == 0)
		return;
	if (len > BENCH_LAST_BYTES) {
		text += len - BENCH_LAST_BYTES;
		len = BENCH_LAST_BYTES;
	}
	at = len - (text[len - 1] == '\n');
	while (n-- > 0 && at > 0) {
		const char *nl = memrchr(text, '\n', at);

		at = nl ? (size_t)(nl - text) : 0;
	}
	at += at > 0;
	str_add(s, text + at, len - at);
	if (text[len - 1] != '\n')
		str_addc(s, '\n');
}

char *bench_rep_last_lines(const struct bench_rep *rep, unsigned n)
{
	AUTO_STR struct str s = { 0 };

	if (rep->res) {
		bench_add_lines(&s, &rep->res->out, n);
		bench_add_lines(&s, &rep->res->err, n);
	}
	return xstrndup(str_get(&s), s.len);
}

/* ---- repetitions ---- */

const char *bench_end_name(enum bench_end end)
{
	static const char *const names[] = {
		[BENCH_END_REPS] = "repetitions", [BENCH_END_TARGET] = "target",
		[BENCH_END_BUDGET] = "budget",	  [BENCH_END_STOPPED] = "interrupted",
		[BENCH_END_FAILED] = "failed",
	};

	return names[end];
}

struct bench_loop {
	const struct bench_opts *o;
	struct bench_result *r;
	double *figure; /* of each repetition: fom or wall */
	size_t cap;
	size_t limit;
	uint64_t start_ns;
	bool warmup_open; /* to be decided by what is measured */
};

static int bench_check(const struct bench_opts *o, struct err *err)
{
	int r = measure_cmd_check(&o->cmd, err);

	if (r < 0)
		return r;
	if (o->reps > BENCH_REPS_MAX)
		return err_set(err, ERR_INVALID, "%u repetitions are more than the %d taken",
			       o->reps, BENCH_REPS_MAX);
	if (!o->warmup_auto && o->reps && o->warmup >= o->reps)
		return err_set(err, ERR_INVALID,
			       "%u repetitions include %u of warm-up, which leaves none to measure",
			       o->reps, o->warmup);
	if (!o->warmup_auto && o->warmup >= BENCH_REPS_OPEN)
		return err_set(err, ERR_INVALID, "%u repetitions of warm-up are too many",
			       o->warmup);
	if (o->target_ci_pct < 0 || o->target_ci_pct > 100)
		return err_set(err, ERR_INVALID,
			       "an interval of %g %% is no target; it lies between 0 and 100",
			       o->target_ci_pct);
	return ERR_OK;
}

static size_t bench_limit(const struct bench_opts *o)
{
	size_t warmup = o->warmup_auto ? 0 : o->warmup;

	if (o->reps)
		return o->reps;
	if (o->target_ci_pct > 0 || o->budget_ns)
		return BENCH_REPS_OPEN + warmup;
	/* asking for more warm-up does not ask for fewer that count */
	return BENCH_REPS_DEFAULT - 1 + (o->warmup_auto ? 1 : warmup);
}

/* Adds what was just measured; rep is taken over. */
static void bench_add(struct bench_loop *l, struct bench_rep *rep)
{
	struct bench_result *r = l->r;

	r->cpu_s += rep->sample.user_s + rep->sample.system_s;
	bench_rep_done(&r->last);
	r->last = *rep;
	if (!rep->ok)
		return;
	if (r->n == l->cap) {
		l->cap = l->cap ? l->cap * 2 : 16;
		r->samples = xrealloc_n(r->samples, l->cap, sizeof(*r->samples));
		l->figure = xrealloc_n(l->figure, l->cap, sizeof(*l->figure));
	}
	r->samples[r->n] = rep->sample;
	l->figure[r->n] = rep->sample.has_fom ? rep->sample.fom : rep->sample.wall_s;
	r->n++;
}

/* With a target the warm-up must be known before the first look, and then stays. */
static void bench_settle_warmup(struct bench_loop *l)
{
	if (!l->warmup_open)
		return;
	l->warmup_open = false;
	l->r->n_warmup = stats_warmup(l->figure, l->r->n);
}

static bool bench_target_met(struct bench_loop *l)
{
	struct bench_result *r = l->r;
	size_t n;

	if (l->o->target_ci_pct <= 0)
		return false;
	if (r->n >= stats_next_look(0))
		bench_settle_warmup(l);
	n = bench_effective(r);
	return stats_is_look(n) &&
	       stats_target_met(l->figure + r->n_warmup, n, l->o->target_ci_pct);
}

/* A repetition that would not end in time is not begun. */
static bool bench_budget_spent(const struct bench_loop *l)
{
	const struct bench_result *r = l->r;
	uint64_t used;

	if (!l->o->budget_ns || bench_effective(r) == 0)
		return false;
	used = clock_mono_ns() - l->start_ns;
	return (double)used + r->samples[r->n - 1].wall_s * 1e9 > (double)l->o->budget_ns;
}

static int bench_loop(struct proc_keeper *k, struct bench_loop *l, struct err *err)
{
	for (;;) {
		struct bench_rep rep = { 0 };
		struct err why = { 0 };
		int r = bench_once(k, &l->o->cmd, l->o->fom, &rep, &why);

		if (r == ERR_CANCELLED) {
			l->r->end = BENCH_END_STOPPED;
			return ERR_OK;
		}
		if (r < 0)
			return err_set(err, r, "%s", why.msg);
		bench_add(l, &rep);
		if (!rep.ok) {
			l->r->end = BENCH_END_FAILED;
			return ERR_OK;
		}
		if (l->o->on_rep)
			l->o->on_rep(l->o->arg, l->r);
		if (l->r->n >= l->limit)
			l->r->end = BENCH_END_REPS;
		else if (bench_target_met(l))
			l->r->end = BENCH_END_TARGET;
		else if (bench_budget_spent(l))
			l->r->end = BENCH_END_BUDGET;
		else
			continue;
		return ERR_OK;
	}
}

/* ---- summing up ---- */

enum bench_column { BENCH_WALL, BENCH_USER, BENCH_SYSTEM, BENCH_PEAK, BENCH_FOM };

static double bench_column(const struct bench_sample *s, enum bench_column c)
{
	switch (c) {
	case BENCH_WALL:
		return s->wall_s;
	case BENCH_USER:
		return s->user_s;
	case BENCH_SYSTEM:
		return s->system_s;
	case BENCH_PEAK:
		return (double)s->peak_bytes;
	case BENCH_FOM:
		break;
	}
	return s->fom;
}

static int bench_summarise(const struct bench_result *r, enum bench_column c,
			   struct stats_summary *out, struct err *err)
{
	size_t n = bench_effective(r);
	AUTO_FREE double *x = xcalloc(n, sizeof(*x));

	for (size_t i = 0; i < n; i++)
		x[i] = bench_column(&r->samples[r->n_warmup + i], c);
	if (r->end == BENCH_END_TARGET)
		return stats_summarise_stopped(x, n, out, err);
	return stats_summarise(x, n, out, err);
}

static int bench_sum_up(struct bench_loop *l, struct err *err)
{
	struct bench_result *res = l->r;
	int r;

	bench_settle_warmup(l);
	if (res->end == BENCH_END_FAILED || bench_effective(res) == 0)
		return ERR_OK;
	if ((r = bench_summarise(res, BENCH_WALL, &res->wall, err)) < 0 ||
	    (r = bench_summarise(res, BENCH_USER, &res->user, err)) < 0 ||
	    (r = bench_summarise(res, BENCH_SYSTEM, &res->system, err)) < 0 ||
	    (r = bench_summarise(res, BENCH_PEAK, &res->peak, err)) < 0)
		return r;
	if (l->o->fom && (r = bench_summarise(res, BENCH_FOM, &res->fom, err)) < 0)
		return r;
	res->has_fom = l->o->fom != NULL;
	res->has_summary = true;
	res->n_outliers = stats_outliers(l->figure + res->n_warmup, bench_effective(res),
					 res->outliers, BENCH_OUTLIERS);
	for (size_t i = 0; i < res->n_outliers && i < BENCH_OUTLIERS; i++)
		res->outliers[i] += res->n_warmup;
	return ERR_OK;
}

int bench_run(struct proc_keeper *k, const struct bench_opts *opts, struct bench_result *out,
	      struct err *err)
{
	struct bench_result res = { .n_warmup = opts->warmup_auto ? 0 : opts->warmup };
	struct bench_loop l = {
		.o = opts, .r = &res, .start_ns = clock_mono_ns(), .warmup_open = opts->warmup_auto
	};
	int r = bench_check(opts, err);

	if (r < 0)
		return r;
	l.limit = bench_limit(opts);
	r = bench_loop(k, &l, err);
	if (r == 0)
		r = bench_sum_up(&l, err);
	free(l.figure);
	if (r < 0) {
		bench_result_done(&res);
		return r;
	}
	*out = res;
	return ERR_OK;
}

void bench_result_done(struct bench_result *r)
{
	if (!r)
		return;
	free(r->samples);
	bench_rep_done(&r->last);
	*r = (struct bench_result){ 0 };
}

const struct stats_summary *bench_figure(const struct bench_result *r)
{
	if (!r->has_summary)
		return NULL;
	return r->has_fom ? &r->fom : &r->wall;
}

size_t bench_effective(const struct bench_result *r)
{
	return r->n > r->n_warmup ? r->n - r->n_warmup : 0;
}

const char *bench_tag(const struct bench_result *r)
{
	if (!r->has_summary)
		return "";
	return bench_effective(r) >= STATS_N_FACT_MIN ? "FACT" : "OPINION";
}
