/* One stream of one run as normalised lines. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "measure/output_priv.h"

#define OUTPUT_LINE_CUT	 (64 << 10) /* bytes after which a line is cut at a blank */
#define OUTPUT_FNV_START UINT64_C(0xcbf29ce484222325)

void output_rest_init(struct output_rest *r, size_t head_max)
{
	*r = (struct output_rest){ .head_max = head_max };
	hash_init(&r->hash);
}

void output_rest_add(struct output_rest *r, const void *data, size_t n)
{
	size_t skip = r->total < r->head_max ? (size_t)(r->head_max - r->total) : 0;

	r->total += n;
	if (skip < n)
		hash_add(&r->hash, (const char *)data + skip, n - skip);
}

void output_rest_end(struct output_rest *r, char hex[HASH_HEX_LEN + 1])
{
	hash_end_hex(&r->hash, hex);
	if (r->total <= r->head_max)
		hex[0] = '\0';
}

/* A page while it is made. */
struct output_maker {
	struct output_page *p;
	const struct output_rules *r;
	const char *text;
	size_t len;
	struct output_toks toks;
	struct output_table table;
	uint8_t cell[OUTPUT_ROW_TOKENS_MAX];
	struct output_item *items; /* of the present line */
	size_t n_items, cap_items;
	struct hash more;
	size_t max_lines; /* kept one by one; 0: those that start in the head */
	output_field_cb cb;
	void *arg;
};

/* Whether a token goes on the ignored field before it: "1.2" "s", "1" "min" "2" "s". */
static bool output_joins(const struct output_tok *k, const struct output_tok *before)
{
	if (k->cls == OUTPUT_RESULT || k->cls != before->cls)
		return false;
	if (k->cls == OUTPUT_DATE || k->cls == OUTPUT_USER || k->cls == OUTPUT_FOM)
		return true;
	return k->kind == OUTPUT_WORD ? k->shape == OUTPUT_PLAIN : before->kind == OUTPUT_WORD;
}

static void output_line_items(struct output_maker *m)
{
	m->n_items = 0;
	for (size_t i = 0; i < m->toks.n; i++) {
		const struct output_tok *k = &m->toks.v[i];

		if (i && output_joins(k, k - 1)) {
			struct output_item *last = &m->items[m->n_items - 1];

			last->len = k->off + k->len - last->off;
			continue;
		}
		if (m->n_items == m->cap_items) {
			m->cap_items = m->cap_items ? m->cap_items * 2 : 64;
			m->items = xrealloc_n(m->items, m->cap_items, sizeof(*m->items));
		}
		m->items[m->n_items++] = (struct output_item){
			.off = k->off,
			.len = k->len,
			.name_off = k->name_off,
			.name_len = (uint8_t)(k->name_len < UINT8_MAX ? k->name_len : UINT8_MAX),
			.shape = k->shape,
			.kind = k->kind,
			.cls = k->cls,
		};
	}
}

static uint64_t output_fnv(uint64_t h, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t output_line_hash(const struct output_maker *m)
{
	uint64_t h = OUTPUT_FNV_START;

	for (size_t i = 0; i < m->n_items; i++) {
		const struct output_item *it = &m->items[i];
		char mark[2] = { (char)(it->cls + 1), (char)(it->kind + 1) };

		if (it->cls != OUTPUT_RESULT) {
			h = output_fnv(h, mark, 1);
		} else {
			h = output_fnv(h, mark, 2);
			h = output_fnv(h, m->text + it->off, it->len);
		}
	}
	return h;
}

/* A line that --ignore matches whole may be there or not. */
static bool output_drops(const struct output_maker *m)
{
	return m->n_items == 0 || (m->n_items == 1 && m->items[0].cls == OUTPUT_USER);
}

static void output_count(struct output_maker *m, size_t line)
{
	struct output_page *p = m->p;
	size_t field = 0;

	for (size_t i = 0; i < m->n_items; i++) {
		const struct output_item *it = &m->items[i];
		struct output_tok k = { .off = it->off,
					.len = it->len,
					.kind = it->kind,
					.cls = it->cls,
					.shape = it->shape };
		bool result;

		if (it->kind == OUTPUT_PUNCT && it->cls == OUTPUT_RESULT)
			continue;
		field++;
		result = output_is_result(m->r, m->text, &k);
		if (it->cls == OUTPUT_RESULT)
			p->n_fields++;
		else
			p->n_ignored++;
		p->n_results += result ? 1 : 0;
		if (m->cb)
			m->cb(m->arg, p, it, line, field, result);
	}
}

static void output_store_line(struct output_maker *m, uint32_t no)
{
	struct output_page *p = m->p;

	if (p->n_lines == p->cap_lines) {
		p->cap_lines = p->cap_lines ? p->cap_lines * 2 : 64;
		p->lines = xrealloc_n(p->lines, p->cap_lines, sizeof(*p->lines));
	}
	if (p->cap_items - p->n_items < m->n_items) {
		p->cap_items = (p->cap_items + m->n_items) * 2;
		p->items = xrealloc_n(p->items, p->cap_items, sizeof(*p->items));
	}
	memcpy(p->items + p->n_items, m->items, m->n_items * sizeof(*m->items));
	p->lines[p->n_lines] = (struct output_line){ .first = (uint32_t)p->n_items,
						     .n = (uint32_t)m->n_items,
						     .no = no,
						     .hash = output_line_hash(m) };
	p->n_items += m->n_items;
	p->n_lines++;
	output_count(m, p->n_lines - 1);
}

/* Beyond the head only a hash of the normalised lines is kept. */
static void output_hash_line(struct output_maker *m)
{
	for (size_t i = 0; i < m->n_items; i++) {
		const struct output_item *it = &m->items[i];
		char mark = (char)(it->cls + 1);

		hash_add(&m->more, &mark, 1);
		if (it->cls == OUTPUT_RESULT)
			hash_add(&m->more, m->text + it->off, it->len);
		hash_add(&m->more, "\0", 1);
	}
	hash_add(&m->more, "\n", 1);
	m->p->n_more++;
}

/* Times of another width move where the head ends, so a learnt page counts in lines for others. */
static bool output_keeps_line(const struct output_maker *m, size_t start)
{
	if (m->max_lines)
		return m->p->n_lines < m->max_lines && start < 2 * (size_t)OUTPUT_HEAD_MAX;
	return start < OUTPUT_HEAD_MAX;
}

static void output_make_line(struct output_maker *m, size_t start, size_t end, size_t rest,
			     uint32_t no)
{
	bool row;

	output_tokenise(m->text, start, end, &m->toks);
	row = output_table_line(&m->table, m->text, &m->toks, rest, m->len, m->cell);
	output_classify(m->r, m->text, start, end, &m->toks, &m->table, row ? m->cell : NULL);
	output_line_items(m);
	if (output_drops(m))
		return;
	if (output_keeps_line(m, start))
		output_store_line(m, no);
	else
		output_hash_line(m);
}

/* Length of the line break at i; 0: none.  A line without end is cut between two fields. */
static size_t output_break(const struct output_maker *m, size_t start, size_t i)
{
	char c = m->text[i];

	if (c == '\r' && i + 1 < m->len && m->text[i + 1] == '\n')
		return 2;
	if (c == '\n' || c == '\r')
		return 1;
	return i - start >= OUTPUT_LINE_CUT && (c == ' ' || c == '\t') ? 1 : 0;
}

static void output_make_lines(struct output_maker *m)
{
	size_t start = 0;
	uint32_t no = 1;

	for (size_t i = 0; i <= m->len; i++) {
		size_t n = i < m->len ? output_break(m, start, i) : 1;

		if (n == 0)
			continue;
		if (i > start)
			output_make_line(m, start, i, i + n < m->len ? i + n : m->len, no);
		no += i < m->len && m->text[i] != ' ' && m->text[i] != '\t' ? 1 : 0;
		start = i + n;
		i = start - 1;
	}
}

static void output_make_binary(struct output_maker *m, size_t head)
{
	struct output_page *p = m->p;

	p->n_more = m->len - head;
	hash_add(&m->more, m->text + head, p->n_more);
	p->n_fields = p->n_results = 1;
}

static void output_keep_text(struct output_page *p, size_t head)
{
	/* the last kept line may reach beyond the head */
	const struct output_item *last = p->n_items ? &p->items[p->n_items - 1] : NULL;
	size_t keep = last && last->off + last->len > head ? last->off + last->len : head;

	p->own = xrealloc_n(NULL, keep + 1, 1);
	memcpy(p->own, p->text, keep);
	p->own[keep] = '\0';
	p->text = p->own;
	p->len = keep;
}

void output_page_init(struct output_page *p, const struct output_rules *r,
		      const struct output_stream *s, const struct output_page *like,
		      output_field_cb cb, void *arg)
{
	struct output_maker m = { .p = p, .r = r, .cb = cb, .arg = arg };
	size_t len = s->data ? s->len : 0;
	size_t head;

	/* offsets are 32 bits wide */
	if (len > UINT32_MAX / 2)
		len = UINT32_MAX / 2;
	head = len < OUTPUT_HEAD_MAX ? len : OUTPUT_HEAD_MAX;
	if (like && like->n_more && !like->binary)
		m.max_lines = like->n_lines;
	*p = (struct output_page){ .text = len ? s->data : "", .len = len };
	m.text = p->text;
	m.len = len;
	p->binary = len && memchr(p->text, '\0', len) != NULL;
	hash_init(&m.more);
	if (p->binary)
		output_make_binary(&m, head);
	else if (len)
		output_make_lines(&m);
	if (p->n_more)
		hash_end_hex(&m.more, p->more_sha256);
	if (s->total > s->len) {
		p->rest = s->total - s->len;
		if (s->rest_sha256 && strlen(s->rest_sha256) == HASH_HEX_LEN)
			memcpy(p->rest_sha256, s->rest_sha256, HASH_HEX_LEN + 1);
		p->n_fields++;
		p->n_results++;
	}
	if (p->n_more && !p->binary) {
		p->n_fields++;
		p->n_results++;
	}
	free(m.toks.v);
	free(m.items);
	if (!like)
		output_keep_text(p, head);
	else if (p->binary)
		p->len = head;
}

void output_page_done(struct output_page *p)
{
	free(p->own);
	free(p->items);
	free(p->lines);
	free(p->low);
	free(p->high);
	*p = (struct output_page){ 0 };
}

bool output_page_empty(const struct output_page *p)
{
	return p->n_lines == 0 && !p->binary && p->n_more == 0 && p->rest == 0;
}
