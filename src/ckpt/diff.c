#include <string.h>

#include "ckpt/ckpt_priv.h"
#include "ckpt/text.h"
#include "core/err.h"
#include "core/str.h"

static int diff_allowed(const struct ckpt *c, const char *id, struct err *err)
{
	if (c->switching && strcmp(id, CKPT_LIVE) == 0)
		return err_set(err, ERR_BUSY, "a switch between checkpoints is open");
	return ERR_OK;
}

/* False: nothing to tell. */
static bool diff_kind(const struct ckpt_node *a, const struct ckpt_node *b, enum ckpt_change *out)
{
	if (!a || !b) {
		*out = a ? CKPT_REMOVED : CKPT_ADDED;
		return true;
	}
	if (!ckpt_node_same_content(a, b)) {
		*out = CKPT_CHANGED;
		return true;
	}
	*out = CKPT_META;
	if (a->type == CKPT_UNCOVERED)
		return false;
	return a->mode != b->mode || a->uid != b->uid || a->gid != b->gid ||
	       (a->type != CKPT_DIR && a->mtime_ns != b->mtime_ns);
}

int ckpt_diff(struct ckpt *c, const char *id_a, const char *id_b, ckpt_diff_cb cb, void *arg,
	      struct err *err)
{
	AUTO_TREE struct ckpt_tree *a = NULL;
	AUTO_TREE struct ckpt_tree *b = NULL;
	char hex_a[HASH_HEX_LEN + 1], hex_b[HASH_HEX_LEN + 1];
	const struct ckpt_node *x, *y;
	struct ckpt_merge m;
	int r = diff_allowed(c, id_a, err);

	if (r == ERR_OK)
		r = diff_allowed(c, id_b, err);
	if (r == ERR_OK)
		r = ckpt_load(c, id_a, &a, err);
	if (r == ERR_OK)
		r = ckpt_load(c, id_b, &b, err);
	if (r < 0)
		return r;
	m = (struct ckpt_merge){ .a = a, .b = b };
	while (r == ERR_OK && ckpt_merge_next(&m, &x, &y)) {
		struct ckpt_entry ea, eb;
		struct ckpt_diff d = { 0 };

		if (!diff_kind(x, y, &d.change))
			continue;
		if (x) {
			ckpt_node_to_entry(x, hex_a, &ea);
			d.a = &ea;
		}
		if (y) {
			ckpt_node_to_entry(y, hex_b, &eb);
			d.b = &eb;
		}
		r = cb(arg, &d);
	}
	return r;
}

static void diff_put_node(const struct ckpt_node *n, struct str *out)
{
	static const char letters[] = {
		[CKPT_FILE] = 'F', [CKPT_DIR] = 'D', [CKPT_LINK] = 'L', [CKPT_UNCOVERED] = 'X'
	};

	str_addc(out, letters[n->type]);
	str_addc(out, ' ');
	if (n->type == CKPT_FILE || n->type == CKPT_DIR)
		ckpt_put_mode(out, n->mode);
	if (n->type == CKPT_FILE || n->type == CKPT_UNCOVERED)
		ckpt_put_u64(out, n->size);
	if (n->type == CKPT_FILE)
		ckpt_put_sha(out, n->sha);
	if (n->type == CKPT_LINK)
		ckpt_put_bytes(out, n->target, ' ');
	if (n->type == CKPT_UNCOVERED && n->why == CKPT_WHY_SIZE)
		ckpt_put_i64(out, n->mtime_ns);
	ckpt_put_bytes(out, n->path, '\n');
}

static bool diff_wanted(const char *path, const char *const *paths, size_t n_paths)
{
	for (size_t i = 0; i < n_paths; i++) {
		if (ckpt_path_below(path, paths[i]))
			return true;
	}
	return n_paths == 0;
}

int ckpt_hash_subset(struct ckpt *c, const char *id, const char *const *paths, size_t n_paths,
		     char out[65], struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	AUTO_STR struct str line;
	struct hash h;
	int r = diff_allowed(c, id, err);

	if (r == ERR_OK)
		r = ckpt_load(c, id, &t, err);
	if (r < 0 || !t)
		return r;
	for (size_t i = 0; i < n_paths; i++) {
		if (*paths[i] && !ckpt_tree_find(t, paths[i]))
			return err_set(err, ERR_NOT_FOUND, "%.200s: not in checkpoint %s", paths[i],
				       id);
	}
	str_init(&line, 0);
	hash_init(&h);
	for (size_t i = 0; i < t->len; i++) {
		if (!diff_wanted(t->v[i].path, paths, n_paths))
			continue;
		str_reset(&line);
		diff_put_node(&t->v[i], &line);
		if (line.failed)
			return str_check(&line, "checkpoint entry", err);
		hash_add(&h, line.s, line.len);
	}
	hash_end_hex(&h, out);
	return ERR_OK;
}
