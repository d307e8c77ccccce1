/* Command lines, the recorder's log, records, verdicts and compile_commands.json. */
#include <fcntl.h>
#include <stdint.h>

#include "base/json.h"
#include "build/build.h"
#include "build/cdb.h"
#include "build/flags.h"
#include "build/log.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "interpose/argclass.h"
#include "project.h"

/* ---- names ---- */

static void test_tools(void)
{
	static const struct {
		const char *path;
		enum argclass_tool tool;
	} t[] = {
		{ "gcc", ARGCLASS_GCC },
		{ "/usr/bin/gcc-12", ARGCLASS_GCC },
		{ "g++-12.2.0", ARGCLASS_GCC },
		{ "x86_64-linux-gnu-gcc", ARGCLASS_GCC },
		{ "x86_64-linux-gnu-gfortran-12", ARGCLASS_GCC },
		{ "x86_64-linux-gnu-gcc-ar", ARGCLASS_AR },
		{ "gcc-ar-12", ARGCLASS_AR },
		{ "clang++-14", ARGCLASS_CLANG },
		{ "cc", ARGCLASS_CC },
		{ "mpicc.openmpi", ARGCLASS_NONE },
		{ "mpicxx", ARGCLASS_MPI },
		{ "/opt/rocm/bin/hipcc", ARGCLASS_HIPCC },
		{ "amdclang++", ARGCLASS_HIPCC },
		{ "nvcc", ARGCLASS_NVCC },
		{ "ccache", ARGCLASS_LAUNCHER },
		{ "my-gcc", ARGCLASS_NONE },
		{ "cc1plus", ARGCLASS_NONE },
		{ "collect2", ARGCLASS_NONE },
		{ "program", ARGCLASS_NONE },
		{ "gcc/", ARGCLASS_NONE },
		{ "", ARGCLASS_NONE },
		{ "-12", ARGCLASS_NONE },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++)
		CHECK_INT(argclass_tool_of(t[i].path), t[i].tool);
}

/* ---- command lines ---- */

static size_t split(const char *line, char *buf, const char **argv)
{
	size_t n = 0;

	(void)snprintf(buf, 256, "%s", line);
	for (char *p = buf; *p;) {
		argv[n++] = p;
		p += strcspn(p, " ");
		if (*p)
			*p++ = '\0';
	}
	argv[n] = NULL;
	return n;
}

static void test_kinds(void)
{
	static const struct {
		const char *line;
		const char *cwd; /* NULL: "/p" */
		enum argclass_kind kind;
		const char *output;
		unsigned langs;
		size_t sources, objects;
	} t[] = {
		{ "gcc -O2 -c a.c", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -c a.c -o b.o", NULL, ARGCLASS_COMPILE, "b.o", ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -c a.c -ob.o", NULL, ARGCLASS_COMPILE, "b.o", ARGCLASS_LANG_C, 1, 0 },
		{ "gcc a.c b.cpp -lm -o x", NULL, ARGCLASS_COMPILE_LINK, "x",
		  ARGCLASS_LANG_C | ARGCLASS_LANG_CXX, 2, 0 },
		{ "gcc -o x a.o libb.a -lm", NULL, ARGCLASS_LINK, "x", 0, 0, 2 },
		{ "gcc -MD -MF a.d -MT a.o -c a.c", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_C,
		  1, 0 },
		{ "gcc -shared a.o -o liba.so", NULL, ARGCLASS_LINK, "liba.so", 0, 0, 1 },
		{ "gcc -I inc.c -D x.c -c a.c", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_C, 1,
		  0 },
		{ "gcc -S a.c", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -x c++ -c a.inc", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_CXX, 1, 0 },
		{ "gcc all.h", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -c start.S", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_ASM, 1, 0 },
		{ "gfortran -J mods -c a.f90", NULL, ARGCLASS_COMPILE, NULL, ARGCLASS_LANG_FORTRAN,
		  1, 0 },
		{ "nvcc -arch sm_90 -dc k.cu -o k.o", NULL, ARGCLASS_COMPILE, "k.o",
		  ARGCLASS_LANG_GPU, 1, 0 },
		{ "nvcc -ptx k.cu", NULL, ARGCLASS_OTHER, NULL, ARGCLASS_LANG_GPU, 1, 0 },
		{ "nvcc -Xcompiler -fPIC k.cu", NULL, ARGCLASS_COMPILE_LINK, NULL,
		  ARGCLASS_LANG_GPU, 1, 0 },
		{ "gcc -- -a.c", NULL, ARGCLASS_COMPILE_LINK, NULL, ARGCLASS_LANG_C, 1, 0 },
		/* questions */
		{ "gcc --version", NULL, ARGCLASS_PROBE, NULL, 0, 0, 0 },
		{ "gcc -dumpversion", NULL, ARGCLASS_PROBE, NULL, 0, 0, 0 },
		{ "gcc -print-file-name=x", NULL, ARGCLASS_PROBE, NULL, 0, 0, 0 },
		{ "gcc -E a.c", NULL, ARGCLASS_PROBE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -M a.c", NULL, ARGCLASS_PROBE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -fsyntax-only a.c", NULL, ARGCLASS_PROBE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -### a.c", NULL, ARGCLASS_PROBE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -v", NULL, ARGCLASS_PROBE, NULL, 0, 0, 0 },
		{ "gcc -x c -", NULL, ARGCLASS_PROBE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -c -x c /dev/null -o /dev/null", NULL, ARGCLASS_PROBE, "/dev/null",
		  ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -o conftest -g conftest.c", NULL, ARGCLASS_PROBE, "conftest",
		  ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -o CMakeFiles/cmTC_1f.dir/t.c.o -c /b/CMakeFiles/CMakeTmp/t.c", NULL,
		  ARGCLASS_PROBE, "CMakeFiles/cmTC_1f.dir/t.c.o", ARGCLASS_LANG_C, 1, 0 },
		{ "gcc -c t.c", "/b/CMakeFiles/CMakeScratch/TryCompile-1", ARGCLASS_PROBE, NULL,
		  ARGCLASS_LANG_C, 1, 0 },
		{ "gcc CMakeCCompilerId.c", NULL, ARGCLASS_PROBE, NULL, ARGCLASS_LANG_C, 1, 0 },
		{ "mpicc --showme:compile", NULL, ARGCLASS_PROBE, NULL, 0, 0, 0 },
		/* archives */
		{ "ar rcs liba.a a.o b.o", NULL, ARGCLASS_ARCHIVE, "liba.a", 0, 0, 2 },
		{ "ar t liba.a", NULL, ARGCLASS_OTHER, NULL, 0, 0, 0 },
		{ "ar --version", NULL, ARGCLASS_PROBE, NULL, 0, 0, 0 },
		{ "ranlib liba.a", NULL, ARGCLASS_ARCHIVE, "liba.a", 0, 0, 0 },
		{ "ar cr libconftest.a conftest.o", NULL, ARGCLASS_PROBE, "libconftest.a", 0, 0,
		  1 },
		{ "ld -o x a.o", NULL, ARGCLASS_OTHER, "x", 0, 0, 1 },
		{ "as -o a.o a.s", NULL, ARGCLASS_OTHER, "a.o", ARGCLASS_LANG_ASM, 1, 0 },
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		char buf[256];
		const char *argv[32];
		size_t n = split(t[i].line, buf, argv);
		struct argclass c;

		argclass_parse(argclass_tool_of(argv[0]), n, argv, t[i].cwd ? t[i].cwd : "/p", NULL,
			       NULL, &c);
		if (c.kind != t[i].kind)
			(void)fprintf(stderr, "for: %s\n", t[i].line);
		CHECK_INT(c.kind, t[i].kind);
		CHECK_INT(c.langs, t[i].langs);
		CHECK_INT(c.n_sources, t[i].sources);
		CHECK_INT(c.n_objects, t[i].objects);
		if (t[i].output)
			CHECK_STR(c.output, t[i].output);
		else
			CHECK(!c.output);
	}
}

static uint64_t key(const char *line, const char *cwd, bool with_output)
{
	char buf[256];
	const char *argv[32];
	size_t n = split(line, buf, argv);

	return argclass_key(argclass_tool_of(argv[0]), n, argv, cwd, with_output);
}

static void test_keys(void)
{
	uint64_t a = key("gcc -O0 -c a.c -o a.o", "/p", true);

	CHECK(a == key("gcc -O3 -g -c a.c -o a.o", "/p", true)); /* flags are no part of it */
	CHECK(a != key("gcc -O0 -c a.c -o b.o", "/p", true));
	CHECK(a != key("gcc -O0 -c b.c -o a.o", "/p", true));
	CHECK(a != key("gcc -O0 -c a.c -o a.o", "/q", true));
	CHECK(a != key("gcc -O0 a.c -o a.o", "/p", true));
	CHECK(key("gcc -c a.c -o tmp.1", "/p", false) == key("gcc -c a.c -o tmp.2", "/p", false));
	CHECK(key("gcc a.o", "/p", false) == 0);
	CHECK(key("gcc -c ab.c c.c", "/p", false) != key("gcc -c a.c bc.c", "/p", false));
}

/* ---- the recorder's log ---- */

static void frame(struct str *out, const char *payload, size_t n)
{
	unsigned char len[4] = { (unsigned char)n, (unsigned char)(n >> 8),
				 (unsigned char)(n >> 16), (unsigned char)(n >> 24) };

	str_adds(out, "RBr1");
	str_add(out, len, 4);
	str_add(out, payload, n);
}

#define REC(s) frame(&log, s, sizeof(s) - 1)

static void test_log(void)
{
	AUTO_STR struct str log = { 0 };
	struct build_record *rec = calloc(1, sizeof(*rec));
	struct err err;

	CHECK(rec);
	rec->dir = strdup("/p");
	REC("p10\0w/p/sub\0x/usr/bin/gcc\0eCPATH=/i\0agcc\0a-c\0a../a.c\0a-o\0a../a.o\0+-O3\0");
	REC("p11\0w/p\0x/usr/bin/ccache\0igcc\0agcc\0a-o\0ax\0aa.o\0");
	REC("p12\0w/p/a/b\0x/usr/bin/gcc\0agcc\0a-c\0a./x//../../../up.c\0a-o\0a../../../out.o\0");
	REC("p10\0X1\0"); /* the first could not be started altered */
	CHECK_OK(build_log_parse(str_get(&log), log.len, rec, &err), &err);
	CHECK_INT(rec->n_steps, 3);
	CHECK_INT(rec->steps[0].kind, BUILD_COMPILE);
	CHECK_INT(rec->steps[0].family, BUILD_FAM_GCC);
	CHECK_STR(rec->steps[0].sources[0], "a.c");
	CHECK_STR(rec->steps[0].output, "a.o");
	CHECK_STR(rec->steps[0].env[0], "CPATH=/i");
	CHECK_INT(rec->steps[0].n_added, 0);
	CHECK_INT(rec->steps[1].kind, BUILD_LINK);
	CHECK_STR(rec->steps[1].driver, "/usr/bin/ccache gcc");
	CHECK_STR(rec->steps[1].objects[0], "a.o");
	CHECK_STR(rec->steps[2].sources[0], "up.c");
	CHECK_STR(rec->steps[2].output, "/out.o"); /* outside the project */
	CHECK(!rec->truncated);

	/* a torn end is said, what came before it stays */
	str_adds(&log, "RBr1\x10");
	CHECK_OK(build_log_parse(str_get(&log), log.len, rec, &err), &err);
	CHECK(rec->truncated);
	CHECK_INT(rec->n_steps, 6);
	CHECK_INT(build_log_parse("not a log at all", 16, rec, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "byte 0");
	str_reset(&log);
	REC("p10\0w/p\0x/usr/bin/gcc\0"); /* no command line */
	CHECK_INT(build_log_parse(str_get(&log), log.len, rec, &err), ERR_PARSE);
	str_reset(&log);
	REC("w/p\0x/usr/bin/gcc\0agcc"); /* last NUL missing */
	CHECK_INT(build_log_parse(str_get(&log), log.len, rec, &err), ERR_PARSE);
	CHECK_INT(rec->n_steps, 6); /* nothing of the damaged ones */
	build_record_free(rec);
}

/* ---- records ---- */

static struct build_record *sample(void)
{
	AUTO_STR struct str log = { 0 };
	struct build_record *r = calloc(1, sizeof(*r));
	struct err err;

	CHECK(r);
	r->dir = strdup("/p");
	r->command = strdup("make \"a b\"");
	r->status = strdup("exited with status 0");
	r->tail = strdup("done\n\xff");
	REC("p1\0w/p\0x/usr/bin/gcc\0ePATH=/bin\0agcc\0a-O0\0a-c\0aa.c\0");
	REC("p2\0w/p\0x/usr/bin/gcc\0ePATH=/bin\0agcc\0a-O0\0a-c\0ab\xff.c\0");
	REC("p3\0w/p\0x/usr/bin/gcc\0ePATH=/bin\0agcc\0a-o\0ax\0aa.o\0ab\xff.o\0");
	REC("p4\0w/p\0x/usr/bin/ar\0agcc\0a--version\0");
	CHECK_OK(build_log_parse(str_get(&log), log.len, r, &err), &err);
	r->programs = calloc(1, sizeof(*r->programs));
	r->n_programs = 1;
	r->programs[0].path = strdup("x");
	memset(r->programs[0].sha256, 'a', HASH_HEX_LEN);
	memset(r->programs[0].code_sha256, 'b', HASH_HEX_LEN);
	r->programs[0].step = 2;
	return r;
}

static void test_json(void)
{
	struct build_record *r = sample(), *back = NULL;
	struct json *j = build_record_to_json(r);
	char *a = json_dump(j), *b;
	struct err err;

	CHECK_OK(build_record_from_json(j, &back, &err), &err);
	CHECK_INT(back->n_steps, 4);
	CHECK_STR(back->steps[1].sources[0], "b\xff.c"); /* bytes survive */
	CHECK_STR(back->tail, "done\n\xff");
	CHECK_STR(back->steps[2].objects[1], "b\xff.o");
	CHECK_STR(back->steps[0].env[0], "PATH=/bin");
	CHECK_INT(back->steps[3].kind, BUILD_PROBE);
	CHECK(build_record_program(back, "/p/x") == &back->programs[0]);
	CHECK(build_record_program(back, "./x") == &back->programs[0]);
	CHECK(!build_record_program(back, "y"));
	json_unref(j);
	j = build_record_to_json(back);
	b = json_dump(j);
	CHECK_STR(b, a);
	build_record_free(back);

	json_set_str(json_at(json_get(j, "steps"), 0), "kind", "nonsense");
	CHECK_INT(build_record_from_json(j, &back, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "kind");
	json_set_str(j, "format", "other");
	CHECK_INT(build_record_from_json(j, &back, &err), ERR_PARSE);
	json_unref(j);
	free(a);
	free(b);
	build_record_free(r);
}

/* ---- verdicts ---- */

static void push(char ***v, size_t *n, const char *text)
{
	*v = realloc(*v, (*n + 1) * sizeof(**v));
	CHECK(*v);
	(*v)[(*n)++] = strdup(text);
}

static struct build_plan *plan_o3(void)
{
	struct build_plan *p = calloc(1, sizeof(*p));

	CHECK(p);
	p->drivers = calloc(1, sizeof(*p->drivers));
	p->n_drivers = 1;
	p->drivers[0].driver.key = strdup("/usr/bin/gcc");
	push(&p->drivers[0].flags.compile, &p->drivers[0].flags.n_compile, "-O3");
	return p;
}

static void give(struct build_step *s, const char *flag)
{
	push(&s->added, &s->n_added, flag);
}

static void test_verdicts(void)
{
	struct build_record *base = sample(), *cand = sample();
	struct build_plan *plan = plan_o3();
	struct build_verdict v;

	build_applied(base, cand, plan, &v);
	CHECK(!v.applied);
	CHECK_HAS(v.reason, "a.c was made again without -O3");
	give(&cand->steps[0], "-O3");
	give(&cand->steps[1], "-O3");
	build_applied(base, cand, plan, &v);
	CHECK(!v.applied);
	CHECK_STR(v.reason, "the compiler produced the same program");
	memset(cand->programs[0].code_sha256, 'c', HASH_HEX_LEN);
	build_applied(base, cand, plan, &v);
	CHECK(v.applied);
	CHECK_STR(v.reason, "");

	cand->steps[2].kind = BUILD_PROBE;
	build_applied(base, cand, plan, &v);
	CHECK(!v.applied);
	CHECK_STR(v.reason, "x was not linked again");
	cand->steps[2].kind = BUILD_LINK;
	cand->steps[1].hidden = true;
	build_applied(base, cand, plan, &v);
	CHECK(!v.applied);
	CHECK_HAS(v.reason, "cache");
	cand->steps[1].hidden = false;
	cand->truncated = true;
	build_applied(base, cand, plan, &v);
	CHECK(!v.applied);
	cand->truncated = false;
	cand->exit_code = 2;
	free(cand->status);
	free(cand->tail);
	cand->status = strdup("exited with status 2");
	cand->tail = strdup("gcc x\n/usr/bin/ld: undefined reference to `f'\nmake: *** Error 1");
	build_applied(base, cand, plan, &v);
	CHECK(!v.applied);
	CHECK_HAS(v.reason, "undefined reference to `f'");
	build_plan_free(plan);
	build_record_free(base);
	build_record_free(cand);
}

/* ---- actions ---- */

static void test_actions(void)
{
	struct build_action a;
	struct err err;

	CHECK_OK(build_action_parse("opt-level", "3", &a, &err), &err);
	CHECK_INT(a.kind, BUILD_ACT_OPT_LEVEL);
	CHECK_OK(build_action_parse("lto", NULL, &a, &err), &err);
	CHECK_INT(build_action_parse("opt-level", "9", &a, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "2 or 3");
	CHECK_INT(build_action_parse("lto", "x", &a, &err), ERR_INVALID);
	CHECK_INT(build_action_parse("arch", "a;b", &a, &err), ERR_INVALID);
	CHECK_INT(build_action_parse("flag", "-O3 -g", &a, &err), ERR_INVALID);
	CHECK_INT(build_action_parse("flag", "x", &a, &err), ERR_INVALID);
	CHECK_INT(build_action_parse("speed", NULL, &a, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "opt-level");
}

/* ---- compile_commands.json ---- */

static void test_cdb(void)
{
	static const char text[] =
		"[{\"directory\":\"/p\",\"file\":\"a.c\",\"command\":\"gcc -DX=\\\"a b\\\" "
		"'-DY=c d' -c a\\\\ b.c\"},{\"directory\":\"/p\",\"file\":\"b.c\",\"output\":\"b.o\","
		"\"arguments\":[\"gcc\",\"-c\",\"b.c\"]}]";
	struct build_cdb *c = NULL;
	struct build_record *r = sample();
	struct err err;
	char *out;

	CHECK_OK(build_cdb_parse(text, sizeof(text) - 1, "x.json", &c, &err), &err);
	CHECK_INT(c->n, 2);
	CHECK_INT(c->entries[0].n_argv, 5);
	CHECK_STR(c->entries[0].argv[1], "-DX=a b");
	CHECK_STR(c->entries[0].argv[2], "-DY=c d");
	CHECK_STR(c->entries[0].argv[4], "a b.c");
	CHECK_STR(c->entries[1].output, "b.o");
	build_cdb_free(c);
	CHECK_INT(build_cdb_parse("{}", 2, "x.json", &c, &err), ERR_PARSE);
	CHECK_INT(build_cdb_parse("[{}]", 4, "x.json", &c, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "entry 0");
	CHECK_INT(build_cdb_parse("[", 1, "x.json", &c, &err), ERR_PARSE);

	give(&r->steps[0], "-O3");
	out = build_cdb_text(r);
	CHECK_OK(build_cdb_parse(out, strlen(out), "ours", &c, &err), &err);
	CHECK_INT(c->n, 2); /* neither the link nor the probe */
	CHECK_STR(c->entries[0].file, "/p/a.c");
	CHECK_STR(c->entries[0].output, "/p/a.o");
	CHECK_STR(c->entries[0].argv[4], "-O3");
	build_cdb_free(c);
	free(out);
	build_record_free(r);
}

/* ---- what is loaded to run ---- */

static void test_code_hash(void)
{
	char *dir = project_new();
	char a[HASH_HEX_LEN + 1], b[HASH_HEX_LEN + 1], path[4200];
	struct err err;

	if (!project_has_tool("cc"))
		CHECK_SKIP("no cc");
	project_sources(dir);
	CHECK_INT(project_sh(dir, "cc -g -O1 -o a main.c part.c && cc -g -O1 -DU=1 -o b main.c "
				  "part.c -g3 && cc -O3 -o c main.c part.c"),
		  0);
	(void)snprintf(path, sizeof(path), "%s/a", dir);
	CHECK_OK(build_code_hash(path, a, &err), &err);
	(void)snprintf(path, sizeof(path), "%s/b", dir);
	CHECK_OK(build_code_hash(path, b, &err), &err);
	CHECK_STR(b, a); /* debug information alone differs */
	CHECK(project_sh(dir, "cmp -s a b") != 0);
	(void)snprintf(path, sizeof(path), "%s/c", dir);
	CHECK_OK(build_code_hash(path, b, &err), &err);
	CHECK(strcmp(a, b) != 0);
	/* not ELF, and damaged ELF: the whole file counts */
	project_write(dir, "s", "#!/bin/sh\n");
	(void)snprintf(path, sizeof(path), "%s/s", dir);
	CHECK_OK(build_code_hash(path, a, &err), &err);
	CHECK_INT(project_sh(dir, "head -c 200 c > d"), 0);
	(void)snprintf(path, sizeof(path), "%s/d", dir);
	CHECK_OK(build_code_hash(path, b, &err), &err);
	CHECK(strcmp(a, b) != 0);
	(void)snprintf(path, sizeof(path), "%s/absent", dir);
	CHECK_INT(build_code_hash(path, a, &err), ERR_SYS);
	project_end(dir);
}

int main(void)
{
	test_tools();
	test_kinds();
	test_keys();
	test_log();
	test_json();
	test_verdicts();
	test_actions();
	test_cdb();
	test_code_hash();
	return 0;
}
