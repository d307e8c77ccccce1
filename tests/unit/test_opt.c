#include <stdint.h>

#include "check.h"
#include "cmd/opt.h"
#include "core/err.h"

struct args {
	bool flag;
	const char *name;
	unsigned n;
	uint64_t budget;
	struct opt_list list;
};

static const struct opt opts[] = {
	{ OPT_FLAG, "flag", 'f', offsetof(struct args, flag), NULL, "a flag" },
	{ OPT_STR, "name", 0, offsetof(struct args, name), "NAME", "a name" },
	{ OPT_UINT, "reps", 'n', offsetof(struct args, n), "N", "a number" },
	{ OPT_DURATION, "budget", 0, offsetof(struct args, budget), "T", "a duration" },
	{ OPT_LIST, "tunable", 0, offsetof(struct args, list), "X", "a list" },
	{ .type = OPT_END },
};

static int parse(struct args *a, struct err *err, int argc, const char **argv)
{
	char *v[16];

	for (int i = 0; i < argc; i++)
		v[i] = (char *)(uintptr_t)argv[i];
	return opt_parse(opts, argc, v, a, err);
}

#define PARSE(...)                                                                                 \
	parse(&a, &err, (int)(sizeof((const char *[]){ "x", __VA_ARGS__ }) / sizeof(char *)),      \
	      (const char *[]){ "x", __VA_ARGS__ })

int main(void)
{
	struct args a = { 0 };
	struct err err = { 0 };

	CHECK_INT(PARSE("-f", "--name=n", "-n5", "--budget", "2m", "--tunable", "a", "--tunable=b",
			"op", "--flag"),
		  9);
	CHECK(a.flag && a.n == 5 && a.budget == UINT64_C(120000000000) && a.list.n == 2);
	CHECK_STR(a.name, "n");
	CHECK_STR(a.list.v[1], "b");
	opt_list_done(&a.list);
	CHECK_INT(PARSE("--", "--name"), 2);
	CHECK_INT(PARSE("--nam"), ERR_INVALID);
	CHECK_INT(PARSE("--reps"), ERR_INVALID);
	CHECK_HAS(err.msg, "--reps needs N");
	CHECK_INT(PARSE("--reps", "-1"), ERR_INVALID);
	CHECK_INT(PARSE("--flag=1"), ERR_INVALID);
	CHECK_INT(PARSE("-n", "99999999999"), ERR_INVALID);
	return 0;
}
