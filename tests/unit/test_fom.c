#include <stdint.h>

#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/fom.h"
#include "measure/pattern.h"
#include "proc/proc.h"

static const struct {
	const char *pattern, *text;
	int code;
	double value;
} reads[] = {
	{ "GLUPS: ([0-9.]+)", "GLUPS: 1.5\n", 0, 1.5 },
	/* the last match, in the last line that has one and within that line */
	{ "GLUPS: ([0-9.]+)", "GLUPS: 1\nGLUPS: 2\nGLUPS: 3 GLUPS: 4\nend\n", 0, 4 },
	{ "GLUPS: ([0-9.]+)", "no newline GLUPS: 7", 0, 7 },
	{ "time *= *([^ ]+)", "time =  -1.5e-3 s\n", 0, -1.5e-3 },
	{ "time *= *([^ ]+)", "time = 1.25D+02 s\n", 0, 125 },
	{ "t=( *[0-9]+ *)s", "t=  12  s\n", 0, 12 },
	/* without a group: the number within */
	{ "[0-9.]+ GFLOP/s", "12.25 GFLOP/s\n", 0, 12.25 },
	{ "x86 run_3 took .*", "x86 run_3 took +4.5s\n", 0, 4.5 },
	{ "^total.*$", "total .5\n", 0, 0.5 },
	{ "^b ([0-9]+)$", "a 1\nb 2\nc 3\n", 0, 2 },
	/* ^ is the start of a line only, also for the second match in it */
	{ "^b ([0-9]+)", "b 2b 3\n", 0, 2 },
	{ "v=(nan|[0-9]+)", "v=1\nv=nan\n", ERR_PARSE, 0 },
	{ "v=(.*)", "v=12 apples\n", ERR_PARSE, 0 },
	{ "v=(.*)", "v=\n", ERR_PARSE, 0 },
	{ "v=(1e999)", "v=1e999\n", ERR_PARSE, 0 },
	{ "words", "only words here\n", ERR_PARSE, 0 },
	{ "a(1)|b", "b\n", ERR_PARSE, 0 },
	{ "GLUPS: ([0-9.]+)", "GLUP: 1.5\n", ERR_NOT_FOUND, 0 },
	{ "GLUPS", "", ERR_NOT_FOUND, 0 },
	/* a match that is empty does not loop */
	{ "x*", "abc\n", ERR_PARSE, 0 },
};

static void test_reads(void)
{
	for (size_t i = 0; i < sizeof(reads) / sizeof(reads[0]); i++) {
		struct fom_spec spec = { .pattern = reads[i].pattern };
		struct err err = { 0 };
		struct fom *f;
		double v = -99;
		int r;

		CHECK_OK(fom_new(&spec, &f, &err), &err);
		r = fom_read(f, reads[i].text, strlen(reads[i].text), &v, &err);
		if (r != reads[i].code || v != (r == 0 ? reads[i].value : -99)) {
			(void)fprintf(stderr, "case %zu, %s: %d, %g, %s\n", i, reads[i].pattern, r,
				      v, err.msg);
			exit(1);
		}
		if (r < 0)
			CHECK_HAS(err.msg, reads[i].pattern);
		fom_free(f);
	}
}

static void test_messages(void)
{
	struct fom_spec spec = { .pattern = "speed ([0-9]+)", .unit = "m/s", .higher = true };
	static const char text[] = "one\ntwo\n\nthree\001\nfour\n";
	struct err err = { 0 };
	struct fom *f;
	double v;

	CHECK_OK(fom_new(&spec, &f, &err), &err);
	CHECK_STR(fom_unit(f), "m/s");
	CHECK_STR(fom_pattern(f), spec.pattern);
	CHECK(fom_higher(f));
	CHECK_INT(fom_read(f, text, sizeof(text) - 1, &v, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "ends with: two / three? / four");
	CHECK_INT(fom_read(f, "\n\n", 2, &v, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "printed nothing");
	CHECK_INT(fom_read(f, "a\0speed 4\0b\n", 12, &v, &err), 0);
	CHECK(v == 4);
	fom_free(f);
	spec = (struct fom_spec){ .pattern = "a" };
	CHECK_OK(fom_new(&spec, &f, &err), &err);
	CHECK_STR(fom_unit(f), "1");
	fom_free(f);
	fom_free(NULL);
}

static const struct {
	const char *pattern;
	unsigned long nodes;
} sizes[] = {
	{ "", 0 },	     { "abc", 3 },     { "a|b*c?", 4 }, { "a+", 2 },
	{ "[a-z+]+x", 3 },   { "[]a]{3}", 4 }, { "\\{3}", 3 },	{ "(ab)", 4 },
	{ "(ab+){10}", 55 }, { "((a", 1 },     { "a)", 2 },	{ "{", 1 },
};

static void test_sizes(void)
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		CHECK_INT(pattern_nodes(sizes[i].pattern), sizes[i].nodes);
}

static void test_refused(void)
{
	static const struct {
		const char *pattern, *why;
	} bad[] = {
		{ "", "empty" },
		{ "(", "not a POSIX extended regular expression" },
		{ "[0-9", "not a POSIX extended regular expression" },
		{ "(a)(b)", "more than one group" },
		{ "(a)\\1", "back-reference" },
		{ "((((a{200}){200}){200}){200})", "repeats or nests too much" },
		{ "(a{20}b){50}", "repeats or nests too much" },
		{ "a{1,32000}", "repeats or nests too much" },
		{ "a{99999999999999999999}", "repeats or nests too much" },
		{ "s++++++++++++++++++++++++++++++++++++++++++++++", "repeats or nests too much" },
		{ "((((((((((((((((a+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)+)",
		  "repeats or nests too much" },
		{ "(((((((((((((((((((((((((((((((((a)))))))))))))))))))))))))))))))))",
		  "repeats or nests too much" },
		{ "[]", "not a POSIX" },
		{ "[[:alpha:]", "not a POSIX" },
	};
	char longer[FOM_PATTERN_MAX + 2];
	struct fom_spec spec = { .pattern = longer };
	struct err err = { 0 };
	struct fom *f = NULL;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fom_spec s = { .pattern = bad[i].pattern };

		CHECK_INT(fom_new(&s, &f, &err), ERR_INVALID);
		CHECK_HAS(err.msg, bad[i].why);
		CHECK(!f);
	}
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	CHECK_INT(fom_new(&spec, &f, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "longer than 512");
	spec = (struct fom_spec){ .pattern = "a", .unit = longer };
	CHECK_INT(fom_new(&spec, &f, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "unit");
	/* what is not repeated, or only looks like it, is fine */
	spec = (struct fom_spec){ .pattern =
					  "[^]+{999}]{1,3} [[:digit:]{999]+ \\\\+ a+ b+ c+ d+ e+ "
					  "f+ g+ h+ i+ j+ ([0-9]+)" };
	CHECK_OK(fom_new(&spec, &f, &err), &err);
	fom_free(f);
	/* an escaped backslash before a digit is none */
	spec = (struct fom_spec){ .pattern = "a\\\\1{2,3}([0-9]{1,4})" };
	CHECK_OK(fom_new(&spec, &f, &err), &err);
	fom_free(f);
}

/* What is kept of "...text" when the first head and the last tail bytes are. */
static int read_cut(struct fom *f, const char *text, size_t head, size_t tail, double *v,
		    struct err *err)
{
	size_t n = strlen(text);
	char *h = strndup(text, head), *t = strdup(text + n - tail);
	struct proc_capture c = {
		.head = h, .head_len = head, .tail = t, .tail_len = tail, .total = n
	};
	int r;

	CHECK(h && t);
	r = fom_read_capture(f, &c, v, err);
	free(h);
	free(t);
	return r;
}

static void test_capture(void)
{
	static const char text[] = "v=1\nfiller filler\nv=2345\nfiller\nv=6\n";
	struct fom_spec spec = { .pattern = "v=([0-9]+)" };
	struct proc_capture none = { 0 };
	struct err err = { 0 };
	struct fom *f;
	double v = 0;

	CHECK_OK(fom_new(&spec, &f, &err), &err);
	CHECK_OK(read_cut(f, text, 4, 12, &v, &err), &err);
	CHECK(v == 6);
	/* the beginning ends within "v=2345", which is no match then */
	CHECK_OK(read_cut(f, text, 22, 3, &v, &err), &err);
	CHECK(v == 1);
	/* the end begins within "=2345", the rest of which the beginning has: put together */
	CHECK_OK(read_cut(f, "v=1\nv=2345\nend\n", 7, 8, &v, &err), &err);
	CHECK(v == 2345);
	/* beginning and end overlap */
	CHECK_OK(read_cut(f, "v=1\nv=2345\nend\n", 8, 9, &v, &err), &err);
	CHECK(v == 2345);
	/* a lost middle between two halves of a number is not glued */
	CHECK_INT(read_cut(f, "v=23xxxxxxx45\nend\n", 4, 7, &v, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "end");
	CHECK_INT(fom_read_capture(f, &none, &v, &err), ERR_NOT_FOUND);
	fom_free(f);
}

/* Of a very long line the end is searched; time stays bounded. */
static void test_long(void)
{
	struct fom_spec spec = { .pattern = "v=([0-9]+)" };
	struct err err = { 0 };
	struct fom *f;
	double v = 0;
	AUTO_STR struct str s = { 0 };

	str_adds(&s, "v=1");
	for (int i = 0; i < 100000; i++)
		str_adds(&s, " filler");
	CHECK_OK(fom_new(&spec, &f, &err), &err);
	CHECK_INT(fom_read(f, s.s, s.len, &v, &err), ERR_NOT_FOUND);
	str_adds(&s, " v=2 end");
	CHECK_OK(fom_read(f, s.s, s.len, &v, &err), &err);
	CHECK(v == 2);
	fom_free(f);
}

static const struct {
	const char *word, *text, *unit, *later;
	double value, later_value;
	int direction; /* 1 higher, -1 lower, 0 not known */
} guesses[] = {
	{ "GLUPS", "n 512\nGLUPS: 1.75\nbye\n", "", "GLUPS:   2.5\n", 1.75, 2.5, 1 },
	{ "GLUPS", "512 x 512: 1.75 GLUPS\n", "GLUPS", "1024 x 1024: 10.5  GLUPS\n", 1.75, 10.5,
	  1 },
	{ "GFLOP/s", "performance = 3.5e2 GFLOP/s (peak 4 %)\n", "GFLOP/s",
	  "performance = 1.5e+02 GFLOP/s (peak 5 %)\n", 350, 150, 1 },
	{ "time", "Time step 3\nTotal time (s): 12.5\n", "s", "Total time (s): 3.5\n", 12.5, 3.5,
	  -1 },
	{ "Elapsed", "Elapsed .......... 4.5 ms\n", "ms", "Elapsed .......... 14.5 ms\n", 4.5, 14.5,
	  -1 },
	{ "s", "steps 100 took 3.25s\n", "s", "steps 100 took 13.25s\n", 3.25, 13.25, -1 },
	{ "mlups", "MLUPS=17\n", "", "MLUPS=18\n", 17, 18, 1 },
	{ "residual", "residual [1e-9]: 4.0E-10\n", "", "residual [1e-9]: 5.0E-10\n", 4e-10, 5e-10,
	  0 },
	{ "P95", "P95: 12\nP50: 3\n", "", "P95: 22\nP50: 4\n", 12, 22, 0 },
	/* the last line with the word and a number, not a later one with the word alone */
	{ "score", "score 7\nscore was written\n", "", "score 8\nscore was written\n", 7, 8, 1 },
};

static void test_propose(void)
{
	for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
		struct fom_guess g;
		struct err err = { 0 };
		struct fom_spec spec = { .pattern = g.pattern };
		struct fom *f;
		double v;

		CHECK_OK(fom_propose(guesses[i].word, guesses[i].text, strlen(guesses[i].text), &g,
				     &err),
			 &err);
		(void)printf("%s -> %s [%s]\n", guesses[i].word, g.pattern, g.unit);
		CHECK(g.value == guesses[i].value);
		CHECK_INT(g.has_direction ? (g.higher ? 1 : -1) : 0, guesses[i].direction);
		CHECK_OK(fom_new(&spec, &f, &err), &err);
		CHECK_OK(fom_read(f, guesses[i].later, strlen(guesses[i].later), &v, &err), &err);
		CHECK(v == guesses[i].later_value);
		CHECK_STR(g.unit, guesses[i].unit);
		fom_free(f);
	}
}

static void test_propose_refused(void)
{
	struct fom_guess g = { .value = 3 };
	struct err err = { 0 };
	char word[100];

	CHECK_INT(fom_propose("GLUPS", "nothing of it\n", 14, &g, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "does not have 'GLUPS'");
	CHECK_INT(fom_propose("GLUPS", "GLUPS are many\n", 15, &g, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "no number");
	/* a word within another is not the word */
	CHECK_INT(fom_propose("time", "runtime 3\n", 10, &g, &err), ERR_NOT_FOUND);
	CHECK_INT(fom_propose("", "1", 1, &g, &err), ERR_INVALID);
	memset(word, 'a', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	CHECK_INT(fom_propose(word, "1", 1, &g, &err), ERR_INVALID);
	CHECK(g.value == 3);
}

int main(void)
{
	test_reads();
	test_messages();
	test_sizes();
	test_refused();
	test_capture();
	test_long();
	test_propose();
	test_propose_refused();
	return 0;
}
