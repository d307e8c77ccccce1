/* Shared within the ledger module: records, chains, places, leases.  Threads: as ledger.h. */
#ifndef LEDGER_PRIV_H
#define LEDGER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash.h"
#include "core/str.h"
#include "ledger/ledger.h"

struct err;
struct json;
struct ledger_rec;

#define LEDGER_ZEROS	 "0000000000000000000000000000000000000000000000000000000000000000"
#define LEDGER_SHARD_CAP 72 /* "<host>-<pid>" with its NUL */
#define LEDGER_DOT	 ".rocbudai"
#define LEDGER_FILE	 "evidence.jsonl"
#define LEDGER_SHARDS	 "evidence.d"
#define LEDGER_MSG_CAP	 400

/* ---- record.c: one record by itself ---- */

/* Splits "E0001" or "shard:E0001"; shard becomes "" for the first.  False: neither. */
bool ledger_id_split(const char *id, char shard[LEDGER_SHARD_CAP], uint64_t *num);
void ledger_id_make(const char *shard, uint64_t num, char id[LEDGER_ID_CAP]);
bool ledger_is_hash(const char *s);
/* This host's name, only [A-Za-z0-9._-], at most 48 bytes. */
void ledger_host(char out[64]);
/* A record without its prev. */
struct json *ledger_rec_json(const struct ledger_rec *rec, const char *id);
/* ERR_PARSE: why it is not a record; message without file and line. */
int ledger_check(const struct json *rec, struct err *err);

/* ---- chain.c: what a record must be after those before it ---- */

struct ledger_chain {
	char head[HASH_HEX_LEN + 1];
	uint64_t n;
	uint64_t own;		      /* the last number of the chain's own ids */
	char shard[LEDGER_SHARD_CAP]; /* "" for the main ledger */
	struct json *shards;	      /* main: name -> {"n","head"} of what was merged */
};

void ledger_chain_init(struct ledger_chain *c, const char *shard);
void ledger_chain_done(struct ledger_chain *c);
/* Each returns ERR_PARSE with a message without file and line; state is not changed. */
int ledger_chain_prev(const struct ledger_chain *c, const struct json *rec, struct err *err);
int ledger_chain_id(const struct ledger_chain *c, const struct json *rec, struct err *err);
int ledger_chain_parents(const struct ledger_chain *c, const struct json *rec, struct err *err);
/* A merged record gives its line in the shard; a merge note agrees with what was merged. */
int ledger_chain_merged(const struct ledger_chain *c, const struct json *rec, struct err *err);
/* All four, first failure. */
int ledger_chain_check(const struct ledger_chain *c, const struct json *rec, struct err *err);
/* Takes the record in, whatever was wrong with it. */
void ledger_chain_add(struct ledger_chain *c, const struct json *rec, const char *line, size_t len);
/* A note whose detail.shards cites heads of shards. */
bool ledger_is_merge(const struct json *rec);
/* How many records of a shard were merged, and the hash of the last one's line there. */
uint64_t ledger_chain_shard(const struct ledger_chain *c, const char *shard, const char **head);
/* A shard's record as it becomes one of the main ledger, without the new prev. */
struct json *ledger_merged_from(const struct json *shard_rec);
/* The line that a merged record was in its shard.  Caller frees. */
char *ledger_merged_line(const struct json *rec);

/* ---- head.c: count and hash of the master ---- */

/*
 * Written before the master: what is committed, and what the write that follows will make of it.
 * So a record that the program did not come to acknowledge is told from one that somebody added.
 */
struct ledger_mark {
	uint64_t n;
	char head[HASH_HEX_LEN + 1];
	bool has_next;
	uint64_t next_n;
	char next_head[HASH_HEX_LEN + 1];
};

int ledger_mark_read(int state_fd, const char *what, struct ledger_mark *out, struct err *err);
int ledger_mark_write(int state_fd, const char *what, const struct ledger_mark *m, struct err *err);
/* Does a master of n records ending in head agree with the mark? at_n is its hash at mark->n. */
int ledger_mark_check(const struct ledger_mark *m, uint64_t n, const char *head, const char *at_n,
		      struct err *err);

/* What a reader beside a writer looks at: sizes and a mark that belong together. */
struct ledger_view {
	struct ledger_mark mark;
	uint64_t master, copy; /* bytes */
};

/*
 * Takes a view of one moment.  copy_fd may be -1.  The copy holds at least the records that the
 * mark calls committed, the master at most those that it announces.  ERR_SYS, and the errors of
 * ledger_mark_read().
 */
int ledger_view_take(int state_fd, const char *what, int master_fd, int copy_fd,
		     struct ledger_view *out, struct err *err);

/* ---- place.c: where things are ---- */

struct ledger_place {
	char *dir;	  /* as given */
	char *real;	  /* its realpath: bytes */
	char *dot;	  /* dir/.rocbudai */
	int dot_fd;	  /* -1: absent (reading only) */
	char id[17];	  /* "" while unknown */
	char *state_root; /* NULL where neither XDG_STATE_HOME nor HOME is set (reading only) */
	char *state;	  /* state_root/id; NULL: none */
	int state_fd;	  /* -1: none */
};

enum ledger_found {
	LEDGER_FOUND,	   /* id and master, of this folder */
	LEDGER_FOUND_NONE, /* no id */
	LEDGER_FOUND_LOST, /* id, but no master in this state folder */
	LEDGER_FOUND_COPY, /* id and master, but of another folder that still exists */
	LEDGER_FOUND_MOVED /* id and master, and the folder they were made in is gone */
};

void ledger_place_init(struct ledger_place *p);
void ledger_place_done(struct ledger_place *p);
/* Fills dir to dot_fd and state_root; with make, makes .rocbudai. */
int ledger_place_open(struct ledger_place *p, const char *dir, bool make, struct err *err);
/*
 * Reads the id and looks for its master; state and state_fd are set unless NONE or LOST.  *other
 * (free()) is the recorded path where it is another one and known.
 */
int ledger_place_find(struct ledger_place *p, enum ledger_found *found, char **other,
		      struct err *err);
/* A new id with an empty state folder; the id is not published yet. */
int ledger_place_new(struct ledger_place *p, struct err *err);
/* Publishes the id: from here on the state folder is the project's. */
int ledger_place_publish_id(struct ledger_place *p, struct err *err);
/* Records this folder as the master's. */
int ledger_place_claim(struct ledger_place *p, struct err *err);
/* Renames published evidence that is not this ledger's out of the way.  *file (free()) is what
 * evidence.jsonl became, NULL where there was none. */
int ledger_place_set_aside(struct ledger_place *p, char **file, struct err *err);

/* ---- lease.c ---- */

struct ledger_lease {
	int dir_fd; /* borrowed */
	char *path; /* for messages; owned */
	int fd;	    /* of the lease file; -1: not held */
	char *text; /* as written */
	char id[33];
};

#define LEDGER_LEASE_INIT                                                                          \
	{                                                                                          \
		.dir_fd = -1, .fd = -1                                                             \
	}

/*
 * *from (free()) says from whom it was taken over, NULL where it was free.  ERR_BUSY, ERR_SYS.
 */
int ledger_lease_take(struct ledger_lease *ls, int dir_fd, const char *dir, char **from,
		      struct err *err);
/* Still ours?  Made again where the file was only removed.  ERR_STALE, ERR_SYS. */
int ledger_lease_check(struct ledger_lease *ls, struct err *err);
int ledger_lease_beat(struct ledger_lease *ls, struct err *err);
/* Removes the file where it is ours and release is true; frees. */
void ledger_lease_done(struct ledger_lease *ls, bool release);

/* ---- ledger.c ---- */

struct ledger_out {
	int dir_fd; /* borrowed */
	char *name; /* in that folder */
	char *path; /* for messages */
	int fd;
	uint64_t size;
};

struct ledger {
	struct ledger_place place;
	struct ledger_lease lease[2]; /* of the project, of the state folder */
	bool writable, broken, from_copy;
	pid_t owner;
	uint64_t beat_ns;
	struct ledger_out master, copy;
	int shard_fd[2]; /* evidence.d of state and project, of a shard; else -1 */
	struct ledger_mark mark;
	struct ledger_chain chain;
	struct json **recs; /* n of them */
	size_t n, cap;
	struct json *by_id; /* id -> index */
	char **remarks;
	size_t n_remarks;
};

struct ledger *ledger_new(const char *shard);
/* Takes rec: the next of the records in memory. */
void ledger_push(struct ledger *l, struct json *rec);
void ledger_remark_take(struct ledger *l, char *text);
/* Opens (and with O_CREAT in flags makes) a file that is appended to.  Never follows a link. */
int ledger_out_open(struct ledger_out *o, int dir_fd, const char *dir, const char *name, int flags,
		    struct err *err);

/* Records that go to the disk with one write. */
struct ledger_batch {
	struct ledger_chain chain;
	struct str text;
	struct json **recs;
	size_t n, cap;
};

void ledger_batch_init(struct ledger_batch *b, const struct ledger *l);
void ledger_batch_done(struct ledger_batch *b);
/* Takes rec, also on failure; sets its prev.  ERR_INVALID: not a record that may follow. */
int ledger_batch_add(struct ledger_batch *b, struct json *rec, struct err *err);
/* All or nothing.  An empty batch is fine.  The batch is to be done with afterwards. */
int ledger_batch_commit(struct ledger *l, struct ledger_batch *b, struct err *err);

/* ---- shard.c ---- */

/* Names (without .jsonl) of the shards in a folder, sorted; n of them.  fd may be -1. */
struct ledger_names {
	char **v;
	size_t n;
};

int ledger_shard_list(int dir_fd, const char *what, struct ledger_names *out, struct err *err);
void ledger_names_done(struct ledger_names *n);

/* ---- load.c ---- */

struct ledger_loaded {
	uint64_t good;	  /* bytes of whole, valid lines */
	uint64_t torn;	  /* bytes after them */
	size_t torn_line; /* its number; 0: none */
};

/*
 * Reads the first limit bytes of the file into l.  mark may be NULL.  A last line that is not whole
 * or no record is torn, unless the mark says that it was acknowledged.  ERR_PARSE: damage.
 */
int ledger_load(struct ledger *l, const struct ledger_out *from, uint64_t limit,
		const struct ledger_mark *mark, struct ledger_loaded *out, struct err *err);
/* Empties what ledger_load() filled. */
void ledger_unload(struct ledger *l);
/*
 * Makes the published copy as the master.  *torn_line and *torn are what had to be cut.
 * ERR_PARSE: it is no beginning of the master.
 */
int ledger_copy_sync(const struct ledger_out *master, struct ledger_out *copy,
		     struct ledger_loaded *out, struct err *err);

#endif
