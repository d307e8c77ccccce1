/* Source lines of addresses in a file, by its program headers and addr2line.  Threads: the keeper's
 * thread. */
#ifndef PROFILE_LINES_H
#define PROFILE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct proc_keeper;
struct proc_spec;

#define LINES_ASK_MAX 512 /* addresses of one call */

struct lines_query {
	const char *path;	      /* program or library */
	const uint64_t *offsets;      /* n of them, in the file */
	size_t n;		      /* at most LINES_ASK_MAX */
	const char *addr2line;	      /* program; NULL: looked up */
	const struct proc_spec *base; /* envp, cwd, mounts and stop_fd are taken from it */
	uint64_t timeout_ns;
};
/* file is NULL where nothing is known. */
struct lines_answer {
	char *file;
	unsigned line;
};

/*
 * Fills answers[0 .. q->n); the caller frees each file.  ERR_NOT_FOUND: addr2line is not installed
 * or the file is gone; ERR_LIMIT: it took too long; ERR_PARSE: not an ELF file of 64 bits, or an
 * answer that is none; ERR_CANCELLED; ERR_SYS with sys_errno ECHILD: the keeper died.
 */
int lines_ask(struct proc_keeper *k, const struct lines_query *q, struct lines_answer *answers,
	      struct err *err);
/* "FILE:LINE", "FILE:LINE (discriminator 3)"; false for "??:0" and what is no answer. */
bool lines_parse(const char *text, size_t len, struct lines_answer *out);

#endif
