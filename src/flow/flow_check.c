/* What a correct result is, and whether a changed program still gives it. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "flow/flow_priv.h"
#include "measure/fom.h"
#include "proc/proc.h"

#define CHECK_KEEP_MAX ((size_t)16 << 20) /* bytes of a kept run */

void flow_truth_done(struct flow_truth *t)
{
	output_model_free(t->model);
	*t = (struct flow_truth){ 0 };
}

static char *check_run_path(const struct flow *f, const char *name, size_t i)
{
	return xasprintf("%s/runs/%s-%zu.out", ledger_state_dir(f->l), name, i);
}

static struct output_run check_run_of(const struct bench_rep *rep, const char *rest)
{
	const struct proc_capture *o = &rep->res->out;

	return (struct output_run){ .out = { .data = o->head,
					     .len = o->head_len,
					     .total = o->total,
					     .rest_sha256 = *rest ? rest : NULL } };
}

static int check_learn(struct flow *f, struct flow_truth *t, const char *command,
		       const struct output_run *runs, size_t n, struct err *err)
{
	AUTO_FREE char *shell = flow_expand(command, f->best.tunables, NULL);
	char host[256] = "";
	struct output_opts opts = {
		.fom = f->fom ? fom_pattern(f->fom) : NULL,
		.ignore = f->o->ignore,
		.n_ignore = f->o->n_ignore,
		.hostname = host,
		.command = shell,
		.rtol = f->o->rtol,
		.atol = f->o->atol,
	};
	struct output_model *m = NULL;
	int r;

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = '\0';
	if ((r = output_learn(runs, n, &opts, &m, err)) < 0)
		return r;
	flow_truth_done(t);
	t->model = m;
	t->n_runs = n;
	return ERR_OK;
}

/* A kept run: a line that says how much there was and the hash of what is not kept, then the text.
 */
static int check_keep_run(const char *path, const struct bench_rep *rep, const char *rest,
			  struct err *err)
{
	const struct proc_capture *o = &rep->res->out;
	AUTO_STR struct str s = { 0 };

	str_addf(&s, "%llu %s\n", (unsigned long long)o->total, *rest ? rest : "-");
	str_add(&s, o->head ? o->head : "", o->head_len);
	if (str_check(&s, path, err) < 0)
		return ERR_LIMIT;
	return file_write_atomic(AT_FDCWD, path, str_get(&s), s.len, 0600, err);
}

int flow_truth_learn(struct flow *f, struct flow_truth *t, const char *name, const char *command,
		     const struct flow_runs *runs, struct err *err)
{
	struct output_run out[OUTPUT_RUNS];
	AUTO_FREE char *dir = file_join(ledger_state_dir(f->l), "runs");
	int r = file_mkdirs(dir, 0700, err);

	for (size_t i = 0; r == ERR_OK && i < runs->n; i++) {
		AUTO_FREE char *path = check_run_path(f, name, i);

		out[i] = check_run_of(&runs->rep[i], runs->rest[i]);
		r = check_keep_run(path, &runs->rep[i], runs->rest[i], err);
	}
	return r < 0 ? r : check_learn(f, t, command, out, runs->n, err);
}

/* Takes a kept run apart; text is the whole file. */
static int check_load_run(char *text, size_t len, const char *path, struct output_run *out,
			  struct err *err)
{
	char *nl = memchr(text, '\n', len), *end;
	unsigned long long total = strtoull(text, &end, 10);

	if (!nl || end == text || *end != ' ')
		return err_set(err, ERR_PARSE, "%s: not a kept run; start a new session", path);
	*nl = '\0';
	*out = (struct output_run){ .out = { .data = nl + 1,
					     .len = len - (size_t)(nl + 1 - text),
					     .total = total,
					     .rest_sha256 =
						     strcmp(end + 1, "-") ? end + 1 : NULL } };
	return ERR_OK;
}

int flow_truth_relearn(struct flow *f, struct flow_truth *t, const char *name, const char *command,
		       size_t n_runs, struct err *err)
{
	struct output_run runs[OUTPUT_RUNS];
	char *text[OUTPUT_RUNS] = { NULL };
	size_t n = n_runs < OUTPUT_RUNS ? n_runs : OUTPUT_RUNS;
	int r = ERR_OK;

	for (size_t i = 0; r == ERR_OK && i < n; i++) {
		AUTO_FREE char *path = check_run_path(f, name, i);
		size_t len = 0;

		r = file_read(AT_FDCWD, path, CHECK_KEEP_MAX, &text[i], &len, err);
		if (r == ERR_OK)
			r = check_load_run(text[i], len, path, &runs[i], err);
	}
	if (r == ERR_OK)
		r = check_learn(f, t, command, runs, n, err);
	for (size_t i = 0; i < n; i++)
		free(text[i]);
	return r;
}

bool flow_truth_holds(struct flow *f, const struct flow_truth *t, const struct bench_rep *rep,
		      char *why, size_t cap)
{
	char rest[HASH_HEX_LEN + 1];
	struct output_verdict v;
	struct output_run run;

	output_rest_end(&f->rest, rest);
	run = check_run_of(rep, rest);
	if (!t->model || output_model_mode(t->model) == OUTPUT_UNCHECKED)
		return true;
	output_check(t->model, &run, &v);
	if (!v.ok)
		(void)snprintf(why, cap, "%s", v.n_mismatches ? v.mismatch[0] : "it differs");
	return v.ok;
}

struct check_answer {
	bool ok;
	size_t fields;
	const char *mode;
	char why[240];
};

/* Runs one command once and compares what it prints. */
static int check_output(struct flow *f, const struct flow_config *cfg, const char *command,
			const struct flow_truth *t, struct check_answer *a, struct err *err)
{
	struct flow_cmd cmd;
	struct bench_rep rep = { 0 };
	int r;

	flow_cmd_make(f, cfg, command, &cmd);
	r = bench_once(f->k, &cmd.m, f->fom && t == &f->truth ? f->fom : NULL, &rep, err);
	flow_cmd_done(&cmd);
	if (r < 0)
		return r;
	a->ok = rep.ok;
	if (!rep.ok)
		(void)snprintf(a->why, sizeof(a->why), "it %.200s", rep.why);
	else
		a->ok = flow_truth_holds(f, t, &rep, a->why, sizeof(a->why));
	if (t->model)
		a->fields += output_model_compared(t->model);
	bench_rep_done(&rep);
	return ERR_OK;
}

/* The user's check command: status 0 is right. */
static int check_command(struct flow *f, const struct flow_config *cfg, struct check_answer *a,
			 struct err *err)
{
	struct flow_cmd cmd;
	struct bench_rep rep = { 0 };
	int r;

	flow_cmd_make(f, cfg, f->a.check, &cmd);
	r = bench_once(f->k, &cmd.m, NULL, &rep, err);
	flow_cmd_done(&cmd);
	if (r < 0)
		return r;
	a->ok = rep.ok;
	if (!rep.ok) {
		AUTO_FREE char *last = bench_rep_last_lines(&rep, 1);

		(void)snprintf(a->why, sizeof(a->why), "the check %.80s: %.140s", rep.why,
			       last ? last : "");
	}
	bench_rep_done(&rep);
	return ERR_OK;
}

static int check_record(struct flow *f, const char *role, const struct check_answer *a,
			const struct check_answer *held, const char *command,
			char id[LEDGER_ID_CAP], struct err *err)
{
	struct ledger_value v[] = {
		{ .name = "compared_fields", .value = (double)a->fields, .unit = "1", .n = 1 },
		{ .name = "held_out_inputs", .value = held ? 1 : 0, .unit = "1", .n = 1 },
	};
	AUTO_JSON struct json *detail = json_new_obj();
	struct ledger_rec rec = { .kind = LEDGER_CHECK,
				  .command = command,
				  .values = v,
				  .n_values = 2,
				  .detail = detail };

	json_set_str(detail, "role", role);
	json_set(detail, "iteration", f->iteration ? json_new_int(f->iteration) : json_new_null());
	json_set_str(detail, "mode", a->mode);
	json_set_bool(detail, "ok", a->ok && (!held || held->ok));
	json_set_str(detail, "why", !a->ok ? a->why : held && !held->ok ? held->why : "");
	if (f->truth.model)
		json_set(detail, "model", output_model_json(f->truth.model));
	return flow_append(f, &rec, id, err);
}

static void check_guards(struct flow *f, const struct check_answer *a,
			 const struct check_answer *held)
{
	if (f->unchecked)
		flow_guard_set(&f->guards, FLOW_G_CORRECT,
			       f->o->accept_unchecked ? FLOW_NOT_APPLICABLE : FLOW_NOT_MET,
			       "unchecked: there is no result to compare%s",
			       f->o->accept_unchecked ? " (--accept-unchecked)" : "");
	else if (a->ok)
		flow_guard_set(&f->guards, FLOW_G_CORRECT, FLOW_MET, "%s",
			       f->a.check ? "the check command agrees"
					  : "the output has the same results");
	else
		flow_guard_set(&f->guards, FLOW_G_CORRECT, FLOW_NOT_MET, "%s", a->why);
	if (!f->a.heldout)
		flow_guard_set(&f->guards, FLOW_G_HELD_OUT, FLOW_NOT_APPLICABLE,
			       "no held-out input was given: tested on one input");
	else if (held && held->ok && f->truth_held.model &&
		 output_model_mode(f->truth_held.model) == OUTPUT_UNCHECKED)
		flow_guard_set(&f->guards, FLOW_G_HELD_OUT,
			       f->o->accept_unchecked ? FLOW_NOT_APPLICABLE : FLOW_NOT_MET,
			       "the held-out run has no result to compare");
	else if (held)
		flow_guard_set(&f->guards, FLOW_G_HELD_OUT, held->ok ? FLOW_MET : FLOW_NOT_MET,
			       "%s",
			       held->ok ? "the held-out run has the same results" : held->why);
}

int flow_check_candidate(struct flow *f, const struct flow_config *cfg, const char *role, bool *ok,
			 char id[LEDGER_ID_CAP], struct err *err)
{
	struct check_answer a = { .mode = f->a.check	 ? "command"
					  : f->unchecked ? "unchecked"
							 : "output" };
	struct check_answer held = { .mode = "output" };
	bool with_held = false;
	int r = check_output(f, cfg, f->a.run, &f->truth, &a, err);

	if (r == ERR_OK && a.ok && f->a.check)
		r = check_command(f, cfg, &a, err);
	if (r == ERR_OK && a.ok && f->a.heldout) {
		with_held = true;
		r = check_output(f, cfg, f->a.heldout, &f->truth_held, &held, err);
	}
	if (r < 0)
		return r;
	check_guards(f, &a, with_held ? &held : NULL);
	*ok = a.ok && (!with_held || held.ok);
	return check_record(f, role, &a, with_held ? &held : NULL, f->a.run, id, err);
}
