/*
 * Correctness by output: what a program prints is learnt from runs of the original and compared
 * with what a changed program prints.  docs/checking.md says it for people.
 *
 * Output is cut into lines and fields.  Not compared are only the figure of merit, what the user
 * says with --ignore, and fields that parse as time, date, address, pid, host or throughput: by
 * their form, unit, label or column, never because they varied.  Any other field that varies over
 * the runs makes the program "not deterministic" in that field.
 *
 * Pure: no program is run and no file read here.  Threads: an object belongs to one thread at a
 * time.
 */
#ifndef MEASURE_OUTPUT_H
#define MEASURE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct err;
struct json;
struct output_model;

enum {
	OUTPUT_RUNS = 5,	    /* runs of the original to learn from; fewer miss more */
	OUTPUT_RUNS_MAX = 100,	    /* at most */
	OUTPUT_HEAD_MAX = 4 << 20,  /* bytes of a stream that are looked at field by field */
	OUTPUT_LINE_MAX = 16 << 10, /* bytes of a line that patterns are searched in */
	OUTPUT_NAMES_MAX = 64,	    /* names of ignored and of compared fields that are kept */
	OUTPUT_PATTERNS_MAX = 64,   /* --ignore */
	OUTPUT_MISMATCH_SHOWN = 3,  /* differences told in a verdict */
	OUTPUT_TEXT_CAP = 240,	    /* bytes of one such text */
};

/* ---- what a run printed ---- */

/* One captured stream; borrowed.  Text, binary and broken UTF-8 are all fine. */
struct output_stream {
	const char *data; /* its first len bytes; NULL: none */
	size_t len;
	uint64_t total; /* bytes printed; 0 or len: data is all of it */
	/* sha256 of the bytes after data, where total > len (see output_rest); NULL: unknown, and
	 * then the rest is compared by its length alone */
	const char *rest_sha256;
};

/* err counts only where out has no result field; leave it zero where both were merged into out. */
struct output_run {
	struct output_stream out, err;
};

/* Hashes what comes after the first head_max bytes of a stream, as it arrives. */
struct output_rest {
	uint64_t total;
	size_t head_max;
	struct hash hash;
};
void output_rest_init(struct output_rest *r, size_t head_max);
void output_rest_add(struct output_rest *r, const void *data, size_t n);
/* Ends it: the hash, or "" where nothing came after the head. */
void output_rest_end(struct output_rest *r, char hex[HASH_HEX_LEN + 1]);

/* ---- learning ---- */

struct output_opts {
	const char *fom;	   /* POSIX extended regex as in fom.h: its group (else the number
				      in its match) is not compared; NULL: none */
	const char *const *ignore; /* n_ignore POSIX extended regexes: what they match is not
				      compared; a line that they match whole may be absent */
	size_t n_ignore;
	const char *hostname; /* NULL: none is recognised */
	/* The command that was run: numbers in it that are printed back are compared but are no
	 * result, so that an echoed problem size does not count as a check.  NULL: none. */
	const char *command;
	double rtol, atol; /* numbers a and b agree when |a - b| <= atol + rtol * max(|a|, |b|) */
};

enum output_class {
	OUTPUT_RESULT, /* compared */
	OUTPUT_FOM,
	OUTPUT_TIME,
	OUTPUT_DATE,
	OUTPUT_ADDRESS,
	OUTPUT_PID,
	OUTPUT_HOST,
	OUTPUT_RATE, /* throughput */
	OUTPUT_USER, /* --ignore */
	OUTPUT_N_CLASSES,
};
/* "result", "figure of merit", "time", "date", "address", "pid", "host", "throughput", "ignored" */
const char *output_class_name(enum output_class c);

enum output_mode {
	OUTPUT_COMPARED,	  /* at least one result field is compared */
	OUTPUT_UNCHECKED,	  /* nothing printed, or no result field in it */
	OUTPUT_NOT_DETERMINISTIC, /* a result field, or the number or order of lines, varies */
};
const char *output_mode_name(enum output_mode m); /* "output", "unchecked", "not deterministic" */

/*
 * Learns from runs (1 to OUTPUT_RUNS_MAX; OUTPUT_RUNS are meant).  An unchecked or not
 * deterministic program is a success of this call: look at output_model_mode().
 * Owns: caller frees *out with output_model_free(); nothing of the runs is kept by reference.
 * ERR_INVALID: a pattern does not compile (message quotes it), a tolerance is negative or not
 * finite, or the number of runs; ERR_LIMIT: more patterns than OUTPUT_PATTERNS_MAX.
 */
int output_learn(const struct output_run *runs, size_t n_runs, const struct output_opts *opts,
		 struct output_model **out, struct err *err);
void output_model_free(struct output_model *m); /* NULL is fine */

enum output_mode output_model_mode(const struct output_model *m);
/*
 * Empty where compared.  Else one sentence: "not deterministic in checksum (line 4, field 3: 1.2 /
 * 1.3)", "nothing was printed", "every number printed is a time or throughput", ...
 */
const char *output_model_why(const struct output_model *m);
/* Fields compared, those among them that count as results, and fields ignored, of one run. */
size_t output_model_compared(const struct output_model *m);
size_t output_model_results(const struct output_model *m);
size_t output_model_ignored(const struct output_model *m);
/* Bytes of one run of which only the number is compared: see output_stream.rest_sha256. */
uint64_t output_model_unseen(const struct output_model *m);

/* A kind of field: all fields with that name and class. */
struct output_name {
	char *name; /* its label, column or "line 4, field 2"; UTF-8 */
	enum output_class cls;
	size_t n; /* fields */
};
/* The first OUTPUT_NAMES_MAX of each, in order of appearance; borrowed. */
const struct output_name *output_model_ignored_names(const struct output_model *m, size_t *n);
const struct output_name *output_model_result_names(const struct output_model *m, size_t *n);

/*
 * For the ledger: {"mode", "why", "runs", "compared_fields", "result_fields", "ignored_fields",
 * "ignored": ["Elapsed (time)", ...], "results": [...], "any_order", "streams", "unseen_bytes",
 * "rtol", "atol"}. A new reference.  To keep a model over a restart, keep the runs and learn again.
 */
struct json *output_model_json(const struct output_model *m);

/* ---- comparing ---- */

struct output_verdict {
	enum output_mode mode; /* the model's */
	bool ok;	       /* mode is OUTPUT_COMPARED and nothing differs */
	size_t compared;       /* fields that were compared */
	size_t n_mismatches;
	/* The first OUTPUT_MISMATCH_SHOWN: "checksum (line 4, field 3): 1.2 became 1.3",
	 * "line 7 is missing: 'residual 1e-9'", ... */
	char mismatch[OUTPUT_MISMATCH_SHOWN][OUTPUT_TEXT_CAP];
};

/*
 * Compares another run.  Lines must be the same ones in the same order (in any order only where the
 * learnt runs printed the same lines in different orders).  A field that is not compared must be
 * there and of its kind.  Where the model's mode is not OUTPUT_COMPARED the verdict is not ok.
 */
void output_check(const struct output_model *m, const struct output_run *run,
		  struct output_verdict *out);
/* {"mode", "ok", "compared_fields", "n_mismatches", "mismatches": [...]}; a new reference. */
struct json *output_verdict_json(const struct output_verdict *v);

#endif
