/*
 * The evidence ledger of a project: append-only JSON lines, each holding the sha256 of the line
 * before it.  The master lies in the state folder, out of reach of what we run in a sandbox; a
 * published copy lies in the project as .rocbudai/evidence.jsonl.  Verification (ledger/verify.h)
 * compares both.  docs/evidence.md says what a record holds.
 * Threads: one thread per object.  A forked child may only close what it inherited.
 */
#ifndef LEDGER_LEDGER_H
#define LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct ledger;

/* "E0001", or "<host>-<pid>:E0001" for what an array task recorded; with its NUL */
#define LEDGER_ID_CAP	 96
#define LEDGER_LINE_MAX	 ((size_t)4 << 20)   /* bytes of one record */
#define LEDGER_BYTES_MAX ((uint64_t)1 << 30) /* of one file */

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
/* ERR_NOT_FOUND: no kind has this name. */
int ledger_kind_from(const char *name, enum ledger_kind *out);

/*
 * A measured or derived value.  Units are SI or plain words: "s", "bytes", "1" (a ratio), "%".
 * All numbers must be finite; min <= median <= max, ci95_low <= ci95_high.
 */
struct ledger_value {
	const char *name; /* never empty */
	double value;
	const char *unit; /* never empty; "1" for a pure number */
	unsigned n;	  /* effective repetitions; 1 for a single reading; never 0 */
	bool has_range;	  /* min, max and median hold */
	double min, max, median;
	bool has_ci; /* ci95_low and ci95_high hold (n >= 6); otherwise they are null */
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
	const char *const *parents; /* ids of records that exist */
	size_t n_parents;
	const struct json *detail; /* object: anything else, such as raw samples; NULL: {} */
};

/*
 * Opens the ledger of the project at dir (made if absent: state folder, .rocbudai/) for writing and
 * takes the project's lease.  A torn last line is cut and recorded; a published copy that lags is
 * completed; one that was changed is an error.  A folder that is a copy of another project gets an
 * id and a ledger of its own, what was published is set aside, and a record says so.
 * ERR_BUSY: another program holds the project (message names host, pid and since when, and the
 * takeover rule).  ERR_PARSE: damage, with file and line, and what to do.  ERR_STALE: the project
 * has an id, but its master is not in this state folder.  ERR_LIMIT: the file is too large.
 * ERR_SYS, such as no HOME (EINVAL) or a folder that cannot be written.
 */
int ledger_open(const char *dir, struct ledger **out, struct err *err);
/*
 * Reads without lease and without changing anything: the master, or, where this user has none for
 * the project, the published copy (see ledger_from_copy()).  A last line that is not whole yet is
 * left out.  An absent ledger is ERR_NOT_FOUND; damage is ERR_PARSE with file and line.
 */
int ledger_open_read(const char *dir, struct ledger **out, struct err *err);
/* Gives the lease back (not in a forked child) and frees; NULL is fine. */
void ledger_close(struct ledger *l);

/*
 * Appends one record: one write() and fsync to the master, then the same to the published copy.
 * id receives "E0001" and so on.  On failure (disk full, quota at fsync) the record does not count,
 * and the files are cut back to the last good line; the message names the file.
 * ERR_INVALID: the record is not well formed (message says what) or the ledger is read-only.
 * ERR_LIMIT: longer than LEDGER_LINE_MAX.  ERR_STALE: the lease was taken over, or the published
 * copy was changed by somebody else.  ERR_SYS.
 */
int ledger_append(struct ledger *l, const struct ledger_rec *rec, char id[LEDGER_ID_CAP],
		  struct err *err);

/*
 * Keeps the lease fresh.  Cheap: does nothing unless 60 s have passed since the last time, so it
 * may be called from every tick of a long measurement; after 5 minutes without it a program on
 * another host may take the project over.  ERR_STALE: it was taken over; ERR_SYS.
 */
int ledger_heartbeat(struct ledger *l, struct err *err);

/* Borrowed until close; NULL when there is none.  Records are in file order. */
const struct json *ledger_get(const struct ledger *l, const char *id);
size_t ledger_count(const struct ledger *l);
const struct json *ledger_at(const struct ledger *l, size_t i);
/* sha256 of the last line (without its newline); 64 zeros when empty. */
const char *ledger_head(const struct ledger *l);
/* The state folder of the project: $XDG_STATE_HOME/rocbudai/<project id>.  Borrowed; NULL where
 * the published copy is read. */
const char *ledger_state_dir(const struct ledger *l);
/* 16 hexadecimal digits.  Borrowed; "" where a published copy without id is read. */
const char *ledger_project_id(const struct ledger *l);
/* The file that is read: master or published copy.  Borrowed. */
const char *ledger_path(const struct ledger *l);
/* True where no master was found, so that nothing vouches for the published copy. */
bool ledger_from_copy(const struct ledger *l);
/* What opening had to do or do without, one sentence each (torn tail, takeover, no OFD locks). */
size_t ledger_n_remarks(const struct ledger *l);
const char *ledger_remark(const struct ledger *l, size_t i);

/* ---- array tasks ---- */

/*
 * Opens a shard of an existing project's ledger for an array task, without lease:
 * evidence.d/<host>-<pid>.jsonl, a chain of its own with a master and a published copy.
 * ledger_append() gives ids "<host>-<pid>:E0001".  Close with ledger_close().
 * ERR_NOT_FOUND: the project has no ledger yet.  Others as ledger_open().
 */
int ledger_shard_open(const char *dir, struct ledger **out, struct err *err);
/*
 * Appends the records of all shards that are not in the ledger yet, under their own ids, and a
 * `merge` note that cites the shards' heads.  *n_added may be NULL.  Nothing new: nothing is
 * written.  A crash midway is made good by the next merge.  ERR_PARSE: a shard is damaged.
 */
int ledger_merge(struct ledger *l, size_t *n_added, struct err *err);

/* ---- reading records ---- */

/* *out borrows from rec.  ERR_NOT_FOUND: the record holds no value of this name. */
int ledger_find_value(const struct json *rec, const char *name, struct ledger_value *out);
/* The tag of a value from a bench record: "FACT" from 3 effective repetitions, else "OPINION". */
const char *ledger_tag_bench(unsigned n_effective);

/*
 * Parses and validates one line (without its newline) by itself; chain and order are the caller's.
 * what and line_no name it in errors.  Caller owns *out (json_unref()).  ERR_PARSE, ERR_LIMIT.
 */
int ledger_parse_line(const char *line, size_t len, const char *what, size_t line_no,
		      struct json **out, struct err *err);

#endif
