#include "flow/flow_state.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"

static const char *const state_names[FLOW_N_STATES] = {
	[FLOW_DISCOVER] = "discover", [FLOW_AGREE] = "agree",	    [FLOW_SETUP] = "setup",
	[FLOW_BUILD] = "build",	      [FLOW_CHECK] = "check",	    [FLOW_BASELINE] = "baseline",
	[FLOW_PROFILE] = "profile",   [FLOW_DIAGNOSE] = "diagnose", [FLOW_PROPOSE] = "propose",
	[FLOW_CHANGE] = "change",     [FLOW_RECHECK] = "recheck",   [FLOW_SCREEN] = "screen",
	[FLOW_CONFIRM] = "confirm",   [FLOW_DECIDE] = "decide",	    [FLOW_RESTORE] = "restore",
	[FLOW_DELIVER] = "deliver",   [FLOW_REPORT] = "report",	    [FLOW_DONE] = "done",
	[FLOW_FAILED] = "failed",
};

static const char *const event_names[FLOW_N_EVENTS] = {
	[FLOW_OK] = "ok",
	[FLOW_EV_FAILED] = "failed",
	[FLOW_EV_KEPT] = "kept",
	[FLOW_EV_NOTHING] = "nothing",
	[FLOW_EV_BUDGET] = "budget",
};

/* The next state plus one; 0 stands for "cannot happen". */
#define TO(s) ((s) + 1)

static const unsigned char steps[FLOW_N_STATES][FLOW_N_EVENTS] = {
	[FLOW_DISCOVER] = { [FLOW_OK] = TO(FLOW_AGREE), [FLOW_EV_FAILED] = TO(FLOW_FAILED) },
	[FLOW_AGREE] = { [FLOW_OK] = TO(FLOW_SETUP), [FLOW_EV_FAILED] = TO(FLOW_FAILED) },
	[FLOW_SETUP] = { [FLOW_OK] = TO(FLOW_BUILD), [FLOW_EV_FAILED] = TO(FLOW_FAILED) },
	/* a failed build, check or run of the original asks that one question again */
	[FLOW_BUILD] = { [FLOW_OK] = TO(FLOW_CHECK),
			 [FLOW_EV_FAILED] = TO(FLOW_AGREE),
			 [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	[FLOW_CHECK] = { [FLOW_OK] = TO(FLOW_BASELINE),
			 [FLOW_EV_FAILED] = TO(FLOW_AGREE),
			 [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	[FLOW_BASELINE] = { [FLOW_OK] = TO(FLOW_PROFILE),
			    [FLOW_EV_FAILED] = TO(FLOW_AGREE),
			    [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	/* a profile that cannot be taken is FLOW_OK with its reason recorded */
	[FLOW_PROFILE] = { [FLOW_OK] = TO(FLOW_DIAGNOSE), [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	[FLOW_DIAGNOSE] = { [FLOW_OK] = TO(FLOW_PROPOSE), [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	[FLOW_PROPOSE] = { [FLOW_OK] = TO(FLOW_CHANGE),
			   [FLOW_EV_NOTHING] = TO(FLOW_DELIVER),
			   [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	[FLOW_CHANGE] = { [FLOW_OK] = TO(FLOW_RECHECK),
			  [FLOW_EV_FAILED] = TO(FLOW_DECIDE),
			  [FLOW_EV_BUDGET] = TO(FLOW_RESTORE) },
	[FLOW_RECHECK] = { [FLOW_OK] = TO(FLOW_SCREEN),
			   [FLOW_EV_FAILED] = TO(FLOW_DECIDE),
			   [FLOW_EV_BUDGET] = TO(FLOW_RESTORE) },
	[FLOW_SCREEN] = { [FLOW_OK] = TO(FLOW_CONFIRM),
			  [FLOW_EV_FAILED] = TO(FLOW_DECIDE),
			  [FLOW_EV_BUDGET] = TO(FLOW_RESTORE) },
	[FLOW_CONFIRM] = { [FLOW_OK] = TO(FLOW_DECIDE),
			   [FLOW_EV_FAILED] = TO(FLOW_DECIDE),
			   [FLOW_EV_BUDGET] = TO(FLOW_RESTORE) },
	[FLOW_DECIDE] = { [FLOW_EV_KEPT] = TO(FLOW_PROFILE), [FLOW_EV_FAILED] = TO(FLOW_RESTORE) },
	[FLOW_RESTORE] = { [FLOW_OK] = TO(FLOW_PROPOSE),
			   [FLOW_EV_FAILED] = TO(FLOW_FAILED),
			   [FLOW_EV_BUDGET] = TO(FLOW_DELIVER) },
	[FLOW_DELIVER] = { [FLOW_OK] = TO(FLOW_REPORT), [FLOW_EV_FAILED] = TO(FLOW_REPORT) },
	[FLOW_REPORT] = { [FLOW_OK] = TO(FLOW_DONE), [FLOW_EV_FAILED] = TO(FLOW_FAILED) },
	[FLOW_DONE] = { 0 },
	[FLOW_FAILED] = { 0 },
};

static const char *const guard_names[FLOW_N_GUARDS] = {
	[FLOW_G_PROFILED] = "profiled before the change",
	[FLOW_G_APPLIED] = "applied",
	[FLOW_G_INPUTS] = "inputs unchanged",
	[FLOW_G_CORRECT] = "correct",
	[FLOW_G_HELD_OUT] = "correct on held-out inputs",
	[FLOW_G_SCREENED] = "screened",
	[FLOW_G_CONFIRMED] = "confirmed above the noise floor",
	[FLOW_G_WALL] = "wall time agrees",
	[FLOW_G_LAYOUT] = "holds over neutral rebuilds",
	[FLOW_G_KERNELS] = "no other kernel slower",
	[FLOW_G_PHYSICS] = "within bytes and flops",
	[FLOW_G_CLEAN] = "nothing left running",
	[FLOW_G_COLD] = "cold re-measure holds",
};

static const char *const guard_state_names[] = {
	[FLOW_MET] = "met",
	[FLOW_NOT_MET] = "failed",
	[FLOW_NOT_APPLICABLE] = "not applicable",
	[FLOW_NOT_REACHED] = "not reached",
};

const char *flow_state_name(enum flow_state s)
{
	return state_names[s];
}

const char *flow_event_name(enum flow_event e)
{
	return event_names[e];
}

int flow_next(enum flow_state s, enum flow_event e)
{
	return (int)steps[s][e] - 1;
}

const char *flow_guard_name(enum flow_guard g)
{
	return guard_names[g];
}

const char *flow_guard_state_name(enum flow_guard_state s)
{
	return guard_state_names[s];
}

void flow_guards_init(struct flow_guards *g)
{
	for (int i = 0; i < FLOW_N_GUARDS; i++) {
		g->state[i] = FLOW_NOT_REACHED;
		g->why[i][0] = '\0';
	}
}

void flow_guard_set(struct flow_guards *g, enum flow_guard which, enum flow_guard_state state,
		    const char *fmt, ...)
{
	va_list ap;

	g->state[which] = state;
	va_start(ap, fmt);
	(void)vsnprintf(g->why[which], sizeof(g->why[which]), fmt, ap);
	va_end(ap);
}

bool flow_guards_hold(const struct flow_guards *g)
{
	return flow_guards_first_open(g) < 0;
}

int flow_guards_first_open(const struct flow_guards *g)
{
	for (int i = 0; i < FLOW_N_GUARDS; i++) {
		if (g->state[i] == FLOW_NOT_MET || g->state[i] == FLOW_NOT_REACHED)
			return i;
	}
	return -1;
}

struct json *flow_guards_json(const struct flow_guards *g)
{
	struct json *arr = json_new_arr();

	for (int i = 0; i < FLOW_N_GUARDS; i++) {
		struct json *o = json_new_obj();

		json_set_str(o, "name", guard_names[i]);
		json_set_str(o, "state", guard_state_names[g->state[i]]);
		json_set_str(o, "why", g->why[i]);
		json_add(arr, o);
	}
	return arr;
}
