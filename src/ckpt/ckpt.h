/*
 * Checkpoints of a project's files: what they were, byte for byte, and the way back.
 *
 * A checkpoint is a manifest of ours (paths, types, modes, times, sizes, hashes) over a store of
 * file contents, both in the state folder and so outside the project.  No user configuration,
 * attribute or hook takes part.  Not covered are the project's own top-level .git, our own files,
 * what the caller excludes, sockets, fifos and devices, files over the size limit and what lies
 * below another mount; ckpt_plan() names them beforehand.  Nested repositories are ordinary files.
 * Links are kept as links and never followed.  Extended attributes and ACLs are not kept; a file
 * with several hard links is kept as a file of its own.
 *
 * Paths are bytes, relative to the project, without leading "./", at most 4000 bytes.
 * Threads: one thread per object; one object per project at a time (ERR_BUSY).
 */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct ckpt;
struct ckpt_switch;

#define CKPT_ID_CAP		16     /* "C0001" with its NUL */
#define CKPT_LIVE		"live" /* stands for the tree as it is now where an id is asked for */
#define CKPT_FILE_BYTES_DEFAULT (UINT64_C(256) << 20)

enum ckpt_type {
	CKPT_FILE,
	CKPT_DIR,
	CKPT_LINK,
	CKPT_UNCOVERED, /* known to have been there, its content not kept */
};

enum ckpt_reason {
	CKPT_WHY_NONE,
	CKPT_WHY_EXCLUDED, /* by the caller's list, or ours */
	CKPT_WHY_USER_GIT, /* the project's own .git */
	CKPT_WHY_SIZE,	   /* over file_bytes_max */
	CKPT_WHY_SPECIAL,  /* socket, fifo or device */
	CKPT_WHY_MOUNT,	   /* another file system is mounted there */
	CKPT_WHY_HARDLINK, /* a note only: covered, but the link between the names is not kept */
	CKPT_WHY_CHANGING, /* a note only: it changed while it was read; kept as it was read last */
};

/* One sentence for people, without full stop. */
const char *ckpt_reason_text(enum ckpt_reason why);

/* What a manifest holds of one path.  Borrowed: valid during the callback. */
struct ckpt_entry {
	const char *path;
	enum ckpt_type type;
	enum ckpt_reason why; /* of CKPT_UNCOVERED; otherwise CKPT_WHY_NONE */
	uint32_t mode;	      /* permission bits, 07777 */
	uint32_t uid, gid;
	int64_t mtime_ns;    /* since 1970 */
	uint64_t size_bytes; /* of files, covered or not; else 0 */
	const char *target;  /* of links; else NULL */
	const char *sha256;  /* 64 hexadecimal digits of covered files; else NULL */
};
/* Returns 0 to go on; anything else ends the walk and is what the walk returns. */
typedef int (*ckpt_entry_cb)(void *arg, const struct ckpt_entry *entry);
/* Something not covered, or a note (CKPT_WHY_HARDLINK, CKPT_WHY_CHANGING). */
typedef void (*ckpt_note_cb)(void *arg, const char *path, enum ckpt_reason why,
			     uint64_t size_bytes);

struct ckpt_opts {
	const char *const *exclude; /* NULL-terminated paths; a folder excludes all below it.
				       .rocbudai and .rocbudai-sessions.json always are */
	uint64_t file_bytes_max;    /* larger files are not covered; 0: CKPT_FILE_BYTES_DEFAULT */
	uint64_t total_bytes_max;   /* covered files together; 0: no limit */
	ckpt_note_cb on_note;	    /* called while a checkpoint is made; may be NULL */
	void *arg;
};

/*
 * Opens the store in state_dir/ckpt (made if absent) for the project at project_dir, and finishes
 * what a killed program left half done: a restoration that had begun is completed, a switch is
 * brought back to the checkpoint it started from.  opts may be NULL; it is copied.
 * ERR_BUSY: another program has it open.  ERR_PARSE: the store is damaged (message names the file).
 * ERR_SYS, ERR_INVALID.
 */
int ckpt_open(const char *state_dir, const char *project_dir, const struct ckpt_opts *opts,
	      struct ckpt **out, struct err *err);
void ckpt_close(struct ckpt *c); /* NULL is fine */
/* What ckpt_open() had to finish: one sentence for the user, or NULL.  Borrowed. */
const char *ckpt_recovered(const struct ckpt *c);

struct ckpt_summary {
	uint64_t n_files, n_dirs, n_links; /* covered */
	uint64_t n_uncovered;
	uint64_t total_bytes; /* of covered files */
};

/*
 * Walks the project without reading any file and tells what a checkpoint would not cover, and the
 * notes known without reading.  note and sum may be NULL.
 * ERR_SYS: a folder cannot be read (named).  ERR_LIMIT: too many files, too deep, or over
 * total_bytes_max (sum is filled then too).
 */
int ckpt_plan(struct ckpt *c, ckpt_note_cb note, void *arg, struct ckpt_summary *sum,
	      struct err *err);

/*
 * Makes a checkpoint of the tree as it is.  Files whose size, times and inode are as at the last
 * look are not read again, unless they were changed within 2 s of that look.  label (at most 200
 * bytes) is for people; NULL is "".  On failure (unreadable file, full disk) the store is as
 * before. ERR_SYS, ERR_LIMIT; the message names the file.
 */
int ckpt_create(struct ckpt *c, const char *label, char id[CKPT_ID_CAP], struct err *err);

struct ckpt_info {
	const char *id, *label; /* borrowed: valid during the callback */
	int64_t created_s;	/* since 1970 */
	bool partial;		/* holds only what a restoration would have lost (see there) */
	struct ckpt_summary sum;
};
typedef int (*ckpt_info_cb)(void *arg, const struct ckpt_info *info);
/* Oldest first. */
int ckpt_list(struct ckpt *c, ckpt_info_cb cb, void *arg, struct err *err);
/* ERR_NOT_FOUND. */
int ckpt_each(struct ckpt *c, const char *id, ckpt_entry_cb cb, void *arg, struct err *err);

/*
 * sha256 over the entries at or below the given paths (path, type, mode, size, content or target;
 * no times, no owners), in the manifest's order; n_paths 0 is the whole tree.  id may be CKPT_LIVE.
 * ERR_NOT_FOUND: no such checkpoint, or a path that is not in it (named).
 */
int ckpt_hash_subset(struct ckpt *c, const char *id, const char *const *paths, size_t n_paths,
		     char out[65], struct err *err);
/* The content of one file, checked against its hash.  Caller frees *out (NUL-terminated).
 * ERR_NOT_FOUND, ERR_LIMIT (larger than max), ERR_PARSE (damaged). */
int ckpt_read(struct ckpt *c, const char *id, const char *path, size_t max, char **out, size_t *len,
	      struct err *err);

enum ckpt_change {
	CKPT_ADDED,   /* only in b */
	CKPT_REMOVED, /* only in a */
	CKPT_CHANGED, /* content, target or type differs */
	CKPT_META,    /* only mode, owner or (not for folders) time differs */
};

struct ckpt_diff {
	enum ckpt_change change;
	const struct ckpt_entry *a, *b; /* NULL where it is not there */
};
typedef int (*ckpt_diff_cb)(void *arg, const struct ckpt_diff *diff);
/* Either id may be CKPT_LIVE.  Entries not covered are compared by size and time. */
int ckpt_diff(struct ckpt *c, const char *id_a, const char *id_b, ckpt_diff_cb cb, void *arg,
	      struct err *err);

enum ckpt_policy {
	CKPT_KEEP_UNKNOWN, /* what the user made meanwhile stays */
	CKPT_DELETE,	   /* the user agreed to its removal */
};

struct ckpt_restore_opts {
	enum ckpt_policy policy;
	/* What our own builds made or changed since the checkpoint: paths, a folder stands for all
	 * below it.  NULL-terminated, or NULL. */
	const char *const *ours;
};

enum ckpt_act {
	CKPT_ACT_WRITE,	 /* made, or its content put back */
	CKPT_ACT_META,	 /* mode, owner or time put back */
	CKPT_ACT_REMOVE, /* ours, or a checkpoint has the same content at the path */
	/* Made or changed by nobody we know, its content in no checkpoint: */
	CKPT_ACT_KEEP,	  /* new, stays (CKPT_KEEP_UNKNOWN) */
	CKPT_ACT_DISCARD, /* new, removed (CKPT_DELETE); saved first */
	CKPT_ACT_REPLACE, /* changed, put back; saved first */
};
typedef int (*ckpt_act_cb)(void *arg, enum ckpt_act act, const char *path);

struct ckpt_restored {
	uint64_t n_written, n_meta, n_removed, n_kept, n_discarded, n_replaced;
	/* The partial checkpoint that holds what was discarded or replaced; "" where there was
	 * nothing. */
	char saved_id[CKPT_ID_CAP];
};

/* What ckpt_restore() would do now.  Changes nothing.  Errors as there. */
int ckpt_restore_preview(struct ckpt *c, const char *id, const struct ckpt_restore_opts *opts,
			 ckpt_act_cb cb, void *arg, struct err *err);
/*
 * Makes the tree what it was, with modes, times, links and empty folders.  A file that is not in
 * the checkpoint is removed only if it is ours (opts->ours), if another (not partial) checkpoint
 * has the same content at its path, or by policy.  What would be lost is saved as a partial
 * checkpoint before.  opts NULL: CKPT_KEEP_UNKNOWN, nothing ours.  cb (may be NULL) is told each
 * act, before anything is changed.  All new contents are written beside the tree first: a full disk
 * leaves the tree as it was.  SIGKILL at any moment leaves the old tree, or the new one after the
 * next ckpt_open(). ERR_REFUSED: a file of the user's stands where a file must become a folder or
 * the reverse, or is too large to be saved (named).  ERR_PARSE: the store is damaged.
 * ERR_NOT_FOUND, ERR_SYS.
 */
int ckpt_restore(struct ckpt *c, const char *id, const struct ckpt_restore_opts *opts,
		 ckpt_act_cb cb, void *arg, struct ckpt_restored *res, struct err *err);

/*
 * Two checkpoints in one tree, for measurements in turns: the files that differ are kept ready
 * below .rocbudai/stage and exchanged by rename, so that times, inodes and the page cache stay.
 * The tree must be at a or b as far as they differ (ERR_STALE names the first path that is at
 * neither).  *side receives where it is: 0 for a, 1 for b.  While a switch is open, only
 * ckpt_switch_*, ckpt_list and ckpt_each may be called (ERR_BUSY).
 * ERR_SYS: among others, .rocbudai lies on another file system.
 */
int ckpt_switch_open(struct ckpt *c, const char *id_a, const char *id_b, struct ckpt_switch **out,
		     int *side, struct err *err);
/*
 * Makes the tree side 0 (a) or 1 (b).  Nothing to do is fine.  Files that are in neither are left
 * alone.  After a failure the switch can only be closed, which restores.  No sync: microseconds a
 * file.
 */
int ckpt_switch_to(struct ckpt_switch *sw, int side, struct err *err);
/* Number of paths that are exchanged. */
size_t ckpt_switch_count(const struct ckpt_switch *sw);
/* Leaves the tree at the side and frees the switch, also on failure.  NULL is fine. */
int ckpt_switch_close(struct ckpt_switch *sw, int side, struct err *err);

/* Drops all checkpoints but those named (NULL-terminated) and the contents nobody needs any more.
 * freed_bytes may be NULL. */
int ckpt_gc(struct ckpt *c, const char *const *keep, uint64_t *freed_bytes, struct err *err);
/* Reads everything back and checks every hash.  ERR_PARSE names the checkpoint and the path. */
int ckpt_verify(struct ckpt *c, struct err *err);

#endif
