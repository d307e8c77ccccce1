/* Recorded builds with make, Ninja, CMake, configure scripts and plain scripts. */
#include "builds.h"

#define MAKE_VARS                                                                                  \
	"CC = gcc\nCFLAGS = -O0\nOBJS = main.o part.o\nprog: $(OBJS)\n"                            \
	"\t$(CC) $(LDFLAGS) -o $@ $(OBJS)\n%.o: %.c part.h\n\t$(CC) $(CFLAGS) -c -o $@ $<\n"

static void test_make(void)
{
	struct builds b;
	const struct build_program *p;

	builds_start(&b, "make");
	project_sources(b.dir);
	project_write(b.dir, "Makefile", MAKE_VARS);
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 2);
	CHECK_INT(builds_count(b.base, BUILD_LINK), 1);
	p = build_record_program(b.base, "prog");
	CHECK(p);
	CHECK_STR(b.base->steps[p->step].output, "prog");
	CHECK_INT(b.base->steps[p->step].n_objects, 2);
	/* make sees no change: the objects must be made again by force */
	builds_o3_applies(&b, 1);
	builds_end(&b);
}

/* Built before: nothing would be compiled, so the objects are made to look old; what is not made
 * again keeps its times. */
static void test_built_before(void)
{
	struct builds b;
	struct build_record *r = NULL;
	struct build_opts o;
	struct err err;
	struct stat before, after;
	char blob[4200];

	builds_start(&b, "make");
	project_sources(b.dir);
	/* one object has no source, one is no part of the build */
	project_write(b.dir, "Makefile",
		      "CC = gcc\nprog: main.o part.o vendor.o\n\tgcc -o $@ $^\n"
		      "%.o: %.c\n\tgcc -O0 -c -o $@ $<\n");
	project_write(b.dir, "vendor.c", "int vendor;\n");
	CHECK_INT(project_sh(b.dir, "gcc -c vendor.c && make >/dev/null && rm vendor.c && "
				    "cp main.o other.o && touch -d 2020-02-02 vendor.o"),
		  0);
	(void)snprintf(blob, sizeof(blob), "%s/vendor.o", b.dir);
	CHECK_INT(stat(blob, &before), 0);
	o = builds_opts(&b, NULL);
	CHECK_OK(build_run(b.k, &o, &r, &err), &err);
	CHECK_INT(build_record_made(r), 0);
	build_record_free(r);
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 2);
	CHECK(build_record_program(b.base, "prog"));
	CHECK_INT(project_sh(b.dir, "test -f other.o && ! ls | grep aside"), 0);
	CHECK_INT(stat(blob, &after), 0);
	CHECK_INT(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	builds_end(&b);
	builds_start(&b, "true");
	o = builds_opts(&b, NULL);
	CHECK_INT(build_baseline(b.k, &o, &r, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "compiled nothing");
	builds_end(&b);
}

/* Ninja knows by itself when it made a Fortran object, whatever its time says. */
static void test_restat(void)
{
	struct builds b;

	if (!builds_need("ninja", "Fortran with Ninja") ||
	    !builds_need("cmake", "Fortran with Ninja") ||
	    !builds_need("gfortran", "Fortran with Ninja"))
		return;
	builds_start(&b, "cmake --build b");
	project_write(b.dir, "CMakeLists.txt",
		      "cmake_minimum_required(VERSION 3.16)\nproject(t Fortran)\n"
		      "add_executable(t t.f90 m.f90)\n");
	project_write(b.dir, "m.f90",
		      "module m\ncontains\n  real(8) function f(n)\n    integer, intent(in) :: n\n"
		      "    integer :: i\n    f = 0\n    do i = 1, n\n      f = f + i * 0.5d0\n"
		      "    end do\n  end function\nend module\n");
	project_write(b.dir, "t.f90", "program t\n  use m\n  print *, f(9)\nend program\n");
	CHECK_INT(project_sh(b.dir, "cmake -S . -B b -G Ninja >/dev/null && cmake --build b "
				    ">/dev/null"),
		  0);
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 2);
	builds_o3_applies(&b, -1); /* Ninja makes it again by itself where the path has a quote */
	builds_end(&b);
}

static void test_make_hard_coded(void)
{
	struct builds b;

	builds_start(&b, "make -B");
	project_sources(b.dir);
	project_write(b.dir, "Makefile",
		      "prog: main.c part.c\n\tgcc -O0 -g main.c part.c -o prog -lm\n");
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE_LINK), 1);
	builds_o3_applies(&b, 0);
	builds_end(&b);
}

static void test_make_recursive(void)
{
	struct builds b;

	builds_start(&b, "make -j2");
	CHECK_INT(project_sh(b.dir, "mkdir lib app"), 0);
	project_write(b.dir, "Makefile", "all:\n\t$(MAKE) -C lib\n\t$(MAKE) -C app\n.PHONY: all\n");
	project_write(b.dir, "lib/Makefile",
		      "libpart.a: part.o\n\tar rcs $@ $<\npart.o: part.c\n\tcc -O0 -c part.c\n");
	project_write(b.dir, "app/Makefile",
		      "../prog: main.c ../lib/libpart.a\n\tcc -I../lib -o $@ main.c "
		      "../lib/libpart.a\n");
	project_write(b.dir, "lib/part.c", PROJECT_PART);
	project_write(b.dir, "lib/part.h", PROJECT_PART_H);
	project_write(b.dir, "app/main.c", PROJECT_MAIN);
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_ARCHIVE), 1);
	CHECK(build_record_program(b.base, "prog"));
	builds_o3_applies(&b, 1);
	builds_end(&b);
}

#define CMAKELISTS                                                                                 \
	"cmake_minimum_required(VERSION 3.16)\nproject(demo C)\nadd_library(part STATIC part.c)\n" \
	"add_executable(prog main.c)\ntarget_link_libraries(prog part)\n"                          \
	"include(CheckFunctionExists)\ncheck_function_exists(cbrt HAVE_CBRT)\n"

static void cmake(const char *generator, const char *tool)
{
	struct builds b;
	char part[64];

	(void)snprintf(part, sizeof(part), "CMake with %s", generator);
	if (!builds_need("cmake", part) || !builds_need(tool, part))
		return;
	builds_start(&b, "cmake --build build");
	project_sources(b.dir);
	project_write(b.dir, "CMakeLists.txt", CMAKELISTS);
	/* configured before us: the compiler's absolute path is in its cache */
	CHECK_INT(project_sh(b.dir, "cmake -S . -B build -G '%s' >/dev/null", generator), 0);
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 2);
	CHECK(build_record_program(b.base, "build/prog"));
	/* Ninja builds everything each time where the path has a quote */
	builds_o3_applies(&b, strcmp(tool, "make") == 0 ? 1 : -1);
	builds_end(&b);

	if (strcmp(tool, "make") == 0)
		return;
	/* configured under us: its tests are recorded, and left alone */
	builds_start(&b, "cmake -S . -B b2 -G Ninja && cmake --build b2");
	project_sources(b.dir);
	project_write(b.dir, "CMakeLists.txt", CMAKELISTS);
	builds_base(&b);
	CHECK(builds_count(b.base, BUILD_PROBE) >= 3);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 2);
	CHECK_INT(project_sh(b.dir, "rm -r b2"), 0);
	builds_o3_applies(&b, 0);
	CHECK_INT(project_sh(b.dir, "! grep -rhIe -O3 b2 | grep -qv RELEASE"), 0);
	builds_end(&b);
}

/* A configure script as autoconf writes them, and a test by hand under a name of its own. */
static void test_configure(void)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r;
	struct build_verdict v;
	size_t tests = 0;

	builds_start(&b, "./configure && make clean && make");
	project_sources(b.dir);
	project_write(b.dir, "configure",
		      "#!/bin/sh\nset -e\n: \"${CFLAGS=-g -O0}\"\n"
		      "echo 'int main(void){return 0;}' > conftest.c\n"
		      "gcc $CFLAGS -o conftest conftest.c\n./conftest\nrm -f conftest*\n"
		      "gcc --version >/dev/null\ngcc -E part.c >/dev/null\n"
		      "t=ztest$$\necho 'int x;' > $t.c\ngcc -c $t.c\nrm -f $t*\n"
		      "sed -e \"s/@CFLAGS@/$CFLAGS/\" Makefile.in > Makefile\n");
	project_write(b.dir, "Makefile.in",
		      "CFLAGS = @CFLAGS@\nprog: main.o part.o\n\tgcc $(CFLAGS) -o prog main.o "
		      "part.o\n%.o: %.c\n\tgcc $(CFLAGS) -c $<\nclean:\n\trm -f *.o prog\n");
	CHECK_INT(project_sh(b.dir, "chmod +x configure"), 0);
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_PROBE), 4);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 2);
	p = builds_plan(&b, BUILD_ACT_OPT_LEVEL, "3");
	r = builds_change(&b, p, &v);
	CHECK(v.applied);
	CHECK(!v.forced);
	for (size_t i = 0; i < r->n_steps; i++) {
		if (r->steps[i].kind == BUILD_PROBE) {
			CHECK_INT(r->steps[i].n_added, 0); /* ztest$$ included */
			tests++;
		}
	}
	CHECK_INT(tests, 4);
	CHECK_INT(project_sh(b.dir, "grep -q -- '-g -O0' Makefile"), 0);
	builds_no_trace(&b);
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

static void test_script(void)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r;
	struct build_verdict v;
	struct build_action a = { .kind = BUILD_ACT_OPT_LEVEL, .value = "3" };
	struct err err;

	builds_start(&b, "sh 'bui ld.sh'");
	CHECK_INT(project_sh(b.dir, "mkdir \"it's here\""), 0);
	project_sources(b.dir);
	project_write(b.dir, "args.txt",
		      "-O0\n-DNAME=\"a b\" 'main.c'\npart.c -o\n\"it's here/p\"\n");
	project_write(b.dir, "bui ld.sh", "set -e\ncc @args.txt\ncp \"it's here/p\" run.me\n");
	builds_base(&b);
	/* the response file is seen through, and the copy is known */
	CHECK_INT(b.base->steps[0].n_sources, 2);
	CHECK_STR(b.base->steps[0].argv[2], "-DNAME=a b");
	CHECK_STR(b.base->programs[0].path, "it's here/p");
	CHECK(build_record_program(b.base, "run.me") == &b.base->programs[0]);
	builds_o3_applies(&b, 0);
	builds_end(&b);

	/* what already is there is refused; so is what makes no difference, as void */
	builds_start(&b, "cc -O3 -c part.c && cc -O3 -o prog main.c part.o");
	project_sources(b.dir);
	builds_base(&b);
	CHECK_INT(build_plan_make(b.k, b.base, &a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "already");
	p = builds_plan(&b, BUILD_ACT_FLAG, "-fno-builtin-cbrt");
	r = builds_change(&b, p, &v);
	CHECK(!v.applied);
	CHECK_STR(v.reason, "the compiler produced the same program");
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

static void test_failures(void)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r, *loaded = NULL;
	struct build_verdict v;
	struct build_action a = { .kind = BUILD_ACT_FLAG, .value = "-fno-such-thing" };
	struct build_opts o;
	struct err err;
	char path[4200];

	builds_start(&b, "sh build.sh");
	project_sources(b.dir);
	/* the link fails once the flag is there */
	project_write(b.dir, "build.sh",
		      "gcc -O0 -c part.c main.c || exit 3\n[ -f bad ] && exec gcc -o prog main.o\n"
		      "gcc -o prog main.o part.o\n");
	builds_base(&b);
	CHECK_INT(builds_count(b.base, BUILD_COMPILE), 1); /* two sources in one command */
	CHECK_INT(b.base->steps[0].n_outputs, 2);
	project_write(b.dir, "bad", "");
	p = builds_plan(&b, BUILD_ACT_OPT_LEVEL, "3");
	r = builds_change(&b, p, &v);
	CHECK(!v.applied);
	CHECK_HAS(v.reason, "undefined reference");
	CHECK_HAS(r->tail, "part");
	(void)snprintf(path, sizeof(path), "%s/record.json", b.dir);
	CHECK_OK(build_record_save(r, path, &err), &err);
	CHECK_OK(build_record_load(path, &loaded, &err), &err);
	CHECK_INT(loaded->n_steps, r->n_steps);
	CHECK_INT(loaded->exit_code, r->exit_code);
	build_record_free(loaded);
	build_record_free(r);
	build_plan_free(p);

	CHECK_INT(build_plan_make(b.k, b.base, &a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "-fno-such-thing");
	a = (struct build_action){ .kind = BUILD_ACT_FAST_MATH };
	CHECK_INT(build_plan_make(b.k, b.base, &a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "--allow-fp");
	a = (struct build_action){ .kind = BUILD_ACT_OPENMP };
	CHECK_INT(build_plan_make(b.k, b.base, &a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "no compiled source has OpenMP pragmas");

	/* a build that hangs, and one that is not there */
	b.command = "gcc -c part.c; while :; do :; done";
	o = builds_opts(&b, NULL);
	o.timeout_ns = UINT64_C(1500000000);
	CHECK_OK(build_run(b.k, &o, &r, &err), &err);
	CHECK(r->timed_out);
	CHECK(!build_record_ok(r));
	CHECK_INT(builds_count(r, BUILD_COMPILE), 1);
	build_record_free(r);
	o.dir = "/nowhere at all";
	CHECK_INT(build_run(b.k, &o, &r, &err), ERR_SYS);
	CHECK_HAS(err.msg, "/nowhere at all");
	builds_end(&b);
}

/* Only what a step wrote is ever removed. */
static void test_remove(void)
{
	struct builds b;
	struct err err;

	builds_start(&b, "make");
	project_sources(b.dir);
	project_write(b.dir, "Makefile", MAKE_VARS);
	project_write(b.dir, "other.o", "precious");
	builds_base(&b);
	CHECK_INT(project_sh(b.dir, "mkdir ../$(basename $PWD).out && mv part.o "
				    "../$(basename $PWD).out/ && ln -s ../$(basename "
				    "$PWD).out/part.o part.o"),
		  0);
	CHECK_INT(build_remove_outputs(b.base, &err), 2); /* main.o and prog; the link stays */
	CHECK_INT(project_sh(b.dir, "test -f other.o && test -f main.c && test ! -f main.o && "
				    "test ! -f prog && test -f part.o && rm -r "
				    "../$(basename $PWD).out"),
		  0);
	builds_end(&b);
}

int main(void)
{
	if (!project_has_tool("gcc") || !project_has_tool("make"))
		CHECK_SKIP("no gcc or make");
	test_make();
	test_built_before();
	test_restat();
	test_make_hard_coded();
	test_make_recursive();
	cmake("Ninja", "ninja");
	cmake("Unix Makefiles", "make");
	test_configure();
	test_script();
	test_failures();
	test_remove();
	return 0;
}
