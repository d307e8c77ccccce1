/*
 * Runs a project's build command and records what it compiles and links, with or without extra
 * flags, and tells whether a change of flags really reached the program.
 *
 * The recording is done by a small library that is preloaded into the build's processes alone
 * (lib/rocbudai/librbrec.so); nothing of it stays in the project's files or in compiler caches.
 * Configuration probes are recorded and never altered.  Not seen: statically linked compilers, and
 * compilers started with a cleared environment (`env -i`); such a build is void, never believed.
 *
 * Paths below the project are relative to it, others absolute.  Threads: one thread per object;
 * build_run() belongs to the keeper's thread.
 */
#ifndef BUILD_BUILD_H
#define BUILD_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct build_plan; /* build/flags.h */
struct err;
struct json;
struct proc_keeper;
struct proc_mount;

enum build_kind {
	BUILD_COMPILE,	    /* sources to objects */
	BUILD_LINK,	    /* objects to a program or shared library */
	BUILD_COMPILE_LINK, /* both in one command */
	BUILD_ARCHIVE,	    /* ar, ranlib */
	BUILD_PROBE, /* configure's and CMake's tests, -E, -M, --version, ...: never altered */
	BUILD_OTHER, /* ld, as, nm and what is not understood: recorded, never altered */
	BUILD_N_KINDS
};

enum build_family {
	BUILD_FAM_UNKNOWN,
	BUILD_FAM_GCC,
	BUILD_FAM_CLANG,
	BUILD_FAM_NVCC,
	BUILD_FAM_HIPCC,    /* hipcc, amdclang: clang underneath */
	BUILD_FAM_BINUTILS, /* ar, ranlib, nm, ld, as and their gcc- and llvm- forms */
	BUILD_N_FAMILIES
};

/* Source languages of a step, as bits. */
#define BUILD_LANG_C	   1U
#define BUILD_LANG_CXX	   2U
#define BUILD_LANG_FORTRAN 4U
#define BUILD_LANG_GPU	   8U  /* CUDA or HIP */
#define BUILD_LANG_ASM	   16U /* never given flags */

const char *build_kind_name(enum build_kind kind);	 /* "compile", ..., "compile+link" */
const char *build_family_name(enum build_family family); /* "gcc", ... */

struct build_step {
	enum build_kind kind;
	/* By name, or, for cc and the MPI wrappers, by what its --version says; the wrapper's name
	 * is in driver. */
	enum build_family family;
	unsigned langs; /* BUILD_LANG_* of the sources */
	int64_t pid;
	char *driver;	/* file that was run: "/usr/bin/mpicc", "/usr/bin/ccache gcc" */
	char *cwd;	/* absolute */
	char **argv;	/* as the build gave it, without what was added; response files expanded */
	char **added;	/* flags that were added; empty for none */
	char **env;	/* NAME=value that compilers heed (PATH, CPATH, LIBRARY_PATH, ...) */
	char **sources; /* source files named by it */
	char **objects; /* object files and archives named by it, in order */
	char *output;	/* the file written; NULL: none or more than one */
	char **outputs; /* all files written (one object a source with -c a.c b.c) */
	size_t n_argv, n_added, n_env, n_sources, n_objects, n_outputs;
	bool hidden;   /* below a launcher (static ccache) that cannot be recorded: never altered */
	char *swapped; /* ar replaced by this program (gcc-ar, llvm-ar); NULL: no */
};

/* A linked output that exists and may be executed. */
struct build_program {
	char *path;
	char sha256[HASH_HEX_LEN + 1]; /* of the file */
	/* Of what is loaded to run: allocated ELF sections without the build id, so that debug
	 * information that merely names the flags does not make a program look different. */
	char code_sha256[HASH_HEX_LEN + 1];
	size_t step;   /* index of the link step */
	char **copies; /* other files of the project with the same bytes (installed copies) */
	size_t n_copies;
};

struct build_record {
	char *command;
	char *dir;		  /* absolute, links resolved */
	struct build_step *steps; /* in the order in which they started */
	size_t n_steps;
	struct build_program *programs;
	size_t n_programs;
	int exit_code;	 /* -1: ended by a signal */
	int term_signal; /* 0: exited */
	bool timed_out;
	bool stopped;
	char *status;	  /* "exited with status 2", ... */
	uint64_t wall_ns; /* CLOCK_MONOTONIC */
	char *tail;	  /* the last 20 lines of its output */
	bool truncated;	  /* more steps than the limit, or a torn log: nothing may be concluded */
};

struct build_opts {
	const char *command;	       /* for sh -c */
	const char *dir;	       /* the project; the command starts there */
	const char *const *envp;       /* NULL: ours */
	const struct build_plan *plan; /* flags to add; NULL: record only */
	uint64_t timeout_ns;	       /* 0: none */
	size_t output_max;	       /* bytes of output kept in memory; 0: 4 MiB */
	/* for the recorder's log: a local folder that the build sees under its mounts, too; NULL:
	 * TMPDIR, else /tmp */
	const char *tmp_dir;
	const struct proc_mount *mounts; /* as in proc.h */
	size_t n_mounts;
	int stop_fd; /* <= 0: none; as in proc.h */
	void (*on_output)(void *arg, bool is_err, const char *data, size_t n); /* may be NULL */
	void (*on_tick)(void *arg);					       /* may be NULL */
	void *arg;
	bool no_recorder; /* plain build: no step is recorded, programs of `hint` are hashed */
	const struct build_record *hint; /* whose programs to look at with no_recorder; else NULL */
};

/*
 * Runs the build command once and records it.  A failing build is a success of this call: look at
 * build_record_ok().  Owns: caller frees *out with build_record_free().
 * ERR_SYS, ERR_NOT_FOUND (librbrec.so absent), ERR_LIMIT.
 */
int build_run(struct proc_keeper *k, const struct build_opts *opts, struct build_record **out,
	      struct err *err);
/*
 * The first build, in which everything must be made.  The tree may have been built before: objects,
 * libraries and programs in it are made to look old (their times only; put back for those that are
 * not made again); objects that are linked and still were not made again are set aside for one more
 * build, and put back where nothing makes them.
 * ERR_NOT_FOUND where nothing is compiled: the message asks for a command that builds everything.
 */
int build_baseline(struct proc_keeper *k, const struct build_opts *opts, struct build_record **out,
		   struct err *err);
bool build_record_ok(const struct build_record *r); /* exited with 0 */
/* Compiles and links other than probes. */
size_t build_record_made(const struct build_record *r);
/* The program with this path (as given, or resolved below the project); NULL: none. */
const struct build_program *build_record_program(const struct build_record *r, const char *path);
void build_record_free(struct build_record *r); /* NULL is fine */

/* The caller owns the result. */
struct json *build_record_to_json(const struct build_record *r);
/* Bounded; ERR_PARSE, ERR_LIMIT. */
int build_record_from_json(const struct json *j, struct build_record **out, struct err *err);
int build_record_save(const struct build_record *r, const char *path, struct err *err);
int build_record_load(const char *path, struct build_record **out, struct err *err);

/* Of what is loaded to run (see build_program); for a file that is no ELF, of the whole file. */
int build_code_hash(const char *path, char out[HASH_HEX_LEN + 1], struct err *err);

/* ---- applied or void ---- */

struct build_verdict {
	bool applied;
	bool forced;	  /* it took a forced rebuild */
	bool same;	  /* void for one reason only: every program came out the same */
	char reason[480]; /* why void; empty when applied */
};

/*
 * Whether every compile and link of base happened again in cand (same directory, sources and
 * output) with the flags of the plan, and a program differs: where a build makes several, compare
 * code_sha256 of the one that is measured.  Never fails.
 */
void build_applied(const struct build_record *base, const struct build_record *cand,
		   const struct build_plan *plan, struct build_verdict *out);
/*
 * Removes what steps of base wrote: objects, archives, programs (and libtool's companions), regular
 * files inside the project that are no sources; never anything else.  Returns the number removed.
 */
int build_remove_outputs(const struct build_record *base, struct err *err);
/*
 * The whole of "change flags and rebuild": builds with opts->plan; where not everything was made
 * again, removes the outputs of base and builds again; judges.  *out is the last record (owned by
 * the caller), also for void.  The caller restores the tree from its checkpoint if it drops the
 * change.
 */
int build_change(struct proc_keeper *k, const struct build_opts *opts,
		 const struct build_record *base, struct build_record **out,
		 struct build_verdict *verdict, struct err *err);

#endif
