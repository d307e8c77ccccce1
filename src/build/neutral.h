/*
 * Rebuilds of a program that change nothing but where its code lies: the spread of their times is
 * what code layout alone does to a measurement.  Threads: the keeper's thread.
 */
#ifndef BUILD_NEUTRAL_H
#define BUILD_NEUTRAL_H

#include <stddef.h>

#include "build/build.h"

/* Variants 0 .. BUILD_N_NEUTRAL - 1; 0 to 3 put 16, 32, 48 and 8 bytes before all code, 4 reverses
 * the order of the object files, the rest are further sizes. */
#define BUILD_N_NEUTRAL 8

/*
 * Links the program (build_program.path) again from its recorded link step as variant i, into
 * out_path, or in place (and into its copies) where out_path is NULL.  text says what was done
 * ("16 bytes of padding first").  rec must be of the build whose objects lie in the tree.  opts
 * gives dir, envp, timeout, mounts. ERR_NOT_FOUND: no such program, its inputs are gone, or this
 * variant does not exist for it (one object file only).  ERR_REFUSED: the link failed (message: its
 * last lines) or gave the same code. The program is untouched on failure.
 */
int build_neutral(struct proc_keeper *k, const struct build_opts *opts,
		  const struct build_record *rec, const char *program, unsigned variant,
		  const char *out_path, char text[64], struct err *err);
/* Copies a program over another, mode included, by rename: neither is ever half there. */
int build_install(const char *from, const char *to, struct err *err);

#endif
