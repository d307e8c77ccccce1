/*
 * The guided engine: runs the whole loop on a project, from its answers to a delivered, proven
 * change, without any model.  It prints nothing itself: what a person or a program should see goes
 * through struct flow_ui.  Threads: one flow a thread; the keeper's owner thread.
 */
#ifndef FLOW_FLOW_H
#define FLOW_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct session_answers;

enum flow_question {
	FLOW_Q_NAME = 1,
	FLOW_Q_TYPE,
	FLOW_Q_ROCM,
	FLOW_Q_MODULES,
	FLOW_Q_BUILD,
	FLOW_Q_RUN,
	FLOW_Q_FOM,
};

struct flow_opts {
	const char *dir;
	const struct session_answers
		*given;		     /* from the command line; borrowed; NULL members: not given */
	const char *const *tunables; /* NAME=v1,v2; n_tunables of them */
	size_t n_tunables;
	const char *const *ignore; /* regular expressions of output fields to ignore */
	size_t n_ignore;
	double rtol, atol;	 /* of results; 0: exact */
	uint64_t budget_ns;	 /* of the whole run; 0: none */
	uint64_t run_timeout_ns; /* of a single run; 0: 20 times the slowest baseline run, at least
				    60 s */
	unsigned pairs;		 /* of a confirmation; 0: ACCEPT_PAIRS_DEFAULT */
	bool allow_fp;		 /* plays that change floating-point results may be tried */
	bool fom_only;		 /* wall time need not agree */
	bool accept_unchecked;	 /* keep changes although nothing could be compared */
	bool resume;		 /* go on with the last session */
	int stop_fd;		 /* readable: stop soon, restore, report; <= 0: none */
	const char *command;	 /* the command line as the user wrote it, for the ledger */
};

/* All may be NULL: then defaults are taken, everything is agreed to and nothing is shown. */
struct flow_ui {
	void *arg;
	/*
	 * Asks one question; fallback is what Enter takes (NULL: none found), why says where it is
	 * from.  *answer is owned by the flow (free()).  ERR_CANCELLED ends the session.
	 */
	int (*ask)(void *arg, enum flow_question q, const char *fallback, const char *why,
		   char **answer, struct err *err);
	/* True: yes.  text is a whole recap or change, several lines. */
	bool (*agree)(void *arg, const char *text);
	/* A state was entered; remaining_ns is UINT64_MAX without a budget. */
	void (*progress)(void *arg, const char *state, unsigned iteration, uint64_t elapsed_ns,
			 uint64_t remaining_ns);
	/* While something long runs: "pair 7 of 20". */
	void (*detail)(void *arg, const char *text);
	/* One finished fact, for people. */
	void (*say)(void *arg, const char *text);
	/* The same as a JSON object, for programs (--json-events). */
	void (*event)(void *arg, const struct json *event);
};

struct flow_outcome {
	unsigned iterations, kept, rejected, voids;
	bool has_gain;
	double gain, gain_low, gain_high; /* original over delivered; over 1 is better */
	bool interrupted;
	char *report_path;   /* what was written, or NULL */
	char *delivery_path; /* or NULL */
	char *undo;	     /* command line that takes the delivery back, or NULL */
};

/*
 * Runs to the end.  A session that finds nothing to keep is a success.  ERR_INVALID: an answer is
 * missing and nobody can be asked (the message names the option); ERR_BUSY: another program holds
 * the project; ERR_REFUSED: the user said no to the recap; ERR_CANCELLED: interrupted before a
 * baseline existed; others say what failed.  The tree is then what it was before.
 */
int flow_run(const struct flow_opts *opts, const struct flow_ui *ui, struct flow_outcome *out,
	     struct err *err);
void flow_outcome_done(struct flow_outcome *out);

/* Brings the project back to what it was before the first change, and says so in the ledger. */
int flow_undo(const char *dir, const struct flow_ui *ui, struct err *err);

#endif
