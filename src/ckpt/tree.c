#include "ckpt/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/err.h"

#define CKPT_CHUNK_BYTES 262144

struct ckpt_chunk {
	struct ckpt_chunk *next;
	size_t used, cap;
	char data[];
};

struct ckpt_tree *ckpt_tree_new(void)
{
	return xcalloc(1, sizeof(struct ckpt_tree));
}

void ckpt_tree_free(struct ckpt_tree *t)
{
	if (!t)
		return;
	for (struct ckpt_chunk *c = t->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(t->v);
	free(t);
}

char *ckpt_tree_alloc(struct ckpt_tree *t, size_t n)
{
	struct ckpt_chunk *c = t->chunks;
	char *p;

	if (!c || c->cap - c->used < n) {
		size_t cap = n > CKPT_CHUNK_BYTES ? n : CKPT_CHUNK_BYTES;

		c = xcalloc(1, sizeof(*c) + cap);
		c->cap = cap;
		c->next = t->chunks;
		t->chunks = c;
	}
	p = c->data + c->used;
	c->used += n;
	return p;
}

char *ckpt_tree_strdup(struct ckpt_tree *t, const char *s)
{
	size_t n = strlen(s) + 1;

	return memcpy(ckpt_tree_alloc(t, n), s, n);
}

static int tree_push(struct ckpt_tree *t, const struct ckpt_node *node, uint32_t parent,
		     struct err *err)
{
	if (t->len && ckpt_path_cmp(t->v[t->len - 1].path, node->path) >= 0)
		return err_set(err, ERR_PARSE, "'%.200s' is not in order", node->path);
	if (t->len >= CKPT_ENTRIES_MAX)
		return err_set(err, ERR_LIMIT,
			       "%s: more than %d files and folders; exclude folders that builds "
			       "and runs do not change",
			       node->path, CKPT_ENTRIES_MAX);
	if (t->len == t->cap) {
		t->cap = t->cap ? t->cap * 2 : 1024;
		t->v = xrealloc_n(t->v, t->cap, sizeof(*t->v));
	}
	t->v[t->len] = *node;
	t->v[t->len++].parent = parent;
	return ERR_OK;
}

int ckpt_tree_add(struct ckpt_tree *t, const struct ckpt_node *node, struct err *err)
{
	uint32_t up = t->len ? (uint32_t)(t->len - 1) : CKPT_NO_PARENT;
	const char *name = node->path;

	/* in tree order the folder is the entry before, or one that holds the entry before */
	while (up != CKPT_NO_PARENT &&
	       (t->v[up].type != CKPT_DIR || !ckpt_path_below(node->path, t->v[up].path)))
		up = t->v[up].parent;
	if (up != CKPT_NO_PARENT)
		name += strlen(t->v[up].path) + (strcmp(node->path, t->v[up].path) != 0);
	if (strchr(name, '/'))
		return err_set(err, ERR_PARSE, "'%.200s' comes without its folder", node->path);
	return tree_push(t, node, up, err);
}

int ckpt_tree_add_loose(struct ckpt_tree *t, const struct ckpt_node *node, struct err *err)
{
	return tree_push(t, node, CKPT_NO_PARENT, err);
}

void ckpt_tree_compact(struct ckpt_tree *t)
{
	size_t n = t->len;

	t->len = 0;
	for (size_t i = 0; i < n; i++) {
		struct ckpt_node node = t->v[i];

		if (node.path)
			(void)ckpt_tree_add(t, &node, NULL); /* they were in order before */
	}
}

int ckpt_path_cmp(const char *a, const char *b)
{
	const unsigned char *p = (const unsigned char *)a, *q = (const unsigned char *)b;
	int x, y;

	while (*p && *p == *q) {
		p++;
		q++;
	}
	/* the end comes before '/', and '/' before any byte of a longer name */
	x = *p == '\0' ? 0 : *p == '/' ? 1 : *p + 2;
	y = *q == '\0' ? 0 : *q == '/' ? 1 : *q + 2;
	return x - y;
}

bool ckpt_path_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n == 0 || (strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/'));
}

bool ckpt_path_valid(const char *path)
{
	size_t depth = 0;

	if (!*path || strlen(path) > CKPT_PATH_BYTES_MAX)
		return false;
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, "/");

		if (n == 0 || n > 255 || (n == 1 && p[0] == '.') ||
		    (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (++depth > CKPT_DEPTH_MAX)
			return false;
		p += n;
		if (!*p)
			return true;
	}
}

const struct ckpt_node *ckpt_tree_find(const struct ckpt_tree *t, const char *path)
{
	size_t lo = 0, hi = t->len;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int d = ckpt_path_cmp(t->v[mid].path, path);

		if (d == 0)
			return &t->v[mid];
		if (d < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

void ckpt_tree_sum(const struct ckpt_tree *t, struct ckpt_summary *sum)
{
	*sum = (struct ckpt_summary){ 0 };
	for (size_t i = 0; i < t->len; i++) {
		switch ((enum ckpt_type)t->v[i].type) {
		case CKPT_FILE:
			sum->n_files++;
			sum->total_bytes += t->v[i].size;
			break;
		case CKPT_DIR:
			sum->n_dirs++;
			break;
		case CKPT_LINK:
			sum->n_links++;
			break;
		case CKPT_UNCOVERED:
			sum->n_uncovered++;
			break;
		}
	}
}

bool ckpt_node_same_content(const struct ckpt_node *a, const struct ckpt_node *b)
{
	if (a->type != b->type)
		return false;
	switch ((enum ckpt_type)a->type) {
	case CKPT_FILE:
		return a->size == b->size && a->has_sha && b->has_sha &&
		       memcmp(a->sha, b->sha, sizeof(a->sha)) == 0;
	case CKPT_LINK:
		return strcmp(a->target, b->target) == 0;
	case CKPT_UNCOVERED:
		/* of a folder, its time says nothing about what is in it */
		return a->why == b->why && a->size == b->size &&
		       (a->why != CKPT_WHY_SIZE || a->mtime_ns == b->mtime_ns);
	case CKPT_DIR:
	default:
		return true;
	}
}

bool ckpt_node_same_meta(const struct ckpt_node *a, const struct ckpt_node *b)
{
	return a->mode == b->mode && a->uid == b->uid && a->gid == b->gid &&
	       a->mtime_ns == b->mtime_ns;
}

void ckpt_node_to_entry(const struct ckpt_node *n, char hex[HASH_HEX_LEN + 1],
			struct ckpt_entry *out)
{
	if (n->has_sha)
		hash_to_hex(n->sha, hex);
	*out = (struct ckpt_entry){
		.path = n->path,
		.type = (enum ckpt_type)n->type,
		.why = (enum ckpt_reason)n->why,
		.mode = n->mode,
		.uid = n->uid,
		.gid = n->gid,
		.mtime_ns = n->mtime_ns,
		.size_bytes = n->size,
		.target = n->target,
		.sha256 = n->has_sha ? hex : NULL,
	};
}

bool ckpt_merge_next(struct ckpt_merge *m, const struct ckpt_node **a, const struct ckpt_node **b)
{
	const struct ckpt_node *x = m->ia < m->a->len ? &m->a->v[m->ia] : NULL;
	const struct ckpt_node *y = m->ib < m->b->len ? &m->b->v[m->ib] : NULL;

	if (!x && !y)
		return false;
	if (x && y) {
		int d = ckpt_path_cmp(x->path, y->path);

		if (d < 0)
			y = NULL;
		else if (d > 0)
			x = NULL;
	}
	if (x)
		m->ia++;
	if (y)
		m->ib++;
	*a = x;
	*b = y;
	return true;
}
