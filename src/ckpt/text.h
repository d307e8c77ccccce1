/*
 * The form that manifests, the index and journals share: a first line that names the kind, one
 * line an entry with fields between single blanks, path bytes escaped as %xx, and a last line
 * "end COUNT SHA256" over all before it.  Threads: one at a time per object.
 */
#ifndef CKPT_TEXT_H
#define CKPT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct err;
struct str;
struct ckpt_tree;

#define CKPT_TEXT_BYTES_MAX ((size_t)1 << 30)

/* A cursor over lines.  Each field function takes one field and the blank or newline after it;
 * after the first failure bad is set and nothing moves any more. */
struct ckpt_cur {
	const char *p, *end;
	const char *what; /* names the file in errors */
	unsigned long line;
	bool bad;
};

/* Checks the first line, and finds the end.  ERR_PARSE. */
int ckpt_cur_init(struct ckpt_cur *c, const char *text, size_t len, const char *magic,
		  const char *what, struct err *err);
/* Checks the sum in the last line.  ERR_PARSE. */
int ckpt_text_check(const char *text, size_t len, const char *what, struct err *err);
bool ckpt_cur_more(const struct ckpt_cur *c); /* another line before the last one */
char ckpt_cur_letter(struct ckpt_cur *c);
void ckpt_cur_word(struct ckpt_cur *c, const char *word); /* must be there */
uint64_t ckpt_cur_u64(struct ckpt_cur *c, uint64_t max);
int64_t ckpt_cur_i64(struct ckpt_cur *c);
uint32_t ckpt_cur_mode(struct ckpt_cur *c);
void ckpt_cur_sha(struct ckpt_cur *c, unsigned char out[HASH_BYTES]);
/* An escaped string, put into the tree; "-" alone is the empty one. */
const char *ckpt_cur_bytes(struct ckpt_cur *c, struct ckpt_tree *t, size_t max);
int ckpt_cur_error(const struct ckpt_cur *c, const char *why, struct err *err);

void ckpt_put_u64(struct str *s, uint64_t v); /* each with the blank after it */
void ckpt_put_i64(struct str *s, int64_t v);
void ckpt_put_mode(struct str *s, uint32_t mode);
void ckpt_put_sha(struct str *s, const unsigned char sha[HASH_BYTES]);
void ckpt_put_bytes(struct str *s, const char *bytes, char after);
void ckpt_put_end(struct str *s, uint64_t count);

#endif
