#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/disturb.h"
#include "measure/record.h"
#include "proc/proc.h"

static char dir[] = "/tmp/rb-record-XXXXXX";
static struct proc_keeper *k;

static void put(const char *path, const char *text, mode_t mode)
{
	struct err err = { 0 };

	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), mode, &err), &err);
}

/* ---- files ---- */

/* The paths found, each followed by a blank. */
static void files_of(const struct measure_cmd *cmd, struct str *out)
{
	struct record_files f;
	struct err err = { 0 };

	str_reset(out);
	CHECK_OK(record_files_of(cmd, &f, &err), &err);
	for (size_t i = 0; i < f.n; i++) {
		CHECK_INT(strlen(f.v[i].sha256), 64);
		str_adds(out, f.v[i].path);
		str_addc(out, ' ');
	}
	record_files_done(&f);
}

static const struct {
	const char *shell, *files;
} shells[] = {
	{ "./prog data", "./prog data " },
	{ "A=1 B='x y' ./prog --in=data >out 2>&1", "./prog data " },
	{ "./prog nowhere; ./prog data | ./other", "./prog data ./other " },
	{ "exec ./prog 'with blank' \"data\"", "./prog with blank data " },
	{ "tool data", "bin/tool data " },
	{ "./data", "" }, /* not a program */
	{ "./prog \\data . sub", "./prog data " },
	{ "unfinished 'quote", "" },
};

static void test_files(void)
{
	const char *const argv[] = { "tool", "if=data", "-x", "sub", "./prog", NULL };
	const char *const env[] = { "PATH=/nowhere:bin", NULL };
	struct measure_cmd c = { .argv = argv, .env = env, .cwd = dir };
	AUTO_STR struct str got = { 0 };
	AUTO_STR struct str many = { 0 };
	struct record_files f = { .n = 77 };
	struct err err = { 0 };

	files_of(&c, &got);
	CHECK_STR(str_get(&got), "bin/tool data ./prog ");
	c.argv = NULL;
	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
		c.shell = shells[i].shell;
		files_of(&c, &got);
		CHECK_STR(str_get(&got), shells[i].files);
	}
	/* PATH of the program's own environment where the command does not change it */
	c.env = NULL;
	c.shell = "sh -c true";
	files_of(&c, &got);
	CHECK_HAS(str_get(&got), "/sh ");

	str_adds(&many, "cat");
	for (int i = 0; i < RECORD_FILES_MAX + 1; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "many%d", i);
		put(name, "x", 0644);
		str_addf(&many, " %s", name);
	}
	c.shell = str_get(&many);
	CHECK_INT(record_files_of(&c, &f, &err), ERR_LIMIT);
	CHECK_INT(f.n, 77);
	c.shell = "";
	CHECK_INT(record_files_of(&c, &f, &err), ERR_INVALID);
	record_files_done(NULL);
}

/* ---- records ---- */

static void check_value(const struct json *rec, const char *name, const char *unit, unsigned n)
{
	struct ledger_value v;

	CHECK_INT(ledger_find_value(rec, name, &v), 0);
	CHECK_STR(v.unit, unit);
	CHECK_INT(v.n, n);
	CHECK(v.has_range ? v.min <= v.median && v.median <= v.max : true);
}

static void test_bench(struct ledger *l, const struct fom *f)
{
	const char *const argv[] = { "./prog", "data", NULL };
	const char *const env[] = { "V=7", "GONE", NULL };
	struct bench_opts o = {
		.cmd = { .argv = argv, .env = env, .cwd = dir, .timeout_ns = UINT64_C(2500000000) },
		.fom = f,
		.reps = 8,
		.warmup = 1
	};
	struct disturb_report d = { .n_notes = 1, .notes = { "somebody was there" } };
	struct record_ctx ctx = { .role = "baseline", .iteration = 3, .disturb = &d, .label = "x" };
	struct record_files files;
	struct bench_result r;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];
	const struct json *rec, *detail;

	CHECK_OK(bench_run(k, &o, &r, &err), &err);
	CHECK_OK(record_files_of(&o.cmd, &files, &err), &err);
	ctx.files = files.v;
	ctx.n_files = files.n;
	CHECK_OK(record_bench(l, &ctx, &o, &r, id, &err), &err);
	record_files_done(&files);
	rec = ledger_get(l, id);
	CHECK_STR(json_get_str(rec, "kind", ""), "bench");
	CHECK_STR(json_get_str(rec, "command", ""), "./prog data");
	CHECK_STR(json_get_str(json_get(rec, "env"), "V", ""), "7");
	CHECK(json_get(json_get(rec, "env"), "GONE"));
	CHECK_INT(json_len(json_get(rec, "files")), 2);
	check_value(rec, "wall", "s", 7);
	check_value(rec, "user", "s", 7);
	check_value(rec, "system", "s", 7);
	check_value(rec, "peak_memory", "bytes", 7);
	check_value(rec, "fom", "GLUPS", 7);
	detail = json_get(rec, "detail");
	CHECK_STR(json_get_str(detail, "role", ""), "baseline");
	CHECK_INT(json_get_int(detail, "iteration", 0), 3);
	CHECK_STR(json_get_str(detail, "tag", ""), "FACT");
	CHECK_INT(json_get_int(detail, "warmup", 0), 1);
	CHECK_INT(json_len(json_get(detail, "samples")), 8);
	CHECK_STR(json_str(json_at(json_get(detail, "disturbances"), 0)), "somebody was there");
	CHECK(json_get(detail, "outliers") && json_get(detail, "machine"));
	/* what has no summary is no evidence */
	r.has_summary = false;
	CHECK_INT(record_bench(l, &ctx, &o, &r, id, &err), ERR_INVALID);
	bench_result_done(&r);
}

static void test_compare(struct ledger *l, const struct fom *f)
{
	struct compare_opts o = { .cmd = { { .shell = "echo v=2" }, { .shell = "echo v=3" } },
				  .fom = f,
				  .pairs = 6,
				  .floor_pairs = 2 };
	const char *const parents[] = { "E0001" };
	struct record_ctx ctx = { .role = "screen", .parents = parents, .n_parents = 1 };
	struct compare_result r;
	struct ledger_value v;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];
	const struct json *rec, *detail;

	CHECK_OK(compare_run(k, &o, &r, &err), &err);
	CHECK_OK(record_compare(l, &ctx, &o, &r, id, &err), &err);
	rec = ledger_get(l, id);
	CHECK_STR(json_get_str(rec, "kind", ""), "compare");
	CHECK_STR(json_get_str(rec, "command", ""), "A: echo v=2; B: echo v=3");
	CHECK_INT(ledger_find_value(rec, "ratio", &v), 0);
	CHECK(fabs(v.value - 1.5) < 1e-9 && v.has_ci && v.n == 6);
	check_value(rec, "wall_ratio", "1", 6);
	check_value(rec, "floor", "%", 2);
	check_value(rec, "same_binary", "%", 2);
	check_value(rec, "a", "GLUPS", 6);
	check_value(rec, "b", "GLUPS", 6);
	detail = json_get(rec, "detail");
	CHECK_INT(json_len(json_get(detail, "pairs")), 6);
	CHECK_INT(json_len(json_get(detail, "same_binary_pairs")), 2);
	CHECK_INT(json_len(json_get(detail, "wall_pairs")), 6);
	CHECK_STR(json_get_str(detail, "verdict", ""), compare_verdict_name(r.verdict));
	CHECK(json_kind(json_get(detail, "iteration")) == JSON_KIND_NULL);
	CHECK_STR(json_str(json_at(json_get(rec, "parents"), 0)), "E0001");
	r.has_ratio = false;
	CHECK_INT(record_compare(l, &ctx, &o, &r, id, &err), ERR_INVALID);
	compare_result_done(&r);
}

/* ---- back to a command ---- */

static void test_rerun(const struct ledger *l)
{
	struct record_rerun rr = { 0 };
	struct bench_rep rep = { 0 };
	struct err err = { 0 };

	CHECK_OK(record_rerun(l, "E0001", &rr, &err), &err);
	CHECK_STR(rr.cmd.argv[1], "data");
	CHECK(!rr.cmd.argv[2] && rr.cmd.timeout_ns == UINT64_C(2500000000));
	CHECK_STR(rr.cmd.env[0], "V=7");
	CHECK_STR(rr.cmd.env[1], "GONE");
	CHECK_STR(rr.cmd.cwd, dir);
	CHECK(rr.has_fom && rr.fom.higher);
	CHECK_STR(rr.fom.unit, "GLUPS");
	CHECK_OK(bench_once(k, &rr.cmd, NULL, &rep, &err), &err);
	CHECK_STR(rep.res->out.head, "v=7\n");
	bench_rep_done(&rep);
	record_rerun_done(&rr);
	record_rerun_done(NULL);
	CHECK_INT(record_rerun(l, "E0002", &rr, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "E0002 is a compare record");
	CHECK_INT(record_rerun(l, "E0042", &rr, &err), ERR_NOT_FOUND);
	put("data", "other", 0644);
	CHECK_INT(record_rerun(l, "E0001", &rr, &err), ERR_STALE);
	CHECK_HAS(err.msg, "data has changed since");
	CHECK(unlink("data") == 0);
	CHECK_INT(record_rerun(l, "E0001", &rr, &err), ERR_STALE);
	CHECK_HAS(err.msg, "data, which it was measured with, is gone");
}

/* Records whose shape is that of a bench record and whose content is not. */
static void test_rerun_refused(struct ledger *l)
{
	static const char *const details[] = {
		"{}",
		"{\"run\":{\"argv\":[]}}",
		"{\"run\":{\"argv\":[\"a\",3]}}",
		"{\"run\":{\"argv\":{\"a\":1}}}",
		"{\"run\":{\"shell\":\"  \"}}",
		"{\"run\":{\"shell\":\"true\",\"cpus\":\"3-1\"}}",
	};

	for (size_t i = 0; i < sizeof(details) / sizeof(details[0]); i++) {
		struct ledger_value v = { .name = "wall", .value = 1, .unit = "s", .n = 1 };
		AUTO_JSON struct json *d = NULL;
		struct ledger_rec rec = { .kind = LEDGER_BENCH, .values = &v, .n_values = 1 };
		struct record_rerun rr;
		struct err err = { 0 };
		char id[LEDGER_ID_CAP];

		CHECK_OK(json_parse(details[i], strlen(details[i]), "detail", &d, &err), &err);
		rec.detail = d;
		CHECK_OK(ledger_append(l, &rec, id, &err), &err);
		CHECK_INT(record_rerun(l, id, &rr, &err), ERR_INVALID);
		CHECK_HAS(err.msg, "cannot be run again");
	}
}

int main(void)
{
	struct fom_spec spec = { .pattern = "v=([0-9]+)", .unit = "GLUPS", .higher = true };
	struct err err = { 0 };
	struct ledger *l;
	struct fom *f;
	char state[64];

	CHECK(mkdtemp(dir) && chdir(dir) == 0);
	(void)snprintf(state, sizeof(state), "%s/state", dir);
	CHECK(setenv("XDG_STATE_HOME", state, 1) == 0);
	CHECK(mkdir("bin", 0755) == 0 && mkdir("sub", 0755) == 0);
	put("prog", "#!/bin/sh\necho v=$V$GONE\n", 0755);
	put("other", "#!/bin/sh\n", 0755);
	put("bin/tool", "#!/bin/sh\n", 0755);
	put("data", "data", 0644);
	put("with blank", "data", 0644);
	CHECK_OK(proc_keeper_open(&k, &err), &err);
	CHECK_OK(fom_new(&spec, &f, &err), &err);
	CHECK_OK(ledger_open(dir, &l, &err), &err);
	test_files();
	test_bench(l, f);
	test_compare(l, f);
	test_rerun(l);
	test_rerun_refused(l);
	ledger_close(l);
	fom_free(f);
	proc_keeper_close(k);
	CHECK(chdir("/") == 0);
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
	return 0;
}
