/*
 * What a play wants done, said without a compiler's name, and its translation into the flags of the
 * compilers that a build used.  Threads: one thread per object.
 */
#ifndef BUILD_FLAGS_H
#define BUILD_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "build/build.h"

struct err;
struct json;
struct proc_keeper;
struct str;

enum build_action_kind {
	BUILD_ACT_OPT_LEVEL, /* value: "2" or "3" */
	/* value: "native" (resolved to this node's name) or a name.  -ffp-contract=off goes with it
	 * unless allow_fp */
	BUILD_ACT_ARCH,
	BUILD_ACT_LTO,	     /* no value */
	BUILD_ACT_OPENMP,    /* no value; refused where no compiled source has OpenMP pragmas */
	BUILD_ACT_FAST_MATH, /* no value; refused without allow_fp */
	BUILD_ACT_FLAG,	     /* value: one compile flag as it is, e.g. "-funroll-loops" */
	BUILD_ACT_LINK_FLAG, /* value: one link flag as it is, e.g. "-Wl,-O1" */
	BUILD_N_ACTIONS
};

struct build_action {
	enum build_action_kind kind;
	const char *value;	  /* see above; NULL: none */
	enum build_family family; /* UNKNOWN: all; else the action is for this family alone */
};

/* "opt-level", "arch", "lto", "openmp", "fast-math", "flag", "link-flag", as plays write them. */
const char *build_action_name(enum build_action_kind kind);
/* ERR_INVALID: unknown name (the message lists the known ones) or a value that it does not take. */
int build_action_parse(const char *name, const char *value, struct build_action *out,
		       struct err *err);

/* A compiler as a build used it. */
struct build_driver {
	char *key;		  /* build_step.driver */
	char *file, *inner;	  /* inner: what a launcher (file) runs; else NULL */
	enum build_family family; /* of the compiler underneath; UNKNOWN: no flags known */
	char *compiler;		  /* first line of --version; of nvcc the line with its release */
	char *cwd, **env;	  /* where and how it was run */
	size_t n_env;
	unsigned langs;	  /* BUILD_LANG_* that it compiled */
	bool wrapper;	  /* MPI or another wrapper */
	bool base_fma;	  /* some step was compiled for a CPU with FMA already */
	char *base_march; /* the -march= that all its compiles had; NULL: none or several */
	int base_opt; /* lowest effective -O of its compiles (s, g: 1; fast: 4); -1: no compile */
	bool base_lto, base_openmp; /* all its compiles had it */
};

/* The driver of a step of base, asked for its --version and seen over all its steps. ERR_NOT_FOUND,
 * ERR_SYS.  Caller: build_driver_done(). */
int build_driver_probe(struct proc_keeper *k, const struct build_record *base,
		       const struct build_step *step, struct build_driver *out, struct err *err);
void build_driver_done(struct build_driver *d);

/* The flags of one driver: for compiles, links, and the archive tools to use instead. */
struct build_flags {
	char **compile; /* a compile+link gets both, without repeats */
	char **link;
	size_t n_compile, n_link;
	char *ar, *ranlib, *nm; /* NULL: as they are */
};
/*
 * ERR_REFUSED: not for this driver (message: why).  ERR_SYS.  Caller: build_flags_done().
 * native is resolved by asking the driver; sources that compile for a GPU alone get host flags
 * through -Xcompiler where the driver needs that.
 */
int build_flags_for(struct proc_keeper *k, const struct build_action *a, bool allow_fp,
		    const struct build_driver *d, struct build_flags *out, struct err *err);
void build_flags_done(struct build_flags *f);

/* The flags of a set of actions for every driver of a build: what build_run() hands the recorder.
 */
struct build_plan_driver {
	struct build_driver driver;
	struct build_flags flags;
};
struct build_plan {
	struct build_plan_driver *drivers;
	size_t n_drivers;
	struct build_action *actions; /* values owned by the plan */
	size_t n_actions;
	uint64_t *keys; /* the steps that may be altered: those of base, so that no probe is */
	size_t n_keys;
	bool disable_cache; /* base was compiled below a ccache that cannot be recorded */
};
/*
 * For the drivers of base.  ERR_REFUSED with the cause: not for this compiler, mixed compilers with
 * LTO, nothing to change (no source has OpenMP pragmas, or everything was compiled so already).
 */
int build_plan_make(struct proc_keeper *k, const struct build_record *base,
		    const struct build_action *actions, size_t n_actions, bool allow_fp,
		    struct build_plan **out, struct err *err);
void build_plan_free(struct build_plan *p); /* NULL is fine */
/* The flags as a person reads them: "-O3 -march=znver5 -ffp-contract=off". */
void build_plan_text(const struct build_plan *p, struct str *out);
/* {"actions": [...], "drivers": [{"driver", "family", "compiler", "compile", "link", ...}]} */
struct json *build_plan_to_json(const struct build_plan *p);
/* A wrapper around plan flags: those a step of this kind and these languages gets. Borrowed
 * strings; the array is the caller's (free()). */
const char **build_plan_for_step(const struct build_plan *p, const struct build_step *step,
				 size_t *n);

#endif
