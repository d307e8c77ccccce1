/*
 * The entries of a checkpoint or of the live tree in memory, in tree order: a folder comes before
 * what is in it, and that before the folder's next sibling.  Threads: one at a time per object.
 */
#ifndef CKPT_TREE_H
#define CKPT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "ckpt/ckpt.h"
#include "core/cleanup.h"

struct err;

#define CKPT_PATH_BYTES_MAX 4000
#define CKPT_DEPTH_MAX	    200
#define CKPT_ENTRIES_MAX    2000000
#define CKPT_NO_PARENT	    UINT32_MAX

struct ckpt_node {
	const char *path;   /* owned by the tree */
	const char *target; /* of links; owned by the tree */
	int64_t mtime_ns;
	uint64_t size; /* bytes */
	uint32_t mode, uid, gid;
	uint32_t parent; /* index of the folder that holds it; CKPT_NO_PARENT at the top */
	uint8_t type;	 /* enum ckpt_type */
	uint8_t why;	 /* enum ckpt_reason */
	bool has_sha;
	bool many_links; /* live trees: it has other names */
	/* Live trees and the index only: */
	bool settled; /* unchanged long enough before it was read to be known by its times */
	int64_t ctime_ns;
	uint64_t ino, dev;
	unsigned char sha[HASH_BYTES];
};

struct ckpt_tree {
	struct ckpt_node *v;
	size_t len, cap;
	struct ckpt_chunk *chunks; /* where the strings are */
	/* Of checkpoints: */
	const char *label; /* owned by the tree; never NULL there */
	int64_t created_s;
	bool partial;
};

struct ckpt_tree *ckpt_tree_new(void);
void ckpt_tree_free(struct ckpt_tree *t); /* NULL is fine */
static inline void ckpt_tree_freep(struct ckpt_tree **t)
{
	ckpt_tree_free(*t);
}
#define AUTO_TREE AUTO(ckpt_tree_freep)

/* n bytes that live as long as the tree. */
char *ckpt_tree_alloc(struct ckpt_tree *t, size_t n);
char *ckpt_tree_strdup(struct ckpt_tree *t, const char *s);
/*
 * Appends a copy of the node, whose strings the caller has put into the tree.  _add wants tree
 * order and the folder of each entry before it, and sets parent; _add_loose wants the order alone.
 * ERR_LIMIT (too many entries), ERR_PARSE (not in order).
 */
int ckpt_tree_add(struct ckpt_tree *t, const struct ckpt_node *node, struct err *err);
int ckpt_tree_add_loose(struct ckpt_tree *t, const struct ckpt_node *node, struct err *err);
/* Drops the nodes whose path was set to NULL (no folders with something in them). */
void ckpt_tree_compact(struct ckpt_tree *t);
/* Tree order; the order of all trees. */
int ckpt_path_cmp(const char *a, const char *b);
/* True when path is dir or lies below it; dir "" holds everything. */
bool ckpt_path_below(const char *path, const char *dir);
/* Relative, no empty, "." or ".." component, not too long, not too deep. */
bool ckpt_path_valid(const char *path);
/* NULL when absent. */
const struct ckpt_node *ckpt_tree_find(const struct ckpt_tree *t, const char *path);
void ckpt_tree_sum(const struct ckpt_tree *t, struct ckpt_summary *sum);
/* The same type and content or target; entries not covered by size and time. */
bool ckpt_node_same_content(const struct ckpt_node *a, const struct ckpt_node *b);
/* Mode and owner are the same, and the time too. */
bool ckpt_node_same_meta(const struct ckpt_node *a, const struct ckpt_node *b);
void ckpt_node_to_entry(const struct ckpt_node *n, char hex[HASH_HEX_LEN + 1],
			struct ckpt_entry *out);

/* A walk over two trees at once. */
struct ckpt_merge {
	const struct ckpt_tree *a, *b;
	size_t ia, ib;
};
/* The next pair, with NULL for the side that lacks the path; false at the end. */
bool ckpt_merge_next(struct ckpt_merge *m, const struct ckpt_node **a, const struct ckpt_node **b);

#endif
