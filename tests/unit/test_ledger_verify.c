/* Verification: every kind of tampering is found, in the right file and line; nothing else is. */
#include "base/hash.h"
#include "base/json.h"
#include "base/lines.h"
#include "core/str.h"
#include "ledger/ledger.h"
#include "ledger/verify.h"
#include "ledger_project.h"

#define N_MAX 16

struct found {
	char file[256];
	size_t line;
	char msg[700];
};

static struct found found[LEDGER_FINDINGS_MAX + 8];
static size_t n_found;

static void collect(void *arg, const char *file, size_t line, const char *message)
{
	struct found *f = &found[n_found++];

	CHECK(n_found <= LEDGER_FINDINGS_MAX);
	CHECK(!arg);
	(void)snprintf(f->file, sizeof(f->file), "%s", file);
	f->line = line;
	(void)snprintf(f->msg, sizeof(f->msg), "%s", message);
}

static void verify(const struct project *p)
{
	struct err err = { 0 };

	n_found = 0;
	CHECK_OK(ledger_verify(p->dir, collect, NULL, &err), &err);
}

struct want {
	const char *file; /* a part of its path: "state/", ".rocbudai/", "head" */
	size_t line;
	const char *msg;
};

static void expect(const char *what, const struct want *want, size_t n)
{
	bool same = n == n_found;

	for (size_t i = 0; same && i < n; i++)
		same = strstr(found[i].file, want[i].file) && found[i].line == want[i].line &&
		       strstr(found[i].msg, want[i].msg);
	if (same)
		return;
	(void)fprintf(stderr, "%s: wanted %zu findings:\n", what, n);
	for (size_t i = 0; i < n; i++)
		(void)fprintf(stderr, "  %s:%zu: %s\n", want[i].file, want[i].line, want[i].msg);
	(void)fprintf(stderr, "found %zu:\n", n_found);
	for (size_t i = 0; i < n_found; i++)
		(void)fprintf(stderr, "  %s:%zu: %s\n", found[i].file, found[i].line, found[i].msg);
	exit(1);
}

#define EXPECT(what, ...)                                                                          \
	do {                                                                                       \
		static const struct want want_[] = { __VA_ARGS__ };                                \
		expect(what, want_, sizeof(want_) / sizeof(want_[0]));                             \
	} while (0)

/* ---- lines of a file ---- */

struct doc {
	char *v[N_MAX];
	size_t n;
};

static void doc_load(struct doc *d, const char *path)
{
	AUTO_FREE char *text = slurp(path);

	d->n = 0;
	for (char *s = text; *s; s = strchr(s, '\n') + 1)
		d->v[d->n++] = xstrndup(s, (size_t)(strchr(s, '\n') - s));
}

static void doc_save(const struct doc *d, const char *path)
{
	AUTO_STR struct str s = { 0 };

	for (size_t i = 0; i < d->n; i++) {
		str_adds(&s, d->v[i]);
		str_addc(&s, '\n');
	}
	spew(path, str_get(&s));
}

static void doc_free(struct doc *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i]);
	d->n = 0;
}

static void doc_insert(struct doc *d, size_t at, const char *line)
{
	memmove(&d->v[at + 1], &d->v[at], (d->n - at) * sizeof(char *));
	d->v[at] = xstrdup(line);
	d->n++;
}

static void doc_remove(struct doc *d, size_t at)
{
	free(d->v[at]);
	memmove(&d->v[at], &d->v[at + 1], (d->n - at - 1) * sizeof(char *));
	d->n--;
}

static void doc_replace(struct doc *d, size_t at, const char *from, const char *to)
{
	char *hit = strstr(d->v[at], from);
	char *made;

	CHECK(hit);
	made = xasprintf("%.*s%s%s", (int)(hit - d->v[at]), d->v[at], to, hit + strlen(from));
	free(d->v[at]);
	d->v[at] = made;
}

/* Makes every prev right again, as a careful forger would.  Returns the head. */
static void doc_rechain(struct doc *d, char head[HASH_HEX_LEN + 1])
{
	memset(head, '0', HASH_HEX_LEN);
	head[HASH_HEX_LEN] = '\0';
	for (size_t i = 0; i < d->n; i++) {
		AUTO_JSON struct json *j = NULL;
		struct err err = { 0 };

		CHECK_OK(json_parse(d->v[i], strlen(d->v[i]), "doc", &j, &err), &err);
		json_set_str(j, "prev", head);
		free(d->v[i]);
		d->v[i] = json_dump(j);
		hash_mem_hex(d->v[i], strlen(d->v[i]), head);
	}
}

/* ---- the project ---- */

struct fix {
	struct project p;
	char *master, *copy, *head;
};

static void add(struct ledger *l, double wall)
{
	struct ledger_value v = { .name = "wall", .value = wall, .unit = "s", .n = 4 };
	struct ledger_rec rec = {
		.kind = LEDGER_BENCH, .values = &v, .n_values = 1, .command = "./a"
	};
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };

	CHECK_OK(ledger_append(l, &rec, id, &err), &err);
}

static void fix_init(struct fix *f, int n)
{
	struct ledger *l = NULL;
	struct err err = { 0 };

	project_init(&f->p);
	CHECK_OK(ledger_open(f->p.dir, &l, &err), &err);
	for (int i = 1; i <= n; i++)
		add(l, 100 + i);
	f->master = file_join(ledger_state_dir(l), "evidence.jsonl");
	f->head = file_join(ledger_state_dir(l), "head");
	f->copy = project_file(&f->p, "evidence.jsonl");
	ledger_close(l);
	verify(&f->p);
	CHECK_INT(n_found, 0);
}

static void fix_done(struct fix *f)
{
	project_done(&f->p);
	free(f->master);
	free(f->copy);
	free(f->head);
}

static void test_published(void)
{
	struct fix f;
	struct doc d = { .n = 0 };
	char head[HASH_HEX_LEN + 1];

	fix_init(&f, 6);

	doc_load(&d, f.copy);
	doc_replace(&d, 2, "\"value\":103.0", "\"value\":1.03");
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("edited", { ".rocbudai/", 3, "E0003 was edited: values not as in the master" });

	doc_rechain(&d, head);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("edited and chained again", { ".rocbudai/", 3, "E0003 was edited: values" },
	       { ".rocbudai/", 4, "E0004: the chain was computed again" },
	       { ".rocbudai/", 5, "E0005: the chain was computed again" },
	       { ".rocbudai/", 6, "E0006: the chain was computed again" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_remove(&d, 2);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("removed", { ".rocbudai/", 3, "E0003 of the master was removed before this line" });
	doc_rechain(&d, head);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("removed and chained again",
	       { ".rocbudai/", 3, "E0003 of the master was removed before this line" },
	       { ".rocbudai/", 3, "E0004: the chain was computed again" },
	       { ".rocbudai/", 4, "E0005: the chain was computed again" },
	       { ".rocbudai/", 5, "E0006: the chain was computed again" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_remove(&d, 1);
	doc_remove(&d, 1);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("two removed",
	       { ".rocbudai/", 2, "E0002 to E0003 of the master (2 records) were removed" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_remove(&d, 5);
	doc_remove(&d, 4);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("end removed", { ".rocbudai/", 4, "E0005 to E0006 of the master (2 records)" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_insert(&d, 4, d.v[1]);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("repeated", { ".rocbudai/", 5, "E0002 is repeated: it is line 2 of the master" });
	doc_replace(&d, 4, "102.0", "17.0");
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("stands again", { ".rocbudai/", 5, "E0002 stands again, with other content" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_insert(&d, 6, d.v[5]);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("last repeated", { ".rocbudai/", 7, "E0006 is repeated" });
	doc_replace(&d, 6, "E0006", "E0007");
	doc_rechain(&d, head);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("appended", { ".rocbudai/", 7, "E0007 was added: the master has no such record" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_replace(&d, 3, "\"prev\":\"", "\"prev\":\"f");
	d.v[3][strlen(d.v[3]) - 3] = '"'; /* still 64 digits */
	d.v[3][strlen(d.v[3]) - 2] = '}';
	d.v[3][strlen(d.v[3]) - 1] = ' ';
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("broken chain", { ".rocbudai/", 4, "E0004: the chain is broken" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_insert(&d, 2, "nonsense");
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("garbage added", { ".rocbudai/", 3, "a line that is no record was added" });
	doc_remove(&d, 3);
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("made garbage", { ".rocbudai/", 3, "E0003 was edited: it is no record any more" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_replace(&d, 5, "{", "<");
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("last made garbage", { ".rocbudai/", 6, "E0006 was edited: it is no record" });
	doc_free(&d);

	doc_load(&d, f.master);
	doc_save(&d, f.copy);
	append_text(f.copy, "{\"id\":\"E00");
	verify(&f.p);
	EXPECT("half a line", { ".rocbudai/", 7, "the last line is not whole" });
	append_text(f.copy, "07\"}\n");
	verify(&f.p);
	EXPECT("a whole line", { ".rocbudai/", 7, "E0007 was added" });

	spew(f.copy, "");
	verify(&f.p);
	EXPECT("emptied", { ".rocbudai/", 0, "E0001 to E0006 of the master (6 records)" });
	CHECK(unlink(f.copy) == 0);
	verify(&f.p);
	EXPECT("removed file", { ".rocbudai/", 0, "the published copy is missing" });
	CHECK(symlink(f.master, f.copy) == 0);
	verify(&f.p);
	EXPECT("a link", { ".rocbudai/", 0, "replaced by a link" },
	       { ".rocbudai/", 0, "the published copy is missing" });
	CHECK(unlink(f.copy) == 0);
	CHECK(mkdir(f.copy, 0755) == 0);
	verify(&f.p);
	EXPECT("a folder", { ".rocbudai/", 0, "not a regular file" },
	       { ".rocbudai/", 0, "the published copy is missing" });
	CHECK(rmdir(f.copy) == 0);
	doc_save(&d, f.copy);
	verify(&f.p);
	CHECK_INT(n_found, 0);
	doc_free(&d);
	fix_done(&f);
}

static void test_swapped(void)
{
	struct fix f;
	struct doc d = { .n = 0 };
	char *t;

	fix_init(&f, 5);
	doc_load(&d, f.copy);
	t = d.v[1];
	d.v[1] = d.v[2];
	d.v[2] = t;
	doc_save(&d, f.copy);
	verify(&f.p);
	EXPECT("swapped", { ".rocbudai/", 2, "E0002 of the master was removed before this line" },
	       { ".rocbudai/", 3, "E0002 is repeated: it is line 2 of the master" });
	doc_free(&d);
	fix_done(&f);
}

/* What can be seen where the master itself was damaged. */
static void test_master(void)
{
	struct fix f;
	struct doc d = { .n = 0 };
	char head[HASH_HEX_LEN + 1];
	AUTO_FREE char *mark = NULL;
	AUTO_FREE char *broken = NULL;

	fix_init(&f, 5);
	mark = slurp(f.head);
	doc_load(&d, f.copy);
	doc_replace(&d, 2, "\"value\":103.0", "\"value\":9");
	doc_save(&d, f.master);
	verify(&f.p);
	EXPECT("master edited", { "state/", 4, "E0004: the chain is broken" },
	       { ".rocbudai/", 3, "E0003 was edited: values" });
	doc_rechain(&d, head);
	doc_save(&d, f.master);
	verify(&f.p);
	EXPECT("master chained again", { "state/", 5, "record 5 is not the one that was written" },
	       { ".rocbudai/", 3, "E0003 was edited: values" },
	       { ".rocbudai/", 4, "E0004: the chain was computed again" },
	       { ".rocbudai/", 5, "E0005: the chain was computed again" });
	doc_free(&d);

	doc_load(&d, f.copy);
	doc_remove(&d, 2);
	doc_save(&d, f.master);
	verify(&f.p);
	EXPECT("master's record removed", { "state/", 3, "E0004: the chain is broken" },
	       { "state/", 3, "E0004 stands where E0003 was expected" },
	       { "state/", 4, "it has 4 records, but 5 were written" },
	       { ".rocbudai/", 3, "E0003 was added" });
	doc_free(&d);

	doc_load(&d, f.copy);
	doc_remove(&d, 4);
	doc_save(&d, f.master);
	verify(&f.p);
	EXPECT("master's last removed", { "state/", 4, "it has 4 records, but 5 were written" },
	       { ".rocbudai/", 5, "E0005 was added" });
	doc_free(&d);

	doc_load(&d, f.copy);
	doc_insert(&d, 5, d.v[4]);
	doc_save(&d, f.master);
	verify(&f.p);
	EXPECT("master's last repeated", { "state/", 6, "E0005: the chain is broken" },
	       { "state/", 6, "E0005 stands again" },
	       { "state/", 6, "it has 6 records, but only 5 were written" },
	       { ".rocbudai/", 5, "E0005 to E0005 of the master (1 records)" });
	doc_remove(&d, 5);
	doc_save(&d, f.master);
	append_text(f.master, "{\"i");
	verify(&f.p);
	EXPECT("half a line", { "state/", 6, "the last line is not whole" });
	doc_save(&d, f.master);

	CHECK(unlink(f.head) == 0);
	verify(&f.p);
	EXPECT("no head", { "head", 0, "the head is missing" });
	broken = xstrdup(mark);
	broken[0] = '4';
	spew(f.head, broken);
	verify(&f.p);
	EXPECT("count", { "state/", 5, "record 4 is not the one that was written" });
	broken[0] = '6';
	spew(f.head, broken);
	verify(&f.p);
	EXPECT("count", { "state/", 5, "it has 5 records, but 6 were written" });
	spew(f.head, mark);
	verify(&f.p);
	CHECK_INT(n_found, 0);
	CHECK(unlink(f.master) == 0);
	verify(&f.p);
	EXPECT("no master", { "state/", 0, "the master is missing" },
	       { "state/", 0, "it has 0 records, but 5 were written" });
	doc_free(&d);
	fix_done(&f);
}

/* Master, copy and head rewritten together: only what no record may be is found. */
static void test_schema(void)
{
	static const struct {
		const char *from, *to, *msg;
	} cases[] = {
		{ "\"unit\":\"s\"", "\"unit\":\"\"", "value 'wall' has no unit" },
		{ "\"unit\":\"s\",", "", "value 'wall' has no unit" },
		{ "\"name\":\"wall\",", "", "a value has no name" },
		{ "\"n\":4", "\"n\":0", "n is not a whole number of at least 1" },
		{ "\"n\":4", "\"n\":4.5", "n is not a whole number" },
		{ "\"n\":4", "\"n\":5,\"ci95_low\":1,\"ci95_high\":2", "(6 at least)" },
		{ "\"n\":4", "\"n\":9,\"ci95_low\":1", "only one of ci95_low" },
		{ "\"n\":4", "\"n\":9,\"min\":1,\"max\":2", "only some of min" },
		{ "\"value\":103.0", "\"value\":\"103\"", "is not a finite number" },
		{ "\"value\":103.0", "\"value\":null", "has no number" },
		{ "\"value\":103.0,", "", "has no number" },
		{ "\"values\":", "\"walues\":", "values is not a list" },
		{ "\"kind\":\"bench\"", "\"kind\":\"guess\"",
		  "no kind of record is called 'guess'" },
		{ "\"files\":[]", "\"files\":[{\"path\":\"a\"}]", "file 'a' has no sha256" },
		{ "\"parents\":[]", "\"parents\":[3]", "is not an id" },
		{ "\"parents\":[]", "\"parents\":[\"E0003\"]", "E0003 is no earlier record" },
		{ "\"env\":{}", "\"env\":null", "env or detail is not an object" },
		{ "\"command\":\"./a\",", "", "gpu or command" },
		{ "\"time\":\"2", "\"time\":\"x", "time is not" },
		{ "\"E0003\"", "\"E3\"", "not of the form" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fix f;
		struct doc d = { .n = 0 };
		char head[HASH_HEX_LEN + 1];
		AUTO_FREE char *mark = NULL;
		bool hit = false;

		fix_init(&f, 3);
		doc_load(&d, f.copy);
		doc_replace(&d, 2, cases[i].from, cases[i].to);
		doc_rechain(&d, head);
		doc_save(&d, f.copy);
		doc_save(&d, f.master);
		mark = xasprintf("3 %s\n", head);
		spew(f.head, mark);
		verify(&f.p);
		for (size_t k = 0; k < n_found; k++)
			hit |= found[k].line == 3 && strstr(found[k].file, "state/") &&
			       strstr(found[k].msg, cases[i].msg);
		if (!hit)
			expect(cases[i].msg, NULL, 1);
		doc_free(&d);
		fix_done(&f);
	}
}

static void test_many(void)
{
	struct fix f;
	AUTO_FREE char *text = NULL;

	fix_init(&f, LEDGER_FINDINGS_MAX + 50);
	text = slurp(f.copy);
	for (char *s = text; (s = strstr(s, "\"./a\"")); s++)
		s[2] = '-';
	spew(f.copy, text);
	verify(&f.p);
	CHECK_INT(n_found, LEDGER_FINDINGS_MAX);
	CHECK_HAS(found[0].msg, "E0001 was edited: command");
	CHECK_HAS(found[n_found - 1].msg, "verification stopped here");
	fix_done(&f);
}

static void test_lines(void)
{
	struct project p;
	struct lines_reader rd;
	struct lines_line ln;
	struct err err = { 0 };
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;

	project_init(&p);
	path = file_join(p.dir, "lines");
	spew(path, "ab\n\n0123456789\nlonger than the limit\nx");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	lines_init(&rd, fd, 10, path);
	CHECK_INT(lines_next(&rd, &ln, &err), 1);
	CHECK(ln.len == 2 && ln.whole && ln.no == 1 && ln.off == 0);
	CHECK_INT(lines_next(&rd, &ln, &err), 1);
	CHECK(ln.len == 0 && ln.whole && ln.no == 2 && ln.off == 3);
	CHECK_INT(lines_next(&rd, &ln, &err), 1);
	CHECK(ln.len == 10 && ln.whole && !ln.too_long && ln.off == 4);
	CHECK_INT(lines_next(&rd, &ln, &err), 1);
	CHECK(ln.len == 10 && !ln.whole && ln.too_long && ln.no == 4 && ln.off == 15);
	CHECK_INT(lines_next(&rd, &ln, &err), 1);
	CHECK(ln.len == 1 && !ln.whole && ln.no == 5 && ln.text[0] == 'x');
	CHECK_INT(lines_next(&rd, &ln, &err), 0);
	CHECK_INT(lines_next(&rd, &ln, &err), 0);
	lines_done(&rd);
	project_done(&p);
}

int main(void)
{
	test_lines();
	test_published();
	test_swapped();
	test_master();
	test_schema();
	test_many();
	return 0;
}
