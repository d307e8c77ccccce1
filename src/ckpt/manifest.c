#include "ckpt/manifest.h"

#include <string.h>

#include "ckpt/text.h"
#include "core/err.h"
#include "core/str.h"

#define MANIFEST_MAGIC "rocbudai checkpoint 1"
#define INDEX_MAGIC    "rocbudai checkpoint index 1"
#define LABEL_MAX      200
/* no file is larger; keeps sums of sizes from wrapping */
#define SIZE_MAX_BYTES (UINT64_MAX / CKPT_ENTRIES_MAX)

static int manifest_head(struct ckpt_cur *c, struct ckpt_tree *t, struct ckpt_summary *sum)
{
	ckpt_cur_word(c, "at");
	t->created_s = ckpt_cur_i64(c);
	t->partial = ckpt_cur_u64(c, 1) == 1;
	ckpt_cur_word(c, "sum");
	sum->n_files = ckpt_cur_u64(c, CKPT_ENTRIES_MAX);
	sum->n_dirs = ckpt_cur_u64(c, CKPT_ENTRIES_MAX);
	sum->n_links = ckpt_cur_u64(c, CKPT_ENTRIES_MAX);
	sum->n_uncovered = ckpt_cur_u64(c, CKPT_ENTRIES_MAX);
	sum->total_bytes = ckpt_cur_u64(c, UINT64_MAX);
	ckpt_cur_word(c, "label");
	t->label = ckpt_cur_bytes(c, t, LABEL_MAX);
	return c->bad ? ERR_PARSE : ERR_OK;
}

static void manifest_meta(struct ckpt_cur *c, struct ckpt_node *n)
{
	n->mode = ckpt_cur_mode(c);
	n->uid = (uint32_t)ckpt_cur_u64(c, UINT32_MAX);
	n->gid = (uint32_t)ckpt_cur_u64(c, UINT32_MAX);
	n->mtime_ns = ckpt_cur_i64(c);
}

/* One entry; its strings go into t. */
static void manifest_node(struct ckpt_cur *c, struct ckpt_tree *t, struct ckpt_node *n)
{
	switch (ckpt_cur_letter(c)) {
	case 'F':
		n->type = CKPT_FILE;
		manifest_meta(c, n);
		n->size = ckpt_cur_u64(c, SIZE_MAX_BYTES);
		ckpt_cur_sha(c, n->sha);
		n->has_sha = true;
		break;
	case 'D':
		n->type = CKPT_DIR;
		manifest_meta(c, n);
		break;
	case 'L':
		n->type = CKPT_LINK;
		manifest_meta(c, n);
		n->target = ckpt_cur_bytes(c, t, CKPT_PATH_BYTES_MAX + 96);
		break;
	case 'X':
		n->type = CKPT_UNCOVERED;
		n->why = (uint8_t)ckpt_cur_u64(c, CKPT_WHY_MOUNT);
		manifest_meta(c, n);
		n->size = ckpt_cur_u64(c, SIZE_MAX_BYTES);
		break;
	default:
		c->bad = true;
	}
	n->path = ckpt_cur_bytes(c, t, CKPT_PATH_BYTES_MAX);
	if (!c->bad && (!ckpt_path_valid(n->path) || (n->target && !*n->target)))
		c->bad = true;
}

static bool manifest_same_sum(const struct ckpt_summary *a, const struct ckpt_summary *b)
{
	return a->n_files == b->n_files && a->n_dirs == b->n_dirs && a->n_links == b->n_links &&
	       a->n_uncovered == b->n_uncovered && a->total_bytes == b->total_bytes;
}

int ckpt_manifest_parse(const char *text, size_t len, const char *what, struct ckpt_tree **out,
			struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = ckpt_tree_new();
	struct ckpt_summary claimed = { 0 }, real;
	struct ckpt_cur c;
	int r = ckpt_cur_init(&c, text, len, MANIFEST_MAGIC, what, err);

	if (r < 0)
		return r;
	if (manifest_head(&c, t, &claimed) < 0)
		return ckpt_cur_error(&c, "not a line of a checkpoint's head", err);
	while (ckpt_cur_more(&c)) {
		struct ckpt_node n = { 0 };

		manifest_node(&c, t, &n);
		if (c.bad)
			break;
		r = ckpt_tree_add(t, &n, err);
		if (r < 0)
			return err_wrap(err, r, "%s:%lu", what, c.line - 1);
	}
	if (c.bad)
		return ckpt_cur_error(&c, "not an entry of a checkpoint", err);
	ckpt_tree_sum(t, &real);
	if (!manifest_same_sum(&claimed, &real))
		return err_set(err, ERR_PARSE, "%s: its entries are not those it counts", what);
	*out = t;
	t = NULL;
	return ERR_OK;
}

int ckpt_manifest_parse_head(const char *text, size_t len, const char *what, struct ckpt_tree **out,
			     struct ckpt_summary *sum, struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = ckpt_tree_new();
	struct ckpt_summary claimed = { 0 };
	size_t n = strlen(MANIFEST_MAGIC) + 1;
	struct ckpt_cur c = { .end = text + len, .what = what, .line = 2 };

	if (len < n || memcmp(text, MANIFEST_MAGIC "\n", n) != 0)
		return err_set(err, ERR_PARSE, "%s:1: does not begin with '%s'", what,
			       MANIFEST_MAGIC);
	c.p = text + n;
	if (manifest_head(&c, t, &claimed) < 0)
		return ckpt_cur_error(&c, "not a line of a checkpoint's head", err);
	*out = t;
	t = NULL;
	*sum = claimed;
	return ERR_OK;
}

static void manifest_put_meta(const struct ckpt_node *n, struct str *out)
{
	ckpt_put_mode(out, n->mode);
	ckpt_put_u64(out, n->uid);
	ckpt_put_u64(out, n->gid);
	ckpt_put_i64(out, n->mtime_ns);
}

static void manifest_put_node(const struct ckpt_node *n, struct str *out)
{
	switch ((enum ckpt_type)n->type) {
	case CKPT_FILE:
		str_adds(out, "F ");
		manifest_put_meta(n, out);
		ckpt_put_u64(out, n->size);
		ckpt_put_sha(out, n->sha);
		break;
	case CKPT_DIR:
		str_adds(out, "D ");
		manifest_put_meta(n, out);
		break;
	case CKPT_LINK:
		str_adds(out, "L ");
		manifest_put_meta(n, out);
		ckpt_put_bytes(out, n->target, ' ');
		break;
	case CKPT_UNCOVERED:
		str_adds(out, "X ");
		ckpt_put_u64(out, n->why);
		manifest_put_meta(n, out);
		ckpt_put_u64(out, n->size);
		break;
	}
	ckpt_put_bytes(out, n->path, '\n');
}

void ckpt_manifest_write(const struct ckpt_tree *t, struct str *out)
{
	struct ckpt_summary sum;

	ckpt_tree_sum(t, &sum);
	str_adds(out, MANIFEST_MAGIC "\n");
	str_addf(out, "at %lld %d\n", (long long)t->created_s, t->partial);
	str_addf(out, "sum %llu %llu %llu %llu %llu\n", (unsigned long long)sum.n_files,
		 (unsigned long long)sum.n_dirs, (unsigned long long)sum.n_links,
		 (unsigned long long)sum.n_uncovered, (unsigned long long)sum.total_bytes);
	str_adds(out, "label ");
	ckpt_put_bytes(out, t->label, '\n');
	for (size_t i = 0; i < t->len; i++)
		manifest_put_node(&t->v[i], out);
	ckpt_put_end(out, t->len);
}

int ckpt_index_parse(const char *text, size_t len, const char *what, struct ckpt_tree **out,
		     struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = ckpt_tree_new();
	struct ckpt_cur c;
	int r = ckpt_cur_init(&c, text, len, INDEX_MAGIC, what, err);

	if (r < 0)
		return r;
	while (ckpt_cur_more(&c)) {
		struct ckpt_node n = { .type = CKPT_FILE, .has_sha = true, .settled = true };

		n.mtime_ns = ckpt_cur_i64(&c);
		n.ctime_ns = ckpt_cur_i64(&c);
		n.size = ckpt_cur_u64(&c, SIZE_MAX_BYTES);
		n.ino = ckpt_cur_u64(&c, UINT64_MAX);
		n.dev = ckpt_cur_u64(&c, UINT64_MAX);
		ckpt_cur_sha(&c, n.sha);
		n.path = ckpt_cur_bytes(&c, t, CKPT_PATH_BYTES_MAX);
		if (c.bad || !ckpt_path_valid(n.path))
			return ckpt_cur_error(&c, "not an entry of the index", err);
		r = ckpt_tree_add_loose(t, &n, err);
		if (r < 0)
			return err_wrap(err, r, "%s:%lu", what, c.line - 1);
	}
	*out = t;
	t = NULL;
	return ERR_OK;
}

void ckpt_index_write(const struct ckpt_tree *live, struct str *out)
{
	uint64_t count = 0;

	str_adds(out, INDEX_MAGIC "\n");
	for (size_t i = 0; i < live->len; i++) {
		const struct ckpt_node *n = &live->v[i];

		if (n->type != CKPT_FILE || !n->has_sha || !n->settled)
			continue;
		ckpt_put_i64(out, n->mtime_ns);
		ckpt_put_i64(out, n->ctime_ns);
		ckpt_put_u64(out, n->size);
		ckpt_put_u64(out, n->ino);
		ckpt_put_u64(out, n->dev);
		ckpt_put_sha(out, n->sha);
		ckpt_put_bytes(out, n->path, '\n');
		count++;
	}
	ckpt_put_end(out, count);
}
