/*
 * The evidence ledger of a project: append-only JSON lines, each holding the sha256 of the line
 * before it.  The master lies in the state folder, out of reach of what we run in a sandbox; a
 * published copy lies in the project as .rocbudai/evidence.jsonl.  Verification compares both.
 * Threads: one thread per object.
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct ledger;

#define LEDGER_ID_CAP 24

enum ledger_kind {
	LEDGER_BUILD,
	LEDGER_CHECK,
	LEDGER_BENCH,
	LEDGER_COMPARE,
	LEDGER_PROFILE,
	LEDGER_COUNTER,
	LEDGER_RESOURCE,
	LEDGER_ROOFLINE,
	LEDGER_SPEC,
	LEDGER_USER,
	LEDGER_DECISION, /* the flow's: kept, rejected or void, with its guards */
	LEDGER_NOTE,	 /* ours: torn tail cut, merge, lease taken over */
	LEDGER_N_KINDS,
};

const char *ledger_kind_name(enum ledger_kind kind);

/* A measured or derived value.  Units are SI or plain words: "s", "bytes", "1" (a ratio), "%". */
struct ledger_value {
	const char *name;
	double value;
	const char *unit; /* never empty; "1" for a pure number */
	unsigned n;	  /* effective repetitions; 1 for a single reading */
	bool has_range;	  /* min, max and median hold */
	double min, max, median;
	bool has_ci; /* ci95_low and ci95_high hold; otherwise they are null in the record */
	double ci95_low, ci95_high;
};

struct ledger_file {
	const char *path; /* as given, relative to the project */
	const char *sha256;
};

struct ledger_rec {
	enum ledger_kind kind;
	const char *command; /* as a shell would take it; NULL: none */
	const char *gpu;     /* NULL: none */
	const struct json
		*env; /* object: what was changed against the base environment; NULL: {} */
	const struct ledger_value *values;
	size_t n_values;
	const struct ledger_file *files;
	size_t n_files;
	const char *const *parents; /* ids */
	size_t n_parents;
	const struct json *detail; /* object: anything else, such as raw samples; NULL: none */
};

/*
 * Opens the ledger of the project at dir (made if absent: state folder, .rocbudai/) for writing and
 * takes the project's lease.  A torn last line is cut and recorded; a published copy that lags is
 * completed; one that was changed is an error.
 * ERR_BUSY: another program holds the project (message names host, pid and since when, and the
 * takeover rule).  ERR_PARSE: damage, with file and line.  ERR_SYS.
 */
int ledger_open(const char *dir, struct ledger **out, struct err *err);
/* Reads without lease and without changing anything.  An absent ledger is ERR_NOT_FOUND. */
int ledger_open_read(const char *dir, struct ledger **out, struct err *err);
void ledger_close(struct ledger *l); /* gives the lease back; NULL is fine */

/*
 * Appends one record: one write() and fsync to the master, then the same to the published copy.
 * id receives "E0001" and so on.  On failure (disk full, quota at fsync) the record does not count,
 * and the file is cut back to the last good line.
 */
int ledger_append(struct ledger *l, const struct ledger_rec *rec, char id[LEDGER_ID_CAP],
		  struct err *err);

/* Borrowed; NULL when there is none.  Records are in file order. */
const struct json *ledger_get(const struct ledger *l, const char *id);
size_t ledger_count(const struct ledger *l);
const struct json *ledger_at(const struct ledger *l, size_t i);
/* sha256 of the last line (without its newline); 64 zeros when empty. */
const char *ledger_head(const struct ledger *l);
/* The state folder of the project: $XDG_STATE_HOME/rocbudai/<project id>.  Borrowed. */
const char *ledger_state_dir(const struct ledger *l);

#endif
