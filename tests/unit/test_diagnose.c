/* Plays as data, and candidates from facts. */
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "diagnose/diagnose.h"
#include "diagnose/diagnose_priv.h"
#include "profile/profile.h"

#define HEAD "---\nid: x\nrisk: low\ncheck: exact\nsource: us\n"

static const struct {
	const char *text, *want; /* part of the message; NULL: loads */
} files[] = {
	{ HEAD "applies: {}\naction:\n  build: [lto]\n---\nwhy\n", NULL },
	{ HEAD "applies: {}\naction:\n  build:\n    - flag: \"-DX\"\n---\nwhy\n", NULL },
	{ HEAD "applies: {}\naction:\n  env: {A: 1}\n---\nwhy\n", NULL },
	{ HEAD "applies: {}\naction:\n  tunable: declared\n---\nwhy\n", NULL },
	{ "id: x\n", "p:1: the first line must be ---" },
	{ HEAD "applies: {}\naction:\n  build: [lto]\n", "p:9: the closing --- is missing" },
	{ HEAD "applies: {}\naction:\n  build: [lto]\n---\n \n", "p:10: there is no text" },
	{ HEAD "aplies: {}\naction:\n  build: [lto]\n---\nwhy\n", "p:6: unknown key 'aplies'" },
	{ HEAD "applies:\n  nope: true\naction:\n  build: [lto]\n---\nwhy\n",
	  "p:7: unknown condition 'nope'" },
	{ HEAD "applies:\n  min_cpus: many\naction:\n  build: [lto]\n---\nwhy\n",
	  "p:7: condition min_cpus takes a whole number" },
	{ HEAD "applies:\n  no_lto: false\naction:\n  build: [lto]\n---\nwhy\n",
	  "p:7: condition no_lto takes true" },
	{ HEAD "applies:\n  thp: always\naction:\n  build: [lto]\n---\nwhy\n",
	  "p:7: condition thp takes a list" },
	{ HEAD "applies:\n  min_glibc: new\naction:\n  build: [lto]\n---\nwhy\n",
	  "p:7: condition min_glibc takes a version" },
	{ HEAD "applies: {}\naction:\n  build: [magic]\n---\nwhy\n",
	  "p:8: build action 1 ('magic')" },
	{ HEAD "applies: {}\naction:\n  build: [opt-level]\n---\nwhy\n", "p:8: build action 1" },
	{ HEAD "applies: {}\naction:\n  build:\n    - lto\n    - opt-level: 9\n---\nwhy\n",
	  "p:10: opt-level is 2 or 3, not '9'" },
	{ HEAD "applies: {}\naction:\n  build:\n    - lto\n    - flag: \"\"\n---\nwhy\n",
	  "p:10: flag needs a value" },
	{ HEAD "applies: {}\naction:\n  env:\n    OMP_PLACES: \"{0,1}\"\n---\nwhy\n", NULL },
	{ HEAD "applies: {}\naction:\n  env:\n    N: \"{corse}\"\n---\nwhy\n",
	  "p:8: the variable 'N': only {cpus} and {cores}" },
	{ HEAD "applies: {}\naction:\n  build: []\n---\nwhy\n", "p:8: action.build" },
	{ HEAD "applies: {}\naction:\n  env: {A-B: 1}\n---\nwhy\n",
	  "p:8: 'A-B' is no name of a variable" },
	{ HEAD "applies: {}\naction:\n  env: {}\n---\nwhy\n", "p:8: action.env" },
	{ HEAD "applies: {}\naction:\n  run: x\n---\nwhy\n", "p:7: 'action' must be" },
	{ HEAD "applies: []\naction:\n  build: [lto]\n---\nwhy\n", "p:6: 'applies' must be" },
	{ HEAD "applies: {}\norder: -1\naction:\n  build: [lto]\n---\nwhy\n", "p:7: order" },
	{ "---\nid: X Y\nrisk: low\ncheck: exact\nsource: us\napplies: {}\naction:\n  build: "
	  "[lto]\n---\nwhy\n",
	  "p:2: id 'X Y'" },
	{ "---\nid: x\nrisk: huge\ncheck: exact\nsource: us\napplies: {}\naction:\n  build: "
	  "[lto]\n---\nwhy\n",
	  "p:3: risk is 'huge'" },
	{ "---\nid: x\nrisk: low\ncheck: maybe\nsource: us\napplies: {}\naction:\n  build: "
	  "[lto]\n---\nwhy\n",
	  "p:4: check is 'maybe'" },
	{ "---\nid: x\nrisk: low\ncheck: exact\napplies: {}\naction:\n  build: [lto]\n---\nwhy\n",
	  "'source' is missing" },
};

static void test_files(void)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct diagnose_play p = { 0 };
		struct err err = { 0 };
		int r = diagnose_play_parse(files[i].text, strlen(files[i].text), "p", &p, &err);

		if (!files[i].want) {
			CHECK_OK(r, &err);
			CHECK_STR(p.id, "x");
			CHECK_STR(p.body, "why\n");
			diagnose_play_done(&p);
			continue;
		}
		CHECK(r < 0);
		CHECK_HAS(err.msg, files[i].want);
		CHECK(!p.id);
	}
}

static void put(const char *dir, const char *name, const char *text)
{
	AUTO_FREE char *path = file_join(dir, name);
	struct err err = { 0 };

	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, &err), &err);
}

static char *builtin_dir(void)
{
	const char *src = getenv("RB_SOURCE");

	CHECK(src);
	return file_join(src, "share/rocbudai/plays");
}

/* The built-in plays all load; a bad file and a taken id are told, the rest loads. */
static void test_folders(void)
{
	char dir[] = "/tmp/rb plays-XXXXXX";
	AUTO_FREE char *own = builtin_dir();
	struct diagnose_plays *p = NULL;
	struct err err = { 0 };

	CHECK(mkdtemp(dir));
	CHECK_OK(diagnose_plays_load(own, dir, &p, &err), &err);
	CHECK_INT(p->n, 9);
	CHECK_INT(p->n_errors, 0);
	CHECK_STR(p->v[0].id, "opt-level");
	diagnose_plays_free(p);
	put(dir, "bad.md", "---\nid: [\n---\nx\n");
	put(dir, "taken.md",
	    "---\nid: lto\nrisk: low\ncheck: exact\nsource: us\napplies: {}\naction:\n  build: [lto]\n"
	    "---\nwhy\n");
	put(dir, "good.md", files[0].text);
	put(dir, "ignored.txt", "x");
	CHECK_OK(diagnose_plays_load(own, dir, &p, &err), &err);
	CHECK_INT(p->n, 10);
	CHECK_INT(p->n_errors, 2);
	CHECK_HAS(p->errors[0], "bad.md:");
	CHECK_HAS(p->errors[1], "taken.md");
	CHECK_HAS(p->errors[1], "/lto.md");
	diagnose_plays_free(p);
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
	CHECK_INT(diagnose_plays_load(own, dir, &p, &err), ERR_SYS);
	CHECK_HAS(err.msg, dir);
}

static bool change_is_there(const struct diagnose_list *l, const char *change)
{
	for (size_t i = 0; i < l->n; i++) {
		if (strcmp(l->v[i].change, change) == 0)
			return true;
	}
	return false;
}

static const char *skipped(const struct diagnose_list *l, const char *id)
{
	for (size_t i = 0; i < l->n_skipped; i++) {
		if (strcmp(l->skipped[i].play_id, id) == 0)
			return l->skipped[i].reason;
	}
	return "";
}

static void test_candidates(void)
{
	const char *slow[] = { "gcc", "-c", "a.c" };
	static const char *const fast[] = { "gcc",   "-O0",	 "-O3", "-march=native",
					    "-flto", "-fopenmp", "-c",	"b.c" };
	static const char *const values[] = { "16", "32", "64" };
	static const char *const env[] = { "HOME=/", NULL };
	static const char *const env_set[] = { "OMP_NUM_THREADS=4", NULL };
	struct diagnose_tunable tun = { "TILE", values, 3 };
	struct diagnose_unit units[] = {
		{ .source = "a.c",
		  .family = "gcc",
		  .argv = slow,
		  .n_argv = 3,
		  .omp_pragmas = 2,
		  .omp_line = 7 },
		{ .source = "b.c",
		  .family = "gcc",
		  .argv = fast,
		  .n_argv = 8,
		  .omp_pragmas = 1,
		  .omp_line = 1 },
	};
	struct profile_func funcs[] = {
		{ .name = (char[]){ "other" },
		  .file = (char[]){ "/usr/src/libc/sin.c" },
		  .share_pct = 60 },
		{ .name = (char[]){ "hot" },
		  .file = (char[]){ "/home/u/a.c" },
		  .share_pct = 39.96 },
	};
	struct profile_result prof = { .ok = true, .funcs = funcs, .n_funcs = 2 };
	struct diagnose_facts f = { .build_id = "E0002",
				    .profile_id = "E0005",
				    .profile = &prof,
				    .units = units,
				    .n_units = 2,
				    .baseline_id = "E0004",
				    .peak_bytes = (uint64_t)100 << 20,
				    .minor_faults = 30000,
				    .cpus = 4,
				    .cores = 2,
				    .thp = "madvise",
				    .glibc_major = 2,
				    .glibc_minor = 36,
				    .env = env,
				    .uses_openmp = true,
				    .tunables = &tun,
				    .n_tunables = 1 };
	AUTO_FREE char *own = builtin_dir();
	struct diagnose_plays *p = NULL;
	struct diagnose_list *l = NULL;
	struct err err = { 0 };

	CHECK_OK(diagnose_plays_load(own, NULL, &p, &err), &err);
	CHECK_OK(diagnose_candidates(&f, p, &l, &err), &err);
	CHECK_STR(l->v[0].change, "-O3");
	CHECK_HAS(
		l->v[0].hypothesis,
		"1 of 2 compiles have less than -O3 (the first: no -O) [E0002]; of these, hot takes "
		"40.0 % of the samples [E0005].");
	CHECK_STR(json_get_str(json_at(json_get(l->v[0].action, "build"), 0), "name", ""),
		  "opt-level");
	CHECK_STR(json_get_str(json_at(json_get(l->v[0].action, "build"), 0), "value", ""), "3");
	CHECK_STR(l->v[1].change, "-fopenmp");
	CHECK_HAS(l->v[1].hypothesis,
		  "2 OpenMP pragmas in 1 sources are ignored (the first: a.c:7)");
	CHECK(change_is_there(l, "OMP_NUM_THREADS=2 OMP_PROC_BIND=close OMP_PLACES=cores"));
	CHECK(change_is_there(l, "GLIBC_TUNABLES=glibc.malloc.hugetlb=1"));
	CHECK(change_is_there(l, "TILE=32") && change_is_there(l, "TILE=64"));
	CHECK(!change_is_there(l, "TILE=16"));
	CHECK_HAS(l->v[l->n - 1].hypothesis, "Seen: it started with TILE=16.");
	CHECK_HAS(skipped(l, "threads-spread"), "it is not known how many NUMA nodes");
	CHECK_HAS(skipped(l, "arch"), "b.c is compiled with -march= already");
	CHECK_HAS(skipped(l, "lto"), "b.c is compiled with -flto already");
	CHECK_HAS(skipped(l, "fast-math"), "--allow-fp");
	diagnose_list_free(l);

	/* the other way round */
	f.n_units = 1;
	f.units = &units[1];
	f.env = env_set;
	f.thp = "never";
	f.n_tunables = 0;
	f.allow_fp = true;
	CHECK_OK(diagnose_candidates(&f, p, &l, &err), &err);
	CHECK_INT(l->n, 1);
	CHECK_STR(l->v[0].change, "-ffast-math");
	CHECK_HAS(skipped(l, "opt-level"), "every compile has -O3 or more");
	CHECK_HAS(skipped(l, "openmp"), "no source has OpenMP pragmas");
	CHECK_HAS(skipped(l, "threads"), "OMP_NUM_THREADS is set by the user");
	CHECK_HAS(skipped(l, "huge-pages"), "never");
	CHECK_HAS(skipped(l, "tunables"), "no tunable was declared");
	CHECK_HAS(skipped(l, "lto"), "b.c is compiled with -flto already");
	diagnose_list_free(l);

	/* what is not known applies to nothing; two memory nodes ask for spread threads */
	f.env = NULL;
	f.units = units;
	slow[0] = "g++";
	slow[1] = "-Ofast";
	f.thp = "madvise";
	CHECK_OK(diagnose_candidates(&f, p, &l, &err), &err);
	CHECK_HAS(skipped(l, "threads"), "the environment of the run is not known");
	CHECK_HAS(skipped(l, "huge-pages"), "the environment of the run is not known");
	CHECK_HAS(skipped(l, "fast-math"), "a.c is compiled with -Ofast already");
	CHECK_HAS(skipped(l, "lto"), "1 compiles, fewer than 2");
	diagnose_list_free(l);
	f.env = env;
	f.numa_nodes = 2;
	CHECK_OK(diagnose_candidates(&f, p, &l, &err), &err);
	CHECK(change_is_there(l, "OMP_NUM_THREADS=2 OMP_PROC_BIND=spread OMP_PLACES=cores"));
	diagnose_list_free(l);
	f.n_units = DIAGNOSE_UNITS_MAX + 1;
	CHECK_INT(diagnose_candidates(&f, p, &l, &err), ERR_LIMIT);
	diagnose_plays_free(p);
}

static void test_omp(void)
{
	static const struct {
		const char *text;
		bool fortran;
		unsigned n, first;
	} cases[] = {
		{ "int x;\n #  pragma omp parallel for\n#pragma omp simd\n", false, 2, 2 },
		{ "/*\n#pragma omp parallel\n*/\n// #pragma omp\n", false, 0, 0 },
		{ "char *s = \"/*\";\n#pragma omp simd", false, 1, 2 },
		{ "#pragma ompx\n#pragma once\n", false, 0, 0 },
		{ "!$omp parallel do\nC$OMP END\n! omp\n", true, 2, 1 },
		{ "", false, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned n = 9, first = 9;

		diagnose_scan_omp_text(cases[i].text, strlen(cases[i].text), cases[i].fortran, &n,
				       &first);
		CHECK_INT(n, cases[i].n);
		CHECK_INT(first, cases[i].first);
	}
}

/* Headers beside a source count, also those that include each other; others are left alone. */
static void test_omp_files(void)
{
	char dir[] = "/tmp/rb-omp-XXXXXX";
	AUTO_FREE char *source = NULL;
	unsigned n = 9, first = 9;
	struct err err = { 0 };

	CHECK(mkdtemp(dir));
	put(dir, "a.c", "#include <omp.h>\n#include \"k.h\"\n # include \"nowhere.h\"\nint x;\n");
	put(dir, "k.h", "#include \"k2.h\"\n#pragma omp parallel for\n");
	put(dir, "k2.h", "#include \"k.h\"\n#pragma omp simd\n");
	source = file_join(dir, "a.c");
	CHECK_OK(diagnose_scan_omp(AT_FDCWD, source, &n, &first, &err), &err);
	CHECK_INT(n, 2);
	CHECK_INT(first, 0);
	put(dir, "a.c", "int x;\n#pragma omp simd\n#include \"k.h\"\n");
	CHECK_OK(diagnose_scan_omp(AT_FDCWD, source, &n, &first, &err), &err);
	CHECK_INT(n, 3);
	CHECK_INT(first, 2);
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
	n = 9;
	CHECK_INT(diagnose_scan_omp(AT_FDCWD, source, &n, &first, &err), ERR_SYS);
	CHECK_INT(n, 9);
}

static void test_same_source(void)
{
	static const struct {
		const char *compiled, *source;
		bool same;
	} cases[] = {
		{ "/home/u/p/src/a.c", "src/a.c", true },
		{ "/home/u/p/src/a.c", "./src/a.c", true },
		{ "/home/u/p/src/a.c", "../src/a.c", true },
		{ "/home/u/p/src/a.c", "/home/u/p/src/a.c", true },
		{ "/home/u/p/src/a.c", "lib/a.c", false },
		{ "/home/u/p/src/ba.c", "a.c", false },
		{ "a.c", "src/a.c", false },
		{ "/home/u/a.c", "", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK_INT(diagnose_same_source(cases[i].compiled, cases[i].source), cases[i].same);
}

static void test_node(void)
{
	static const int cpus[] = { 0, 1, 2, 3 };
	char dir[] = "/tmp/rb-node-XXXXXX", thp[16] = "x";
	AUTO_CLOSE int root = -1;
	unsigned cores = 9, nodes = 9;
	struct err err = { 0 };

	CHECK(mkdtemp(dir));
	root = rootfs_open(dir, &err);
	diagnose_scan_node(root, cpus, 4, &cores, &nodes, thp);
	CHECK(cores == 0 && nodes == 0 && thp[0] == '\0');
	for (int i = 0; i < 4; i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/sys/devices/system/cpu/cpu%d/topology", dir,
			       i);
		CHECK_OK(file_mkdirs(path, 0755, &err), &err);
		put(path, "thread_siblings_list", i % 2 ? "1,3\n" : "0,2\n");
		(void)snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%d", dir, i % 2);
		CHECK_OK(file_mkdirs(path, 0755, &err), &err);
		put(path, "cpulist", "0-1\n");
		(void)snprintf(path, sizeof(path), "%s/sys/kernel/mm/transparent_hugepage", dir);
		CHECK_OK(file_mkdirs(path, 0755, &err), &err);
		put(path, "enabled", "always [madvise] never\n");
	}
	diagnose_scan_node(root, cpus, 4, &cores, &nodes, thp);
	CHECK_INT(cores, 2);
	CHECK_INT(nodes, 2);
	CHECK_STR(thp, "madvise");
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
}

int main(void)
{
	CHECK(unsetenv("ROCBUDAI_PLAYS_DIR") == 0);
	test_files();
	test_folders();
	test_candidates();
	test_omp();
	test_omp_files();
	test_same_source();
	test_node();
	return 0;
}
