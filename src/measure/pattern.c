#include "measure/pattern.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/err.h"

/* Sizes up to the group that is open, and of what stands last in it. */
struct pattern_level {
	unsigned long sum, last;
};

static const char *pattern_skip_bracket(const char *p)
{
	/* "[]...]" and "[^]...]" hold a "]"; "[:", "[." and "[=" have ends of their own */
	p += p[1] == '^' ? 2 : 1;
	if (*p == ']')
		p++;
	while (*p && *p != ']') {
		const char *end = NULL;

		if (*p == '[' && p[1] && strchr(":.=", p[1])) {
			char close[3] = { p[1], ']', '\0' };

			end = strstr(p + 2, close);
		}
		p = end ? end + 2 : p + 1;
	}
	return *p ? p : p - 1;
}

/* The largest number of "{n,m}" at p, and where it ends; 0 where it is none. */
static unsigned long pattern_bound(const char **p)
{
	const char *q = *p + 1;
	unsigned long most = 1;

	if (!isdigit((unsigned char)*q) && *q != ',')
		return 0;
	while (isdigit((unsigned char)*q) || *q == ',') {
		char *end = NULL;
		unsigned long v = *q == ',' ? 0 : strtoul(q, &end, 10);

		q = end ? end : q + 1;
		most = v > most ? v : most;
	}
	if (*q != '}')
		return 0;
	*p = q;
	/* one more, since an open end is unrolled once more */
	return most < PATTERN_NODES_MAX ? most + 1 : PATTERN_NODES_MAX + 1;
}

static unsigned long pattern_capped(unsigned long v)
{
	return v > PATTERN_NODES_MAX ? PATTERN_NODES_MAX + 1 : v;
}

static void pattern_atom(struct pattern_level *l, unsigned long size)
{
	l->sum = pattern_capped(l->sum + size);
	l->last = size;
}

/* What was last becomes so many times as large. */
static void pattern_repeat(struct pattern_level *l, unsigned long times)
{
	unsigned long before = l->sum > l->last ? l->sum - l->last : 0;

	l->last = pattern_capped(l->last * times);
	l->sum = pattern_capped(before + l->last);
}

unsigned long pattern_nodes(const char *pattern)
{
	struct pattern_level level[PATTERN_DEPTH_MAX + 1] = { { 0 } };
	unsigned long bound;
	size_t depth = 0;

	for (const char *p = pattern; *p; p++) {
		struct pattern_level *l = &level[depth];

		if (*p == '(') {
			if (depth == PATTERN_DEPTH_MAX)
				return PATTERN_NODES_MAX + 1;
			level[++depth] = (struct pattern_level){ 0 };
		} else if (*p == ')' && depth > 0) {
			depth--;
			pattern_atom(&level[depth], l->sum + 2);
		} else if (*p == '+') {
			pattern_repeat(l, 2);
		} else if (*p == '{' && (bound = pattern_bound(&p)) > 0) {
			pattern_repeat(l, bound);
		} else if (*p != '*' && *p != '?') {
			if (*p == '[')
				p = pattern_skip_bracket(p);
			else if (*p == '\\' && p[1])
				p++;
			pattern_atom(l, 1);
		}
	}
	while (depth > 0) {
		depth--;
		pattern_atom(&level[depth], level[depth + 1].sum);
	}
	return level[0].sum;
}

static bool pattern_has_backref(const char *p)
{
	for (; *p; p++) {
		if (*p == '[') {
			p = pattern_skip_bracket(p);
		} else if (*p == '\\') {
			if (isdigit((unsigned char)p[1]))
				return true;
			p += p[1] != '\0';
		}
	}
	return false;
}

int pattern_compile(regex_t *re, const char *pattern, int flags, const char *what, struct err *err)
{
	char why[160];
	int r;

	if (pattern_nodes(pattern) > PATTERN_NODES_MAX)
		return err_set(err, ERR_INVALID,
			       "%s '%.120s' repeats or nests too much; simplify it", what, pattern);
	if (pattern_has_backref(pattern))
		return err_set(err, ERR_INVALID,
			       "%s '%.120s' has a back-reference, which is not taken", what,
			       pattern);
	if ((r = regcomp(re, pattern, REG_EXTENDED | flags)) == 0)
		return ERR_OK;
	(void)regerror(r, re, why, sizeof(why));
	return err_set(err, ERR_INVALID,
		       "%s '%.120s' is not a POSIX extended regular expression: %s", what, pattern,
		       why);
}
