/* The state of the engine as an event of the session's log, and the way back from it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "flow/flow_modules.h"
#include "flow/flow_priv.h"
#include "measure/fom.h"
#include "proc/proc.h"
#include "session/session.h"

/* Text members that are saved under their own names. */
#define RESUME_IDS(X)                                                                              \
	X(ck_orig)                                                                                 \
	X(ck_best)                                                                                 \
	X(ck_cold)                                                                                 \
	X(ck_cand)                                                                                 \
	X(id_session)                                                                              \
	X(id_build)                                                                                \
	X(id_check)                                                                                \
	X(id_bench)                                                                                \
	X(id_profile)                                                                              \
	X(id_cand_build)                                                                           \
	X(id_cand_check)                                                                           \
	X(id_screen)                                                                               \
	X(id_confirm)                                                                              \
	X(id_cold)

static struct json *resume_floor_json(const struct flow_floor *fl)
{
	struct json *o = json_new_obj();

	json_set_bool(o, "valid", fl->valid);
	json_set_real(o, "aa_pct", fl->aa_pct);
	json_set_real(o, "neutral_pct", fl->neutral_pct);
	json_set_int(o, "n_neutral", fl->n_neutral);
	json_set_str(o, "neutral_na", fl->neutral_na);
	json_set_str(o, "aa_id", fl->aa_id);
	json_set_str(o, "neutral_id", fl->neutral_id);
	return o;
}

static void resume_floor(const struct json *o, struct flow_floor *fl)
{
	fl->valid = json_get_bool(o, "valid", false);
	fl->aa_pct = json_get_num(o, "aa_pct", -1);
	fl->neutral_pct = json_get_num(o, "neutral_pct", -1);
	fl->n_neutral = (unsigned)json_get_int(o, "n_neutral", 0);
	(void)snprintf(fl->neutral_na, sizeof(fl->neutral_na), "%s",
		       json_get_str(o, "neutral_na", ""));
	(void)snprintf(fl->aa_id, sizeof(fl->aa_id), "%s", json_get_str(o, "aa_id", ""));
	(void)snprintf(fl->neutral_id, sizeof(fl->neutral_id), "%s",
		       json_get_str(o, "neutral_id", ""));
}

/* The options that decide what is right and what is kept: a session keeps those it began with. */
static struct json *resume_options_json(const struct flow_opts *o)
{
	struct json *j = json_new_obj(), *ignore = json_new_arr();

	for (size_t i = 0; i < o->n_ignore; i++)
		json_add(ignore, json_new_str(o->ignore[i]));
	json_set(j, "ignore", ignore);
	json_set_real(j, "rtol", o->rtol);
	json_set_real(j, "atol", o->atol);
	json_set_int(j, "pairs", o->pairs);
	json_set_bool(j, "allow_fp", o->allow_fp);
	json_set_bool(j, "fom_only", o->fom_only);
	json_set_bool(j, "accept_unchecked", o->accept_unchecked);
	return j;
}

/* The texts stay the log's, which is open as long as the flow. */
static void resume_options(struct flow *f, const struct json *j)
{
	const struct json *ignore = json_get(j, "ignore");
	struct flow_opts *o = &f->own;
	size_t n = 0;

	if (json_kind(j) != JSON_KIND_OBJ)
		return;
	free(f->ignore);
	f->ignore = xcalloc(json_len(ignore) + 1, sizeof(*f->ignore));
	for (size_t i = 0; i < json_len(ignore); i++) {
		if (json_str(json_at(ignore, i)))
			f->ignore[n++] = json_str(json_at(ignore, i));
	}
	o->ignore = f->ignore;
	o->n_ignore = n;
	o->rtol = json_get_num(j, "rtol", 0);
	o->atol = json_get_num(j, "atol", 0);
	o->pairs = (unsigned)json_get_int(j, "pairs", 0);
	o->allow_fp = json_get_bool(j, "allow_fp", false);
	o->fom_only = json_get_bool(j, "fom_only", false);
	o->accept_unchecked = json_get_bool(j, "accept_unchecked", false);
}

struct json *flow_state_json(const struct flow *f)
{
	struct json *o = json_new_obj();
	struct json *tun = json_new_arr();

	json_set_str(o, "state", flow_state_name(f->state));
	json_set_int(o, "iteration", f->iteration);
#define X(member) json_set_str(o, #member, f->member);
	RESUME_IDS(X)
#undef X
	json_set(o, "best", flow_config_json(&f->best));
	json_set(o, "cand", flow_config_json(&f->cand));
	json_set(o, "ours", json_dup(f->ours));
	json_set(o, "built", json_dup(f->built));
	json_set(o, "options", resume_options_json(f->o));
	json_set(o, "tried", json_dup(f->tried));
	json_set(o, "todo", json_dup(f->todo));
	json_set_bool(o, "profiled", f->prof.ok);
	json_set(o, "candidate", f->candidate ? json_dup(f->candidate) : json_new_null());
	json_set(o, "pending", f->pending ? json_dup(f->pending) : json_new_null());
	json_set(o, "floor", resume_floor_json(&f->floor));
	json_set_int(o, "confirmations", f->confirmations);
	json_set_int(o, "kept", f->out->kept);
	json_set_int(o, "rejected", f->out->rejected);
	json_set_int(o, "voids", f->out->voids);
	json_set_bool(o, "unchecked", f->unchecked);
	json_set_int(o, "truth_runs", (int64_t)f->truth.n_runs);
	json_set_int(o, "held_runs", (int64_t)f->truth_held.n_runs);
	json_set_int(o, "run_timeout_ns", (int64_t)f->run_timeout_ns);
	json_set_int(o, "reserve_ns", (int64_t)f->reserve_ns);
	json_set_real(o, "base_wall_s", f->base_wall_s);
	json_set_real(o, "base_cpu_s", f->base_cpu.median);
	json_set_int(o, "peak_bytes", (int64_t)f->base_last.peak_bytes);
	json_set_int(o, "minor_faults", (int64_t)f->base_last.minor_faults);
	for (size_t i = 0; i < f->tun.n; i++) {
		struct json *t = json_new_obj(), *v = json_new_arr();

		for (size_t k = 0; k < f->tun.v[i].n_values; k++)
			json_add(v, json_new_str(f->tun.v[i].values[k]));
		json_set_str(t, "name", f->tun.v[i].name);
		json_set(t, "values", v);
		json_add(tun, t);
	}
	json_set(o, "declared", tun);
	return o;
}

static enum flow_state resume_state(const char *name)
{
	for (int s = 0; s < FLOW_N_STATES; s++) {
		if (strcmp(flow_state_name((enum flow_state)s), name) == 0)
			return (enum flow_state)s;
	}
	return FLOW_DISCOVER;
}

/* Where a session that was killed in this state goes on. */
static enum flow_state resume_from(enum flow_state s, bool pending)
{
	if (pending)
		return FLOW_DECIDE;
	if (s <= FLOW_BASELINE)
		return FLOW_SETUP; /* nothing was decided: from the start, on the original tree */
	if (s <= FLOW_PROPOSE)
		return FLOW_PROFILE;
	if (s < FLOW_DELIVER)
		return FLOW_RESTORE; /* and then the same candidate again */
	return s;
}

static int resume_tunables(struct flow *f, const struct json *arr, struct err *err)
{
	flow_tunables_done(&f->tun);
	for (size_t i = 0; i < json_len(arr); i++) {
		const struct json *t = json_at(arr, i), *v = json_get(t, "values");
		AUTO_FREE char *text = xasprintf("%s=", json_get_str(t, "name", ""));
		int r;

		for (size_t k = 0; k < json_len(v); k++) {
			const char *value = json_str(json_at(v, k));
			char *longer = xasprintf("%s%s%s", text, k ? "," : "", value ? value : "");

			free(text);
			text = longer;
		}
		if ((r = flow_tunable_add(&f->tun, text, err)) < 0)
			return r;
	}
	return ERR_OK;
}

static int resume_members(struct flow *f, const struct json *o, struct err *err)
{
	int r;

#define X(member) (void)snprintf(f->member, sizeof(f->member), "%s", json_get_str(o, #member, ""));
	RESUME_IDS(X)
#undef X
	f->iteration = (unsigned)json_get_int(o, "iteration", 0);
	f->out->iterations = f->iteration;
	f->confirmations = (unsigned)json_get_int(o, "confirmations", 0);
	f->out->kept = (unsigned)json_get_int(o, "kept", 0);
	f->out->rejected = (unsigned)json_get_int(o, "rejected", 0);
	f->out->voids = (unsigned)json_get_int(o, "voids", 0);
	f->unchecked = json_get_bool(o, "unchecked", false);
	f->run_timeout_ns = (uint64_t)json_get_int(o, "run_timeout_ns", 0);
	f->reserve_ns = (uint64_t)json_get_int(o, "reserve_ns", 0);
	f->base_wall_s = json_get_num(o, "base_wall_s", 0);
	f->base_cpu.median = json_get_num(o, "base_cpu_s", 0);
	f->base_last.peak_bytes = (uint64_t)json_get_int(o, "peak_bytes", 0);
	f->base_last.minor_faults = (uint64_t)json_get_int(o, "minor_faults", 0);
	resume_floor(json_get(o, "floor"), &f->floor);
	if ((r = flow_config_from_json(json_get(o, "best"), &f->best, err)) < 0 ||
	    (r = flow_config_from_json(json_get(o, "cand"), &f->cand, err)) < 0)
		return r;
	json_unref(f->ours);
	json_unref(f->built);
	f->built = json_dup(json_get(o, "built"));
	resume_options(f, json_get(o, "options"));
	json_unref(f->tried);
	json_unref(f->todo);
	f->todo = json_dup(json_get(o, "todo"));
	f->prof.ok = json_get_bool(o, "profiled", false);
	f->ours = json_dup(json_get(o, "ours"));
	f->tried = json_dup(json_get(o, "tried"));
	if (json_kind(json_get(o, "candidate")) == JSON_KIND_OBJ)
		f->candidate = json_dup(json_get(o, "candidate"));
	if (json_kind(json_get(o, "pending")) == JSON_KIND_OBJ)
		f->pending = json_dup(json_get(o, "pending"));
	return resume_tunables(f, json_get(o, "declared"), err);
}

static int resume_record(struct flow *f, const char *name, struct build_record **out,
			 struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/records/%s", ledger_state_dir(f->l), name);

	return build_record_load(path, out, err);
}

/* What was measured and learnt before the interruption. */
static int resume_knowledge(struct flow *f, const struct json *o, struct err *err)
{
	size_t n = (size_t)json_get_int(o, "truth_runs", 0);
	size_t held = (size_t)json_get_int(o, "held_runs", 0);
	int r;

	if ((r = resume_record(f, "orig.json", &f->rec_orig, err)) < 0 ||
	    (r = resume_record(f, f->out->kept ? "best.json" : "orig.json", &f->rec_best, err)) < 0)
		return r;
	if (f->pending && (r = resume_record(f, "cand.json", &f->rec_cand, err)) < 0)
		return r;
	if (f->a.fom_pattern) {
		struct fom_spec spec = { .pattern = f->a.fom_pattern,
					 .unit = f->a.fom_unit,
					 .higher = f->a.fom_higher };

		if ((r = fom_new(&spec, &f->fom, err)) < 0)
			return r;
	}
	if (n && (r = flow_truth_relearn(f, &f->truth, "base", f->a.run, n, err)) < 0)
		return r;
	if (held &&
	    (r = flow_truth_relearn(f, &f->truth_held, "held", f->a.heldout, held, err)) < 0)
		return r;
	return ERR_OK;
}

static const struct json *resume_last(const struct session *s, bool *ended)
{
	*ended = false;
	for (size_t i = session_count(s); i > 0; i--) {
		const struct json *e = session_event(s, i - 1);

		*ended |= session_event_kind(e) == SESSION_END;
		if (session_event_kind(e) == SESSION_PHASE)
			return e;
	}
	return NULL;
}

static int resume_open(struct flow *f, struct err *err)
{
	static const char *const exclude[] = { "report.md", "rocbudai-report.md", "report.html",
					       NULL };
	struct ckpt_opts opts = { .exclude = exclude };
	int r;

	if ((r = ledger_open(f->dir, &f->l, err)) < 0 ||
	    (r = session_open_last(f->dir, &f->s, err)) < 0 ||
	    (r = session_answers_load(f->dir, &f->a, err)) < 0)
		return r;
	for (size_t i = 0; i < ledger_n_remarks(f->l); i++)
		flow_say(f, "%s", ledger_remark(f->l, i));
	for (size_t i = 0; i < session_n_remarks(f->s); i++)
		flow_say(f, "%s", session_remark(f->s, i));
	if ((r = ckpt_open(ledger_state_dir(f->l), f->dir, &opts, &f->c, err)) < 0)
		return r;
	if (ckpt_recovered(f->c))
		flow_say(f, "%s", ckpt_recovered(f->c));
	return ERR_OK;
}

static int resume_modules(struct flow *f, struct err *err)
{
	size_t n = 0;

	while (f->a.modules && f->a.modules[n])
		n++;
	return flow_modules_env(f->k, (const char *const *)f->a.modules, n, &f->envp, err);
}

static int resume_none(const struct flow *f, int r, struct err *err)
{
	if (r != ERR_NOT_FOUND)
		return r;
	return err_set(err, ERR_NOT_FOUND, "there is no session of 'rocbudai optimize' in %s",
		       f->dir);
}

int flow_resume(struct flow *f, struct err *err)
{
	const struct json *last;
	enum flow_state was;
	bool ended;
	int r = resume_open(f, err);

	if (r < 0)
		return resume_none(f, r, err);
	last = resume_last(f->s, &ended);
	if (ended)
		return err_set(err, ERR_NOT_FOUND,
			       "the last session ended; start a new one without --continue");
	if (!last) {
		f->state = FLOW_SETUP;
		if (!f->a.name || !f->a.build || !f->a.run || !f->a.modules)
			return err_set(err, ERR_NOT_FOUND,
				       "the last session ended before its questions were answered");
		return ERR_OK;
	}
	if ((r = resume_modules(f, err)) < 0)
		return r;
	was = resume_state(json_get_str(last, "state", ""));
	if ((r = resume_members(f, last, err)) < 0)
		return r;
	f->state = resume_from(was, f->pending != NULL);
	flow_say(f, "going on with session %s, which stopped in '%s'", session_id(f->s),
		 flow_state_name(was));
	if (f->state == FLOW_SETUP)
		return ERR_OK;
	if (f->state == FLOW_RESTORE && f->iteration &&
	    !json_get(f->tried, json_get_str(f->candidate, "key", "")))
		f->out->iterations =
			--f->iteration; /* the same candidate comes again under the same number */
	return resume_knowledge(f, last, err);
}

struct undo_edits {
	const struct flow *f;
	struct str paths; /* one a line */
	char *first;
};

/* Contents that no checkpoint has, at paths that neither builds nor runs of ours wrote. */
static int undo_note(void *arg, enum ckpt_act act, const char *path)
{
	struct undo_edits *u = arg;

	if (act != CKPT_ACT_REPLACE || json_get(u->f->ours, path) || json_get(u->f->built, path))
		return 0;
	if (!u->first)
		u->first = xstrdup(path);
	str_addf(&u->paths, "  %s\n", path);
	return 0;
}

/* What was edited since the session is not taken back unasked. */
static int undo_allowed(struct flow *f, struct err *err)
{
	struct ckpt_restore_opts opts = { .policy = CKPT_KEEP_UNKNOWN };
	struct undo_edits u = { .f = f };
	AUTO_FREE char *text = NULL;
	int r = ckpt_restore_preview(f->c, f->ck_orig, &opts, undo_note, &u, err);

	if (r == ERR_OK && u.first) {
		text = xasprintf("changed since the session, and put back to what was before it:\n"
				 "%s",
				 str_get(&u.paths));
		if (!f->ui.agree || !f->ui.agree(f->ui.arg, text)) {
			flow_say(f, "%s", text);
			r = err_set(err, ERR_REFUSED,
				    "%s was changed since the session, and undoing it would take "
				    "that back too: keep a copy elsewhere and remove it here, or "
				    "agree to it on a terminal",
				    u.first);
		}
	}
	str_done(&u.paths);
	free(u.first);
	return r;
}

int flow_undo_run(struct flow *f, struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	struct ledger_rec rec = { .kind = LEDGER_NOTE, .detail = detail };
	const struct json *last;
	char id[LEDGER_ID_CAP];
	bool ended;
	int r = resume_open(f, err);

	if (r < 0)
		return resume_none(f, r, err);
	last = resume_last(f->s, &ended);
	if (!last || !json_get_str(last, "ck_orig", "")[0])
		return err_set(err, ERR_NOT_FOUND, "the last session in %s changed nothing",
			       f->dir);
	if ((r = resume_members(f, last, err)) < 0)
		return r;
	/* a delivery that was cut short has changed files that no checkpoint holds */
	if (ended && (r = undo_allowed(f, err)) < 0)
		return r;
	if ((r = flow_tree_restore(f, f->ck_orig, err)) < 0)
		return r;
	json_set_str(detail, "what", "restored");
	json_set_str(detail, "checkpoint", f->ck_orig);
	return flow_append(f, &rec, id, err);
}
