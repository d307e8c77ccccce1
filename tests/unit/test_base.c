#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/yaml.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"

static void test_hash(void)
{
	char hex[HASH_HEX_LEN + 1];

	/* FIPS 180-4's example */
	hash_mem_hex("abc", 3, hex);
	CHECK_STR(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void test_file(void)
{
	char dir[] = "/tmp/rb-base-XXXXXX";
	struct err err = { 0 };
	AUTO_FREE char *text = NULL;
	size_t len = 0;
	int d;

	CHECK(mkdtemp(dir));
	d = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(file_write_atomic(d, "a b", "one", 3, 0600, &err), &err);
	CHECK_OK(file_write_atomic(d, "a b", "two!", 4, 0600, &err), &err);
	CHECK_OK(file_read(d, "a b", 4, &text, &len, &err), &err);
	CHECK_STR(text, "two!");
	CHECK_INT(file_read(d, "a b", 3, &text, &len, &err), ERR_LIMIT);
	CHECK_INT(file_read(d, "none", 3, &text, &len, &err), ERR_SYS);
	CHECK_INT(file_read(AT_FDCWD, "/dev/zero", 3, &text, &len, &err), ERR_INVALID);
	CHECK(close(d) == 0);
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
	CHECK(!file_exists(AT_FDCWD, dir));
}

static void test_json(void)
{
	AUTO_JSON struct json *j = NULL;
	AUTO_JSON struct json *s = json_new_strn("a\xffz", 3);
	AUTO_FREE char *text = NULL;
	struct err err = { 0 };

	CHECK_STR(json_str(s), "a\\xffz");
	CHECK_INT(json_parse("{\"a\":1,\"a\":2}", 13, "x", &j, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "x:1:");
	CHECK_INT(json_parse("{} {}", 5, "x", &j, &err), ERR_PARSE);
	CHECK_OK(json_parse("{\"b\":0.1,\"a\":[1]}", 17, "x", &j, &err), &err);
	text = json_dump_canonical(j);
	CHECK_STR(text, "{\"a\":[1],\"b\":0.1}");
}

static void test_yaml(void)
{
	static const char doc[] =
		"---\nid: x\naction:\n  compile: \"-O3\"\n  n: 3\nlist: [a, 7.2]\n---\nbody\n";
	struct json *v = NULL, *lines = NULL;
	const char *body = NULL;
	int body_line = 0;
	struct err err = { 0 };

	CHECK_OK(yaml_front_matter(doc, sizeof(doc) - 1, "p.md", &v, &lines, &body, &body_line,
				   &err),
		 &err);
	CHECK_STR(body, "body\n");
	CHECK_INT(body_line, 8);
	CHECK_STR(json_get_str(json_get(v, "action"), "compile", ""), "-O3");
	CHECK_INT(json_get_int(json_get(v, "action"), "n", 0), 3);
	CHECK_STR(json_str(json_at(json_get(v, "list"), 1)), "7.2");
	CHECK_INT(json_get_int(lines, "action.compile", 0), 4);
	json_unref(v);
	json_unref(lines);
	CHECK_INT(yaml_front_matter("---\na: 1\na: 2\n---\n", 18, "p.md", &v, NULL, &body,
				    &body_line, &err),
		  ERR_PARSE);
	CHECK_HAS(err.msg, "p.md:3");
	CHECK_INT(yaml_parse("a: &x 1\nb: *x\n", 14, "p", 1, &v, NULL, &err), ERR_PARSE);
	CHECK_INT(yaml_front_matter("---\na: 1\n", 9, "p.md", &v, NULL, &body, &body_line, &err),
		  ERR_PARSE);
}

static void test_clock(void)
{
	char buf[32];

	clock_human(850 * NS_PER_MS, buf);
	CHECK_STR(buf, "850 ms");
	clock_human(245 * NS_PER_SEC, buf);
	CHECK_STR(buf, "4m 05s");
	clock_iso(0, 123000000, buf);
	CHECK_STR(buf, "1970-01-01T00:00:00.123Z");
}

int main(void)
{
	test_hash();
	test_file();
	test_json();
	test_yaml();
	test_clock();
	return 0;
}
