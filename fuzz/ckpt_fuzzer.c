/* deps: core base ckpt */
#include <stddef.h>
#include <stdint.h>

#include "ckpt/manifest.h"
#include "ckpt/text.h"
#include "ckpt/tree.h"
#include "core/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was taken must be written so that it is taken again. */
static void fuzz_manifest(const char *text, size_t len)
{
	struct ckpt_tree *t, *again;
	struct ckpt_summary sum;
	struct str out;

	if (ckpt_manifest_parse_head(text, len, "fuzz", &t, &sum, NULL) == 0)
		ckpt_tree_free(t);
	if (ckpt_manifest_parse(text, len, "fuzz", &t, NULL) < 0)
		return;
	str_init(&out, 0);
	ckpt_manifest_write(t, &out);
	if (ckpt_text_check(out.s, out.len, "fuzz", NULL) < 0 ||
	    ckpt_manifest_parse(out.s, out.len, "fuzz", &again, NULL) < 0 || again->len != t->len)
		__builtin_trap();
	ckpt_tree_free(again);
	ckpt_tree_free(t);
	str_done(&out);
}

static void fuzz_journal(const char *text, size_t len)
{
	struct ckpt_journal *j, *again;
	struct str out;

	if (ckpt_journal_parse(text, len, "fuzz", &j, NULL) < 0)
		return;
	str_init(&out, 0);
	ckpt_journal_write(j, &out);
	if (ckpt_journal_parse(out.s, out.len, "fuzz", &again, NULL) < 0 || again->len != j->len)
		__builtin_trap();
	ckpt_journal_free(again);
	ckpt_journal_free(j);
	str_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct ckpt_tree *t;

	(void)ckpt_text_check(text, size, "fuzz", NULL);
	fuzz_manifest(text, size);
	fuzz_journal(text, size);
	if (ckpt_index_parse(text, size, "fuzz", &t, NULL) == 0)
		ckpt_tree_free(t);
	return 0;
}
