/* Shared by output*.c alone: tokens, their classes, and normalised pages.  Threads: any. */
#ifndef MEASURE_OUTPUT_PRIV_H
#define MEASURE_OUTPUT_PRIV_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "measure/output.h"

enum output_kind { OUTPUT_WORD, OUTPUT_NUM, OUTPUT_PUNCT };
enum output_shape {
	OUTPUT_PLAIN,
	OUTPUT_SHAPE_DATE,     /* 2024-01-02, 10/11/2024, 10-Nov-2024 */
	OUTPUT_SHAPE_CLOCK,    /* 12:34:56, 1:02.34 */
	OUTPUT_SHAPE_DURATION, /* 1m23.4s */
	OUTPUT_SHAPE_IP,       /* IPv4, IPv6, MAC */
	OUTPUT_SHAPE_HEX,      /* 0x... */
};

struct output_tok {
	uint32_t off, len; /* in the text */
	uint32_t gap;	   /* blanks before it; a tab counts as OUTPUT_GAP_TAB */
	uint8_t kind, cls, shape;
	uint32_t name_off, name_len; /* its label or column in the text; 0: none */
};
#define OUTPUT_GAP_TAB 8
#define OUTPUT_GAP_COL 3 /* so many blanks end a label */

struct output_toks {
	struct output_tok *v;
	size_t n, cap;
};

/* Replaces *t by the tokens of text[start, end), which is one line. */
void output_tokenise(const char *text, size_t start, size_t end, struct output_toks *t);
/* The number's value; false for what is none ("0x1f" included).  nan and inf are values. */
bool output_number(const char *s, size_t len, double *out);

/* ---- words ---- */

#define OUTPUT_SUB_CAP 24
/* Lower-cased copy of at most OUTPUT_SUB_CAP - 1 bytes; longer words give "". */
void output_lower(const char *s, size_t n, char out[OUTPUT_SUB_CAP]);
/* list is " a b c " */
bool output_in(const char *list, const char *lower_word);

enum output_unit { OUTPUT_UNIT_NONE, OUTPUT_UNIT_TIME, OUTPUT_UNIT_RATE };
enum output_unit output_unit_of(const char *s, size_t n);
bool output_is_preposition(const char *lower_word);
bool output_is_verdict(const char *s, size_t n); /* "PASSED", a digest, ... */

/* What a label says besides its class. */
struct output_stat {
	bool some; /* it has a word such as "min" or "average" */
	bool only; /* it has no other words */
};
/* Class of a label made of tokens [a, b). */
enum output_class output_label_class(const char *text, const struct output_tok *v, size_t a,
				     size_t b, struct output_stat *stat);

/* ---- tables ---- */

#define OUTPUT_CELLS_MAX      64
#define OUTPUT_ROW_TOKENS_MAX 512
enum output_style { OUTPUT_STYLE_NONE, OUTPUT_BY_SEP, OUTPUT_BY_GAP, OUTPUT_BY_BLANK };

/* The header of the table that the present line may belong to. */
struct output_table {
	enum output_style style;
	char sep; /* of OUTPUT_BY_SEP */
	size_t n;
	size_t rows; /* seen below it */
	uint8_t cls[OUTPUT_CELLS_MAX];
	uint32_t name_off[OUTPUT_CELLS_MAX], name_len[OUTPUT_CELLS_MAX];
};

/*
 * Looks at a line before its tokens are classified: takes it as a header, ends the table, or, where
 * it is one of its rows, says so and fills cell[i] (OUTPUT_CELLS_MAX: none) for each token.
 * rest is what follows the line.
 */
bool output_table_line(struct output_table *tab, const char *text, const struct output_toks *t,
		       size_t rest, size_t text_len, uint8_t cell[OUTPUT_ROW_TOKENS_MAX]);

/* ---- classes ---- */

struct output_rules {
	regex_t fom;
	bool has_fom, fom_group;
	regex_t ignore[OUTPUT_PATTERNS_MAX];
	size_t n_ignore;
	char host[OUTPUT_SUB_CAP * 4]; /* lower case; "" none */
	char host_short[OUTPUT_SUB_CAP * 4];
	char *given; /* " 100 0.5 ": the numbers of the command; NULL: none */
	double rtol, atol;
};

int output_rules_init(struct output_rules *r, const struct output_opts *opts, struct err *err);
void output_rules_done(struct output_rules *r);

/* Sets cls and name of the tokens of a line; cell and tab as output_table_line() left them, cell
 * NULL where the line is no row. */
void output_classify(const struct output_rules *r, const char *text, size_t start, size_t end,
		     struct output_toks *t, const struct output_table *tab, const uint8_t *cell);
/* A field that is compared and says something about the result. */
bool output_is_result(const struct output_rules *r, const char *text, const struct output_tok *k);

/* ---- pages ---- */

/* A token of a normalised line; neighbours that are ignored for the same reason are one. */
struct output_item {
	uint32_t off, len;
	uint32_t name_off;
	uint8_t name_len, kind, cls, shape;
};

struct output_line {
	uint32_t first, n; /* items */
	uint32_t no;	   /* from 1, in what was printed */
	uint64_t hash;
};

/* One stream of one run. */
struct output_page {
	const char *text;
	size_t len;
	char *own;   /* what text points to, where it is a copy */
	bool binary; /* has NUL bytes: compared byte by byte */
	struct output_item *items;
	size_t n_items, cap_items;
	struct output_line *lines;
	size_t n_lines, cap_lines;
	/* What was printed after the first OUTPUT_HEAD_MAX bytes, normalised: lines and hash. */
	size_t n_more;
	char more_sha256[HASH_HEX_LEN + 1];
	uint64_t rest; /* bytes that were not kept */
	char rest_sha256[HASH_HEX_LEN + 1];
	size_t n_fields, n_results, n_ignored; /* of the kept lines */
	double *low, *high; /* of each item over the runs; NULL without tolerance */
};

/* Told of each field of a page, in order; may be NULL. */
typedef void (*output_field_cb)(void *arg, const struct output_page *p,
				const struct output_item *item, size_t line, size_t field,
				bool result);

/* like: the learnt page that it will be compared with; NULL: this will be one, and it keeps its own
 * copy of the text. */
void output_page_init(struct output_page *p, const struct output_rules *r,
		      const struct output_stream *s, const struct output_page *like,
		      output_field_cb cb, void *arg);
void output_page_done(struct output_page *p);
bool output_page_empty(const struct output_page *p); /* nothing printed */

/* ---- differences ---- */

/* What differs, told in words: for a verdict ("1.2 became 1.3") or a varying field ("1.2 / 1.3").
 */
struct output_diff {
	bool learning;
	const char *where; /* " of stderr" or "" */
	size_t n, compared;
	char text[OUTPUT_MISMATCH_SHOWN][OUTPUT_TEXT_CAP];
};

/* a is the model's.  Adds to d. */
void output_diff_pages(const struct output_rules *r, const struct output_page *a,
		       const struct output_page *b, bool any_order, struct output_diff *d);
/* The same lines, whatever their order, and nothing else differs. */
bool output_same_lines(const struct output_page *a, const struct output_page *b);
/* Widens low and high of a by the values of b, whose lines agree with a's. */
void output_page_widen(struct output_page *a, const struct output_page *b);
/* Printable copy of at most 40 bytes of text. */
void output_cut(const char *s, size_t n, char buf[48]);

#endif
