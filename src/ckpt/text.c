#include "ckpt/text.h"

#include <string.h>

#include "ckpt/tree.h"
#include "core/err.h"
#include "core/str.h"

static const char text_digits[] = "0123456789abcdef";

int ckpt_cur_error(const struct ckpt_cur *c, const char *why, struct err *err)
{
	return err_set(err, ERR_PARSE, "%s:%lu: %s", c->what, c->line, why);
}

/* Where the last line begins, or NULL: it must be there and end in a newline. */
static const char *text_last_line(const char *text, size_t len)
{
	const char *p;

	if (len < 2 || text[len - 1] != '\n')
		return NULL;
	p = memrchr(text, '\n', len - 1);
	p = p ? p + 1 : text;
	return (size_t)(text + len - p) > 4 && memcmp(p, "end ", 4) == 0 ? p : NULL;
}

int ckpt_cur_init(struct ckpt_cur *c, const char *text, size_t len, const char *magic,
		  const char *what, struct err *err)
{
	const char *last = text_last_line(text, len);
	size_t n = strlen(magic);

	*c = (struct ckpt_cur){ .p = text, .end = last, .what = what, .line = 1 };
	if (len <= n || memcmp(text, magic, n) != 0 || text[n] != '\n')
		return err_set(err, ERR_PARSE, "%s:1: does not begin with '%s'", what, magic);
	if (!last)
		return err_set(err, ERR_PARSE, "%s: cut off (its last line is missing)", what);
	c->p += n + 1;
	c->line = 2;
	if (c->p > c->end)
		return err_set(err, ERR_PARSE, "%s: cut off (its last line is missing)", what);
	return ERR_OK;
}

int ckpt_text_check(const char *text, size_t len, const char *what, struct err *err)
{
	const char *last = text_last_line(text, len);
	char hex[HASH_HEX_LEN + 1];

	if (!last)
		return err_set(err, ERR_PARSE, "%s: cut off (its last line is missing)", what);
	hash_mem_hex(text, (size_t)(last - text), hex);
	if ((size_t)(text + len - last) < HASH_HEX_LEN + 1 ||
	    memcmp(text + len - 1 - HASH_HEX_LEN, hex, HASH_HEX_LEN) != 0)
		return err_set(err, ERR_PARSE, "%s: damaged (its sum does not match)", what);
	return ERR_OK;
}

bool ckpt_cur_more(const struct ckpt_cur *c)
{
	return !c->bad && c->p < c->end;
}

/* Takes the one byte that ends a field. */
static void text_end_field(struct ckpt_cur *c)
{
	if (c->bad || c->p >= c->end || (*c->p != ' ' && *c->p != '\n')) {
		c->bad = true;
		return;
	}
	if (*c->p == '\n')
		c->line++;
	c->p++;
}

char ckpt_cur_letter(struct ckpt_cur *c)
{
	char letter = '\0';

	if (!c->bad && c->p < c->end)
		letter = *c->p++;
	text_end_field(c);
	return letter;
}

void ckpt_cur_word(struct ckpt_cur *c, const char *word)
{
	size_t n = strlen(word);

	if (c->bad || (size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0) {
		c->bad = true;
		return;
	}
	c->p += n;
	text_end_field(c);
}

static uint64_t text_digits_of(struct ckpt_cur *c, uint64_t max)
{
	const char *start = c->p;
	uint64_t v = 0;

	while (!c->bad && c->p < c->end && *c->p >= '0' && *c->p <= '9') {
		uint64_t d = (uint64_t)(*c->p - '0');

		if (d > max || v > (max - d) / 10)
			c->bad = true;
		else
			v = v * 10 + d;
		c->p++;
	}
	if (c->p == start)
		c->bad = true;
	text_end_field(c);
	return c->bad ? 0 : v;
}

uint64_t ckpt_cur_u64(struct ckpt_cur *c, uint64_t max)
{
	return text_digits_of(c, max);
}

int64_t ckpt_cur_i64(struct ckpt_cur *c)
{
	bool minus = !c->bad && c->p < c->end && *c->p == '-';

	if (minus)
		c->p++;
	if (minus)
		return -(int64_t)text_digits_of(c, INT64_MAX);
	return (int64_t)text_digits_of(c, INT64_MAX);
}

uint32_t ckpt_cur_mode(struct ckpt_cur *c)
{
	uint32_t v = 0;
	int n = 0;

	for (; !c->bad && c->p < c->end && *c->p >= '0' && *c->p <= '7' && n < 5; n++)
		v = v * 8 + (uint32_t)(*c->p++ - '0');
	if (n != 4)
		c->bad = true;
	text_end_field(c);
	return c->bad ? 0 : v;
}

static int text_hex(char ch)
{
	if (ch >= '0' && ch <= '9')
		return ch - '0';
	return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

void ckpt_cur_sha(struct ckpt_cur *c, unsigned char out[HASH_BYTES])
{
	if (c->bad || c->end - c->p < HASH_HEX_LEN) {
		c->bad = true;
		return;
	}
	for (int i = 0; i < HASH_BYTES; i++) {
		int hi = text_hex(c->p[2 * i]), lo = text_hex(c->p[2 * i + 1]);

		if (hi < 0 || lo < 0) {
			c->bad = true;
			return;
		}
		out[i] = (unsigned char)(hi << 4 | lo);
	}
	c->p += HASH_HEX_LEN;
	text_end_field(c);
}

/* Printable ASCII stands for itself, but for the blank and the escape character. */
static bool text_plain(unsigned char ch)
{
	return ch > ' ' && ch < 0x7f && ch != '%';
}

const char *ckpt_cur_bytes(struct ckpt_cur *c, struct ckpt_tree *t, size_t max)
{
	const char *start = c->p, *p = c->p;
	char *out, *o;
	size_t n;

	if (c->bad)
		return NULL;
	while (p < c->end && *p != ' ' && *p != '\n')
		p++;
	n = (size_t)(p - start);
	if (n == 0 || n > 3 * max) {
		c->bad = true;
		return NULL;
	}
	o = out = ckpt_tree_alloc(t, n + 1);
	for (const char *q = start; q < p; q++) {
		int hi, lo;

		if (*q != '%') {
			*o++ = *q;
			c->bad |= !text_plain((unsigned char)*q);
			continue;
		}
		hi = p - q >= 3 ? text_hex(q[1]) : -1;
		lo = p - q >= 3 ? text_hex(q[2]) : -1;
		if (hi < 0 || lo < 0 || (hi == 0 && lo == 0)) {
			c->bad = true;
			return NULL;
		}
		*o++ = (char)(hi << 4 | lo);
		q += 2;
	}
	*o = '\0';
	c->bad |= (size_t)(o - out) > max;
	if (n == 1 && *start == '-')
		out[0] = '\0';
	c->p = p;
	text_end_field(c);
	return c->bad ? NULL : out;
}

void ckpt_put_u64(struct str *s, uint64_t v)
{
	char buf[24], *p = buf + sizeof(buf);

	*--p = ' ';
	do {
		*--p = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	str_add(s, p, (size_t)(buf + sizeof(buf) - p));
}

void ckpt_put_i64(struct str *s, int64_t v)
{
	if (v < 0)
		str_addc(s, '-');
	ckpt_put_u64(s, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void ckpt_put_mode(struct str *s, uint32_t mode)
{
	char buf[5];

	for (int i = 0; i < 4; i++)
		buf[i] = (char)('0' + (mode >> (3 * (3 - i)) & 7));
	buf[4] = ' ';
	str_add(s, buf, sizeof(buf));
}

void ckpt_put_sha(struct str *s, const unsigned char sha[HASH_BYTES])
{
	char hex[HASH_HEX_LEN + 1];

	hash_to_hex(sha, hex);
	hex[HASH_HEX_LEN] = ' ';
	str_add(s, hex, sizeof(hex));
}

void ckpt_put_bytes(struct str *s, const char *bytes, char after)
{
	if (!*bytes)
		str_addc(s, '-');
	else if (strcmp(bytes, "-") == 0)
		str_adds(s, "%2d"); /* "-" alone is the empty string */
	else {
		for (const char *p = bytes; *p;) {
			const char *q = p;

			while (text_plain((unsigned char)*q))
				q++;
			str_add(s, p, (size_t)(q - p));
			if (!*q)
				break;
			str_add(s,
				(const char[]){ '%', text_digits[(unsigned char)*q >> 4],
						text_digits[*q & 15] },
				3);
			p = q + 1;
		}
	}
	str_addc(s, after);
}

void ckpt_put_end(struct str *s, uint64_t count)
{
	char hex[HASH_HEX_LEN + 1];

	hash_mem_hex(str_get(s), s->len, hex);
	str_adds(s, "end ");
	ckpt_put_u64(s, count);
	str_adds(s, hex);
	str_addc(s, '\n');
}
