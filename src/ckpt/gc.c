#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

/* Hashes, sorted for searching. */
struct gc_set {
	unsigned char (*v)[HASH_BYTES];
	size_t n, cap;
};

static void gc_add(struct gc_set *s, const unsigned char sha[HASH_BYTES])
{
	if (s->n == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 1024;
		s->v = xrealloc_n(s->v, s->cap, sizeof(*s->v));
	}
	memcpy(s->v[s->n++], sha, HASH_BYTES);
}

static int gc_cmp(const void *a, const void *b)
{
	return memcmp(a, b, HASH_BYTES);
}

/* Sorts, and drops what is there twice, so that many checkpoints of one tree stay small. */
static void gc_sort(struct gc_set *s)
{
	size_t n = 0;

	if (!s->n)
		return;
	qsort(s->v, s->n, sizeof(*s->v), gc_cmp);
	for (size_t i = 0; i < s->n; i++) {
		if (n == 0 || memcmp(s->v[n - 1], s->v[i], HASH_BYTES) != 0)
			memmove(s->v[n++], s->v[i], HASH_BYTES);
	}
	s->n = n;
}

static bool gc_has(const struct gc_set *s, const unsigned char sha[HASH_BYTES])
{
	return s->n && bsearch(sha, s->v, s->n, sizeof(*s->v), gc_cmp);
}

static bool gc_need_cb(void *arg, const unsigned char sha[HASH_BYTES])
{
	return gc_has(arg, sha);
}

static bool gc_is_kept(const char *const *keep, const char *id)
{
	for (; keep && *keep; keep++) {
		if (strcmp(*keep, id) == 0)
			return true;
	}
	return false;
}

/* The contents that the kept checkpoints need. */
static int gc_find_needed(struct ckpt *c, const char *const *keep, struct gc_set *need,
			  struct err *err)
{
	for (; keep && *keep; keep++) {
		AUTO_TREE struct ckpt_tree *t = NULL;
		int r = strcmp(*keep, CKPT_LIVE) == 0
				? err_set(err, ERR_NOT_FOUND, "'%s': no such checkpoint", *keep)
				: ckpt_load(c, *keep, &t, err);

		if (r < 0 || !t)
			return r;
		for (size_t i = 0; i < t->len; i++) {
			if (t->v[i].has_sha)
				gc_add(need, t->v[i].sha);
		}
		gc_sort(need);
	}
	return ERR_OK;
}

static int gc_drop(struct ckpt *c, const char *const *keep, struct err *err)
{
	AUTO_FREE uint64_t *v = NULL;
	char text[32];
	size_t n = 0;
	int r = ckpt_numbers(c, &v, &n, err);

	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)c->last_id);
	r = file_write_atomic(c->dir, "last-id", text, strlen(text), 0600, err);
	for (size_t i = 0; r == ERR_OK && i < n; i++) {
		char id[CKPT_ID_CAP];

		ckpt_format_id(v[i], id);
		if (!gc_is_kept(keep, id) && unlinkat(c->manifests, id, 0) < 0)
			r = err_sys(err, errno, "remove %s/manifests/%s", c->where, id);
	}
	(void)fsync(c->manifests);
	return r;
}

int ckpt_gc(struct ckpt *c, const char *const *keep, uint64_t *freed_bytes, struct err *err)
{
	struct gc_set need = { 0 };
	int r = c->switching ? err_set(err, ERR_BUSY, "a switch between checkpoints is open")
			     : ckpt_journal_pending(c, err);

	if (r == ERR_OK)
		r = gc_find_needed(c, keep, &need, err);
	/* manifests first: a crash in between leaves contents too many, never too few */
	if (r == ERR_OK)
		r = gc_drop(c, keep, err);
	if (r == ERR_OK)
		r = ckpt_store_gc(c->store, gc_need_cb, &need, freed_bytes, err);
	free(need.v);
	return r;
}

static void gc_bad_cb(void *arg, const unsigned char sha[HASH_BYTES])
{
	gc_add(arg, sha);
}

static int gc_verify_one(struct ckpt *c, const char *id, const struct gc_set *bad, struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	int r = ckpt_load(c, id, &t, err);

	for (size_t i = 0; r == ERR_OK && i < t->len; i++) {
		const struct ckpt_node *n = &t->v[i];

		if (!n->has_sha)
			continue;
		if (!ckpt_store_has(c->store, n->sha))
			r = err_set(err, ERR_PARSE,
				    "checkpoint %s: the content of '%.200s' is missing in %s", id,
				    n->path, c->where);
		else if (gc_has(bad, n->sha))
			r = err_set(err, ERR_PARSE,
				    "checkpoint %s: the content of '%.200s' is damaged in %s", id,
				    n->path, c->where);
	}
	return r;
}

int ckpt_verify(struct ckpt *c, struct err *err)
{
	AUTO_FREE uint64_t *v = NULL;
	struct gc_set bad = { 0 };
	size_t n = 0;
	int r = ckpt_store_verify(c->store, gc_bad_cb, &bad, err);

	gc_sort(&bad);
	if (r == ERR_OK)
		r = ckpt_numbers(c, &v, &n, err);
	for (size_t i = 0; r == ERR_OK && i < n; i++) {
		char id[CKPT_ID_CAP];

		ckpt_format_id(v[i], id);
		r = gc_verify_one(c, id, &bad, err);
	}
	free(bad.v);
	return r;
}
