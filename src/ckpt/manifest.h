/*
 * The files that say what a checkpoint holds (manifest), what the last look at the tree saw
 * (index), and what a restoration is about to do (journal), as text.  All come from disk and are
 * taken for bytes from outside.  Threads: one at a time per object.
 */
#ifndef CKPT_MANIFEST_H
#define CKPT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt/tree.h"

struct err;
struct str;

/*
 * Parse without checking the sum (ckpt_text_check() does); what names the file in errors.  The
 * caller frees *out.  ERR_PARSE with the line, ERR_LIMIT.
 */
int ckpt_manifest_parse(const char *text, size_t len, const char *what, struct ckpt_tree **out,
			struct err *err);
/* Only what stands before the entries; *out has no entries, *sum is what the file claims. */
int ckpt_manifest_parse_head(const char *text, size_t len, const char *what, struct ckpt_tree **out,
			     struct ckpt_summary *sum, struct err *err);
void ckpt_manifest_write(const struct ckpt_tree *t, struct str *out);

/* Files alone, with ctime, inode and device. */
int ckpt_index_parse(const char *text, size_t len, const char *what, struct ckpt_tree **out,
		     struct err *err);
/* Writes the settled files of a live tree. */
void ckpt_index_write(const struct ckpt_tree *live, struct str *out);

enum ckpt_op_kind {
	CKPT_OP_REMOVE, /* the live entry of that type, size and time */
	CKPT_OP_MKDIR,
	CKPT_OP_PLACE,	/* the file or link of the checkpoint, prepared as number slot */
	CKPT_OP_META,	/* mode, owner and time of a file or link of the checkpoint */
	CKPT_OP_FOLDER, /* mode, owner and time of a folder, last of all */
	CKPT_OP_N,
};

struct ckpt_op {
	enum ckpt_op_kind kind;
	const char *path; /* owned by the journal */
	uint32_t slot;
	struct ckpt_node node; /* without strings: what REMOVE and FOLDER need to know */
};

struct ckpt_journal {
	const char *id;		 /* the checkpoint to come to; "" in a journal of a switch */
	const char *side[2];	 /* of a switch: its checkpoints */
	struct ckpt_tree *store; /* where the strings are */
	struct ckpt_op *v;
	size_t len, cap;
	uint32_t n_slots; /* PLACE operations added */
};

void ckpt_journal_free(struct ckpt_journal *j); /* NULL is fine */
struct ckpt_journal *ckpt_journal_new(void);
void ckpt_journal_add(struct ckpt_journal *j, enum ckpt_op_kind kind, const char *path,
		      const struct ckpt_node *node);
int ckpt_journal_parse(const char *text, size_t len, const char *what, struct ckpt_journal **out,
		       struct err *err);
void ckpt_journal_write(const struct ckpt_journal *j, struct str *out);

/* "C" and digits. */
int ckpt_id_number(const char *id, uint64_t *out);

#endif
