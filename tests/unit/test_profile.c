#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "proc/proc.h"
#include "profile/lines.h"
#include "profile/profile.h"
#include "profile/script.h"

static char dir[] = "/tmp/rb profile-XXXXXX"; /* a blank in the path on purpose */

static char *put(const char *name, const char *text, mode_t mode)
{
	char *path = file_join(dir, name);
	struct err err = { 0 };

	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), mode, &err), &err);
	return path;
}

/* ---- the text of perf script ---- */

static struct profile_script *script_of(const char *text, size_t piece)
{
	struct profile_script *s = profile_script_new();
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i += piece)
		profile_script_add(s, text + i, n - i < piece ? n - i : piece);
	profile_script_end(s);
	return s;
}

static const char sample_text[] =
	"    0 PERF_RECORD_MMAP -1/0: [0xffffffff81000000(0x1276988) @ 0xffffffff81000000]: x [kernel.kallsyms]_text\n"
	"  100 PERF_RECORD_COMM exec: a:100/100\n"
	"  100 PERF_RECORD_MMAP2 100/100: [0x555500001000(0x1000) @ 0x1000 fe:00 1 2]: r-xp /tmp/a (x)/prog\n"
	"  100 PERF_RECORD_MMAP2 100/100: [0x7f0000000000(0x2000) @ 0 00:00 0 0]: r-xp [vdso]\n"
	"  100    1000      555500001234 main (/tmp/a (x)/prog)\n"
	"  100    2000      555500001240 ns::f<int>(int, (anonymous namespace)::T) (/tmp/a (x)/prog)\n"
	"  100    1000  ffffffff8225f759 page_fault ([kernel.kallsyms])\n"
	"  100 PERF_RECORD_FORK(200:200):(100:100)\n"
	"  100 PERF_RECORD_FORK(100:101):(100:100)\n"
	"  200    3000      555500001240 ns::f<int>(int, (anonymous namespace)::T) (/tmp/a (x)/prog (deleted))\n"
	"  200    1000      7f0000000010 [unknown] ([vdso])\n"
	"  200 PERF_RECORD_LOST lost 7\n"
	"  200 PERF_RECORD_EXIT(200:200):(100:100)\n";

static void check_script(const struct profile_script *s)
{
	size_t n;
	const struct profile_script_func *f = profile_script_funcs(s, &n);
	const struct profile_script_addr *a;

	CHECK_INT(profile_script_samples(s), 5);
	CHECK_INT(profile_script_weight(s), 8000);
	CHECK_INT(profile_script_lost(s), 7);
	CHECK_INT(profile_script_bad(s), 0);
	CHECK_INT(n, 4);
	CHECK_STR(f[0].name, "main");
	CHECK_STR(f[0].dso, "/tmp/a (x)/prog");
	CHECK_STR(f[1].name, "ns::f<int>(int, (anonymous namespace)::T)");
	CHECK_INT(f[1].weight, 5000);
	CHECK_INT(f[1].samples, 2);
	CHECK_STR(f[2].dso, "[kernel]");
	CHECK_STR(f[3].name, "[unknown]");
	/* the forked process is placed by its parent's mapping; kernel and vdso have no file */
	a = profile_script_addrs(s, &n);
	CHECK_INT(n, 2);
	CHECK_INT(a[0].offset, 0x1234);
	CHECK_INT(a[1].offset, 0x1240);
	CHECK_INT(a[1].func, 1);
	CHECK_INT(a[1].weight, 5000);
}

static void test_script(void)
{
	static const size_t pieces[] = { 1, 7, 4096 };

	for (size_t i = 0; i < 3; i++) {
		struct profile_script *s = script_of(sample_text, pieces[i]);

		check_script(s);
		profile_script_free(s);
	}
}

static void test_script_garbage(void)
{
	static const char text[] =
		"hello\n100 x\n100 5\n100 5 zz f (/a)\n100 5 12345678901234567 f (/a)\n"
		"100 -5 12 f (/a)\n100 5 12 f /a\n100 5 12  (/a)\n"
		"100 PERF_RECORD_MMAP2 nothing\n100 PERF_RECORD_FORK(1:x)\n"
		"99999999999999999999 5 12 f (/a)\n100 5 12 good (/a)";
	struct profile_script *s = script_of(text, 3);
	char *big = xcalloc(1, PROFILE_SCRIPT_LINE_MAX + 2);

	CHECK_INT(profile_script_samples(s), 1);
	CHECK_INT(profile_script_bad(s), 11);
	memset(big, 'x', PROFILE_SCRIPT_LINE_MAX + 1);
	profile_script_add(s, big, PROFILE_SCRIPT_LINE_MAX + 1);
	profile_script_add(s, "\n100 5 12 good (/a)\n", 20);
	CHECK_INT(profile_script_samples(s), 2);
	CHECK_INT(profile_script_bad(s), 12);
	free(big);
	profile_script_free(s);
}

/* More functions, files and mappings than are kept: counted together, memory stays bounded. */
static void test_script_many(void)
{
	struct profile_script *s = profile_script_new();
	const struct profile_script_func *f;
	char line[256];
	size_t n;

	for (int i = 0; i < PROFILE_SCRIPT_FUNCS + 100; i++) {
		int len = snprintf(
			line, sizeof(line),
			"%d PERF_RECORD_MMAP2 %d/%d: [0x1000(0x1000) @ 0 0:0 0 0]: r-xp /d%d\n"
			"%d 10 1010 f%d (/d%d)\n",
			i, i, i, i, i, i, i);

		profile_script_add(s, line, (size_t)len);
	}
	f = profile_script_funcs(s, &n);
	CHECK_INT(n, PROFILE_SCRIPT_FUNCS);
	CHECK_STR(f[n - 1].name, "[other]");
	CHECK_INT(f[n - 1].samples, 101);
	CHECK_STR(f[n - 2].dso, "[other]");
	CHECK_INT(profile_script_samples(s), PROFILE_SCRIPT_FUNCS + 100);
	profile_script_free(s);
}

static void test_lines_parse(void)
{
	static const struct {
		const char *text, *file;
		unsigned line;
	} cases[] = {
		{ "/a b/c:d.c:17", "/a b/c:d.c", 17 },
		{ "/a.c:3 (discriminator 2)", "/a.c", 3 },
		{ "??:0", NULL, 0 },
		{ "/a.c:?", NULL, 0 },
		{ "/a.c:0", NULL, 0 },
		{ ":5", NULL, 0 },
		{ "17", NULL, 0 },
		{ "", NULL, 0 },
		{ "/a.c:99999999999", NULL, 0 },
		{ "/a.c:999999999999999999999", NULL, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lines_answer a = { 0 };
		bool ok = lines_parse(cases[i].text, strlen(cases[i].text), &a);

		CHECK_INT(ok, cases[i].file != NULL);
		if (ok) {
			CHECK_STR(a.file, cases[i].file);
			CHECK_INT(a.line, cases[i].line);
		}
		free(a.file);
	}
}

/* ---- with the perf of this machine ---- */

static struct proc_keeper *keeper;

static int run(const char *const *argv)
{
	struct proc_spec spec = { .argv = argv };
	struct proc_result res;
	struct err err = { 0 };
	int code;

	if (proc_run(keeper, &spec, &res, &err) < 0)
		return -1;
	code = res.exit_code;
	proc_result_done(&res);
	return code;
}

static const char busy[] = "#include <stdio.h>\n"
			   "#include <stdlib.h>\n"
			   "__attribute__((noinline)) static double hot(int n)\n"
			   "{\n"
			   "	double s = 0;\n"
			   "	for (int i = 1; i < n; i++)\n"
			   "		s += 1.0 / i;\n"
			   "	return s;\n"
			   "}\n"
			   "int main(int argc, char **argv)\n"
			   "{\n"
			   "	printf(\"%g\\n\", hot(argc > 1 ? atoi(argv[1]) : 100000000));\n"
			   "	return argc > 2;\n"
			   "}\n";

static bool build(const char *source, const char *program, const char *debug)
{
	const char *argv[] = { "gcc", debug, "-O2", "-o", program, source, NULL };

	return run(argv) == 0;
}

static void profile(const char *const *argv, const char *perf, struct profile_result *out)
{
	AUTO_FREE char *to = file_join(dir, "out dir/profiles");
	struct proc_spec cmd = { .argv = argv, .cwd = "/", .timeout_ns = 60 * NS_PER_SEC };
	struct profile_opts opts = { .cmd = &cmd, .out_dir = to, .perf = perf };
	struct err err = { 0 };

	CHECK_OK(profile_run(keeper, &opts, out, &err), &err);
}

static void check_busy(const struct profile_result *res, const char *program, const char *source)
{
	AUTO_JSON struct json *j = profile_result_json(res);

	CHECK(res->samples >= 20);
	CHECK(res->n_funcs > 0);
	CHECK_STR(res->funcs[0].name, "hot");
	CHECK_STR(res->funcs[0].dso, program);
	CHECK(res->funcs[0].share_pct > 50 && res->funcs[0].share_pct <= 100.0001);
	CHECK_STR(res->funcs[0].file, source);
	CHECK(res->funcs[0].line >= 3 && res->funcs[0].line <= 9);
	CHECK(res->n_lines > 0);
	CHECK_STR(res->lines[0].file, source);
	CHECK_STR(res->lines[0].func, "hot");
	CHECK_STR(res->lines_why, "");
	CHECK_HAS(res->tool, "perf record -e ");
	CHECK_HAS(res->version, "perf version");
	CHECK(file_exists(AT_FDCWD, res->data_path));
	CHECK_INT(strlen(res->data_sha256), HASH_HEX_LEN);
	CHECK(json_get_bool(j, "ok", false));
	CHECK_STR(json_get_str(json_at(json_get(j, "functions"), 0), "name", ""), "hot");
	CHECK_INT(json_get_int(j, "samples", 0), (long long)res->samples);
}

static void test_real(void)
{
	AUTO_FREE char *source = put("busy.c", busy, 0600);
	AUTO_FREE char *program = file_join(dir, "busy prog");
	const char *argv[] = { program, NULL, NULL, NULL };
	const char *shell[] = { "sh", "-c", "\"$0\" & \"$0\"; wait; true", program, NULL };
	struct profile_result res;

	if (!build(source, program, "-g"))
		CHECK_SKIP("no C compiler");
	profile(argv, NULL, &res);
	if (!res.ok) {
		(void)printf("%s\n", res.why);
		CHECK(res.why[0] && res.n_funcs == 0 && !res.data_path);
		profile_result_done(&res);
		CHECK_SKIP("perf does not work here");
	}
	check_busy(&res, program, source);
	profile_result_done(&res);

	profile(shell, NULL, &res); /* both processes, of which one is forked */
	CHECK(res.ok);
	check_busy(&res, program, source);
	profile_result_done(&res);

	argv[1] = "1000";
	argv[2] = "fail";
	profile(argv, NULL, &res);
	CHECK(!res.ok);
	CHECK_HAS(res.why, "exited with status 1");
	profile_result_done(&res);

	argv[1] = argv[2] = NULL;
	CHECK(build(source, program, "-g0"));
	profile(argv, NULL, &res);
	CHECK(res.ok);
	CHECK_STR(res.funcs[0].name, "hot");
	CHECK(!res.funcs[0].file);
	CHECK_INT(res.n_lines, 0);
	CHECK_HAS(res.lines_why, "compile with -g");
	profile_result_done(&res);
}

/* ---- with programs that play perf ---- */

/* A perf that records by running the command and prints `script` from the file beside it. */
static const char fake[] =
	"#!/bin/sh\n"
	"case $1 in\n"
	"--version) echo 'perf version 9.9';;\n"
	"record) shift; while [ \"$1\" != -- ]; do [ \"$1\" = -o ] && echo x >\"$2\"; "
	"shift; done; shift; \"$@\";;\n"
	"evlist) echo cycles:u;;\n"
	"script) %s;;\n"
	"esac\n";

static char *fake_perf(const char *script)
{
	AUTO_FREE char *text = xasprintf(fake, script);

	return put("fake perf", text, 0700);
}

static void check_fake(const char *script, const char *why)
{
	const char *argv[] = { "true", NULL };
	AUTO_FREE char *perf = fake_perf(script);
	AUTO_FREE char *to = file_join(dir, "fake out");
	struct proc_spec cmd = { .argv = argv };
	struct profile_opts opts = {
		.cmd = &cmd, .out_dir = to, .perf = perf, .analysis_timeout_ns = NS_PER_SEC
	};
	struct profile_result res;
	struct err err = { 0 };

	CHECK_OK(profile_run(keeper, &opts, &res, &err), &err);
	CHECK(!res.ok);
	CHECK_HAS(res.why, why);
	CHECK_STR(res.version, "perf version 9.9");
	profile_result_done(&res);
}

/* A perf that hangs, beside a child in a session of its own: both are gone afterwards. */
static void test_fake_hangs(void)
{
	AUTO_FREE char *pids = file_join(dir, "pids");
	AUTO_FREE char *script =
		xasprintf("setsid sh -c 'echo $$ >>\"$0\"; exec sleep 1000' '%s' & "
			  "echo $$ >>'%s'; exec sleep 1000",
			  pids, pids);
	AUTO_FREE char *text = NULL;
	struct err err = { 0 };
	size_t len, n = 0;

	check_fake(script, "'perf script' timed out");
	CHECK_OK(file_read(AT_FDCWD, pids, 4096, &text, &len, &err), &err);
	for (char *p = text, *nl; (nl = strchr(p, '\n')); p = nl + 1) {
		int64_t pid;

		*nl = '\0';
		CHECK_OK(num_i64(p, &pid, &err), &err);
		CHECK(kill((pid_t)pid, 0) < 0 && errno == ESRCH);
		n++;
	}
	CHECK_INT(n, 2);
}

static void test_fake(void)
{
	check_fake("echo 'it is broken' >&2; exit 3",
		   "'perf script' exited with status 3: it is broken");
	check_fake("echo garbage", "1 lines of 'perf script' were not understood");
	check_fake("true", "perf took no sample");
	test_fake_hangs();
	check_fake("kill -9 $$", "'perf script' killed by signal 9");
}

/* Samples of a file that is no program, and an addr2line that is not there. */
static void test_fake_lines(void)
{
	const char *argv[] = { "true", NULL };
	AUTO_FREE char *perf = fake_perf(
		"echo '1 PERF_RECORD_MMAP2 1/1: [0x1000(0x1000) @ 0 0:0 0 0]: r-xp /etc/passwd'; "
		"echo '1 10 1010 f (/etc/passwd)'");
	AUTO_FREE char *to = file_join(dir, "fake out");
	struct proc_spec cmd = { .argv = argv };
	struct profile_opts opts = { .cmd = &cmd, .out_dir = to, .perf = perf };
	struct profile_result res;
	struct err err = { 0 };

	CHECK_OK(profile_run(keeper, &opts, &res, &err), &err);
	CHECK(res.ok && res.has_counters && res.user_only);
	CHECK_INT(res.n_funcs, 1);
	CHECK_HAS(res.lines_why, "'/etc/passwd' is not a 64-bit ELF file");
	profile_result_done(&res);
	free(perf);
	perf = fake_perf(
		"echo '1 PERF_RECORD_MMAP2 1/1: [0x1000(0x1000) @ 0 0:0 0 0]: r-xp /proc/self/exe'; "
		"echo '1 10 1010 f (/proc/self/exe)'");
	opts.perf = perf;
	opts.addr2line = "/nonexistent/addr2line";
	CHECK_OK(profile_run(keeper, &opts, &res, &err), &err);
	CHECK_HAS(res.lines_why, "addr2line is not installed");
	profile_result_done(&res);
}

static void test_absent(void)
{
	const char *argv[] = { "true", NULL };
	AUTO_FREE char *refuses =
		put("refuses",
		    "#!/bin/sh\n[ $1 = --version ] && exit 0\necho 'No permission' >&2\nexit 1\n",
		    0700);
	AUTO_FREE char *broken =
		put("broken", "#!/bin/sh\necho 'wrong kernel' >&2\nexit 2\n", 0700);
	struct profile_result res;

	profile(argv, "/nonexistent/perf", &res);
	CHECK(!res.ok);
	CHECK_HAS(res.why, "perf is not installed here");
	profile_result_done(&res);
	profile(argv, broken, &res);
	CHECK_HAS(res.why, "'perf --version' exited with status 2: wrong kernel");
	profile_result_done(&res);
	profile(argv, refuses, &res);
	CHECK(!res.ok);
	CHECK_HAS(res.why, "perf may not or cannot sample here");
	CHECK_HAS(res.why, "No permission");
	profile_result_done(&res);
}

static void test_errors(void)
{
	const char *argv[] = { "true", NULL };
	AUTO_FREE char *file = put("a file", "", 0600);
	AUTO_FREE char *below = file_join(file, "x");
	struct proc_spec cmd = { .argv = argv };
	struct profile_opts opts = { .cmd = &cmd, .out_dir = below };
	struct profile_result res;
	struct err err = { 0 };

	CHECK_INT(profile_run(keeper, &opts, &res, &err), ERR_SYS);
	CHECK_HAS(err.msg, "a file");
}

/* A stop ends the profile with an error, and nothing of it stays. */
static void test_stop(void)
{
	const char *argv[] = { "sleep", "1000", NULL };
	AUTO_FREE char *perf = fake_perf("true");
	AUTO_FREE char *to = file_join(dir, "stopped");
	AUTO_FREE char *data = file_join(to, "perf.data");
	struct proc_spec cmd = { .argv = argv, .grace_ns = NS_PER_MS };
	struct profile_opts opts = { .cmd = &cmd, .out_dir = to, .perf = perf };
	struct profile_result res;
	struct err err = { 0 };
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	cmd.stop_fd = fds[0];
	CHECK(write(fds[1], "x", 1) == 1);
	CHECK_INT(profile_run(keeper, &opts, &res, &err), ERR_CANCELLED);
	CHECK(!file_exists(AT_FDCWD, data));
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static void clean_up(void)
{
	(void)file_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	struct err err = { 0 };

	test_script();
	test_script_garbage();
	test_script_many();
	test_lines_parse();
	CHECK(mkdtemp(dir));
	CHECK(atexit(clean_up) == 0);
	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	test_fake();
	test_fake_lines();
	test_absent();
	test_errors();
	test_stop();
	test_real();
	proc_keeper_close(keeper);
	return 0;
}
