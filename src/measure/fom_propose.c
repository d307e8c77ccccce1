/* Finding a pattern for a word or unit that the user named. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/fom.h"
#include "measure/fom_priv.h"

#define FOM_WORD_MAX 64
#define FOM_TRIES    16
/* Between a word and its number lie a few blanks, dots, a colon, a unit in brackets, ... */
#define FOM_GAP_MAX    48
#define FOM_NUMBER_ERE "([-+]?[0-9.][-+0-9.eEdD]*)"

struct fom_place {
	size_t number, number_len; /* within the line */
	size_t word;
	bool before; /* the number stands before the word */
};

static bool fom_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The word in the line, as a word of its own, at or after from; n when there is none. */
static size_t fom_find_word(const char *s, size_t n, const char *word, bool any_case, size_t from)
{
	size_t w = strlen(word);

	for (size_t i = from; i + w <= n; i++) {
		if ((any_case ? strncasecmp(s + i, word, w) : strncmp(s + i, word, w)) != 0)
			continue;
		if (i > 0 && fom_word_char(word[0]) && isalpha((unsigned char)s[i - 1]))
			continue;
		if (i + w < n && fom_word_char(word[w - 1]) && fom_word_char(s[i + w]))
			continue;
		return i;
	}
	return n;
}

/* "12.5 GLUPS": a number whose end is only blanks or an opening bracket away from the word. */
static bool fom_number_before(const char *s, size_t word, struct fom_place *out)
{
	size_t at = 0, len;

	while (at < word) {
		size_t gap, i = fom_find_number(s + at, word - at, &len);

		if (len == 0)
			return false;
		gap = at + i + len;
		while (gap < word && strchr(" \t([", s[gap]) && s[gap])
			gap++;
		if (gap == word) {
			*out = (struct fom_place){ at + i, len, word, true };
			return true;
		}
		at += i + len;
	}
	return false;
}

/* Behind a remark in brackets that "=" or ":" follows, as in "time (10 runs): 3.5"; else from. */
static size_t fom_skip_remark(const char *s, size_t n, size_t from)
{
	size_t at = from;

	while (at < n && (s[at] == ' ' || s[at] == '\t'))
		at++;
	if (at == n || (s[at] != '(' && s[at] != '['))
		return from;
	while (at < n && s[at] != ')' && s[at] != ']')
		at++;
	for (at += at < n; at < n && (s[at] == ' ' || s[at] == '\t');)
		at++;
	return at < n && (s[at] == '=' || s[at] == ':') ? at : from;
}

static bool fom_number_after(const char *s, size_t n, size_t word, size_t word_len,
			     struct fom_place *out)
{
	size_t from = word + word_len, len, i;

	if (n - from > FOM_GAP_MAX)
		n = from + FOM_GAP_MAX;
	from = fom_skip_remark(s, n, from);
	i = fom_find_number(s + from, n - from, &len);
	if (len == 0)
		return false;
	*out = (struct fom_place){ from + i, len, word, false };
	return true;
}

/* A line's best place: after the word where something like "=" or ":" says so, else before it. */
static bool fom_place_in(const char *s, size_t n, const char *word, bool any_case,
			 struct fom_place *out)
{
	size_t w = strlen(word), at = 0;

	while ((at = fom_find_word(s, n, word, any_case, at)) < n) {
		size_t next = at + w;

		while (next < n && strchr(" \t])", s[next]) && s[next])
			next++;
		if (next < n && (s[next] == '=' || s[next] == ':') &&
		    fom_number_after(s, n, at, w, out))
			return true;
		if (fom_number_before(s, at, out) || fom_number_after(s, n, at, w, out))
			return true;
		at += w;
	}
	return false;
}

/* Text as an ERE that matches it, however many blanks there are.  With any_digits, any whole
 * number stands for one. */
static void fom_add_literal(struct str *p, const char *s, size_t n, bool any_digits)
{
	for (size_t i = 0; i < n; i++) {
		if (isspace((unsigned char)s[i])) {
			while (i + 1 < n && isspace((unsigned char)s[i + 1]))
				i++;
			str_adds(p, "[[:space:]]*");
		} else if (any_digits && isdigit((unsigned char)s[i])) {
			while (i + 1 < n && isdigit((unsigned char)s[i + 1]))
				i++;
			str_adds(p, "[0-9]+");
		} else if (iscntrl((unsigned char)s[i])) {
			str_addc(p, '.');
		} else if (strchr(".[]{}()*+?^$|\\", s[i])) {
			str_addc(p, '\\');
			str_addc(p, s[i]);
		} else {
			str_addc(p, s[i]);
		}
	}
}

static bool fom_has_any(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (strcasestr(text, *words))
			return true;
	}
	return false;
}

static bool fom_is_any(const char *text, const char *const *words)
{
	for (; *words; words++) {
		if (strcasecmp(text, *words) == 0)
			return true;
	}
	return false;
}

bool fom_direction(const char *word, bool *higher)
{
	static const char *const rates[] = { "/s",     "flop",	     "lups",  "per sec",   "speed",
					     "rate",   "throughput", "score", "bandwidth", "fps",
					     "ns/day", "mcups",	     "teps",  NULL };
	static const char *const times[] = { "time",	"elapsed", "seconds", "latency", "duration",
					     "runtime", "wall",	   "s/iter",  "s/step",	 NULL };
	static const char *const units[] = { "s",    "sec", "secs", "second", "ms",
					     "msec", "us",  "ns",   "min",    NULL };

	if (fom_has_any(word, rates)) {
		*higher = true;
		return true;
	}
	if (fom_has_any(word, times) || fom_is_any(word, units)) {
		*higher = false;
		return true;
	}
	return false;
}

/* The word behind the number, or in brackets between word and number, such as "Time (s): 3". */
static void fom_guess_unit(const char *s, size_t n, const struct fom_place *p, const char *word,
			   char unit[FOM_UNIT_CAP])
{
	size_t at = p->number + p->number_len, w = strlen(word), len = 0;
	const char *open;

	if (p->before) {
		(void)strncpy(unit, word, FOM_UNIT_CAP - 1);
		unit[FOM_UNIT_CAP - 1] = '\0';
		return;
	}
	unit[0] = '\0';
	open = memchr(s + p->word + w, '(', p->number - p->word - w);
	if (!open)
		open = memchr(s + p->word + w, '[', p->number - p->word - w);
	if (open) {
		at = (size_t)(open - s) + 1;
	} else {
		while (at < n && (s[at] == ' ' || s[at] == '\t' || s[at] == '[' || s[at] == '('))
			at++;
	}
	while (at + len < n && len + 1 < FOM_UNIT_CAP &&
	       (isalpha((unsigned char)s[at + len]) ||
		(len > 0 && strchr("/^*-_%0123456789", s[at + len]) && s[at + len]) ||
		s[at + len] == '%'))
		len++;
	memcpy(unit, s + at, len);
	unit[len] = '\0';
}

static int fom_build(const char *s, size_t n, const struct fom_place *p, const char *word,
		     struct fom_guess *out)
{
	AUTO_STR struct str pat = { .max = 4096 };
	size_t w = strlen(word), end = p->number + p->number_len;

	if (p->before) {
		str_adds(&pat, FOM_NUMBER_ERE);
		/* none at all may stand between them: "3.5s" */
		if (end < p->word)
			fom_add_literal(&pat, s + end, p->word - end, true);
		fom_add_literal(&pat, s + p->word, w, false);
	} else {
		fom_add_literal(&pat, s + p->word, w, false);
		fom_add_literal(&pat, s + p->word + w, p->number - p->word - w, true);
		str_adds(&pat, FOM_NUMBER_ERE);
	}
	if (str_check(&pat, "pattern", NULL) < 0 || pat.len > FOM_PATTERN_MAX)
		return ERR_LIMIT;
	memcpy(out->pattern, str_get(&pat), pat.len + 1);
	fom_guess_unit(s, n, p, word, out->unit);
	return ERR_OK;
}

/* Tries the pattern on the whole text: it must find the very number that it was made from. */
static bool fom_holds(const struct fom_guess *g, const char *text, size_t len, const char *number,
		      size_t number_len, double *value)
{
	struct fom_spec spec = { .pattern = g->pattern, .unit = g->unit };
	struct fom_spec same = { .pattern = FOM_NUMBER_ERE };
	struct fom *f = NULL, *alone = NULL;
	double want;
	bool ok;

	ok = fom_new(&spec, &f, NULL) == 0 && fom_new(&same, &alone, NULL) == 0 &&
	     fom_read(alone, number, number_len, &want, NULL) == 0 &&
	     fom_read(f, text, len, value, NULL) == 0 && *value == want;
	fom_free(f);
	fom_free(alone);
	return ok;
}

struct fom_hunt {
	const char *word;
	bool any_case;
	bool seen_word; /* a line has the word, though perhaps no number */
	unsigned tries; /* lines whose pattern may still be tried: each try reads the whole text */
};

static int fom_hunt(struct fom_hunt *h, const char *text, size_t len, struct fom_guess *out)
{
	size_t end = len;

	for (;;) {
		const char *nl = end ? memrchr(text, '\n', end) : NULL;
		size_t start = nl ? (size_t)(nl - text) + 1 : 0, n = end - start;
		const char *s = text + start;
		struct fom_guess g = { 0 };
		struct fom_place p;

		if (n > FOM_LINE_MAX) {
			s += n - FOM_LINE_MAX;
			n = FOM_LINE_MAX;
		}
		if (h->tries > 0 && fom_place_in(s, n, h->word, h->any_case, &p) &&
		    fom_build(s, n, &p, h->word, &g) == 0 && h->tries-- > 0 &&
		    fom_holds(&g, text, len, s + p.number, p.number_len, &g.value)) {
			g.has_direction = fom_direction(g.unit, &g.higher) ||
					  fom_direction(h->word, &g.higher);
			*out = g;
			return 1;
		}
		if (fom_find_word(s, n, h->word, h->any_case, 0) < n)
			h->seen_word = true;
		if (!nl)
			return 0;
		end = start - 1;
	}
}

int fom_propose(const char *word, const char *text, size_t len, struct fom_guess *out,
		struct err *err)
{
	struct fom_hunt h = { .word = word, .tries = FOM_TRIES };

	if (!word[0] || strlen(word) > FOM_WORD_MAX)
		return err_set(err, ERR_INVALID,
			       "figure of merit: a word of 1 to %d bytes is needed, not '%.80s'",
			       FOM_WORD_MAX, word);
	if (fom_hunt(&h, text, len, out))
		return ERR_OK;
	h.any_case = true;
	h.tries = FOM_TRIES;
	if (fom_hunt(&h, text, len, out))
		return ERR_OK;
	if (h.seen_word)
		return err_set(err, ERR_NOT_FOUND,
			       "figure of merit: the output has '%s', but no number next to it",
			       word);
	return err_set(err, ERR_NOT_FOUND, "figure of merit: the output does not have '%s'", word);
}
