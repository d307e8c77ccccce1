/* What the files of this module share.  Threads: one at a time per object. */
#ifndef CKPT_CKPT_PRIV_H
#define CKPT_CKPT_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "ckpt/ckpt.h"
#include "ckpt/manifest.h"
#include "ckpt/store.h"
#include "ckpt/tree.h"

struct err;

/* Opens the folders of paths below a root without ever following a link; the last one is kept
 * open, so that paths in tree order cost little. */
struct ckpt_dirs {
	int root; /* borrowed */
	int fd;	  /* of path, or -1 */
	bool may_write;
	char path[CKPT_PATH_BYTES_MAX + 1];
};

void ckpt_dirs_init(struct ckpt_dirs *d, int root);
void ckpt_dirs_done(struct ckpt_dirs *d);
/*
 * The folder that holds path (borrowed until the next call) and the name in it.  With write, a
 * folder of ours that lacks the bits is given them; the caller sets its mode back afterwards.
 * ERR_SYS; sys_errno ENOENT, ENOTDIR or ELOOP: the folder is not there or is no folder.
 */
int ckpt_dirs_at(struct ckpt_dirs *d, const char *path, bool write, const char **name,
		 struct err *err);
/* Forgets the folder that is kept open: call after removing or renaming folders. */
void ckpt_dirs_reset(struct ckpt_dirs *d);

struct ckpt {
	char *project;	/* for messages */
	char *where;	/* state_dir/ckpt, for messages */
	char **exclude; /* NULL-terminated; own entries first */
	uint64_t file_bytes_max, total_bytes_max;
	ckpt_note_cb on_note;
	void *arg;
	int root;      /* the project */
	int dir;       /* state_dir/ckpt */
	int manifests; /* and the folders in it */
	int packs;
	int lock;
	uint64_t last_id; /* highest number given so far */
	struct ckpt_store *store;
	struct ckpt_tree *index; /* what the last look saw; NULL: nothing known */
	char *recovered;
	bool switching;
	unsigned char *buf; /* CKPT_BUF_BYTES to read files with */
};

#define CKPT_BUF_BYTES	  ((size_t)1 << 20)
#define CKPT_OWN_DIR	  ".rocbudai"
#define CKPT_STAGE_SWITCH "stage"   /* in it: the files of a switch */
#define CKPT_STAGE	  "restore" /* and of a restoration */
#define CKPT_JOURNAL	  "journal"
#define CKPT_JOURNAL_SW	  "switch"

/* Is it, or a folder above it, excluded by now? */
enum ckpt_reason ckpt_excluded(const struct ckpt *c, const char *path);

/* The live tree without hashes.  note may be NULL.  ERR_SYS, ERR_LIMIT. */
int ckpt_walk(struct ckpt *c, ckpt_note_cb note, void *arg, struct ckpt_tree **out,
	      struct err *err);
/* Fills in what stat says; the path and type are the caller's. */
void ckpt_node_from_stat(struct ckpt_node *n, const struct stat *st);

/*
 * The live tree with hashes, from the index where a file is as it was, else by reading; renews the
 * index.  store: also puts what the store lacks into its open pack.
 */
int ckpt_scan(struct ckpt *c, bool store, struct ckpt_tree **out, struct err *err);
/* Reads one file of the live tree into node (whose path is set): hash, size, times.  1: gone. */
int ckpt_read_live(struct ckpt *c, struct ckpt_dirs *dirs, bool store, struct ckpt_node *node,
		   struct err *err);

/* A checkpoint's manifest, or the live tree (hashed) for CKPT_LIVE.  ERR_NOT_FOUND, ERR_PARSE. */
int ckpt_load(struct ckpt *c, const char *id, struct ckpt_tree **out, struct err *err);
/* The same for whole checkpoints alone.  ERR_REFUSED: a partial one. */
int ckpt_load_whole(struct ckpt *c, const char *id, struct ckpt_tree **out, struct err *err);
/* Saves the tree as the next checkpoint; the open pack must have been committed. */
int ckpt_save(struct ckpt *c, const struct ckpt_tree *t, char id[CKPT_ID_CAP], struct err *err);
/* The numbers of all checkpoints, ascending.  Caller frees *out. */
int ckpt_numbers(struct ckpt *c, uint64_t **out, size_t *n, struct err *err);
void ckpt_format_id(uint64_t number, char id[CKPT_ID_CAP]);

/* Journals in the state folder.  Absent: ERR_NOT_FOUND. */
int ckpt_journal_load(struct ckpt *c, const char *name, struct ckpt_journal **out, struct err *err);
int ckpt_journal_save(struct ckpt *c, const char *name, const struct ckpt_journal *j,
		      struct err *err);
int ckpt_journal_drop(struct ckpt *c, const char *name, struct err *err);

/* Makes a stage, a folder in CKPT_OWN_DIR, anew and opens it: *fd is the caller's. */
int ckpt_stage_make(struct ckpt *c, const char *stage, int *fd, struct err *err);
int ckpt_stage_drop(struct ckpt *c, const char *stage, struct err *err);
/* Makes the file or link that the node says as name in dir_fd, with its times and mode. */
int ckpt_materialise(struct ckpt *c, int dir_fd, const char *name, const struct ckpt_node *node,
		     struct err *err);
/* Sets mode, owner (where we may) and time of what is there. */
int ckpt_set_meta(int dir_fd, const char *name, const struct ckpt_node *node, struct err *err);
/* Does what the journal says with the checkpoint's tree; can be repeated after a crash. */
int ckpt_apply(struct ckpt *c, const struct ckpt_journal *j, const struct ckpt_tree *target,
	       struct err *err);

/*
 * ckpt_restore() for a tree that may be a mixture with the checkpoint also (NULL: none).  res NULL:
 * a preview.
 */
int ckpt_restore_mixed(struct ckpt *c, const char *id, const char *also,
		       const struct ckpt_restore_opts *opts, ckpt_act_cb cb, void *arg,
		       struct ckpt_restored *res, struct err *err);
/*
 * Saves the files of t, read as they are now, as a partial checkpoint.  A file's target names where
 * it lies, if not at its path.  t and its strings stay the caller's; label must live as long.
 */
int ckpt_save_some(struct ckpt *c, struct ckpt_tree *t, const char *label, char id[CKPT_ID_CAP],
		   struct err *err);
/* ERR_STALE where a restoration of ours failed half way. */
int ckpt_journal_pending(struct ckpt *c, struct err *err);
/* Finishes what a killed program left. */
int ckpt_recover(struct ckpt *c, struct err *err);
int ckpt_switch_recover(struct ckpt *c, struct err *err);

#endif
