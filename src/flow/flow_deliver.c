/* What was kept becomes something the user owns, proven without any of our interposers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build.h"
#include "build/deliver.h"
#include "build/flags.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "flow/flow_plan.h"
#include "flow/flow_priv.h"
#include "measure/accept.h"
#include "report/report.h"
#include "session/session.h"

#define DELIVER_PATCH  ".rocbudai/delivered.patch"
#define DELIVER_SCRIPT ".rocbudai/apply.sh"

struct deliver {
	struct build_delivery *d; /* NULL: nothing is built differently */
	struct build_plan *plan;
	char *build, *run; /* the exact lines */
	char *script;	   /* apply.sh */
	char ck_orig[CKPT_ID_CAP], ck_new[CKPT_ID_CAP];
	struct flow_config orig; /* the original's: first values of tunables */
	char check_id[LEDGER_ID_CAP];
	bool applied;
	uint64_t left_ns; /* of the budget; UINT64_MAX: no budget */
	char why[320];	  /* why nothing could be delivered, or "" */
};

static bool deliver_anything(const struct flow *f)
{
	return f->out->kept > 0;
}

/* A clean tree built by the user's command alone, under a configuration's variables and tunables.
 */
static int deliver_plain(struct flow *f, struct deliver *d, const struct flow_config *cfg,
			 const char *label, char ck[CKPT_ID_CAP], struct err *err)
{
	AUTO_FREE const char **env = flow_build_env(f, cfg);
	AUTO_FREE char *command = flow_expand(f->a.build, cfg->tunables, NULL);
	struct build_record *rec = NULL;
	struct build_opts opts;
	char id[LEDGER_ID_CAP];
	int r = flow_tree_restore(f, f->ck_orig, err);

	if (r < 0 || (r = build_remove_outputs(f->rec_orig, err)) < 0)
		return r;
	flow_build_opts(f, command, env, &opts);
	opts.no_recorder = true;
	opts.hint = f->rec_orig;
	if ((r = build_run(f->k, &opts, &rec, err)) < 0)
		return r;
	if (!build_record_ok(rec))
		(void)snprintf(d->why, sizeof(d->why),
			       "%s could not be built again from a clean tree: it %.120s", label,
			       rec->status);
	r = flow_record_build(f, "delivered", rec, NULL, NULL, id, err);
	build_record_free(rec);
	if (r == ERR_OK && !d->why[0])
		r = ckpt_create(f->c, label, ck, err);
	return r;
}

static char **deliver_run_env(struct flow *f, struct flow_cmd *cmd)
{
	(void)f;
	return cmd->owned;
}

/* The line as a user types it: environment before the command. */
static char *deliver_line(const char *const *env, const char *shell)
{
	struct str s = { 0 };

	for (; env && *env; env++) {
		size_t n = strcspn(*env, "=");

		str_add(&s, *env, n);
		str_addc(&s, '=');
		str_add_shquote(&s, *env + n + 1);
		str_addc(&s, ' ');
	}
	/* with variables in front, a command with operators needs a shell of its own */
	if (s.len && strpbrk(shell, "|&;<>()$`\n")) {
		str_adds(&s, "sh -c ");
		str_add_shquote(&s, shell);
	} else {
		str_adds(&s, shell);
	}
	return str_take(&s);
}

static int deliver_script_file(struct flow *f, struct deliver *d, struct err *err)
{
	AUTO_FREE char *path = file_join(f->dir, DELIVER_SCRIPT);
	AUTO_STR struct str s = { 0 };

	if (d->d && d->d->script) {
		str_adds(&s, d->d->script);
	} else {
		str_adds(&s, "#!/bin/sh\n# Builds and runs the program as it was found fastest.\n"
			     "set -e\ncd \"$(dirname \"$0\")/..\"\n");
		str_addf(&s, "%s\n%s\n", d->build, d->run);
	}
	d->script = str_take(&s);
	return file_write_atomic(AT_FDCWD, path, d->script, strlen(d->script), 0755, err);
}

/* Leaves the tree built in the delivered way, or says in why that nothing could be proven. */
static int deliver_build(struct flow *f, struct deliver *d, struct err *err)
{
	AUTO_FREE const char **env = flow_build_env(f, &f->best);
	AUTO_FREE char *command = flow_expand(f->a.build, f->best.tunables, NULL);
	struct build_opts opts;
	struct build_deliver_opts dopts = { .build = &opts,
					    .base = f->rec_orig,
					    .kept = f->rec_best };
	struct flow_cmd cmd;
	struct err e = { 0 };
	int r = flow_tree_restore(f, f->ck_orig, err);

	if (r < 0 || (r = flow_plan_make(f, &f->best, &d->plan, err)) < 0)
		return r;
	flow_build_opts(f, command, env, &opts);
	flow_cmd_make(f, &f->best, f->a.run, &cmd);
	dopts.plan = d->plan;
	dopts.run_env = (const char *const *)deliver_run_env(f, &cmd);
	dopts.run_command = cmd.shell;
	d->run = deliver_line(dopts.run_env, cmd.shell);
	d->build = xstrdup(command);
	if (!d->plan) { /* no flags: variables and tunables alone make the difference */
		flow_cmd_done(&cmd);
		return deliver_plain(f, d, &f->best, "the delivered program", d->ck_new, err);
	}
	r = build_deliver(f->k, &dopts, &d->d, &e);
	flow_cmd_done(&cmd);
	if (r == ERR_REFUSED) {
		(void)snprintf(d->why, sizeof(d->why), "%.300s", e.msg);
		return ERR_OK;
	}
	if (r < 0) {
		if (err)
			*err = e;
		return r;
	}
	return ckpt_create(f->c, "delivered", d->ck_new, err);
}

/* As many pairs as a confirmation has, or as the budget leaves time for. */
static unsigned deliver_pairs(const struct flow *f, const struct deliver *d)
{
	unsigned want = f->o->pairs ? f->o->pairs : ACCEPT_PAIRS_DEFAULT;
	double fit = d->left_ns == UINT64_MAX || f->base_wall_s <= 0
			     ? want
			     : (double)d->left_ns / 1e9 / (2 * f->base_wall_s);

	return fit >= want ? want : fit > ACCEPT_PAIRS_MIN ? (unsigned)fit : ACCEPT_PAIRS_MIN;
}

static int deliver_measure(struct flow *f, struct deliver *d, struct flow_compare *c,
			   struct err *err)
{
	bool ok = false;
	int r;

	flow_guards_init(&f->guards);
	r = flow_check_candidate(f, &f->best, "delivered", &ok, d->check_id, err);
	if (r < 0)
		return r;
	if (!ok) {
		(void)snprintf(d->why, sizeof(d->why),
			       "the delivered program is not correct: %.200s",
			       f->guards.why[FLOW_G_CORRECT]);
		return ERR_OK;
	}
	c->role = "delivered";
	c->ck[COMPARE_A] = d->ck_orig;
	c->ck[COMPARE_B] = d->ck_new;
	c->cfg[COMPARE_A] = &d->orig;
	c->cfg[COMPARE_B] = &f->best;
	c->pairs = deliver_pairs(f, d);
	if ((r = flow_compare_run(f, c, err)) < 0)
		return r;
	if (c->res.has_ratio && c->res.ratio.has_ci && c->res.ratio.ci95_low <= 1)
		(void)snprintf(
			d->why, sizeof(d->why),
			"measured once more, the gain was not seen again: ratio %.3f× (interval "
			"%.3f× to %.3f×)",
			c->res.ratio.ratio, c->res.ratio.ci95_low, c->res.ratio.ci95_high);
	if (c->wrong[0] || c->failed[0])
		(void)snprintf(d->why, sizeof(d->why), "%.300s",
			       c->wrong[0] ? c->wrong : c->failed);
	return ERR_OK;
}

static bool deliver_agreed(struct flow *f, const struct deliver *d)
{
	AUTO_FREE char *text = NULL;

	if (!f->ui.agree || !d->d || d->d->kind != BUILD_DELIVER_PATCH)
		return true;
	text = xasprintf("apply this patch to %s?\n\n%s", d->d->how, d->d->patch);
	return f->ui.agree(f->ui.arg, text);
}

static const char *deliver_form(const struct deliver *d)
{
	if (d->why[0])
		return "nothing";
	return d->d && d->d->kind == BUILD_DELIVER_PATCH ? "patch" : "script";
}

/* Puts the tree into its last state and the delivery beside it. */
static int deliver_finish(struct flow *f, struct deliver *d, struct err *err)
{
	AUTO_FREE char *patch = file_join(f->dir, DELIVER_PATCH);
	int r;

	if (d->why[0]) {
		flow_say(f, "nothing is delivered: %s", d->why);
		return flow_tree_restore(f, f->ck_orig, err);
	}
	if (d->d && d->d->patch &&
	    (r = file_write_atomic(AT_FDCWD, patch, d->d->patch, strlen(d->d->patch), 0644, err)) <
		    0)
		return r;
	if ((r = deliver_script_file(f, d, err)) < 0)
		return r;
	d->applied = deliver_agreed(f, d);
	free(f->out->delivery_path);
	f->out->delivery_path =
		xstrdup(strcmp(deliver_form(d), "patch") == 0 ? DELIVER_PATCH : DELIVER_SCRIPT);
	if (!d->applied) {
		flow_say(f, "left as it was; the patch lies in %s", DELIVER_PATCH);
		return flow_tree_restore(f, f->ck_orig, err);
	}
	free(f->out->undo);
	f->out->undo = xstrdup("rocbudai optimize --undo");
	return ERR_OK;
}

/* The gain is the ratio of the comparison with the original; told to the caller of the flow too. */
static bool deliver_gain(struct flow *f, const struct flow_compare *c, struct ledger_value *gain)
{
	const struct json *rec = c->id[0] ? ledger_get(f->l, c->id) : NULL;

	if (!rec || ledger_find_value(rec, "ratio", gain) < 0)
		return false;
	gain->name = "gain";
	f->out->has_gain = true;
	f->out->gain = gain->value;
	f->out->gain_low = gain->has_ci ? gain->ci95_low : gain->value;
	f->out->gain_high = gain->has_ci ? gain->ci95_high : gain->value;
	return true;
}

static int deliver_record(struct flow *f, struct deliver *d, const struct flow_compare *c,
			  struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	const char *parents[2];
	struct ledger_value gain;
	struct ledger_rec rec = { .kind = LEDGER_DECISION, .detail = detail, .parents = parents };
	const char *form = deliver_form(d);
	bool patch = strcmp(form, "patch") == 0, some = strcmp(form, "nothing") != 0;
	char id[LEDGER_ID_CAP];

	json_set_str(detail, "what", "delivery");
	json_set_str(detail, "session", session_id(f->s));
	json_set_str(detail, "form", form);
	json_set_str(detail, "path", some ? f->out->delivery_path : NULL);
	json_set_str(detail, "text", !some ? NULL : patch ? d->d->patch : d->script);
	json_set_str(detail, "how", some && d->d ? d->d->how : NULL);
	json_set_bool(detail, "applied", d->applied);
	json_set_str(detail, "build", d->build);
	json_set_str(detail, "run", d->run);
	json_set_str(detail, "undo", d->applied ? f->out->undo : NULL);
	json_set_str(detail, "why", d->why);
	json_set_bool(detail, "same_code", d->d && d->d->same_code);
	json_set_str(detail, "not_proven", d->d ? d->d->not_proven : NULL);
	json_set_str(detail, "compare", c->id[0] ? c->id : NULL);
	json_set(detail, "config", flow_config_json(&f->best));
	if (d->check_id[0])
		parents[rec.n_parents++] = d->check_id;
	if (c->id[0])
		parents[rec.n_parents++] = c->id;
	if (some && deliver_gain(f, c, &gain)) {
		rec.values = &gain;
		rec.n_values = 1;
	}
	return flow_append(f, &rec, id, err);
}

static void deliver_done(struct deliver *d)
{
	build_delivery_free(d->d);
	build_plan_free(d->plan);
	flow_config_done(&d->orig);
	free(d->build);
	free(d->run);
	free(d->script);
}

static int deliver_steps(struct flow *f, struct deliver *d, struct err *err)
{
	struct flow_compare c = { .role = "delivered" };
	bool stop;
	int r = deliver_plain(f, d, &d->orig, "the original", d->ck_orig, err);

	if (r == ERR_OK && !d->why[0])
		r = deliver_build(f, d, err);
	if (r == ERR_OK && !d->why[0])
		r = deliver_measure(f, d, &c, err);
	stop = flow_must_stop(f);
	if (stop && (r == ERR_OK || r == ERR_CANCELLED)) {
		compare_result_done(&c.res);
		return flow_tree_restore(f, f->ck_best, err);
	}
	if (r == ERR_OK)
		r = deliver_finish(f, d, err);
	if (r == ERR_OK && flow_must_stop(f)) { /* the question about the patch was interrupted */
		compare_result_done(&c.res);
		return flow_tree_restore(f, f->ck_best, err);
	}
	if (r == ERR_OK) /* an error from here on must not take it back */
		(void)snprintf(f->ck_best, sizeof(f->ck_best), "%s",
			       d->applied ? d->ck_new : f->ck_orig);
	flow_boundary("delivered");
	if (r == ERR_OK)
		r = deliver_record(f, d, &c, err);
	compare_result_done(&c.res);
	return r;
}

/* What an earlier session delivered would pass for this one's. */
static void deliver_remove_old(const struct flow *f)
{
	static const char *const names[] = { DELIVER_PATCH, DELIVER_SCRIPT };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		AUTO_FREE char *path = file_join(f->dir, names[i]);

		(void)unlink(path);
	}
}

int flow_do_deliver(struct flow *f, struct err *err)
{
	struct deliver d = { 0 };
	int r;

	if (f->interrupted) {
		r = flow_tree_restore(f, deliver_anything(f) ? f->ck_best : f->ck_orig, err);
		return r < 0 ? r : FLOW_OK;
	}
	deliver_remove_old(f);
	/* the proof is not cut short: its size is fixed by the time that was kept for it */
	f->reserve_ns = 0;
	d.left_ns = flow_remaining_ns(f);
	f->deadline_ns = UINT64_MAX;
	f->over_budget = f->interrupted;
	f->iteration = 0;
	flow_config_init(&d.orig);
	for (size_t i = 0; i < f->tun.n; i++)
		json_set_str(d.orig.tunables, f->tun.v[i].name, f->tun.v[i].values[0]);
	if (!deliver_anything(f)) {
		struct flow_compare none = { .role = "delivered" };

		(void)snprintf(d.why, sizeof(d.why), "no change was kept");
		r = flow_tree_restore(f, f->ck_orig, err);
		if (r == ERR_OK)
			r = deliver_record(f, &d, &none, err);
	} else {
		r = deliver_steps(f, &d, err);
	}
	deliver_done(&d);
	return r < 0 ? r : FLOW_OK;
}

/* ---- report ---- */

static const char *deliver_end(const struct flow *f)
{
	if (f->interrupted)
		return "interrupted";
	if (f->over_budget)
		return "budget";
	return f->out->iterations ? "done" : "nothing to try";
}

int flow_do_report(struct flow *f, struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	AUTO_JSON struct json *ev = json_new_obj();
	struct ledger_rec rec = { .kind = LEDGER_DECISION, .detail = detail };
	const char *path = NULL;
	char id[LEDGER_ID_CAP];
	int r;

	json_set_str(detail, "what", "end");
	json_set_str(detail, "session", session_id(f->s));
	json_set_str(detail, "why", deliver_end(f));
	if ((r = flow_append(f, &rec, id, err)) < 0 ||
	    (r = report_write(f->l, f->dir, &path, err)) < 0)
		return r;
	f->out->report_path = xstrdup(path);
	if (f->interrupted)
		return FLOW_OK; /* the session goes on with --continue */
	json_set_str(ev, "why", deliver_end(f));
	r = session_append(f->s, SESSION_END, ev, err);
	return r < 0 ? r : FLOW_OK;
}
