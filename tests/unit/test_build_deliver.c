/* Kept flags as patches and scripts that the user owns, proven by clean builds. */
#include "build/deliver.h"
#include "builds.h"

struct delivery {
	struct builds b;
	struct build_plan *plan;
	struct build_record *kept;
	struct build_delivery *d;
};

static const char *const run_env[] = { "DEMO_WORD=it's fast", NULL };

static void keep(struct delivery *t, const struct build_action *a, size_t n)
{
	struct build_opts o;
	struct build_verdict v;
	struct err err;

	builds_base(&t->b);
	CHECK_OK(build_plan_make(t->b.k, t->b.base, a, n, false, &t->plan, &err), &err);
	o = builds_opts(&t->b, t->plan);
	CHECK_OK(build_change(t->b.k, &o, t->b.base, &t->kept, &v, &err), &err);
	if (!v.applied)
		(void)fprintf(stderr, "void: %s\n%s\n", v.reason, t->kept->tail);
	CHECK(v.applied);
}

static int deliver(struct delivery *t, struct err *err)
{
	struct build_opts o = builds_opts(&t->b, NULL);
	struct build_deliver_opts d = { .build = &o,
					.base = t->b.base,
					.kept = t->kept,
					.plan = t->plan,
					.run_env = run_env,
					.run_command = "echo \"$DEMO_WORD\" && ./prog" };

	return build_deliver(t->b.k, &d, &t->d, err);
}

static void delivered(struct delivery *t, enum build_delivery_kind kind)
{
	struct err err;

	CHECK_OK(deliver(t, &err), &err);
	if (t->d->kind != kind)
		(void)fprintf(stderr, "how: %s\nnot: %s\n", t->d->how, t->d->not_proven);
	CHECK_INT(t->d->kind, kind);
	CHECK(t->d->same_code || t->d->flags_seen);
	/* the script builds it from nothing, and runs it as it was measured */
	CHECK_INT(project_sh(t->b.dir, "sh .rocbudai/apply.sh > out 2>&1"), 0);
	CHECK_INT(project_sh(t->b.dir, "grep -qx \"it's fast\" out && grep -q '^sum: ' out"), 0);
	builds_no_trace(&t->b);
}

static void end(struct delivery *t)
{
	build_delivery_free(t->d);
	build_record_free(t->kept);
	build_plan_free(t->plan);
	builds_end(&t->b);
}

/* The patch is what distinguishes the tree from the original, both ways. */
static void check_undo(struct delivery *t, const char *file, const char *before, const char *line)
{
	char *now = project_read(t->b.dir, file);

	CHECK_HAS(now, line);
	CHECK_HAS(t->d->patch, line);
	free(now);
	if (!builds_need("patch", "undo"))
		return;
	CHECK_INT(project_sh(t->b.dir, "%s >/dev/null", t->d->undo), 0);
	now = project_read(t->b.dir, file);
	CHECK_STR(now, before);
	free(now);
	CHECK_INT(project_sh(t->b.dir, "patch -p1 < .rocbudai/delivered.patch >/dev/null"), 0);
	now = project_read(t->b.dir, file);
	CHECK_HAS(now, line);
	free(now);
}

static const struct build_action o3[] = { { .kind = BUILD_ACT_OPT_LEVEL, .value = "3" },
					  { .kind = BUILD_ACT_ARCH, .value = "x86-64-v2" } };

static void test_make_variables(void)
{
	static const char makefile[] =
		"CC = gcc\nifdef DEBUG\nCFLAGS = -O0 -g\nelse\nCFLAGS = \\\n  -O0\nendif\n"
		"OBJS = main.o part.o\n\nprog: $(OBJS)\n\t$(CC) -o $@ $(OBJS)\n"
		"%.o: %.c part.h\n\t$(CC) $(CFLAGS) -c -o $@ $<";
	struct delivery t = { 0 };

	builds_start(&t.b, "make");
	project_sources(t.b.dir);
	project_write(t.b.dir, "Makefile", makefile);
	keep(&t, o3, 2);
	delivered(&t, BUILD_DELIVER_PATCH);
	CHECK(t.d->same_code);
	CHECK_STR(t.d->how, "Makefile: CFLAGS");
	CHECK_STR(t.d->files[0], "Makefile");
	check_undo(&t, "Makefile", makefile, "CFLAGS += -O3 -march=x86-64-v2 -ffp-contract=off\n");
	end(&t);
}

/* Flags in an included file, sub-makes, an archive; link-time optimisation needs a link line. */
static void test_make_lto(void)
{
	static const char lib[] = "include ../make.inc\nlibpart.a: part.o\n\t$(AR) rc $@ part.o\n";
	static const struct build_action lto[] = { { .kind = BUILD_ACT_LTO } };
	struct delivery t = { 0 };

	builds_start(&t.b, "make");
	CHECK_INT(project_sh(t.b.dir, "mkdir lib"), 0);
	project_write(t.b.dir, "make.inc", "CC = gcc\nCFLAGS = -O2\n");
	project_write(t.b.dir, "Makefile",
		      "include make.inc\nprog: main.o sub\n\t@$(CC) -o prog main.o lib/libpart.a "
		      "-lm # link\nmain.o: main.c\n\t$(CC) $(CFLAGS) -Ilib -c main.c\n"
		      "sub:\n\t$(MAKE) -C lib\n.PHONY: sub\n");
	project_write(t.b.dir, "lib/Makefile", lib);
	project_write(t.b.dir, "lib/part.c", PROJECT_PART);
	project_write(t.b.dir, "lib/part.h", PROJECT_PART_H);
	project_write(t.b.dir, "main.c", PROJECT_MAIN);
	keep(&t, lto, 1);
	delivered(&t, BUILD_DELIVER_PATCH);
	CHECK_HAS(t.d->how, "make.inc: CFLAGS");
	CHECK_HAS(t.d->how, "1 link line");
	check_undo(&t, "lib/Makefile", lib, "AR = /usr/bin/gcc-ar");
	end(&t);
}

/* CFLAGS on the link line: its -O0 must not undo what link-time optimisation is there for. */
static void test_make_lto_level(void)
{
	static const struct build_action both[] = { { .kind = BUILD_ACT_OPT_LEVEL, .value = "3" },
						    { .kind = BUILD_ACT_LTO } };
	struct delivery t = { 0 };

	builds_start(&t.b, "make");
	project_sources(t.b.dir);
	project_write(t.b.dir, "Makefile",
		      "CFLAGS = -O0\nprog: main.o part.o\n\tgcc $(CFLAGS) -o prog main.o part.o\n"
		      "%.o: %.c\n\tgcc $(CFLAGS) -c $<\n");
	keep(&t, both, 2);
	/* inlined across files */
	CHECK_INT(project_sh(t.b.dir, "! nm prog | grep -q ' [tT] part$'"), 0);
	delivered(&t, BUILD_DELIVER_PATCH);
	CHECK(t.d->same_code);
	end(&t);
}

static void test_make_lines(void)
{
	static const char makefile[] = "Q = @\nprog: main.c part.c\n\t@echo building with gcc now\n"
				       "\t$(Q)gcc -O0 main.c part.c \\\n\t  -o prog; true\n";
	struct delivery t = { 0 };
	char *now;

	builds_start(&t.b, "make -B");
	project_sources(t.b.dir);
	project_write(t.b.dir, "Makefile", makefile);
	keep(&t, o3, 1);
	delivered(&t, BUILD_DELIVER_PATCH);
	CHECK_STR(t.d->how, "Makefile: 1 compiler line");
	check_undo(&t, "Makefile", makefile, "part.c -O3 \\");
	now = project_read(t.b.dir, "Makefile");
	CHECK_HAS(now, "@echo building with gcc now\n"); /* words are no calls */
	free(now);
	end(&t);
}

static void test_script_lines(void)
{
	static const char script[] = "#!/bin/sh\n# gcc -O0 main.c\nCC=gcc; set -e\n"
				     "for f in main part; do $CC -O0 -c \"$f.c\" 2>&1; done\n"
				     "test -f part.o && gcc -o prog main.o part.o\n";
	struct delivery t = { 0 };
	char *now;

	builds_start(&t.b, "sh 'build it.sh'");
	project_sources(t.b.dir);
	project_write(t.b.dir, "build it.sh", script);
	keep(&t, o3, 1);
	delivered(&t, BUILD_DELIVER_PATCH);
	check_undo(&t, "build it.sh", script, "-c \"$f.c\" -O3 2>&1; done\n");
	now = project_read(t.b.dir, "build it.sh");
	CHECK_HAS(now, "# gcc -O0 main.c\n");
	free(now);
	end(&t);
}

static void test_cmake(void)
{
	static const char lists[] = "cmake_minimum_required(VERSION 3.16)\nproject(\n  demo C)\n"
				    "add_library(part STATIC part.c)\nadd_executable(prog main.c)\n"
				    "target_link_libraries(prog part)\n";
	static const struct build_action lto[] = { { .kind = BUILD_ACT_OPT_LEVEL, .value = "3" },
						   { .kind = BUILD_ACT_LTO } };
	struct delivery t = { 0 };

	if (!builds_need("cmake", "CMake"))
		return;
	builds_start(&t.b, "cmake --build build && cp build/prog .");
	project_sources(t.b.dir);
	project_write(t.b.dir, "CMakeLists.txt", lists);
	CHECK_INT(project_sh(t.b.dir, "cmake -S . -B build -DCMAKE_BUILD_TYPE=Debug >/dev/null"),
		  0);
	keep(&t, lto, 2);
	delivered(&t, BUILD_DELIVER_PATCH);
	CHECK_HAS(t.d->how, "CMakeLists.txt");
	check_undo(&t, "CMakeLists.txt", lists,
		   "add_compile_options(\"$<$<COMPILE_LANGUAGE:C>:-O3>\")");
	end(&t);
}

/* Flags by the environment: a configure script writes the makefile at each build. */
static void test_configure(void)
{
	struct delivery t = { 0 };

	builds_start(&t.b, "./configure && make -B");
	project_sources(t.b.dir);
	project_write(
		t.b.dir, "configure",
		"#!/bin/sh\nsed -e \"s/@CFLAGS@/${CFLAGS--g -O2}/\" Makefile.in > Makefile\n");
	project_write(t.b.dir, "Makefile.in",
		      "CFLAGS = @CFLAGS@\nprog: main.c part.c\n\tgcc $(CFLAGS) -o prog main.c "
		      "part.c\n");
	CHECK_INT(project_sh(t.b.dir, "chmod +x configure"), 0);
	keep(&t, o3, 1);
	delivered(&t, BUILD_DELIVER_SCRIPT);
	CHECK_HAS(t.d->script, "export CFLAGS='-g -O2 -O3'");
	CHECK_HAS(t.d->not_proven, "Makefile"); /* tried, and overwritten by configure */
	end(&t);
}

/* Nothing that we know to edit: the compiler calls themselves, as recorded. */
static void test_recorded(void)
{
	struct delivery t = { 0 };

	builds_start(&t.b, "sh ./odd");
	project_sources(t.b.dir);
	project_write(t.b.dir, "odd",
		      "x=g; ${x}cc -O0 -c part.c main.c\n"
		      "mkdir -p \"out put\"; cp part.h 'out put'\n"
		      "${x}cc -o 'out put/p' main.o part.o && cp 'out put/p' prog\n");
	keep(&t, o3, 1);
	delivered(&t, BUILD_DELIVER_SCRIPT);
	CHECK(t.d->same_code);
	CHECK_HAS(t.d->how, "recorded compiler calls");
	end(&t);
}

/* The time of the build is in the program: no two builds are alike, the flags must be seen. */
static void test_dated(void)
{
	struct delivery t = { 0 };

	builds_start(&t.b, "make -B");
	project_sources(t.b.dir);
	project_write(t.b.dir, "part.h", PROJECT_PART_H "static volatile long when = WHEN;\n");
	project_write(t.b.dir, "Makefile",
		      "all:\n\tgcc -O0 -DWHEN=$$(date +%s%N) -o prog main.c part.c\n");
	keep(&t, o3, 1);
	delivered(&t, BUILD_DELIVER_PATCH);
	CHECK(!t.d->same_code);
	CHECK(t.d->flags_seen);
	end(&t);
}

static void test_nothing(void)
{
	struct delivery t = { 0 };
	struct err err;

	builds_start(&t.b, "gcc -o prog main.c part.c");
	project_sources(t.b.dir);
	builds_base(&t.b);
	CHECK_OK(deliver(&t, &err), &err); /* no flags kept: the run line alone */
	CHECK_INT(t.d->kind, BUILD_DELIVER_NOTHING);
	CHECK_INT(project_sh(t.b.dir, "sh .rocbudai/apply.sh | grep -q '^sum: '"), 0);
	end(&t);
}

/* A build that refuses to be delivered leaves its files as they were. */
static void test_refused(void)
{
	static const char makefile[] =
		"CFLAGS = -O0\nall:\n\t@[ ! -f sealed ] || ! echo \"error: sealed\"\n"
		"\tgcc $(CFLAGS) -o prog main.c part.c\n";
	struct delivery t = { 0 };
	struct err err;
	char *now;

	builds_start(&t.b, "make");
	project_sources(t.b.dir);
	project_write(t.b.dir, "Makefile", makefile);
	keep(&t, o3, 1);
	project_write(t.b.dir, "sealed", "");
	CHECK_INT(deliver(&t, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "sealed");
	now = project_read(t.b.dir, "Makefile");
	CHECK_STR(now, makefile);
	free(now);
	end(&t);
}

int main(void)
{
	if (!project_has_tool("gcc") || !project_has_tool("make"))
		CHECK_SKIP("no gcc or make");
	test_make_variables();
	test_make_lto();
	test_make_lto_level();
	test_make_lines();
	test_script_lines();
	test_cmake();
	test_configure();
	test_recorded();
	test_dated();
	test_nothing();
	test_refused();
	return 0;
}
