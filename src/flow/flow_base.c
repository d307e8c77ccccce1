/* The original: its build, what a correct result is, how fast it is, where its time goes. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "core/rootfs.h"
#include "flow/flow_priv.h"
#include "measure/disturb.h"
#include "measure/fom.h"
#include "measure/record.h"
#include "proc/proc.h"
#include "session/session.h"

#define BASE_REPS   7  /* the first is a warm-up */
#define BASE_SLOWER 20 /* times the slowest baseline run: a longer one hangs */

/* Remembers a failure of the user's own commands, so that the question can be asked again. */
static int base_failed(struct flow *f, enum flow_question q, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int base_failed(struct flow *f, enum flow_question q, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)err_set(&f->problem, ERR_REFUSED, "%s", text);
	f->reask = q;
	return FLOW_EV_FAILED;
}

/* The record again as an object of its own. */
static int base_copy_record(const struct build_record *rec, struct build_record **out,
			    struct err *err)
{
	AUTO_JSON struct json *j = build_record_to_json(rec);

	return build_record_from_json(j, out, err);
}

static int base_save_record(struct flow *f, const struct build_record *rec, const char *name,
			    struct err *err)
{
	AUTO_FREE char *dir = file_join(ledger_state_dir(f->l), "records");
	AUTO_FREE char *path = file_join(dir, name);
	int r = file_mkdirs(dir, 0700, err);

	return r < 0 ? r : build_record_save(rec, path, err);
}

/* A build that did not end well: what it made is removed, what had been there comes back later. */
static int base_bad_build(struct flow *f, const struct build_record *rec, const char *command)
{
	(void)build_remove_outputs(rec, NULL);
	if (rec->timed_out && flow_must_stop(f))
		return FLOW_EV_BUDGET;
	flow_say(f, "%s", rec->tail);
	return base_failed(f, FLOW_Q_BUILD, "the build command '%.120s' %s", command, rec->status);
}

/* A program outside the folder would be the same file for both sides of every comparison. */
static int base_outside(struct flow *f, const struct build_record *rec)
{
	for (size_t i = 0; i < rec->n_programs; i++) {
		if (rec->programs[i].path[0] == '/')
			return base_failed(
				f, FLOW_Q_BUILD,
				"the build makes %.150s outside the project's folder, where "
				"no checkpoint covers it; build inside the folder",
				rec->programs[i].path);
	}
	return FLOW_OK;
}

static int base_keep_build(struct flow *f, struct err *err)
{
	int r = base_copy_record(f->rec_orig, &f->rec_best, err);

	if (r == ERR_OK)
		r = base_save_record(f, f->rec_orig, "orig.json", err);
	if (r == ERR_OK)
		r = ckpt_create(f->c, "the original, built", f->ck_best, err);
	if (r == ERR_OK)
		r = flow_tree_note_built(f, err);
	return r;
}

int flow_do_build(struct flow *f, struct err *err)
{
	AUTO_FREE char *command = flow_expand(f->a.build, f->best.tunables, NULL);
	AUTO_FREE const char **env = flow_build_env(f, &f->best);
	struct build_record *rec = NULL;
	struct build_opts opts;
	int r;

	flow_build_opts(f, command, env, &opts);
	/* a build that failed says nothing about how long the next one takes */
	opts.timeout_ns = flow_remaining_ns(f) == UINT64_MAX ? 0 : flow_remaining_ns(f);
	r = build_baseline(f->k, &opts, &rec, err);
	if (r == ERR_NOT_FOUND)
		return base_failed(f, FLOW_Q_BUILD, "%s", err ? err->msg : "nothing was compiled");
	if (r < 0)
		return r;
	/* from here on what was built is known as ours, whatever fails */
	build_record_free(f->rec_orig);
	build_record_free(f->rec_best);
	f->rec_best = NULL;
	f->rec_orig = rec;
	if (rec->stopped) {
		(void)build_remove_outputs(rec, NULL);
		return err_set(err, ERR_CANCELLED, "interrupted while the original was built");
	}
	r = flow_record_build(f, "baseline", rec, NULL, NULL, f->id_build, err);
	if (r == ERR_OK && !build_record_ok(rec))
		return base_bad_build(f, rec, command);
	if (r == ERR_OK)
		r = base_outside(f, rec);
	return r != FLOW_OK ? r : base_keep_build(f, err);
}

/* A pattern as it is, or a word or unit for which a pattern is proposed from the output. */
static int base_fom(struct flow *f, const struct bench_rep *rep, struct err *err)
{
	struct fom_spec spec = { .pattern = f->a.fom_pattern,
				 .unit = f->a.fom_unit,
				 .higher = f->a.fom_higher };
	const struct proc_capture *o = &rep->res->out;
	struct fom_guess g;
	double figure;
	int r;

	if (!strpbrk(f->a.fom_pattern, "([*+\\")) {
		r = fom_propose(f->a.fom_pattern, o->head ? o->head : "", o->head_len, &g, err);
		if (r < 0)
			return r;
		flow_say(f, "figure of merit: '%s' (now %g %s)", g.pattern, g.value, g.unit);
		spec.pattern = g.pattern;
		if (!spec.unit && g.unit[0])
			spec.unit = g.unit;
		if (!f->a.has_fom_higher && g.has_direction) {
			f->a.has_fom_higher = true;
			spec.higher = f->a.fom_higher = g.higher;
		}
	}
	if (!f->a.has_fom_higher && f->ui.agree) {
		f->a.has_fom_higher = true;
		spec.higher = f->a.fom_higher = f->ui.agree(
			f->ui.arg, "is a larger figure of merit better? (n: smaller)\n");
	}
	if (!f->a.has_fom_higher)
		return err_set(err, ERR_INVALID,
			       "is a larger figure of merit better? say --higher or --lower");
	fom_free(f->fom);
	f->fom = NULL;
	if ((r = fom_new(&spec, &f->fom, err)) < 0 ||
	    (r = fom_read_capture(f->fom, o, &figure, err)) < 0)
		return r;
	if (spec.pattern != f->a.fom_pattern) {
		free(f->a.fom_pattern);
		f->a.fom_pattern = xstrdup(fom_pattern(f->fom));
	}
	if (!f->a.fom_unit && spec.unit)
		f->a.fom_unit = xstrdup(spec.unit);
	return session_answers_save(f->dir, &f->a, err);
}

static int base_runs(struct flow *f, const char *command, struct flow_runs *runs, struct err *err)
{
	struct flow_cmd cmd;
	int r = ERR_OK;

	flow_cmd_make(f, &f->best, command, &cmd);
	while (r == ERR_OK && runs->n < OUTPUT_RUNS) {
		struct bench_rep *rep = &runs->rep[runs->n];

		flow_detail(f, "run %zu of %d", runs->n + 1, OUTPUT_RUNS);
		flow_cmd_again(f);
		r = bench_once(f->k, &cmd.m, NULL, rep, err);
		if (r < 0)
			break;
		output_rest_end(&f->rest, runs->rest[runs->n++]);
		if (!rep->ok)
			break;
		if (runs->n == 1)
			r = flow_tree_note_ours(f, f->ck_best, err);
	}
	flow_cmd_done(&cmd);
	return r;
}

static void base_runs_done(struct flow_runs *runs)
{
	for (size_t i = 0; i < runs->n; i++)
		bench_rep_done(&runs->rep[i]);
}

static int base_check_command(struct flow *f, struct err *err)
{
	struct bench_rep rep = { 0 };
	struct flow_cmd cmd;
	int r;

	flow_cmd_make(f, &f->best, f->a.check, &cmd);
	r = bench_once(f->k, &cmd.m, NULL, &rep, err);
	flow_cmd_done(&cmd);
	if (r < 0)
		return r;
	r = rep.ok ? FLOW_OK
		   : base_failed(f, 0,
				 "the check command '%.120s' says that the original is wrong: it "
				 "%.120s",
				 f->a.check, rep.why);
	bench_rep_done(&rep);
	return r;
}

/* The figure of merit must be found in the output; else its question is asked again. */
static int base_figure(struct flow *f, const struct bench_rep *rep, struct err *err)
{
	struct err e = { 0 };
	int r = base_fom(f, rep, &e);

	if (r >= 0)
		return FLOW_OK;
	if (r != ERR_INVALID || f->ui.ask)
		return base_failed(f, FLOW_Q_FOM, "%.380s", e.msg);
	if (err)
		*err = e;
	return r;
}

static int base_bad_run(struct flow *f, const struct bench_rep *rep, const char *command,
			enum flow_question q)
{
	AUTO_FREE char *last = bench_rep_last_lines(rep, BENCH_LAST_LINES);

	if (rep->res->timed_out && flow_must_stop(f))
		return FLOW_EV_BUDGET;
	flow_say(f, "%s", last ? last : "");
	return base_failed(f, q, "'%.150s' %.200s", command, rep->why);
}

/* Runs of one command of the original: it must end well, and its output is learnt. */
static int base_learn(struct flow *f, struct flow_truth *t, const char *name, const char *command,
		      enum flow_question q, struct err *err)
{
	struct flow_runs runs = { 0 };
	const struct bench_rep *last;
	bool tuned = t == &f->truth;
	int r = base_runs(f, command, &runs, err);

	last = &runs.rep[runs.n ? runs.n - 1 : 0];
	if (r == ERR_OK && !last->ok)
		r = base_bad_run(f, last, command, q);
	else if (r == ERR_OK && tuned && f->a.fom_pattern)
		r = base_figure(f, last, err);
	if (r == FLOW_OK && !(tuned && f->a.check))
		r = flow_truth_learn(f, t, name, command, &runs, err);
	base_runs_done(&runs);
	return r;
}

static int base_check_record(struct flow *f, struct err *err)
{
	const struct output_model *m = f->truth.model;
	struct ledger_value v[] = {
		{ .name = "compared_fields",
		  .value = m ? (double)output_model_compared(m) : 0,
		  .unit = "1",
		  .n = OUTPUT_RUNS },
		{ .name = "held_out_inputs", .value = f->a.heldout ? 1 : 0, .unit = "1", .n = 1 },
	};
	AUTO_JSON struct json *detail = json_new_obj();
	const char *parents[] = { f->id_build };
	struct ledger_rec rec = { .kind = LEDGER_CHECK,
				  .command = f->a.run,
				  .values = v,
				  .n_values = 2,
				  .detail = detail,
				  .parents = parents,
				  .n_parents = 1 };
	bool nondet = m && output_model_mode(m) == OUTPUT_NOT_DETERMINISTIC;

	json_set_str(detail, "role", "baseline");
	json_set(detail, "iteration", json_new_null());
	json_set_str(detail, "mode",
		     f->a.check	    ? "command"
		     : f->unchecked ? "unchecked"
				    : "output");
	json_set_bool(detail, "ok", !nondet);
	json_set_str(detail, "why", m ? output_model_why(m) : "");
	if (m)
		json_set(detail, "model", output_model_json(m));
	return flow_append(f, &rec, f->id_check, err);
}

int flow_do_check(struct flow *f, struct err *err)
{
	const struct output_model *m;
	int r;

	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	r = base_learn(f, &f->truth, "base", f->a.run, FLOW_Q_RUN, err);

	if (r == FLOW_OK && f->a.check)
		r = base_check_command(f, err);
	if (r == FLOW_OK && f->a.heldout)
		r = base_learn(f, &f->truth_held, "held", f->a.heldout, 0, err);
	if (r == FLOW_OK && f->truth_held.model &&
	    output_model_mode(f->truth_held.model) == OUTPUT_UNCHECKED)
		flow_say(f, "the held-out run is unchecked: %s",
			 output_model_why(f->truth_held.model));
	if (r != FLOW_OK)
		return r;
	m = f->truth.model;
	f->unchecked = m && output_model_mode(m) == OUTPUT_UNCHECKED;
	if ((r = base_check_record(f, err)) < 0)
		return r;
	for (int i = 0; i < 2; i++) {
		m = i ? f->truth_held.model : f->truth.model;
		if (m && output_model_mode(m) == OUTPUT_NOT_DETERMINISTIC)
			return base_failed(
				f, 0,
				"%s; say how much may differ (--rtol, --atol) or that it "
				"does not matter (--ignore REGEX)",
				output_model_why(m));
	}
	if (f->unchecked)
		flow_say(f,
			 "unchecked: %s; nothing is kept unless --check says what is right, or "
			 "--accept-unchecked",
			 output_model_why(f->truth.model));
	return FLOW_OK;
}

static void base_rep(void *arg, const struct bench_result *so_far)
{
	flow_detail(arg, "repetition %zu of %d", so_far->n, BASE_REPS);
}

static int base_record_bench(struct flow *f, const struct bench_opts *opts,
			     const struct bench_result *res, const struct disturb_report *d,
			     struct err *err)
{
	const char *parents[] = { f->id_build, f->id_check };
	struct record_ctx ctx = {
		.role = "baseline", .disturb = d, .parents = parents, .n_parents = 2
	};
	struct record_files files = { 0 };
	int r = record_files_of(&opts->cmd, &files, err);

	if (r < 0)
		return r;
	ctx.files = files.v;
	ctx.n_files = files.n;
	r = record_bench(f->l, &ctx, opts, res, f->id_bench, err);
	record_files_done(&files);
	return r < 0 ? r : flow_appended(f, f->id_bench, err);
}

int flow_do_baseline(struct flow *f, struct err *err)
{
	AUTO_CLOSE int root = rootfs_open("/", NULL);
	struct disturb_where where = flow_where(f);
	struct disturb_snap before, after;
	struct disturb_report report;
	struct bench_result res = { 0 };
	struct bench_opts opts = {
		.fom = f->fom, .reps = BASE_REPS, .warmup = 1, .on_rep = base_rep, .arg = f
	};
	struct flow_cmd cmd;
	int r;

	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	flow_cmd_make(f, &f->best, f->a.run, &cmd);
	opts.cmd = cmd.m;
	disturb_read(root, &where, &before);
	r = bench_run(f->k, &opts, &res, err);
	if (r == ERR_OK && res.end == BENCH_END_FAILED) {
		r = flow_must_stop(f)
			    ? FLOW_EV_BUDGET
			    : base_failed(f, FLOW_Q_RUN, "'%.150s' %.200s", f->a.run, res.last.why);
	} else if (r == ERR_OK && res.end != BENCH_END_REPS) {
		r = err_set(err, ERR_CANCELLED, "interrupted before the original was measured");
	} else if (r == ERR_OK) {
		disturb_read(root, &where, &after);
		disturb_compare(&before, &after, res.cpu_s, &report);
		r = base_record_bench(f, &opts, &res, &report, err);
		f->base_wall_s = res.wall.median;
		f->base_cpu = res.user;
		f->base_cpu.median += res.system.median;
		f->base_last = res.samples[res.n - 1];
		if (!f->o->run_timeout_ns)
			f->run_timeout_ns = (uint64_t)(res.wall.max * BASE_SLOWER * 1e9);
		if (!f->o->run_timeout_ns && f->run_timeout_ns < FLOW_RUN_TIMEOUT_MIN)
			f->run_timeout_ns = FLOW_RUN_TIMEOUT_MIN;
	}
	bench_result_done(&res);
	flow_cmd_done(&cmd);
	return r;
}

/* ---- profile ---- */

static int base_record_profile(struct flow *f, struct err *err)
{
	const struct profile_result *p = &f->prof;
	struct ledger_value v[16];
	AUTO_JSON struct json *detail = profile_result_json(p);
	AUTO_FREE char *path = NULL;
	struct ledger_file file;
	struct ledger_rec rec = {
		.kind = LEDGER_PROFILE, .command = f->a.run, .values = v, .detail = detail
	};

	for (size_t i = 0; p->ok && i < p->n_funcs && i < sizeof(v) / sizeof(v[0]); i++)
		v[rec.n_values++] = (struct ledger_value){
			.name = p->funcs[i].name[0] ? p->funcs[i].name : "[unknown]",
			.value = p->funcs[i].share_pct,
			.unit = "%",
			.n = p->funcs[i].samples ? (unsigned)p->funcs[i].samples : 1,
		};
	if (p->data_path) {
		size_t n = strlen(f->dir);

		path = xstrdup(strncmp(p->data_path, f->dir, n) == 0 && p->data_path[n] == '/'
				       ? p->data_path + n + 1
				       : p->data_path);
		file = (struct ledger_file){ .path = path, .sha256 = p->data_sha256 };
		rec.files = &file;
		rec.n_files = 1;
	}
	return flow_append(f, &rec, f->id_profile, err);
}

/* A folder of its own: a resumed session must not write over what a record names. */
static char *base_profile_dir(const struct flow *f)
{
	char *dir =
		xasprintf("%s/.rocbudai/profiles/%s-%u", f->dir, session_id(f->s), f->iteration);

	for (unsigned again = 2; file_exists(AT_FDCWD, dir); again++) {
		free(dir);
		dir = xasprintf("%s/.rocbudai/profiles/%s-%u-%u", f->dir, session_id(f->s),
				f->iteration, again);
	}
	return dir;
}

int flow_do_profile(struct flow *f, struct err *err)
{
	AUTO_FREE char *dir = base_profile_dir(f);
	struct proc_spec spec = { .cwd = f->dir,
				  .timeout_ns = f->run_timeout_ns,
				  .stop_fd = f->stop_fd };
	struct profile_opts opts = { .cmd = &spec, .out_dir = dir };
	AUTO_FREE const char **env = NULL;
	struct flow_cmd cmd;
	int r;

	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	if ((r = flow_tree_restore(f, f->ck_best, err)) < 0)
		return r;
	flow_cmd_make(f, &f->best, f->a.run, &cmd);
	env = proc_env(f->envp, cmd.env);
	spec.argv = (const char *const[]){ "sh", "-c", cmd.shell, NULL };
	spec.envp = env;
	spec.cpus = cmd.m.cpus;
	spec.on_tick = cmd.m.on_tick;
	spec.arg = cmd.m.arg;
	profile_result_done(&f->prof);
	r = profile_run(f->k, &opts, &f->prof, err);
	flow_cmd_done(&cmd);
	if (r < 0)
		return r;
	if (!f->prof.ok)
		flow_say(f, "no profile: %s", f->prof.why);
	r = base_record_profile(f, err);
	return r < 0 ? r : FLOW_OK;
}
