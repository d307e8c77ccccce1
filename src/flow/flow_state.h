/*
 * The workflow as a table of states and events, and the guards of an iteration.  Pure data and
 * functions: what happens in a state is the engine's business.  Threads: any.
 */
#ifndef FLOW_FLOW_STATE_H
#define FLOW_FLOW_STATE_H

#include <stdbool.h>
#include <stddef.h>

struct json;

enum flow_state {
	FLOW_DISCOVER, /* look at the project, find defaults */
	FLOW_AGREE,    /* the seven answers, confirmed */
	FLOW_SETUP,    /* modules, checkpoint of the original */
	FLOW_BUILD,    /* the user's build, recorded */
	FLOW_CHECK,    /* what a correct result is */
	FLOW_BASELINE, /* how fast it is, and the noise floor */
	FLOW_PROFILE,
	FLOW_DIAGNOSE,
	FLOW_PROPOSE, /* the next candidate */
	FLOW_CHANGE,  /* applied or void */
	FLOW_RECHECK, /* the candidate's result is correct */
	FLOW_SCREEN,
	FLOW_CONFIRM,
	FLOW_DECIDE,
	FLOW_RESTORE, /* back to what was kept last */
	FLOW_DELIVER,
	FLOW_REPORT,
	FLOW_DONE,
	FLOW_FAILED,
	FLOW_N_STATES,
};

enum flow_event {
	FLOW_OK,	 /* the state's work is done and found well */
	FLOW_EV_FAILED,	 /* the work cannot be done; for a candidate: the change does not hold */
	FLOW_EV_KEPT,	 /* the candidate is kept */
	FLOW_EV_NOTHING, /* nothing is left to try */
	FLOW_EV_BUDGET,	 /* the time is up, or the user interrupted */
	FLOW_N_EVENTS,
};

const char *flow_state_name(enum flow_state s);
const char *flow_event_name(enum flow_event e);
/* The state after the event, or -1: the event cannot happen there. */
int flow_next(enum flow_state s, enum flow_event e);

enum flow_guard_state { FLOW_MET, FLOW_NOT_MET, FLOW_NOT_APPLICABLE, FLOW_NOT_REACHED };

enum flow_guard {
	FLOW_G_PROFILED,  /* a profile precedes the change, or its absence is recorded */
	FLOW_G_APPLIED,	  /* every compile and link recorded again, the program differs */
	FLOW_G_INPUTS,	  /* the build changed nothing but products */
	FLOW_G_CORRECT,	  /* the result is correct on the tuned input */
	FLOW_G_HELD_OUT,  /* and on inputs it was not tuned on */
	FLOW_G_SCREENED,  /* few pairs said it is worth a confirmation */
	FLOW_G_CONFIRMED, /* the lower bound of fresh pairs lies above the noise floor */
	FLOW_G_WALL,	  /* wall time agrees with the figure of merit */
	FLOW_G_LAYOUT,	  /* a small gain holds over neutral rebuilds of the candidate */
	FLOW_G_KERNELS,	  /* no other top kernel became slower */
	FLOW_G_PHYSICS,	  /* not faster than bytes and flops allow */
	FLOW_G_CLEAN,	  /* nothing was left running or holding a GPU */
	FLOW_G_COLD,	  /* restored tree, clean build, fresh folders: it holds */
	FLOW_N_GUARDS,
};

struct flow_guards {
	enum flow_guard_state state[FLOW_N_GUARDS];
	char why[FLOW_N_GUARDS][200];
};

const char *flow_guard_name(enum flow_guard g);
const char *flow_guard_state_name(enum flow_guard_state s);
void flow_guards_init(struct flow_guards *g); /* all not reached */
void flow_guard_set(struct flow_guards *g, enum flow_guard which, enum flow_guard_state state,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* True when each guard is met or not applicable: what keeping a candidate takes. */
bool flow_guards_hold(const struct flow_guards *g);
/* The first that failed or was not reached, or -1. */
int flow_guards_first_open(const struct flow_guards *g);
/* Array of name, state, why: the form of docs/evidence.md. */
struct json *flow_guards_json(const struct flow_guards *g);

#endif
