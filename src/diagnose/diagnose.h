/*
 * What may make a program faster: plays (data, see docs/plays.md) are held against the facts of a
 * build, a profile, a baseline measurement and the node, and give an ordered list of candidates.
 * Nothing is run or changed here.  Threads: one thread per object.
 */
#ifndef DIAGNOSE_DIAGNOSE_H
#define DIAGNOSE_DIAGNOSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct profile_result;

enum {
	DIAGNOSE_PLAY_MAX = 64 << 10, /* bytes of a play file */
	DIAGNOSE_PLAYS_MAX = 256,     /* files of one folder that are read */
	DIAGNOSE_ID_MAX = 48,	      /* characters of an id: a-z, 0-9 and '-' */
	DIAGNOSE_UNITS_MAX = 20000,   /* compiles that are looked at */
	DIAGNOSE_TUNABLES_MAX = 32,
	DIAGNOSE_VALUES_MAX = 64,	/* values of one tunable */
	DIAGNOSE_SOURCE_MAX = 16 << 20, /* bytes of a source file that is scanned */
};

/* ---- plays ---- */

enum diagnose_risk { DIAGNOSE_RISK_LOW, DIAGNOSE_RISK_MEDIUM, DIAGNOSE_RISK_HIGH };
enum diagnose_exactness {
	DIAGNOSE_EXACT,	    /* results must stay the same to the last digit */
	DIAGNOSE_TOLERANCE, /* last digits may change: only with the user's consent (--allow-fp) */
};

struct diagnose_play {
	char *id;
	char *path; /* file it was read from */
	bool builtin;
	int order; /* lower is tried first */
	char *title;
	char *label; /* what is said where it is kept, {node} filled in later; NULL: none */
	struct json *applies; /* checked conditions */
	struct json *action;  /* checked actions */
	enum diagnose_risk risk;
	enum diagnose_exactness check;
	char *source;
	char *body; /* Markdown; its first paragraph is the hypothesis */
};

struct diagnose_plays {
	struct diagnose_play *v; /* by order, then id */
	size_t n;
	char **errors; /* "FILE:LINE: what is wrong": such files were left out */
	size_t n_errors;
};

/*
 * One play file's text; what names it in errors.  ERR_PARSE, ERR_INVALID ("what:LINE: ...").
 * Owns: caller frees with diagnose_play_done().
 */
int diagnose_play_parse(const char *text, size_t len, const char *what, struct diagnose_play *out,
			struct err *err);
void diagnose_play_done(struct diagnose_play *p);
/*
 * Reads *.md of the built-in folder (NULL: share/rocbudai/plays beside the program), then of the
 * user's (NULL: ROCBUDAI_PLAYS_DIR, if set).  A bad file, or one whose id is taken, becomes an
 * entry of errors and the others load.  ERR_SYS, ERR_LIMIT: a folder cannot be read.
 * Owns: caller frees *out with diagnose_plays_free().
 */
int diagnose_plays_load(const char *builtin_dir, const char *user_dir, struct diagnose_plays **out,
			struct err *err);
void diagnose_plays_free(struct diagnose_plays *p); /* NULL is fine */

/* "risk": "low", "medium", "high" */
const char *diagnose_risk_name(enum diagnose_risk r);

/* ---- facts ---- */

/* One compile of the baseline's build record.  Borrowed. */
struct diagnose_unit {
	const char *source;	 /* as build_step.sources has it */
	const char *family;	 /* "gcc", "clang", "nvcc", "hipcc" or "unknown" */
	const char *const *argv; /* n_argv words, the compiler's name first */
	size_t n_argv;
	unsigned omp_pragmas; /* see diagnose_scan_omp() */
	unsigned omp_line;    /* of the first in source; 0: none there */
};

struct diagnose_tunable {
	const char *name;
	const char *const *values; /* n_values, in the order given; the first is what holds now */
	size_t n_values;
};

/*
 * Everything is borrowed; zero or NULL means that it is not known, and a play that needs it is
 * skipped with that reason.  The ids are those of evidence records that hold the numbers.
 */
struct diagnose_facts {
	const char *build_id;
	const struct diagnose_unit *units;
	size_t n_units;
	const char *profile_id;
	const struct profile_result *profile;
	const char *baseline_id; /* bench record */
	double wall_s, cpu_s;	 /* medians: wall, user + system */
	uint64_t peak_bytes;
	double minor_faults; /* median */
	unsigned cpus;	     /* that the run may use */
	unsigned cores;	     /* physical cores among them */
	unsigned numa_nodes;
	const char *thp;		   /* "always", "madvise", "never" */
	unsigned glibc_major, glibc_minor; /* 0.0: another libc or unknown */
	const char *node_type;	/* what the node is called, for labels; NULL: "this node" */
	const char *const *env; /* NAME=value of the run; NULL-terminated; NULL: unknown */
	bool uses_openmp;	/* the program is linked to an OpenMP runtime */
	bool allow_fp;
	const struct diagnose_tunable *tunables;
	size_t n_tunables;
};

/*
 * Counts OpenMP pragmas (C, C++: #pragma omp; Fortran: !$omp) of a source file and of the headers
 * beside it that it includes, outside comments.  *n is 0 where there are none; *first_line is 0
 * too where they are all in headers.  ERR_SYS; ERR_LIMIT: larger than
 * DIAGNOSE_SOURCE_MAX; ERR_INVALID: not a regular file.
 */
int diagnose_scan_omp(int dir_fd, const char *path, unsigned *n, unsigned *first_line,
		      struct err *err);
/* The same on text. */
void diagnose_scan_omp_text(const char *text, size_t len, bool fortran, unsigned *n,
			    unsigned *first_line);
/* Physical cores among n_cpus CPUs, NUMA nodes and transparent huge pages of the machine below
 * root_fd ("/").  What cannot be read stays 0 or "". */
void diagnose_scan_node(int root_fd, const int *cpus, size_t n_cpus, unsigned *cores,
			unsigned *numa_nodes, char thp[16]);

/* ---- candidates ---- */

enum diagnose_how {
	DIAGNOSE_BUILD,	  /* flags: the program is built again */
	DIAGNOSE_ENV,	  /* environment of the run */
	DIAGNOSE_TUNABLE, /* another value for a placeholder or variable of the user's */
};

struct diagnose_candidate {
	const struct diagnose_play *play; /* borrowed from the plays */
	enum diagnose_how how;
	char *hypothesis; /* why, with what was seen and the ids of its evidence */
	char *change;	  /* "-O3", "OMP_NUM_THREADS=2 OMP_PROC_BIND=close", "BLOCK=64" */
	/*
	 * The action with everything filled in: {"build": [{"name": "opt-level", "value": "3",
	 * "family": null}, ...]} as build_action_parse() takes them, or {"env": {"NAME": "value"}},
	 * or {"tunable": {"name": "BLOCK", "value": "64"}}.
	 */
	struct json *action;
	double priority; /* higher is tried first */
	char *label;	 /* what to say where it is kept ("for nodes of type X only"); NULL: none */
};

struct diagnose_skip {
	const char *play_id; /* borrowed from the plays */
	char *reason;
};

struct diagnose_list {
	struct diagnose_candidate *v;
	size_t n;
	struct diagnose_skip *skipped; /* plays that do not apply, each with its first reason */
	size_t n_skipped;
};

/*
 * Owns: caller frees *out with diagnose_list_free() before the plays.  ERR_LIMIT: more units,
 * tunables or values than the limits.
 */
int diagnose_candidates(const struct diagnose_facts *facts, const struct diagnose_plays *plays,
			struct diagnose_list **out, struct err *err);
void diagnose_list_free(struct diagnose_list *l); /* NULL is fine */

#endif
