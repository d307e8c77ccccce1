#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "flow/flow_discover.h"
#include "flow/flow_priv.h"
#include "flow/flow_tunable.h"

static void test_tunables(void)
{
	static const char *const bad[] = { "X", "=1", "X=", "X=1,,2", "1X=2", "X-Y=1", "X=1,", "" };
	struct flow_tunables t = { 0 };
	struct err err = { 0 };

	CHECK_OK(flow_tunable_add(&t, "TILE=16,32,64", &err), &err);
	CHECK_OK(flow_tunable_add(&t, "M=a b", &err), &err);
	CHECK_INT(flow_tunable_add(&t, "M=c", &err), ERR_INVALID);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_INT(flow_tunable_add(&t, bad[i], &err), ERR_INVALID);
	CHECK_INT(t.n, 2);
	CHECK_INT(flow_tunable_find(&t, "TILE")->n_values, 3);
	CHECK_STR(flow_tunable_find(&t, "TILE")->values[2], "64");
	CHECK(!flow_tunable_find(&t, "TIL"));
	flow_tunables_done(&t);
}

static void test_expand(void)
{
	AUTO_JSON struct json *v = json_new_obj();
	bool used[2] = { true, true };
	char *s;

	json_set_str(v, "TILE", "32");
	json_set_str(v, "M", "a b'c");
	s = flow_expand("./x -t {TILE} {M} {NOT} ${TILE} {}", v, used);
	CHECK_STR(s, "./x -t 32 'a b'\\''c' {NOT} $32 {}");
	CHECK(used[0] && used[1]);
	free(s);
	s = flow_expand("./x {TILE", v, used);
	CHECK_STR(s, "./x {TILE");
	CHECK(!used[0] && !used[1]);
	free(s);
	s = flow_expand("", v, NULL);
	CHECK_STR(s, "");
	free(s);
}

static void put(const char *dir, const char *name, const char *text)
{
	AUTO_FREE char *path = file_join(dir, name);
	struct err err = { 0 };

	CHECK_OK(file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, &err), &err);
}

static void test_discover(void)
{
	char dir[] = "/tmp/rb disc-XXXXXX";
	struct flow_found f;
	struct err err = { 0 };

	CHECK(mkdtemp(dir));
	flow_discover(dir, &f);
	CHECK(!f.build && !f.run);
	CHECK_STR(f.type, "general");
	flow_found_done(&f);
	put(dir, "Makefile", "CC = gcc\nheat: heat.c\n\t$(CC) -O0 -o $@ heat.c -lm\n");
	put(dir, "heat.c", "#pragma omp parallel for\n");
	flow_discover(dir, &f);
	CHECK_STR(f.build, "make");
	CHECK_STR(f.run, "./heat");
	CHECK_STR(f.type, "C with OpenMP");
	CHECK_STR(f.name, strrchr(dir, '/') + 1);
	flow_found_done(&f);
	put(dir, "Makefile", "prog.o: a.c\n\tcc -c -o prog.o a.c\nall:\n\tcc -o bin/prog prog.o\n");
	flow_discover(dir, &f);
	CHECK_STR(f.run, "./bin/prog");
	flow_found_done(&f);
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
	flow_discover(dir, &f); /* a folder that is not there: nothing found, no crash */
	CHECK(!f.build && !f.run);
	flow_found_done(&f);
}

/* Whether a changed value asks for a build, by where the tunable stands. */
static void test_same_build(void)
{
	struct flow_config a = { 0 }, b = { 0 };

	flow_config_init(&a);
	json_set_str(a.tunables, "BLOCK", "32");
	flow_config_copy(&b, &a);
	CHECK(flow_config_same_build(&a, &b, "make", "./prog"));
	json_set_str(b.tunables, "BLOCK", "64");
	CHECK(!flow_config_same_build(&a, &b, "make B={BLOCK}", "./prog"));
	CHECK(!flow_config_same_command(&a, &b, "make B={BLOCK}"));
	CHECK(flow_config_same_build(&a, &b, "make", "./prog {BLOCK}"));
	/* in no command: exported to the build, which may read it */
	CHECK(!flow_config_same_build(&a, &b, "make", "./prog"));
	CHECK(flow_config_same_command(&a, &b, "make"));
	flow_config_done(&a);
	flow_config_done(&b);
}

int main(void)
{
	test_tunables();
	test_expand();
	test_same_build();
	test_discover();
	return 0;
}
