/*
 * Turns flags that were kept into something the user owns: a patch of the build files, or a script
 * with the exact build lines; proven by a clean build without our recorder.
 * Threads: the keeper's thread.
 */
#ifndef BUILD_DELIVER_H
#define BUILD_DELIVER_H

#include <stdbool.h>
#include <stddef.h>

#include "build/build.h"

struct build_plan;
struct err;
struct proc_keeper;

enum build_delivery_kind {
	BUILD_DELIVER_NOTHING, /* no flags were kept: only the environment, if any */
	BUILD_DELIVER_PATCH,   /* the build files, the build command stays */
	BUILD_DELIVER_SCRIPT,  /* .rocbudai/apply.sh */
};

struct build_delivery {
	enum build_delivery_kind kind;
	char *patch;  /* unified diff, for patch -p1 in the project; NULL: none */
	char **files; /* the files that it changes, relative to the project */
	size_t n_files;
	char *script;	  /* apply.sh: always made; builds and then shows the run line */
	char *how;	  /* one line for people: "Makefile: CFLAGS, LDFLAGS" */
	char *undo;	  /* one line for people */
	bool same_code;	  /* proof: the clean build has the code that was measured */
	bool flags_seen;  /* proof: a recorded clean build has every flag on every step */
	char *not_proven; /* what was tried before and why it was dropped; NULL: nothing */
};

struct build_deliver_opts {
	const struct build_opts *build;	 /* command, dir, envp, ...; no plan */
	const struct build_record *base; /* the original build */
	const struct build_record *kept; /* the build that was kept (recorded with the plan) */
	const struct build_plan *plan;	 /* NULL: no flags kept */
	const char *const *run_env;	 /* NAME=value for the run, NULL-terminated; NULL: none */
	const char *run_command;	 /* NULL: none */
};

/*
 * Tries, in this order: CMakeLists.txt, make variables, the compile lines themselves of makefiles
 * and scripts, variables in the environment, the recorded commands.  Each is applied in the tree,
 * proven by a clean build without the recorder, and taken back if the proof fails; the first that
 * holds is left in the tree, built.  The caller holds a checkpoint to go back to.
 * ERR_REFUSED: none could be proven (message: why the last was not).
 */
int build_deliver(struct proc_keeper *k, const struct build_deliver_opts *opts,
		  struct build_delivery **out, struct err *err);
void build_delivery_free(struct build_delivery *d); /* NULL is fine */

#endif
