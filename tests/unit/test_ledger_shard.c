/* Shards of array tasks: written side by side, merged once, verified. */
#include <signal.h>
#include <sys/wait.h>

#include "base/json.h"
#include "ledger/ledger.h"
#include "ledger/verify.h"
#include "ledger_project.h"

static char last_file[256], last_msg[700];
static size_t last_line;

static void collect(void *arg, const char *file, size_t line, const char *message)
{
	(void)arg;
	(void)snprintf(last_file, sizeof(last_file), "%s", file);
	(void)snprintf(last_msg, sizeof(last_msg), "%s", message);
	last_line = line;
}

static int verify(const struct project *p)
{
	struct err err = { 0 };
	int n = ledger_verify(p->dir, collect, NULL, &err);

	CHECK_OK(n, &err);
	return n;
}

static void check_intact(const struct project *p)
{
	if (verify(p) != 0)
		(void)fprintf(stderr, "%s:%zu: %s\n", last_file, last_line, last_msg);
	CHECK_INT(verify(p), 0);
}

static struct ledger *must_open(const struct project *p)
{
	struct ledger *l = NULL;
	struct err err = { 0 };

	CHECK_OK(ledger_open(p->dir, &l, &err), &err);
	return l;
}

static void add(struct ledger *l, double x, const char *parent, char id[LEDGER_ID_CAP])
{
	/* numbers and text whose spelling must survive the way through the merge */
	struct ledger_value v[] = {
		{ .name = "wall", .value = x / 3, .unit = "s", .n = 3 },
		{ .name = "tiny \"q\" \xff", .value = x * 1e-300, .unit = "s", .n = 3 },
		{ .name = "huge", .value = x * 1e22, .unit = "1", .n = 3 },
	};
	struct ledger_rec rec = { .kind = LEDGER_BENCH,
				  .values = v,
				  .n_values = 3,
				  .command = "./a '\xc3\xa4'\t\n",
				  .parents = &parent,
				  .n_parents = parent ? 1 : 0 };
	struct err err = { 0 };

	CHECK_OK(ledger_append(l, &rec, id, &err), &err);
}

/* What an array task does: a few records, one of which cites the main ledger and one its own. */
static void task(const struct project *p, int n)
{
	struct ledger *s = NULL;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];

	CHECK_OK(ledger_shard_open(p->dir, &s, &err), &err);
	add(s, 1, "E0001", id);
	for (int i = 1; i < n; i++) {
		char parent[LEDGER_ID_CAP];

		memcpy(parent, id, sizeof(parent));
		add(s, i, parent, id);
	}
	CHECK_INT(ledger_count(s), n);
	CHECK(ledger_get(s, id));
	ledger_close(s);
}

static void run_tasks(const struct project *p, int n_tasks, int n)
{
	pid_t pids[8];

	for (int i = 0; i < n_tasks; i++) {
		pids[i] = fork();
		CHECK(pids[i] >= 0);
		if (pids[i] == 0) {
			task(p, n);
			_exit(0);
		}
	}
	for (int i = 0; i < n_tasks; i++) {
		int st;

		CHECK(waitpid(pids[i], &st, 0) == pids[i]);
		CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	}
}

/* The path of the shard's file in the project or the state folder; caller frees. */
static char *shard_path(const char *base, const char *id)
{
	AUTO_FREE char *dir = file_join(base, "evidence.d");

	return xasprintf("%s/%.*s.jsonl", dir, (int)strcspn(id, ":"), id);
}

static void test_merge(void)
{
	struct project p;
	struct ledger *l;
	struct ledger *s = NULL;
	char id[LEDGER_ID_CAP];
	size_t n = 99;
	struct err err = { 0 };
	const struct json *note;

	project_init(&p);
	CHECK_INT(ledger_shard_open(p.dir, &s, &err), ERR_NOT_FOUND);
	l = must_open(&p);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 0);
	add(l, 1, NULL, id);
	run_tasks(&p, 4, 5); /* while the submitter holds the lease */
	check_intact(&p);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 20);
	CHECK_INT(ledger_count(l), 22);
	note = ledger_get(l, "E0002");
	CHECK_STR(json_get_str(json_get(note, "detail"), "what", ""), "merge");
	CHECK_INT(json_len(json_get(json_get(note, "detail"), "shards")), 4);
	for (size_t i = 0; i < 4; i++) {
		const struct json *c = json_at(json_get(json_get(note, "detail"), "shards"), i);
		struct ledger_value v;

		CHECK_INT(json_get_int(c, "count", 0), 5);
		(void)snprintf(id, sizeof(id), "%s:E0005", json_get_str(c, "shard", "?"));
		CHECK_OK(ledger_find_value(ledger_get(l, id), "wall", &v), &err);
		CHECK(fabs(v.value - 4.0 / 3) < 1e-12);
	}
	check_intact(&p);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 0);
	CHECK_INT(ledger_count(l), 22);
	ledger_close(l);

	/* later tasks; the ledger is opened anew */
	run_tasks(&p, 2, 2);
	l = must_open(&p);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 4);
	add(l, 2, id, id); /* a parent from a shard */
	CHECK_STR(id, "E0004");
	ledger_close(l);
	check_intact(&p);
	CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
	CHECK_INT(ledger_count(l), 28);
	CHECK_INT(ledger_merge(l, &n, &err), ERR_INVALID);
	ledger_close(l);
	project_done(&p);
}

/* One task still at it, or killed: its unfinished line is no record, and does no harm. */
static void test_unfinished(void)
{
	struct project p;
	struct ledger *l, *s = NULL;
	char id[LEDGER_ID_CAP];
	size_t n = 0;
	struct err err = { 0 };
	AUTO_FREE char *path = NULL;

	project_init(&p);
	l = must_open(&p);
	add(l, 1, NULL, id);
	CHECK_OK(ledger_shard_open(p.dir, &s, &err), &err);
	add(s, 1, NULL, id);
	path = shard_path(ledger_state_dir(l), id);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 1);
	add(s, 2, NULL, id);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 1);
	add(s, 3, NULL, id);
	ledger_close(s);
	append_text(path, "{\"id\":\"half");
	check_intact(&p);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 1);
	/* a second shard of this process: another name */
	CHECK_OK(ledger_shard_open(p.dir, &s, &err), &err);
	add(s, 1, NULL, id);
	CHECK_HAS(id, "-2:E0001");
	ledger_close(s);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 1);
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

static void edit(const char *path, const char *from, const char *to)
{
	AUTO_FREE char *text = slurp(path);
	char *hit = strstr(text, from);

	CHECK(hit && strlen(from) == strlen(to));
	memcpy(hit, to, strlen(to));
	spew(path, text);
}

static void expect(const struct project *p, int n, const char *file, size_t line, const char *msg)
{
	CHECK_INT(verify(p), n);
	CHECK_HAS(last_file, file);
	CHECK_INT(last_line, line);
	CHECK_HAS(last_msg, msg);
}

static void test_tampering(void)
{
	struct project p;
	struct ledger *l, *s = NULL;
	char id[LEDGER_ID_CAP];
	size_t n = 0;
	struct err err = { 0 };
	AUTO_FREE char *copy = NULL;
	AUTO_FREE char *master = NULL;
	AUTO_FREE char *dot = NULL;
	AUTO_FREE char *was = NULL;
	AUTO_FREE char *foreign = NULL;

	project_init(&p);
	dot = file_join(p.dir, ".rocbudai");
	l = must_open(&p);
	CHECK_OK(ledger_shard_open(p.dir, &s, &err), &err);
	for (int i = 0; i < 4; i++)
		add(s, i, NULL, id);
	ledger_close(s);
	copy = shard_path(dot, id);
	master = shard_path(ledger_state_dir(l), id);
	was = slurp(copy);

	edit(copy, "\"huge\",\"value\":1e22", "\"huge\",\"value\":9e22");
	expect(&p, 1, copy, 2, "E0002 was edited: values");
	/* what is merged is the master, which nobody edited */
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 4);
	spew(copy, was);
	check_intact(&p);
	CHECK(unlink(copy) == 0);
	expect(&p, 1, copy, 0, "the published copy is missing");
	spew(copy, was);
	foreign = shard_path(dot, "n1-77:x");
	spew(foreign, was);
	expect(&p, 1, foreign, 0, "it has no master");
	CHECK(unlink(foreign) == 0);

	edit(master, "\"huge\",\"value\":2e22", "\"huge\",\"value\":9e22");
	expect(&p, 2, copy, 3, "E0003 was edited");
	CHECK_INT(ledger_merge(l, &n, &err), ERR_PARSE);
	CHECK_HAS(err.msg, ".jsonl:4: ");
	spew(master, was);
	CHECK(truncate(master, strchr(was, '\n') + 1 - was) == 0);
	CHECK_INT(ledger_merge(l, &n, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "4 records were merged from here, 1 are left");
	CHECK(truncate(copy, strchr(was, '\n') + 1 - was) == 0);
	expect(&p, 1, master, 1, "4 records were merged from here, 1 are left");
	CHECK(unlink(master) == 0 && unlink(copy) == 0);
	expect(&p, 1, master, 0, "the shard is missing");
	ledger_close(l);
	project_done(&p);
}

/* A damaged shard is named and does not keep the others out. */
static void test_damaged_shard(void)
{
	struct project p;
	struct ledger *l, *s = NULL;
	char a[LEDGER_ID_CAP], b[LEDGER_ID_CAP];
	size_t n = 77;
	struct err err = { 0 };
	AUTO_FREE char *path = NULL;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(ledger_shard_open(p.dir, &s, &err), &err);
	add(s, 1, NULL, a);
	ledger_close(s);
	CHECK_OK(ledger_shard_open(p.dir, &s, &err), &err);
	add(s, 1, NULL, b);
	ledger_close(s);
	path = shard_path(ledger_state_dir(l), a);
	edit(path, "\"unit\":\"s\"", "\"unit\":\"\" ");
	CHECK_INT(ledger_merge(l, &n, &err), ERR_PARSE);
	CHECK_INT(n, 77);
	CHECK_HAS(err.msg, path);
	CHECK_HAS(err.msg, ":1: value 'wall' has no unit");
	CHECK(!ledger_get(l, a) && ledger_get(l, b));
	ledger_close(l);
	project_done(&p);
}

/* Killed in the midst of merging: the next merge goes on, once each. */
static void test_kill_merge(void)
{
	struct project p;
	struct ledger *l;
	size_t n = 0;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];

	project_init(&p);
	l = must_open(&p);
	add(l, 1, NULL, id);
	ledger_close(l);
	run_tasks(&p, 3, 60);
	for (int i = 0; i < 12; i++) {
		pid_t pid = fork();
		int st;

		CHECK(pid >= 0);
		if (pid == 0) {
			l = must_open(&p);
			(void)ledger_merge(l, &n, &err);
			for (;;)
				(void)pause();
		}
		for (volatile int spin = 0; spin < i * 400000; spin++)
			;
		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &st, 0) == pid);
		check_intact(&p);
	}
	l = must_open(&p);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_OK(ledger_merge(l, &n, &err), &err);
	CHECK_INT(n, 0);
	for (size_t i = 0, k = 0; i <= ledger_count(l); i++) {
		const char *s = json_get_str(ledger_at(l, i), "id", "E");

		k += s[0] != 'E';
		if (i == ledger_count(l))
			CHECK_INT(k, 180);
	}
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

int main(void)
{
	test_merge();
	test_unfinished();
	test_tampering();
	test_damaged_shard();
	test_kill_merge();
	return 0;
}
