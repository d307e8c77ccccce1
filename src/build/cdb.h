/* compile_commands.json: the compiles of a build as other tools read them.  Threads: any. */
#ifndef BUILD_CDB_H
#define BUILD_CDB_H

#include <stddef.h>

struct build_record;
struct err;

struct build_cdb_entry {
	char *directory;
	char *file;
	char *output; /* NULL: not given */
	char **argv;
	size_t n_argv;
};
struct build_cdb {
	struct build_cdb_entry *entries;
	size_t n;
};

/* From text of at most 64 MiB and 100,000 entries; "command" strings are split as a shell would
 * split plain words.  what names it in errors.  ERR_PARSE, ERR_LIMIT. */
int build_cdb_parse(const char *text, size_t len, const char *what, struct build_cdb **out,
		    struct err *err);
void build_cdb_free(struct build_cdb *c); /* NULL is fine */
/* The record's compiles (no probes), added flags included.  Caller frees. */
char *build_cdb_text(const struct build_record *r);

#endif
