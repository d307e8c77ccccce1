/*
 * Reads JSON for the shell tests, strictly: `jsonq FILE` fails unless FILE holds one document,
 * `jsonq FILE a.b.0` prints what is there (texts bare, a list or object by its length), exit 1
 * where nothing is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"

#define JSONQ_MAX ((size_t)64 << 20)

static const struct json *jsonq_walk(const struct json *j, const char *path)
{
	while (*path && j) {
		size_t n = strcspn(path, ".");
		AUTO_FREE char *key = xstrndup(path, n);

		j = json_kind(j) == JSON_KIND_ARR ? json_at(j, strtoul(key, NULL, 10))
						  : json_get(j, key);
		path += n + (path[n] == '.');
	}
	return j;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	AUTO_FREE char *text = NULL, *dump = NULL;
	AUTO_JSON struct json *doc = NULL;
	const struct json *at;
	size_t len;

	if (argc < 2 || argc > 3)
		return 2;
	if (file_read(AT_FDCWD, argv[1], JSONQ_MAX, &text, &len, &err) < 0 ||
	    json_parse(text, len, argv[1], &doc, &err) < 0) {
		(void)fprintf(stderr, "jsonq: %s\n", err.msg);
		return 2;
	}
	if (argc == 2)
		return 0;
	if (!(at = jsonq_walk(doc, argv[2])))
		return 1;
	if (json_kind(at) == JSON_KIND_ARR || json_kind(at) == JSON_KIND_OBJ) {
		printf("%zu\n", json_len(at));
	} else if (json_str(at)) {
		printf("%s\n", json_str(at));
	} else {
		dump = json_dump(at);
		printf("%s\n", dump);
	}
	return 0;
}
