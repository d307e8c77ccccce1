/*
 * The numeric part of the accept rule: is a candidate worth a confirmation, and may it be kept?
 * Pure: numbers in, a verdict with every guard and its numbers out.  Whether the change was applied
 * at all, and whether results are right, is judged by others before.
 * Threads: any.
 */
#ifndef MEASURE_ACCEPT_H
#define MEASURE_ACCEPT_H

#include <stdbool.h>
#include <stddef.h>

#include "measure/stats.h"

enum {
	ACCEPT_PAIRS_MIN = 8,	   /* of a confirmation */
	ACCEPT_PAIRS_DEFAULT = 20, /* of a confirmation */
	ACCEPT_SCREEN_PAIRS = 5,
	ACCEPT_NEUTRAL_MIN = 4,	   /* neutral rebuilds beside the build itself */
	ACCEPT_NEUTRAL_ROUNDS = 5, /* default; see stats_levels() */
	ACCEPT_WHY_CAP = 256,
};

#define ACCEPT_FLOOR_PCT     1.0  /* no gain below it is ever kept */
#define ACCEPT_SESSION_ALPHA 0.05 /* of a session with any false keep */
/*
 * What code layout alone may do.  The spread seen over a few rebuilds is no bound: a rare unlucky
 * alignment is missed by all of them.  50 % is the most that was measured (8 bytes of padding in
 * another object file), and only a gain of twice that is believed without neutral rebuilds of the
 * candidate.
 */
#define ACCEPT_LAYOUT_PCT 50.0

/* The level of each confirmation: ACCEPT_SESSION_ALPHA / confirmations (at least 1). */
double accept_alpha(unsigned confirmations);
/* The fewest pairs of a confirmation, and neutral rebuilds of a side, that can reach that level. */
unsigned accept_pairs_min(unsigned confirmations);
unsigned accept_neutral_min(unsigned confirmations);

/* ---- screening: few pairs, decides only whether a confirmation is worth its time ---- */

struct accept_screen {
	bool confirm; /* go on to a confirmation */
	char why[ACCEPT_WHY_CAP];
};

/* ratio is of the figure of merit (over 1 is better), from 3 or more pairs. */
void accept_screen(const struct stats_ratio *ratio, double floor_pct, struct accept_screen *out);

/* ---- the decision ---- */

/* Components of the noise floor for one metric, per cent; negative or NaN: not measured. */
struct accept_floor {
	double aa_pct;	    /* stats_aa_floor_pct() */
	double neutral_pct; /* stats_spread_pct() over the base's neutral rebuilds */
	unsigned n_neutral; /* how many rebuilds neutral_pct comes from, the build itself aside */
	const char
		*neutral_na; /* why there are none (nothing is rebuilt by this change); else NULL */
};

/* Largest of ACCEPT_FLOOR_PCT and the components measured. */
double accept_floor_pct(const struct accept_floor *f);

/*
 * Both sides' builds (the build itself and its neutral rebuilds) as levels of one stats_levels()
 * over all of them, for the figure of merit; of fresh runs, or of a confirmation whose pairs went
 * through the builds of both sides in turn.
 */
struct accept_neutral {
	size_t n_base, n_cand; /* each at most STATS_SIDE_MAX */
	const double *base, *cand;
	enum stats_better better;
};

enum accept_state { ACCEPT_MET, ACCEPT_FAILED, ACCEPT_NOT_APPLICABLE, ACCEPT_OPEN };
const char *accept_state_name(enum accept_state s); /* "met", "failed", "not applicable", "open" */

struct accept_guard {
	const char *name; /* static */
	enum accept_state state;
	char why[ACCEPT_WHY_CAP]; /* with the numbers */
};

enum accept_guard_id {
	ACCEPT_G_PAIRS,	  /* enough pairs, and a bound exists at alpha */
	ACCEPT_G_FLOOR,	  /* the floor was measured: A/A and neutral rebuilds */
	ACCEPT_G_GAIN,	  /* lower bound above the floor */
	ACCEPT_G_WALL,	  /* wall time confirmed faster as well */
	ACCEPT_G_NEUTRAL, /* holds over neutral rebuilds of the candidate */
	ACCEPT_N_GUARDS,
};

enum accept_verdict {
	ACCEPT_KEPT,
	ACCEPT_REJECTED,
	ACCEPT_NEEDS_NEUTRAL, /* all else is met: rebuild the candidate neutrally and ask again */
};
const char *accept_verdict_name(enum accept_verdict v);

struct accept_in {
	const struct stats_ratio *fom;	/* confirmation; of wall time where that is the figure */
	const struct stats_ratio *wall; /* the same runs' wall time; NULL: fom is wall time */
	bool fom_only;			/* the user asked that wall time be not judged */
	struct accept_floor floor;	/* of the figure of merit */
	const struct accept_neutral *neutral; /* NULL: not measured (yet) */
};

struct accept_out {
	enum accept_verdict verdict;
	double floor_pct;
	struct accept_guard guards[ACCEPT_N_GUARDS];
	char reason[ACCEPT_WHY_CAP + 32]; /* one sentence with the numbers that decided */
};

/* The bounds in fom and wall must have been made with accept_alpha(). */
void accept_decide(const struct accept_in *in, struct accept_out *out);

#endif
