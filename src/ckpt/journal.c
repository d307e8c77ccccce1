#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "ckpt/manifest.h"
#include "ckpt/text.h"
#include "core/err.h"
#include "core/str.h"

#define JOURNAL_MAGIC "rocbudai checkpoint journal 1"

static const char journal_letters[CKPT_OP_N] = {
	[CKPT_OP_REMOVE] = 'R', [CKPT_OP_MKDIR] = 'K',	[CKPT_OP_PLACE] = 'P',
	[CKPT_OP_META] = 'M',	[CKPT_OP_FOLDER] = 'D',
};

int ckpt_id_number(const char *id, uint64_t *out)
{
	size_t n = strspn(id + (*id == 'C'), "0123456789");

	if (*id != 'C' || n < 4 || n > 9 || id[1 + n])
		return ERR_NOT_FOUND;
	return num_u64(id + 1, out, NULL);
}

struct ckpt_journal *ckpt_journal_new(void)
{
	struct ckpt_journal *j = xcalloc(1, sizeof(*j));

	j->store = ckpt_tree_new();
	j->id = j->side[0] = j->side[1] = "";
	return j;
}

void ckpt_journal_free(struct ckpt_journal *j)
{
	if (!j)
		return;
	ckpt_tree_free(j->store);
	free(j->v);
	free(j);
}

void ckpt_journal_add(struct ckpt_journal *j, enum ckpt_op_kind kind, const char *path,
		      const struct ckpt_node *node)
{
	struct ckpt_op op = { .kind = kind };

	if (node)
		op.node = *node;
	op.node.path = op.node.target = NULL;
	op.path = ckpt_tree_strdup(j->store, path);
	if (kind == CKPT_OP_PLACE)
		op.slot = j->n_slots++;
	if (j->len == j->cap) {
		j->cap = j->cap ? j->cap * 2 : 64;
		j->v = xrealloc_n(j->v, j->cap, sizeof(*j->v));
	}
	j->v[j->len++] = op;
}

/* One line into op, whose path goes into the journal. */
static void journal_op(struct ckpt_cur *c, struct ckpt_journal *j, struct ckpt_op *op)
{
	char letter = ckpt_cur_letter(c);
	const char *at = letter ? memchr(journal_letters, letter, CKPT_OP_N) : NULL;

	if (!at) {
		c->bad = true;
		return;
	}
	op->kind = (enum ckpt_op_kind)(at - journal_letters);
	if (op->kind == CKPT_OP_REMOVE) {
		op->node.type = (uint8_t)ckpt_cur_u64(c, CKPT_UNCOVERED);
		op->node.size = ckpt_cur_u64(c, INT64_MAX);
		op->node.mtime_ns = ckpt_cur_i64(c);
	} else if (op->kind == CKPT_OP_PLACE) {
		op->slot = (uint32_t)ckpt_cur_u64(c, CKPT_ENTRIES_MAX);
	} else if (op->kind == CKPT_OP_FOLDER) {
		op->node.type = CKPT_DIR;
		op->node.mode = ckpt_cur_mode(c);
		op->node.uid = (uint32_t)ckpt_cur_u64(c, UINT32_MAX);
		op->node.gid = (uint32_t)ckpt_cur_u64(c, UINT32_MAX);
		op->node.mtime_ns = ckpt_cur_i64(c);
	}
	op->path = ckpt_cur_bytes(c, j->store, CKPT_PATH_BYTES_MAX);
	if (!c->bad && !ckpt_path_valid(op->path))
		c->bad = true;
}

static bool journal_id_valid(const char *id)
{
	uint64_t n;

	return *id == '\0' || ckpt_id_number(id, &n) == ERR_OK;
}

int ckpt_journal_parse(const char *text, size_t len, const char *what, struct ckpt_journal **out,
		       struct err *err)
{
	struct ckpt_journal *j = ckpt_journal_new();
	struct ckpt_cur c;
	int r = ckpt_cur_init(&c, text, len, JOURNAL_MAGIC, what, err);

	if (r == ERR_OK) {
		ckpt_cur_word(&c, "id");
		j->id = ckpt_cur_bytes(&c, j->store, CKPT_ID_CAP - 1);
		j->side[0] = ckpt_cur_bytes(&c, j->store, CKPT_ID_CAP - 1);
		j->side[1] = ckpt_cur_bytes(&c, j->store, CKPT_ID_CAP - 1);
		if (!c.bad && (!*j->id || !journal_id_valid(j->id) ||
			       !journal_id_valid(j->side[0]) || !journal_id_valid(j->side[1])))
			c.bad = true;
	}
	while (r == ERR_OK && ckpt_cur_more(&c) && j->len < 2 * CKPT_ENTRIES_MAX) {
		struct ckpt_op op = { 0 };

		journal_op(&c, j, &op);
		if (c.bad)
			break;
		if (j->len == j->cap) {
			j->cap = j->cap ? j->cap * 2 : 64;
			j->v = xrealloc_n(j->v, j->cap, sizeof(*j->v));
		}
		j->v[j->len++] = op;
	}
	if (r == ERR_OK && (c.bad || c.p != c.end))
		r = ckpt_cur_error(&c, "not a line of a journal", err);
	if (r < 0)
		ckpt_journal_free(j);
	else
		*out = j;
	return r;
}

void ckpt_journal_write(const struct ckpt_journal *j, struct str *out)
{
	str_adds(out, JOURNAL_MAGIC "\nid ");
	ckpt_put_bytes(out, j->id, ' ');
	ckpt_put_bytes(out, j->side[0], ' ');
	ckpt_put_bytes(out, j->side[1], '\n');
	for (size_t i = 0; i < j->len; i++) {
		const struct ckpt_op *op = &j->v[i];

		str_addc(out, journal_letters[op->kind]);
		str_addc(out, ' ');
		if (op->kind == CKPT_OP_REMOVE) {
			ckpt_put_u64(out, op->node.type);
			ckpt_put_u64(out, op->node.size);
			ckpt_put_i64(out, op->node.mtime_ns);
		} else if (op->kind == CKPT_OP_PLACE) {
			ckpt_put_u64(out, op->slot);
		} else if (op->kind == CKPT_OP_FOLDER) {
			ckpt_put_mode(out, op->node.mode);
			ckpt_put_u64(out, op->node.uid);
			ckpt_put_u64(out, op->node.gid);
			ckpt_put_i64(out, op->node.mtime_ns);
		}
		ckpt_put_bytes(out, op->path, '\n');
	}
	ckpt_put_end(out, j->len);
}
