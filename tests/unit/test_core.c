#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "core/str.h"

static void test_str(void)
{
	struct str s = { .max = 8 };
	struct err err = { 0 };

	CHECK_STR(str_get(&s), "");
	str_adds(&s, "1234");
	str_addf(&s, "%d", 5678);
	CHECK_OK(str_check(&s, "s", &err), &err);
	CHECK_STR(str_get(&s), "12345678");
	str_addc(&s, '9');
	CHECK_INT(str_check(&s, "s", &err), ERR_LIMIT);
	CHECK_STR(str_get(&s), "12345678");
	CHECK(!str_take(&s));
	s = (struct str){ 0 };
	str_add_shquote(&s, "a b'c");
	str_addc(&s, ' ');
	str_add_shquote(&s, "plain-1.0/x");
	str_add_shquote(&s, "");
	CHECK_STR(str_get(&s), "'a b'\\''c' plain-1.0/x''");
	str_done(&s);
}

static void test_num(void)
{
	static const struct {
		const char *text;
		int want;
		uint64_t ns;
	} durations[] = {
		{ "90", 0, UINT64_C(90000000000) },
		{ "90s", 0, UINT64_C(90000000000) },
		{ "1.5m", 0, UINT64_C(90000000000) },
		{ "250ms", 0, 250000000 },
		{ "1h", 0, UINT64_C(3600000000000) },
		{ "", ERR_PARSE, 0 },
		{ "-1s", ERR_PARSE, 0 },
		{ "1 s", ERR_PARSE, 0 },
		{ "1e99h", ERR_PARSE, 0 },
		{ "nan", ERR_PARSE, 0 },
	};
	uint64_t u = 7;
	int64_t i = 7;
	double d = 7;

	for (size_t k = 0; k < sizeof(durations) / sizeof(durations[0]); k++) {
		uint64_t ns = 1;

		CHECK_INT(num_duration_ns(durations[k].text, &ns, NULL), durations[k].want);
		CHECK_INT(ns, durations[k].want ? 1 : durations[k].ns);
	}
	CHECK_INT(num_u64("18446744073709551616", &u, NULL), ERR_PARSE);
	CHECK_INT(num_u64("-1", &u, NULL), ERR_PARSE);
	CHECK_INT(num_u64("1x", &u, NULL), ERR_PARSE);
	CHECK_INT(u, 7);
	CHECK_INT(num_u64("42", &u, NULL), 0);
	CHECK_INT(u, 42);
	CHECK_INT(num_i64("-42", &i, NULL), 0);
	CHECK_INT(i, -42);
	CHECK_INT(num_double("inf", &d, NULL), ERR_PARSE);
	CHECK_INT(num_double("1e999", &d, NULL), ERR_PARSE);
	CHECK_INT(num_double("2.5e3", &d, NULL), 0);
	CHECK(d == 2500);
}

static void test_err(void)
{
	struct err err = { 0 };

	CHECK_INT(err_sys(&err, 2, "open %s", "x"), ERR_SYS);
	CHECK_INT(err_wrap(&err, ERR_SYS, "load %d", 1), ERR_SYS);
	CHECK_STR(err.msg, "load 1: open x: No such file or directory");
	CHECK_INT(err.sys_errno, 2);
}

static void test_rootfs(void)
{
	static char large[9000];
	char dir[] = "/tmp/rb-core-XXXXXX", path[64], buf[32] = "untouched";
	struct err err = { 0 };
	uint64_t v = 9;
	AUTO_CLOSE int root = -1;
	int fd;

	CHECK(mkdtemp(dir));
	root = rootfs_open(dir, &err);
	CHECK_OK(root, &err);
	(void)snprintf(path, sizeof(path), "%s/n", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, "17\n", 3) == 3 && close(fd) == 0);
	CHECK_OK(rootfs_read_u64(root, "n", &v, &err), &err);
	CHECK_INT(v, 17);
	(void)snprintf(path, sizeof(path), "%s/esc", dir);
	CHECK(symlink("/etc/passwd", path) == 0);
	CHECK_INT(rootfs_read(root, "esc", buf, sizeof(buf), &err), ERR_SYS);
	CHECK_STR(buf, "untouched");
	CHECK_INT(rootfs_read(root, "none", buf, sizeof(buf), &err), ERR_SYS);
	CHECK_INT(err.sys_errno, 2);
	CHECK(unlink(path) == 0);
	/* longer than a page: nothing is lost, and no more than cap - 1 is read */
	(void)snprintf(path, sizeof(path), "%s/n", dir);
	memset(large, 'x', sizeof(large));
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, large, sizeof(large)) == sizeof(large) && close(fd) == 0);
	CHECK_INT(rootfs_read(root, "n", large, sizeof(large), &err), sizeof(large) - 1);
	CHECK_INT(rootfs_read(root, "n", buf, sizeof(buf), &err), sizeof(buf) - 1);
	CHECK(unlink(path) == 0 && rmdir(dir) == 0);
}

int main(void)
{
	test_str();
	test_num();
	test_err();
	test_rootfs();
	return 0;
}
