#include "report/report_md.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/str.h"

#define MD_MAX_CODE 400
#define MD_MAX_TEXT 600

/* Bytes that may not stand as they are: controls, DEL, and C1 controls of UTF-8. */
static size_t md_bad(const unsigned char *p)
{
	if (*p < 0x20 || *p == 0x7f)
		return 1;
	return *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

/* The cut must not split a UTF-8 sequence. */
static size_t md_cut(const char *text, size_t max)
{
	size_t n = strlen(text);

	if (n <= max)
		return n;
	while (max && ((unsigned char)text[max] & 0xc0) == 0x80)
		max--;
	return max;
}

void md_code(struct str *o, const char *text)
{
	size_t n = md_cut(text, MD_MAX_CODE), run = 0, longest = 0;
	bool edge;

	for (size_t i = 0; i < n; i++) {
		run = text[i] == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	edge = n == 0 || text[0] == '`' || text[n - 1] == '`' || text[0] == ' ';
	for (size_t i = 0; i <= longest; i++)
		str_addc(o, '`');
	if (edge)
		str_addc(o, ' ');
	for (size_t i = 0; i < n; i++) {
		size_t bad = md_bad((const unsigned char *)text + i);

		if (bad)
			str_addf(o, "\\x%02x", (unsigned char)text[i + bad - 1]);
		else if (text[i] == '|')
			str_adds(o, "¦"); /* would end a table's cell even in a code span */
		else
			str_addc(o, text[i]);
		i += bad > 1 ? bad - 1 : 0;
	}
	if (n < strlen(text))
		str_adds(o, "…");
	if (edge)
		str_addc(o, ' ');
	for (size_t i = 0; i <= longest; i++)
		str_addc(o, '`');
}

void md_text(struct str *o, const char *text)
{
	static const char special[] = "\\`*_{}[]<>#|~&!$";
	size_t n = md_cut(text, MD_MAX_TEXT);

	for (size_t i = 0; i < n; i++) {
		size_t bad = md_bad((const unsigned char *)text + i);

		if (bad) {
			str_addc(o, ' ');
			i += bad - 1;
		} else {
			if (strchr(special, text[i]))
				str_addc(o, '\\');
			str_addc(o, text[i]);
		}
	}
	if (n < strlen(text))
		str_adds(o, "…");
}

void md_block(struct str *o, const char *info, const char *text)
{
	size_t run = 0, longest = 2;

	for (const char *p = text; *p; p++) {
		run = *p == '`' ? run + 1 : 0;
		longest = run > longest ? run : longest;
	}
	for (size_t i = 0; i <= longest; i++)
		str_addc(o, '`');
	str_addf(o, "%s\n", info);
	for (const char *p = text; *p; p++) {
		size_t bad = *p == '\n' || *p == '\t' ? 0 : md_bad((const unsigned char *)p);

		if (bad) {
			str_addf(o, "\\x%02x", (unsigned char)p[bad - 1]);
			p += bad - 1;
		} else {
			str_addc(o, *p);
		}
	}
	if (*text && text[strlen(text) - 1] != '\n')
		str_addc(o, '\n');
	for (size_t i = 0; i <= longest; i++)
		str_addc(o, '`');
	str_addc(o, '\n');
}

void md_num(struct str *o, double v)
{
	double a = fabs(v);
	int digits;

	if (a >= 1e15 || (a > 0 && a < 1e-6)) {
		str_addf(o, "%.3e", v);
		return;
	}
	if (v == floor(v) && a < 1e15) {
		str_addf(o, "%.0f", v);
		return;
	}
	digits = 3 - (a > 0 ? (int)floor(log10(a)) : 0);
	str_addf(o, "%.*f", digits < 0 ? 0 : digits, v);
}

void md_value(struct str *o, double v, const char *unit)
{
	if (strcmp(unit, "1") == 0) {
		/* a ratio is always written with its digits, also when it is a whole number */
		str_addf(o, "%.3f×", v);
		return;
	}
	md_num(o, v);
	str_addf(o, " ");
	md_text(o, unit);
}
