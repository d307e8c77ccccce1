/* report.md from a ledger, its escaping, its JSON, and every kind of finding of --verify. */
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger.h"
#include "report/report.h"

static char root[] = "/tmp/rb report-XXXXXX";
static char *project;

static char findings[8192];

static void collect(void *arg, const struct report_finding *f)
{
	size_t n = strlen(findings);

	(void)arg;
	(void)snprintf(findings + n, sizeof(findings) - n, "%s:%zu: %s\n", f->file, f->line,
		       f->what);
}

static int verify(void)
{
	struct err err = { 0 };
	int n;

	findings[0] = '\0';
	n = report_verify(project, collect, NULL, &err);
	CHECK_OK(n, &err);
	return n;
}

static void add(struct ledger *l, struct ledger_rec *rec, const char *detail, char *id)
{
	struct json *d = NULL;
	struct err err = { 0 };

	CHECK_OK(json_parse(detail, strlen(detail), "detail", &d, &err), &err);
	rec->detail = d;
	CHECK_OK(ledger_append(l, rec, id, &err), &err);
	json_unref(d);
}

static const char iteration[] =
	"{\"what\":\"iteration\",\"session\":\"s\",\"iteration\":1,\"play\":\"opt-level\","
	"\"hypothesis\":\"compiled with -O0, 93.5 % of the time in `evil | *name*`\","
	"\"change\":\"-O3\",\"decision\":\"kept\",\"reason\":\"lower bound 1.743× above 1.2 %\","
	"\"guards\":[{\"name\":\"applied\",\"state\":\"met\",\"why\":\"3.25 % more\"}],"
	"\"screen\":null,\"confirmation\":\"E0003\"}";

/* A small session: its start, a baseline, a comparison, an iteration, a delivery, its end. */
static void make_ledger(struct ledger *l)
{
	struct ledger_value wall = { .name = "wall",
				     .value = 0.6125,
				     .unit = "s",
				     .n = 6,
				     .has_range = true,
				     .min = 0.6,
				     .max = 0.7,
				     .median = 0.6125,
				     .has_ci = true,
				     .ci95_low = 0.601,
				     .ci95_high = 0.622 };
	struct ledger_value ratio = { .name = "ratio",
				      .value = 1.8314,
				      .unit = "1",
				      .n = 20,
				      .has_ci = true,
				      .ci95_low = 1.80,
				      .ci95_high = 1.86 };
	struct ledger_value gain = ratio;
	const char *parents[] = { "E0002", "E0003" };
	char id[LEDGER_ID_CAP];

	gain.name = "gain";
	add(l, &(struct ledger_rec){ .kind = LEDGER_USER },
	    "{\"what\":\"session\",\"session\":\"s\",\"name\":\"<b>x</b> `y`\",\"build\":\"make\","
	    "\"run\":\"./a `b` \\u001b[31m\",\"node\":{\"cores\":2},\"options\":{}}",
	    id);
	add(l, &(struct ledger_rec){ .kind = LEDGER_BENCH, .values = &wall, .n_values = 1 },
	    "{\"role\":\"baseline\",\"samples\":[]}", id);
	add(l, &(struct ledger_rec){ .kind = LEDGER_COMPARE, .values = &ratio, .n_values = 1 },
	    "{\"role\":\"confirmation\"}", id);
	add(l,
	    &(struct ledger_rec){ .kind = LEDGER_DECISION,
				  .values = &ratio,
				  .n_values = 1,
				  .parents = parents,
				  .n_parents = 2 },
	    iteration, id);
	add(l,
	    &(struct ledger_rec){ .kind = LEDGER_DECISION,
				  .values = &gain,
				  .n_values = 1,
				  .parents = parents + 1,
				  .n_parents = 1 },
	    "{\"what\":\"delivery\",\"form\":\"patch\",\"path\":\".rocbudai/delivered.patch\","
	    "\"text\":\"-CFLAGS=-O0\\n+CFLAGS=-O3 ```\\n+9.99 s\\n\",\"applied\":true,"
	    "\"build\":\"make\",\"run\":\"./a\",\"undo\":\"u\",\"compare\":\"E0003\"}",
	    id);
	add(l, &(struct ledger_rec){ .kind = LEDGER_DECISION },
	    "{\"what\":\"end\",\"why\":\"done\"}", id);
	CHECK_STR(id, "E0006");
}

static char *read_report(void)
{
	AUTO_FREE char *path = file_join(project, "report.md");
	struct err err = { 0 };
	char *text = NULL;

	CHECK_OK(file_read(AT_FDCWD, path, 1 << 20, &text, NULL, &err), &err);
	return text;
}

static void write_report(const char *text)
{
	AUTO_FREE char *path = file_join(project, "report.md");
	struct err err = { 0 };

	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, &err), &err);
}

/* Replaces the first occurrence; verification must then find something that says want. */
static void tamper(const char *good, const char *from, const char *to, const char *want)
{
	const char *at = strstr(good, from);
	char *bad = NULL;

	CHECK(at);
	CHECK(asprintf(&bad, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from)) > 0);
	write_report(bad);
	CHECK(verify() > 0);
	CHECK_HAS(findings, want);
	CHECK_HAS(findings, "report.md:");
	free(bad);
}

static void test_render(const char *text)
{
	CHECK_HAS(text, REPORT_MARK);
	CHECK_HAS(text, "**1.831×** (interval 1.800× to 1.860×) [E0005]");
	CHECK_HAS(text, "0.6125 s (interval 0.6010 s to 0.6220 s) [E0002]");
	CHECK_HAS(text, "\\<b\\>x\\</b\\> \\`y\\`"); /* a name is text, never mark-up */
	CHECK(!strstr(text, "\033"));
	CHECK_HAS(text, "``./a `b` \\x1b[31m``");
	CHECK_HAS(text, "````diff\n"); /* longer than the fence inside */
	CHECK_HAS(text, "### Iteration 1: opt-level: kept [E0004]");
}

static void test_findings(const char *good)
{
	tamper(good, "**1.831×**", "**2.831×**", "no record cited here holds '2.831×'");
	tamper(good, "0.6125 s (", "0.6124 s (", "no record cited here holds '0.6124 s'");
	tamper(good, "## Environment", "It is 40 % faster.\n\n## Environment",
	       "cites no record, so nobody measured it");
	tamper(good, "1 iterations", "2 iterations", "the ledger gives another line here");
	tamper(good, "- change: `-O3`\n", "", "an empty iteration");
	tamper(good, "[FACT] The original: 0.6125 s (interval 0.6010 s to 0.6220 s)",
	       "[FACT] The original: 0.6125", "a fact without a number and unit");
	write_report(good);
	CHECK_INT(verify(), 0);
}

static void test_ledger_findings(const char *good)
{
	AUTO_FREE char *path = file_join(project, ".rocbudai/evidence.jsonl");
	AUTO_FREE char *text = NULL;
	struct err err = { 0 };
	char *at;

	CHECK_OK(file_read(AT_FDCWD, path, 1 << 20, &text, NULL, &err), &err);
	at = strstr(text, "0.6125");
	CHECK(at);
	at[2] = '5';
	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, &err), &err);
	CHECK(verify() > 0);
	CHECK_HAS(findings, "evidence.jsonl:2:");
	at[2] = '6';
	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, &err), &err);
	write_report(good);
	CHECK_INT(verify(), 0);
}

static void test_json(const struct ledger *l)
{
	AUTO_JSON struct json *j = report_json(l);
	const struct json *it = json_at(json_get(j, "iterations"), 0);

	CHECK(json_get_num(j, "gain", 0) == 1.8314);
	CHECK(json_get_num(json_get(j, "baseline"), "value", 0) == 0.6125);
	CHECK_STR(json_get_str(json_get(j, "baseline"), "unit", ""), "s");
	CHECK_STR(json_get_str(it, "decision", ""), "kept");
	CHECK_STR(json_get_str(it, "change", ""), "-O3");
	CHECK(json_get_num(it, "ci95_low", 0) == 1.80);
	CHECK_INT(json_len(json_get(it, "evidence")), 2);
}

static void test_users_report(const struct ledger *l, const char *good)
{
	AUTO_FREE char *text = NULL;
	const char *path = NULL;
	struct err err = { 0 };

	write_report("# mine\n");
	CHECK_OK(report_write(l, project, &path, &err), &err);
	CHECK_STR(path, "rocbudai-report.md");
	text = read_report();
	CHECK_STR(text, "# mine\n");
	CHECK_INT(verify(), 0);
	write_report(good);
}

static int numbers(const struct ledger *l, const char *text)
{
	findings[0] = '\0';
	return report_check_numbers(l, text, strlen(text), "x.md", collect, NULL);
}

/* A figure of merit has whatever unit its user gave it. */
static void test_own_unit(void)
{
	AUTO_FREE char *other = file_join(root, "other");
	struct ledger_value fom = { .name = "fom", .value = 12.5, .unit = "my_steps", .n = 6 };
	struct ledger *l = NULL;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];

	CHECK_OK(file_mkdirs(other, 0755, &err), &err);
	CHECK_OK(ledger_open(other, &l, &err), &err);
	add(l, &(struct ledger_rec){ .kind = LEDGER_USER }, "{}", id);
	CHECK_STR(id, "E0001");
	add(l, &(struct ledger_rec){ .kind = LEDGER_BENCH, .values = &fom, .n_values = 1 },
	    "{\"role\":\"baseline\",\"samples\":[]}", id);
	CHECK_STR(id, "E0002");
	CHECK_INT(numbers(l, "[FACT] 12.5 my\\_steps [E0002]\n"), 0);
	CHECK_INT(numbers(l, "[FACT] 12.5 my_steps [E0002]\n"), 0);
	CHECK_INT(numbers(l, "[FACT] 13.5 my\\_steps [E0002]\n"), 1);
	CHECK_HAS(findings, "no record cited here holds '13.5 my\\_steps'");
	CHECK_INT(numbers(l, "[FACT] 12.5 my\\_stepsons [E0002]\n"), 1);
	CHECK_HAS(findings, "a fact without a number and unit");
	/* another record's values are not in that unit */
	CHECK_INT(numbers(l, "[FACT] 12.5 my\\_steps [E0001]\n"), 1);
	ledger_close(l);
}

int main(void)
{
	struct ledger *l = NULL;
	struct err err = { 0 };
	const char *path = NULL;
	AUTO_FREE char *good = NULL;
	AUTO_FREE char *state = NULL;

	CHECK(mkdtemp(root));
	state = file_join(root, "state");
	project = file_join(root, "pro ject");
	CHECK_OK(file_mkdirs(project, 0755, &err), &err);
	CHECK(setenv("XDG_STATE_HOME", state, 1) == 0);
	CHECK_INT(report_verify(project, NULL, NULL, &err), ERR_NOT_FOUND);
	CHECK_OK(ledger_open(project, &l, &err), &err);
	make_ledger(l);
	CHECK(verify() > 0);
	CHECK_HAS(findings, "there is no report of ours");
	CHECK_OK(report_write(l, project, &path, &err), &err);
	CHECK_STR(path, "report.md");
	good = read_report();
	test_render(good);
	CHECK_INT(verify(), 0);
	test_findings(good);
	test_ledger_findings(good);
	test_json(l);
	test_users_report(l, good);
	test_own_unit();
	ledger_close(l);
	CHECK_OK(file_remove_tree(AT_FDCWD, root, &err), &err);
	free(project);
	return 0;
}
