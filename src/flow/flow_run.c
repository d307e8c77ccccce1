/* The engine: one state after the other, each entered in the session's log first. */
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "core/rootfs.h"
#include "core/str.h"
#include "flow/flow_priv.h"
#include "measure/fom.h"
#include "proc/proc.h"
#include "session/session.h"

static const flow_handler handlers[FLOW_N_STATES] = {
	[FLOW_DISCOVER] = flow_do_discover, [FLOW_AGREE] = flow_do_agree,
	[FLOW_SETUP] = flow_do_setup,	    [FLOW_BUILD] = flow_do_build,
	[FLOW_CHECK] = flow_do_check,	    [FLOW_BASELINE] = flow_do_baseline,
	[FLOW_PROFILE] = flow_do_profile,   [FLOW_DIAGNOSE] = flow_do_diagnose,
	[FLOW_PROPOSE] = flow_do_propose,   [FLOW_CHANGE] = flow_do_change,
	[FLOW_RECHECK] = flow_do_recheck,   [FLOW_SCREEN] = flow_do_screen,
	[FLOW_CONFIRM] = flow_do_confirm,   [FLOW_DECIDE] = flow_do_decide,
	[FLOW_RESTORE] = flow_do_restore,   [FLOW_DELIVER] = flow_do_deliver,
	[FLOW_REPORT] = flow_do_report,
};

void flow_say(struct flow *f, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!f->ui.say)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	f->ui.say(f->ui.arg, text);
}

void flow_detail(struct flow *f, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	if (!f->ui.detail)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	f->ui.detail(f->ui.arg, text);
}

void flow_tell(struct flow *f, struct json *take)
{
	if (f->ui.event)
		f->ui.event(f->ui.arg, take);
	json_unref(take);
}

uint64_t flow_remaining_ns(const struct flow *f)
{
	uint64_t now = clock_mono_ns();

	if (f->deadline_ns == UINT64_MAX)
		return UINT64_MAX;
	now += f->reserve_ns;
	return f->deadline_ns > now ? f->deadline_ns - now : 1;
}

bool flow_must_stop(struct flow *f)
{
	struct pollfd p = { .fd = f->stop_fd, .events = POLLIN };

	if (!f->over_budget && f->stop_fd > 0 && poll(&p, 1, 0) > 0) {
		/* what still has to be done (restore, report) must not be stopped by the same */
		f->interrupted = f->over_budget = true;
		f->stop_fd = -1;
		flow_say(f, "interrupted: going back to what was kept last");
	}
	if (!f->over_budget && flow_remaining_ns(f) <= 1) {
		f->over_budget = true;
		flow_say(f, "the time budget is used up");
	}
	return f->over_budget;
}

/* Deterministic faults for tests: "NAME" or "NAME:N", the N-th passage of the point. */
void flow_boundary(const char *name)
{
	static unsigned seen;
	const char *want = env_get(ENV_FAULT);
	size_t n = strlen(name);
	uint64_t at = 1;

	if (!want || strncmp(want, name, n) != 0 || (want[n] && want[n] != ':'))
		return;
	if (want[n] == ':' && num_u64(want + n + 1, &at, NULL) < 0)
		return;
	if (++seen == at)
		(void)raise(SIGKILL);
}

int flow_snapshot(struct flow *f, struct err *err)
{
	AUTO_JSON struct json *j = flow_state_json(f);

	return session_append(f->s, SESSION_PHASE, j, err);
}

static void flow_show_state(struct flow *f)
{
	uint64_t left = flow_remaining_ns(f);
	struct json *o = json_new_obj();

	if (f->ui.progress)
		f->ui.progress(f->ui.arg, flow_state_name(f->state), f->iteration,
			       clock_mono_ns() - f->start_ns, left);
	json_set_str(o, "event", "phase");
	json_set_str(o, "phase", flow_state_name(f->state));
	json_set_int(o, "iteration", f->iteration);
	json_set_real(o, "elapsed_s", (double)(clock_mono_ns() - f->start_ns) / 1e9);
	if (left != UINT64_MAX)
		json_set_real(o, "remaining_s", (double)left / 1e9);
	flow_tell(f, o);
}

static int flow_enter(struct flow *f, struct err *err)
{
	char name[48];
	int r = ERR_OK;

	flow_show_state(f);
	/* after an interruption --continue goes on where it came, not where it was tidied up */
	if (f->s && !f->interrupted && (r = flow_snapshot(f, err)) < 0)
		return r;
	if (f->l && (r = ledger_heartbeat(f->l, err)) < 0)
		return r;
	(void)snprintf(name, sizeof(name), "enter-%s", flow_state_name(f->state));
	flow_boundary(name);
	return ERR_OK;
}

/* Runs states until an end.  A handler's error ends the session; the tree is then restored. */
static int flow_loop(struct flow *f, struct err *err)
{
	while (f->state != FLOW_DONE && f->state != FLOW_FAILED) {
		int r = flow_enter(f, err), next;

		if (r == ERR_OK)
			r = handlers[f->state](f, err);
		if (r == ERR_CANCELLED && f->state > FLOW_BASELINE && flow_must_stop(f))
			r = FLOW_EV_BUDGET;
		if (r < 0)
			return r;
		next = flow_next(f->state, (enum flow_event)r);
		if (next < 0)
			return err_set(err, ERR_INVALID, "event %s cannot happen in state %s",
				       flow_event_name((enum flow_event)r),
				       flow_state_name(f->state));
		f->state = (enum flow_state)next;
	}
	if (f->state == FLOW_DONE)
		return ERR_OK;
	if (err)
		*err = f->problem;
	return f->problem.code ? (int)f->problem.code : ERR_REFUSED;
}

/* After an error: the tree as it was before, as far as that can still be done. */
static void flow_abandon(struct flow *f, struct err *err)
{
	struct err e = { 0 };
	const char *back = f->out->kept ? f->ck_best : f->ck_orig;
	AUTO_JSON struct json *ev = json_new_obj();

	if (!f->c || !back[0])
		return;
	f->stop_fd = -1;
	if (flow_tree_restore(f, back, &e) < 0)
		flow_say(f, "%s; 'rocbudai optimize --continue' tries it again", e.msg);
	if (f->s && err) {
		json_set_str(ev, "what", err->msg);
		(void)session_append(f->s, SESSION_ERROR, ev, NULL);
	}
}

static int flow_open(struct flow *f, const struct flow_opts *opts, struct err *err)
{
	AUTO_CLOSE int root = rootfs_open("/", NULL);
	struct pin_opts pin = { .root_fd = root };
	struct err e = { 0 };
	int r;

	f->dir = realpath(opts->dir ? opts->dir : ".", NULL);
	if (!f->dir || access(f->dir, R_OK | W_OK | X_OK) < 0)
		return err_set(err, ERR_INVALID,
			       "the folder %s does not exist or cannot be read and written",
			       opts->dir ? opts->dir : ".");
	if ((r = proc_keeper_open(&f->k, err)) < 0 || (r = pin_resolve(&pin, &f->pin, err)) < 0)
		return r;
	for (size_t i = 0; i < opts->n_tunables; i++) {
		if ((r = flow_tunable_add(&f->tun, opts->tunables[i], &e)) < 0) {
			if (err)
				*err = e;
			return r;
		}
	}
	f->start_ns = clock_mono_ns();
	f->deadline_ns = opts->budget_ns ? f->start_ns + opts->budget_ns : UINT64_MAX;
	f->stop_fd = opts->stop_fd > 0 ? opts->stop_fd : -1;
	f->run_timeout_ns = opts->run_timeout_ns ? opts->run_timeout_ns : FLOW_RUN_TIMEOUT_FIRST;
	flow_config_init(&f->best);
	flow_config_init(&f->cand);
	f->ours = json_new_obj();
	f->built = json_new_obj();
	f->tried = json_new_obj();
	f->todo = json_new_arr();
	flow_guards_init(&f->guards);
	return ERR_OK;
}

static void flow_close(struct flow *f)
{
	flow_truth_done(&f->truth);
	flow_truth_done(&f->truth_held);
	build_record_free(f->rec_cand);
	build_record_free(f->rec_best);
	build_record_free(f->rec_orig);
	flow_config_done(&f->best);
	flow_config_done(&f->cand);
	json_unref(f->ours);
	json_unref(f->built);
	json_unref(f->before_run);
	free(f->ignore);
	json_unref(f->tried);
	json_unref(f->todo);
	json_unref(f->candidate);
	json_unref(f->pending);
	profile_result_done(&f->prof);
	flow_found_done(&f->found);
	fom_free(f->fom);
	flow_tunables_done(&f->tun);
	session_answers_done(&f->a);
	free(f->envp);
	ckpt_close(f->c);
	session_close(f->s);
	ledger_close(f->l);
	proc_keeper_close(f->k);
	free(f->dir);
}

int flow_run(const struct flow_opts *opts, const struct flow_ui *ui, struct flow_outcome *out,
	     struct err *err)
{
	struct flow *f = xcalloc(1, sizeof(*f));
	struct flow_outcome result = { 0 };
	struct err e = { 0 };
	int r;

	f->own = *opts;
	f->o = &f->own;
	f->out = &result;
	if (ui)
		f->ui = *ui;
	r = flow_open(f, opts, &e);
	if (r == ERR_OK && opts->resume)
		r = flow_resume(f, &e);
	if (r == ERR_OK)
		r = flow_loop(f, &e);
	if (r < 0) {
		flow_abandon(f, &e);
		flow_outcome_done(&result);
		if (err)
			*err = e;
	} else {
		result.interrupted = f->interrupted;
		*out = result;
	}
	flow_close(f);
	free(f);
	return r;
}

int flow_undo(const char *dir, const struct flow_ui *ui, struct err *err)
{
	struct flow *f = xcalloc(1, sizeof(*f));
	struct flow_opts opts = { .dir = dir };
	struct flow_outcome result = { 0 };
	int r;

	f->o = &opts;
	f->out = &result;
	if (ui)
		f->ui = *ui;
	r = flow_open(f, &opts, err);
	if (r == ERR_OK)
		r = flow_undo_run(f, err);
	flow_close(f);
	free(f);
	return r;
}

void flow_outcome_done(struct flow_outcome *out)
{
	free(out->report_path);
	free(out->delivery_path);
	free(out->undo);
	*out = (struct flow_outcome){ 0 };
}
