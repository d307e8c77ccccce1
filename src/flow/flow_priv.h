/* The engine's own state, shared by its files and by nobody else. */
#ifndef FLOW_FLOW_PRIV_H
#define FLOW_FLOW_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "core/err.h"
#include "diagnose/diagnose.h"
#include "flow/flow.h"
#include "flow/flow_discover.h"
#include "flow/flow_state.h"
#include "flow/flow_tunable.h"
#include "ledger/ledger.h"
#include "measure/bench.h"
#include "measure/cmd.h"
#include "measure/compare.h"
#include "measure/disturb.h"
#include "measure/output.h"
#include "measure/pin.h"
#include "profile/profile.h"
#include "session/answers.h"

struct build_opts;
struct build_plan;
struct build_record;
struct fom;
struct proc_keeper;
struct proc_mount;
struct session;

#define FLOW_OUR_FILES_MAX     4096 /* paths that our runs make in the project */
#define FLOW_CONFIRMATIONS     12   /* that one session may make */
#define FLOW_COLD_PAIRS	       6
#define FLOW_AA_PAIRS	       10
#define FLOW_RUN_TIMEOUT_MIN   (60 * UINT64_C(1000000000))
#define FLOW_RUN_TIMEOUT_FIRST (3600 * UINT64_C(1000000000))

/* What is done to the program: build actions, the run's environment, values of tunables. */
struct flow_config {
	struct json *actions;  /* array of {"name", "value"} */
	struct json *env;      /* object NAME: text */
	struct json *tunables; /* object NAME: text */
};

void flow_config_init(struct flow_config *c); /* empty */
void flow_config_done(struct flow_config *c);
void flow_config_copy(struct flow_config *to, const struct flow_config *from); /* replaces to */
struct json *flow_config_json(const struct flow_config *c);
int flow_config_from_json(const struct json *j, struct flow_config *out, struct err *err);
/* True when both have the same actions and build command; the environment may still differ. */
bool flow_config_same_command(const struct flow_config *a, const struct flow_config *b,
			      const char *build_command);
/* True when both give the same build: the same command, and no changed tunable that is exported to
 * builds because it stands in neither command. */
bool flow_config_same_build(const struct flow_config *a, const struct flow_config *b,
			    const char *build_command, const char *run_command);

struct flow_floor {
	bool valid;
	double aa_pct;
	double neutral_pct; /* negative: none */
	unsigned n_neutral;
	char neutral_na[160];
	char aa_id[LEDGER_ID_CAP], neutral_id[LEDGER_ID_CAP];
};

/* What a correct result of one command is. */
struct flow_truth {
	struct output_model *model; /* NULL with a check command */
	size_t n_runs;		    /* kept below the state folder, to learn again on --continue */
};

struct flow {
	const struct flow_opts *o;
	struct flow_ui ui;
	struct flow_outcome *out;
	char *dir; /* absolute */
	struct proc_keeper *k;
	struct ledger *l;
	struct session *s;
	struct ckpt *c;
	struct session_answers a;
	struct flow_tunables tun;
	struct fom *fom; /* NULL: wall time */
	const char **envp;
	struct pin pin;
	uint64_t start_ns, deadline_ns, run_timeout_ns;
	uint64_t reserve_ns; /* of the budget, for the delivery of what was kept */
	int stop_fd;	     /* -1 once the interruption was noticed */
	bool interrupted, over_budget;

	enum flow_state state;
	struct output_rest rest; /* of the run that goes on */
	unsigned iteration;
	enum flow_question reask; /* 0: none */
	struct err problem;	  /* why the last state failed */

	struct flow_config best, cand;
	struct build_record *rec_orig, *rec_best, *rec_cand;
	char ck_orig[CKPT_ID_CAP], ck_best[CKPT_ID_CAP], ck_cold[CKPT_ID_CAP], ck_cand[CKPT_ID_CAP];
	struct json *ours;	 /* object: path -> true, what our runs make in the tree */
	struct json *built;	 /* likewise, what the first build made */
	struct json *before_run; /* likewise, what was there before a cold run; NULL: nothing */
	struct flow_opts own;	 /* what o points to; a resumed session has its first options */
	const char **ignore;	 /* of own, where it was resumed */
	struct flow_truth truth, truth_held;
	bool unchecked;
	bool wall_time;	    /* the answer to the question about the figure of merit */
	double base_wall_s; /* median of the original */

	struct json *tried;	/* object: candidate key -> decision */
	struct json *todo;	/* array of candidates, in order */
	struct json *candidate; /* the one being tried; borrowed from todo's copy */
	struct json *pending;	/* a decision on its way into the ledger */
	struct flow_guards guards;
	struct flow_floor floor;
	unsigned confirmations;
	char id_session[LEDGER_ID_CAP], id_build[LEDGER_ID_CAP], id_check[LEDGER_ID_CAP],
		id_bench[LEDGER_ID_CAP], id_profile[LEDGER_ID_CAP];
	char id_cand_build[LEDGER_ID_CAP], id_cand_check[LEDGER_ID_CAP], id_screen[LEDGER_ID_CAP],
		id_confirm[LEDGER_ID_CAP], id_cold[LEDGER_ID_CAP];
	struct flow_found found;
	struct profile_result prof;    /* of the best configuration */
	struct stats_summary base_cpu; /* user and system time of the original, s */
	struct bench_sample base_last; /* the original's last repetition */
};

/* After CHANGE: true when the candidate runs the program that was kept last (flow_config.c). */
bool flow_nothing_built(const struct flow *f);

/* ---- flow_run.c ---- */
void flow_say(struct flow *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void flow_detail(struct flow *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Tells programs; takes the reference. */
void flow_tell(struct flow *f, struct json *take);
/* Of the budget, less what the delivery will take; at least 1, UINT64_MAX: no budget. */
uint64_t flow_remaining_ns(const struct flow *f);
/* True when the time is up or the user interrupted; remembers it. */
bool flow_must_stop(struct flow *f);
/* Named points between effects; a test may ask to be killed there (ROCBUDAI_FAULT). */
void flow_boundary(const char *name);
/* Writes the state into the session's log, so that --continue finds it. */
int flow_snapshot(struct flow *f, struct err *err);

/* The work of each state; returns an event, or ERR_* when the session cannot go on. */
typedef int (*flow_handler)(struct flow *f, struct err *err);
int flow_do_discover(struct flow *f, struct err *err);
int flow_do_agree(struct flow *f, struct err *err);
int flow_do_setup(struct flow *f, struct err *err);
int flow_do_build(struct flow *f, struct err *err);
int flow_do_check(struct flow *f, struct err *err);
int flow_do_baseline(struct flow *f, struct err *err);
int flow_do_profile(struct flow *f, struct err *err);
int flow_do_diagnose(struct flow *f, struct err *err);
int flow_do_propose(struct flow *f, struct err *err);
int flow_do_change(struct flow *f, struct err *err);
int flow_do_recheck(struct flow *f, struct err *err);
int flow_do_screen(struct flow *f, struct err *err);
int flow_do_confirm(struct flow *f, struct err *err);
int flow_do_decide(struct flow *f, struct err *err);
int flow_do_restore(struct flow *f, struct err *err);
int flow_do_deliver(struct flow *f, struct err *err);
int flow_do_report(struct flow *f, struct err *err);

/* ---- flow_resume.c ---- */
struct json *flow_state_json(const struct flow *f);
/* Rebuilds f from the last snapshot of its session; f->state is where to go on. */
int flow_resume(struct flow *f, struct err *err);
/* The tree back to the last session's original. */
int flow_undo_run(struct flow *f, struct err *err);

/* ---- flow_cmd.c ---- */
/* A command of the user's with a configuration applied; owns what m points to. */
struct flow_cmd {
	struct measure_cmd m;
	char *shell;
	const char **env;
	char **owned;
};
void flow_cmd_make(struct flow *f, const struct flow_config *cfg, const char *command,
		   struct flow_cmd *out);
void flow_cmd_done(struct flow_cmd *c);
/* Before each further run of the same command: its output is counted from the start. */
void flow_cmd_again(struct flow *f);
/* The environment of builds: the base one with the configuration's tunables.  free(). */
const char **flow_build_env(struct flow *f, const struct flow_config *cfg);
void flow_build_opts(struct flow *f, const char *command, const char *const *envp,
		     struct build_opts *out);

struct disturb_where flow_where(const struct flow *f);

/* ---- flow_tree.c ---- */
/* The tree back to a checkpoint; files that our runs make are removed. */
int flow_tree_restore(struct flow *f, const char *id, struct err *err);
/* Notes what is in the tree and not in the checkpoint as made by our runs. */
int flow_tree_note_ours(struct flow *f, const char *since, struct err *err);
/* Remembers what is there already, so that the next note leaves it out. */
int flow_tree_before_run(struct flow *f, const char *since, struct err *err);
/* Notes what the first build made. */
int flow_tree_note_built(struct flow *f, struct err *err);
/*
 * Files that differ between two checkpoints although no compile or link of either record makes
 * them: *first is one of them (free()), NULL when there is none.
 */
int flow_tree_foreign_change(struct flow *f, const char *id_a, const char *id_b, char **first,
			     struct err *err);

/* ---- flow_check.c ---- */
/* Finished runs of one command; rest is the hash of what each printed after the kept part. */
struct flow_runs {
	struct bench_rep rep[OUTPUT_RUNS];
	char rest[OUTPUT_RUNS][HASH_HEX_LEN + 1];
	size_t n;
};
void flow_truth_done(struct flow_truth *t);
/* Learns from finished runs; keeps them below the state folder under the name. */
int flow_truth_learn(struct flow *f, struct flow_truth *t, const char *name, const char *command,
		     const struct flow_runs *runs, struct err *err);
int flow_truth_relearn(struct flow *f, struct flow_truth *t, const char *name, const char *command,
		       size_t n_runs, struct err *err);
/* Compares the run that ended last; false: why says what differs. */
bool flow_truth_holds(struct flow *f, const struct flow_truth *t, const struct bench_rep *rep,
		      char *why, size_t cap);
/*
 * Runs the candidate (or the delivered program) once, checks the result on the tuned and the
 * held-out inputs, appends the check record and sets the guards.  *ok tells the answer.
 */
int flow_check_candidate(struct flow *f, const struct flow_config *cfg, const char *role, bool *ok,
			 char id[LEDGER_ID_CAP], struct err *err);

/* ---- flow_measure.c ---- */
/*
 * Compares the tree at checkpoint a under config ca with the tree at b under cb, in interleaved
 * pairs, every output checked; appends the record.  cold: each run gets fresh folders.
 * Returns 0, or ERR_*; *wrong receives a mismatch's text when an output was wrong (the record is
 * then not written, res not filled), else "".
 */
struct flow_compare {
	const char *role; /* of the record */
	const char *ck[COMPARE_N_SIDES];
	const struct flow_config *cfg[COMPARE_N_SIDES];
	unsigned pairs, floor_pairs;
	double alpha;
	bool cold;
	/* out */
	char wrong[240];
	char note[160];	  /* what could not be made fresh for cold runs, or "" */
	char failed[320]; /* a run that failed: which side and how; else "" */
	char id[LEDGER_ID_CAP];
	struct compare_result res; /* compare_result_done() */
};
int flow_compare_run(struct flow *f, struct flow_compare *c, struct err *err);
/* The noise floor of the best configuration, measured once per configuration. */
int flow_floor_ensure(struct flow *f, struct err *err);
/* Levels over neutral rebuilds of best and candidate in one run; for small gains. */
int flow_neutral_both(struct flow *f, double *base, size_t *n_base, double *cand, size_t *n_cand,
		      size_t cap, char id[LEDGER_ID_CAP], struct err *err);

/* ---- flow_cold.c ---- */
/* Sets FLOW_G_COLD; ratio is the confirmed one. */
int flow_cold_check(struct flow *f, double confirmed_ratio, struct err *err);
/* Folders for a run that must not see an earlier one: HOME, TMPDIR, caches.  env holds changes. */
struct flow_fresh {
	char *root;
	char *state; /* the state folder, links resolved */
	char *texts[6];
	const char *env[7];
	struct proc_mount *mounts;
	size_t n_mounts;
	char note[160]; /* what could not be made fresh, or "" */
};
int flow_fresh_open(struct flow *f, struct flow_fresh *fresh, struct err *err);
int flow_fresh_renew(struct flow_fresh *fresh, struct err *err); /* empties the folders */
void flow_fresh_done(struct flow_fresh *fresh);

/* ---- flow_record.c ---- */
int flow_record_build(struct flow *f, const char *role, const struct build_record *rec,
		      const struct build_plan *plan, const char *why, char id[LEDGER_ID_CAP],
		      struct err *err);
/* After a record went into the ledger: tells the session's log and whoever listens. */
int flow_appended(struct flow *f, const char *id, struct err *err);
int flow_append(struct flow *f, const struct ledger_rec *rec, char id[LEDGER_ID_CAP],
		struct err *err);

#endif
