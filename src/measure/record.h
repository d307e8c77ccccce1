/*
 * Measurements as evidence: results become ledger records in the form of docs/evidence.md, and a
 * record becomes a command again.  Threads: one thread per ledger.
 */
#ifndef MEASURE_RECORD_H
#define MEASURE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ledger/ledger.h"
#include "measure/bench.h"
#include "measure/cmd.h"
#include "measure/compare.h"
#include "measure/fom.h"

struct disturb_report;
struct err;
struct json;

/* What a record says beside its numbers.  Zero means: not said. */
struct record_ctx {
	const char *role;   /* "baseline", "screen", "user", ... */
	unsigned iteration; /* from 1; 0: null */
	const char *label;  /* the user's own word for it */
	const char *gpu;
	const struct disturb_report *disturb;
	const struct ledger_file *files;
	size_t n_files;
	const char *const *parents;
	size_t n_parents;
};

/* ERR_INVALID: the result has no summary or ratio; else as ledger_append(). */
int record_bench(struct ledger *l, const struct record_ctx *ctx, const struct bench_opts *opts,
		 const struct bench_result *r, char id[LEDGER_ID_CAP], struct err *err);
int record_compare(struct ledger *l, const struct record_ctx *ctx, const struct compare_opts *opts,
		   const struct compare_result *r, char id[LEDGER_ID_CAP], struct err *err);

/* The repetitions as an array of objects with units in the keys; the first n_warmup say so.  A new
 * reference. */
struct json *record_samples(const struct bench_sample *s, size_t n, size_t n_warmup);

/* ---- the files that a command is made of ---- */

#define RECORD_FILES_MAX  64
#define RECORD_FILE_BYTES ((off_t)256 << 20) /* of one; a larger file is left out */

/*
 * The program, found in the PATH that the command sees, and the words of the command that name
 * regular files, each with its hash.  Paths are absolute, or relative to the command's folder as
 * they were written.
 */
struct record_files {
	struct ledger_file *v; /* n of them, owned */
	size_t n;
};

/* A file that cannot be read is left out.  ERR_LIMIT: more than RECORD_FILES_MAX. */
int record_files_of(const struct measure_cmd *cmd, struct record_files *out, struct err *err);
void record_files_done(struct record_files *f);

/* ---- a record as a command again ---- */

/* Owns what cmd and fom point into; freed by record_rerun_done(). */
struct record_rerun {
	struct measure_cmd cmd;
	bool has_fom;
	struct fom_spec fom;
	void *owned;
};

/*
 * From a bench record.  ERR_NOT_FOUND: no such id; ERR_INVALID: not a bench record, or one that
 * does not say its command; ERR_STALE: a file's hash is not the recorded one (message names the
 * file), or it is gone.
 */
int record_rerun(const struct ledger *l, const char *id, struct record_rerun *out, struct err *err);
void record_rerun_done(struct record_rerun *r);

#endif
