/* Recorded builds through compiler caches, MPI wrappers, static shells and other compilers; the
 * flags of each; layouts. */
#include "build/neutral.h"
#include "builds.h"
#include "core/cleanup.h"
#include "core/str.h"

static bool says(const struct build_plan *p, const char *flag)
{
	AUTO_STR struct str s = { 0 };

	build_plan_text(p, &s);
	return strstr(str_get(&s), flag) != NULL;
}

static void check_added(const struct build_record *r, const char *flag)
{
	for (size_t i = 0; i < r->n_steps; i++) {
		const struct build_step *s = &r->steps[i];
		bool has = false;

		if (s->kind != BUILD_COMPILE && s->kind != BUILD_COMPILE_LINK)
			continue;
		for (size_t a = 0; a < s->n_added; a++)
			has |= strcmp(s->added[a], flag) == 0;
		CHECK(has);
	}
}

/* ---- compiler caches ---- */

static void code_of(const char *dir, const char *name, char out[HASH_HEX_LEN + 1])
{
	char path[4200];
	struct err err;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	CHECK_OK(build_code_hash(path, out, &err), &err);
}

/* ccache found in PATH under the compiler's name.  What it stored for our flags must never be
 * served to a build without them. */
static void test_ccache(void)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r;
	struct build_verdict v;
	char before[HASH_HEX_LEN + 1], with[HASH_HEX_LEN + 1], after[HASH_HEX_LEN + 1];

	if (!builds_need("ccache", "compiler cache"))
		return;
	builds_start(&b, "export CCACHE_DIR=$PWD/cache PATH=$PWD/bin:$PATH; gcc -O0 -c part.c && "
			 "ccache gcc -O0 -c main.c && gcc -o prog main.o part.o");
	CHECK_INT(project_sh(b.dir, "mkdir bin && ln -s \"$(command -v ccache)\" bin/gcc"), 0);
	project_sources(b.dir);
	builds_base(&b);
	CHECK_INT(b.base->n_steps, 3); /* not the compilers that ccache runs */
	CHECK_HAS(b.base->steps[0].driver, "/bin/gcc");
	CHECK_HAS(b.base->steps[1].driver, "ccache gcc");
	code_of(b.dir, "part.o", before);
	p = builds_plan(&b, BUILD_ACT_OPT_LEVEL, "3");
	r = builds_change(&b, p, &v);
	CHECK(v.applied);
	check_added(r, "-O3");
	build_record_free(r);
	code_of(b.dir, "part.o", with);
	CHECK(strcmp(before, with) != 0);
	CHECK_INT(project_sh(b.dir, "%s", b.command),
		  0); /* the user's own build, out of the cache */
	code_of(b.dir, "part.o", after);
	CHECK_STR(after, before);
	r = builds_change(&b, p, &v); /* and ours again */
	CHECK(v.applied);
	code_of(b.dir, "part.o", after);
	CHECK_STR(after, with);
	builds_no_trace(&b);
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

/* A launcher that nothing can be preloaded into: seen, and kept from caching altered objects. */
static void test_static_launcher(void)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r;
	struct build_verdict v;

	builds_start(&b, "./ccache gcc -O0 -o prog main.c part.c");
	project_sources(b.dir);
	project_write(b.dir, "launcher.c",
		      "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n"
		      "int main(int c, char **v)\n{\n\tint st;\n\tif (getenv(\"CCACHE_DISABLE\"))\n"
		      "\t\treturn execvp(v[1], v + 1);\n\tif (fork() == 0)\n"
		      "\t\t_exit(execvp(v[1], v + 1));\n\twait(&st);\n\treturn st != 0;\n}\n");
	if (project_sh(b.dir, "gcc -static -o ccache launcher.c 2>/dev/null") != 0) {
		(void)printf("skipped: static launcher: no static libc\n");
		builds_end(&b);
		return;
	}
	builds_base(&b);
	CHECK_INT(b.base->n_steps, 1);
	CHECK(b.base->steps[0].hidden);
	p = builds_plan(&b, BUILD_ACT_OPT_LEVEL, "3");
	CHECK(p->disable_cache);
	r = builds_change(&b, p, &v);
	CHECK(v.applied);
	CHECK(!r->steps[0].hidden);
	build_record_free(r);
	p->disable_cache = false; /* had it not been kept from caching: nothing altered, void */
	r = builds_change(&b, p, &v);
	CHECK(!v.applied);
	CHECK_HAS(v.reason, "cache that cannot be recorded");
	CHECK_INT(r->steps[0].n_added, 0);
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

/* ---- shells and wrappers ---- */

static void test_static_shell(void)
{
	struct builds b;

	if (!builds_need("busybox", "static shell"))
		return;
	builds_start(&b, "busybox sh build.sh");
	project_sources(b.dir);
	project_write(b.dir, "build.sh", "gcc -O0 -c part.c\ngcc -O0 -o prog main.c part.o\n");
	builds_base(&b);
	CHECK_INT(b.base->n_steps, 2);
	builds_o3_applies(&b, 0);
	builds_end(&b);
}

static void test_mpi(void)
{
	struct builds b;

	if (builds_need("mpicc", "MPI")) {
		builds_start(&b, "mpicc -O0 -c part.c && mpicc -O0 -o prog main.c part.o");
		project_sources(b.dir);
		builds_base(&b);
		CHECK_INT(b.base->n_steps, 2); /* not the compiler below it as well */
		builds_o3_applies(&b, 0);
		builds_end(&b);
	}
	/* a wrapper that is a script, as MPICH has them, found through env */
	builds_start(&b,
		     "PATH=$PWD/bin:$PATH; mpicc -O0 -c part.c && mpicc -O0 main.c part.o -o prog");
	CHECK_INT(project_sh(b.dir, "mkdir bin"), 0);
	project_write(b.dir, "bin/mpicc", "#!/usr/bin/env -S sh -e\nexec gcc -DMPI=1 \"$@\"\n");
	CHECK_INT(project_sh(b.dir, "chmod +x bin/mpicc"), 0);
	project_sources(b.dir);
	builds_base(&b);
	CHECK_INT(b.base->n_steps, 2);
	CHECK_HAS(b.base->steps[0].driver, "/bin/mpicc");
	CHECK_STR(b.base->steps[0].argv[1], "-O0");
	builds_o3_applies(&b, 0);
	builds_end(&b);
}

/* ---- compilers and actions ---- */

#define FORTRAN                                                                                    \
	"program t\n  implicit none\n  real(8) :: a(100)\n  integer :: i\n"                        \
	"  !$omp parallel do\n  do i = 1, 100\n    a(i) = i * 2.5d0\n  end do\n"                   \
	"  print *, sum(a)\nend program\n"

static void test_arch(const char *cc, const char *build)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r;
	struct build_verdict v;

	if (!builds_need(cc, "architecture"))
		return;
	builds_start(&b, build);
	project_sources(b.dir);
	project_write(b.dir, "t.f90", FORTRAN);
	builds_base(&b);
	p = builds_plan(&b, BUILD_ACT_ARCH, "native");
	CHECK(says(p, "-march="));
	CHECK(!says(p, "native")); /* resolved to a name */
	CHECK(says(p, "-ffp-contract=off"));
	r = builds_change(&b, p, &v);
	CHECK(v.applied);
	CHECK_INT(project_sh(b.dir, "./prog >/dev/null"), 0); /* runs on this node */
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

static void test_arch_base(void)
{
	struct builds b;
	struct build_plan *p = NULL;
	struct build_action a = { .kind = BUILD_ACT_ARCH, .value = "native" };
	struct err err;

	/* fused multiply-add was there already: -ffp-contract=off itself would change results */
	builds_start(&b, "gcc -O1 -mfma -o prog main.c part.c");
	project_sources(b.dir);
	builds_base(&b);
	p = builds_plan(&b, BUILD_ACT_ARCH, "x86-64-v3");
	CHECK(says(p, "-march=x86-64-v3"));
	CHECK(!says(p, "contract"));
	build_plan_free(p);
	builds_end(&b);
	builds_start(&b, "gcc -O1 -march=native -o prog main.c part.c");
	project_sources(b.dir);
	builds_base(&b);
	CHECK_INT(build_plan_make(b.k, b.base, &a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "-march=native already");
	builds_end(&b);
}

static void test_openmp(const char *cc, const char *build)
{
	struct builds b;
	struct build_plan *p = NULL;
	struct build_record *r;
	struct build_verdict v;
	struct build_action a = { .kind = BUILD_ACT_OPENMP };
	struct err err;

	if (!builds_need(cc, "OpenMP"))
		return;
	builds_start(&b, build);
	project_write(b.dir, "t.f90", FORTRAN);
	project_write(b.dir, "loop.h",
		      "static void loop(double *a)\n{\n#  pragma omp parallel for\n"
		      "\tfor (int i = 0; i < 100; i++)\n\t\ta[i] = i;\n}\n");
	project_write(
		b.dir, "o.c",
		"#include <stdio.h>\n#include \"loop.h\"\nint main(void)\n{\n"
		"\tdouble a[100];\n\tloop(a);\n\tprintf(\"%f\\n\", a[99]);\n\treturn 0;\n}\n");
	builds_base(&b);
	if (build_plan_make(b.k, b.base, &a, 1, false, &p, &err) < 0) {
		CHECK_HAS(err.msg, "OpenMP cannot be used"); /* clang without its library */
		(void)printf("skipped: OpenMP with %s: %s\n", cc, err.msg);
		builds_end(&b);
		return;
	}
	CHECK(says(p, "-fopenmp"));
	r = builds_change(&b, p, &v);
	CHECK(v.applied);
	CHECK_INT(project_sh(b.dir, "nm prog | grep -qiE 'gomp|kmpc' && ./prog >/dev/null"), 0);
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

static void test_lto(const char *cc)
{
	struct builds b;
	struct build_plan *p;
	struct build_record *r;
	struct build_verdict v;
	char build[256];
	bool swapped = false;

	if (!builds_need(cc, "link-time optimisation"))
		return;
	(void)snprintf(build, sizeof(build),
		       "%s -O2 -c part.c && ar rc libp.a part.o && ranlib libp.a && %s -O2 -c "
		       "main.c && %s -o prog main.o libp.a",
		       cc, cc, cc);
	builds_start(&b, build);
	project_sources(b.dir);
	builds_base(&b);
	p = builds_plan(&b, BUILD_ACT_LTO, NULL);
	r = builds_change(&b, p, &v);
	if (!v.applied)
		(void)fprintf(stderr, "%s\n%s\n", v.reason, r->tail);
	CHECK(v.applied);
	for (size_t i = 0; i < r->n_steps; i++)
		swapped |= r->steps[i].kind == BUILD_ARCHIVE && r->steps[i].swapped;
	CHECK(swapped);
	/* part() is inlined across files, out of the archive */
	CHECK_INT(project_sh(b.dir, "./prog >/dev/null && ! nm prog | grep -q ' [tT] part$'"), 0);
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

static void test_mixed(void)
{
	struct builds b;
	struct build_plan *p = NULL;
	struct build_action a[] = {
		{ .kind = BUILD_ACT_LTO },
		{ .kind = BUILD_ACT_FLAG, .value = "-funroll-loops", .family = BUILD_FAM_GCC }
	};
	struct build_record *r;
	struct build_verdict v;
	struct err err;

	if (!builds_need("clang", "mixed compilers"))
		return;
	builds_start(&b, "clang -O2 -c part.c && gcc -O2 -c main.c && gcc -o prog main.o part.o");
	project_sources(b.dir);
	builds_base(&b);
	CHECK_INT(build_plan_make(b.k, b.base, a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "mixes");
	/* a flag for one of them goes to that one */
	CHECK_OK(build_plan_make(b.k, b.base, a + 1, 1, false, &p, &err), &err);
	r = builds_change(&b, p, &v);
	CHECK_INT(r->steps[0].n_added, 0);
	CHECK_INT(r->steps[1].n_added, 1);
	build_record_free(r);
	build_plan_free(p);
	builds_end(&b);
}

static void test_nvcc(void)
{
	struct builds b;
	struct build_plan *p = NULL;
	struct build_record *r;
	struct build_verdict v;
	struct build_action a = { .kind = BUILD_ACT_LTO };
	struct err err;

	if (!builds_need("nvcc", "nvcc"))
		return;
	builds_start(&b, "nvcc -O0 -o prog t.cu");
	project_write(b.dir, "t.cu",
		      "#include <cstdio>\nint main(int c, char **)\n{\n\tdouble s = 0;\n"
		      "\tfor (int i = 0; i < c * 100; i++)\n\t\ts += i * 0.5;\n"
		      "\tprintf(\"%f\\n\", s);\n\treturn 0;\n}\n");
	builds_base(&b);
	CHECK_INT(b.base->n_steps, 1); /* not its host compiler */
	p = builds_plan(&b, BUILD_ACT_OPT_LEVEL, "3");
	CHECK(says(p, "-Xcompiler=-O3"));
	r = builds_change(&b, p, &v);
	CHECK(v.applied);
	build_record_free(r);
	build_plan_free(p);
	CHECK_INT(build_plan_make(b.k, b.base, &a, 1, false, &p, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "not for nvcc");
	builds_end(&b);
}

/* A stand-in that says what hipcc says: what is meant for the host must not reach device code. */
static void test_hip(void)
{
	struct builds b;
	struct build_plan *p;

	builds_start(&b, "./hipcc -O0 -c t.hip -o t.o && ./hipcc -o prog t.o");
	project_write(
		b.dir, "hipcc",
		"#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'HIP version: 6.2.0'; exit; fi\n"
		"case \" $* \" in *-###*) echo '\"-target-cpu\" \"znver4\"'; exit;; esac\n"
		"case \" $* \" in *' -E '*) echo '#define __AVX512VL__ 1'; "
		"echo '#define __AVX512BW__ 1'; exit;; esac\n"
		"while [ $# -gt 0 ]; do [ \"$1\" = -o ] && cp t.hip \"$2\"; shift; done\n");
	project_write(b.dir, "t.hip", "__global__ void f() {}\n");
	CHECK_INT(project_sh(b.dir, "chmod +x hipcc"), 0);
	builds_base(&b);
	CHECK_INT(b.base->n_steps, 2);
	CHECK_INT(b.base->steps[0].langs, BUILD_LANG_GPU);
	p = builds_plan(&b, BUILD_ACT_ARCH, "native");
	CHECK(says(p, "-Xarch_host -march=znver4 -Xarch_host -ffp-contract=off"));
	build_plan_free(p);
	builds_end(&b);
}

/* ---- layouts ---- */

static void address_of_part(const char *dir, const char *prog, char out[32])
{
	char *s;

	CHECK_INT(project_sh(dir, "nm '%s' | awk '$3 == \"part\" { print $1 }' > addr", prog), 0);
	s = project_read(dir, "addr");
	CHECK(*s);
	(void)snprintf(out, 32, "%.*s", (int)strcspn(s, "\n"), s);
	free(s);
}

static void test_layouts(const char *build)
{
	struct builds b;
	struct build_opts o;
	struct err err;
	char text[64], at[BUILD_N_NEUTRAL + 1][32], first[4200];
	unsigned made = 0;
	struct stat st;

	builds_start(&b, build);
	project_sources(b.dir);
	builds_base(&b);
	o = builds_opts(&b, NULL);
	address_of_part(b.dir, "prog", at[BUILD_N_NEUTRAL]);
	for (unsigned i = 0; i < BUILD_N_NEUTRAL; i++) {
		int r = build_neutral(b.k, &o, b.base, "prog", i, NULL, text, &err);

		if (r < 0) { /* one object: no order; 8 bytes: rounded up to the next function */
			CHECK(r == ERR_NOT_FOUND || r == ERR_REFUSED);
			continue;
		}
		address_of_part(b.dir, "prog", at[made++]);
		CHECK_INT(project_sh(b.dir, "./prog | grep -qx 'sum: 21400.000'"), 0);
		if (i < 3)
			CHECK_HAS(text, "bytes of padding");
	}
	CHECK(made >= 4);
	CHECK(strcmp(at[0], at[BUILD_N_NEUTRAL]) != 0);
	CHECK(strcmp(at[0], at[1]) != 0);
	CHECK(strcmp(at[1], at[2]) != 0);
	/* elsewhere, the program itself untouched */
	(void)snprintf(first, sizeof(first), "%s/other", b.dir);
	CHECK_OK(build_neutral(b.k, &o, b.base, "prog", 1, first, text, &err), &err);
	CHECK_INT(stat(first, &st), 0);
	CHECK(st.st_mode & S_IXUSR);
	CHECK_INT(build_neutral(b.k, &o, b.base, "nothing", 0, NULL, text, &err), ERR_NOT_FOUND);
	CHECK_INT(build_neutral(b.k, &o, b.base, "prog", 99, NULL, text, &err), ERR_NOT_FOUND);
	CHECK_INT(project_sh(b.dir, "rm -f main.o part.o main.c && cp prog kept"), 0);
	CHECK_INT(build_neutral(b.k, &o, b.base, "prog", 0, NULL, text, &err), ERR_REFUSED);
	CHECK_HAS(err.msg, "main.");
	CHECK_INT(project_sh(b.dir, "cmp prog kept && ls | grep -q rb-new"), 1);
	builds_no_trace(&b);
	builds_end(&b);
}

int main(void)
{
	if (!project_has_tool("gcc"))
		CHECK_SKIP("no gcc");
	test_ccache();
	test_static_launcher();
	test_static_shell();
	test_mpi();
	test_arch("gcc", "gcc -O1 -o prog main.c part.c");
	test_arch("clang", "clang -O1 -o prog main.c part.c");
	test_arch("gfortran", "gfortran -O1 -o prog t.f90");
	test_arch_base();
	test_openmp("gcc", "gcc -O1 -c o.c && gcc -o prog o.o");
	test_openmp("clang", "clang -O1 -o prog o.c");
	test_openmp("gfortran", "gfortran -c t.f90 && gfortran -o prog t.o");
	test_lto("gcc");
	test_lto("clang");
	test_mixed();
	test_nvcc();
	test_hip();
	test_layouts("gcc -O2 -c main.c part.c && gcc -o prog main.o part.o");
	test_layouts("gcc -O0 -Wl,--gc-sections -ffunction-sections -o prog main.c part.c");
	return 0;
}
