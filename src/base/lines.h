/*
 * Files of lines that only grow: reading them bounded, and appending so that a line counts only
 * once it is on the disk.  Threads: one at a time per object.
 */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

struct lines_reader {
	int fd; /* borrowed; read by offset, so its position does not matter */
	const char *what;
	char *buf;
	size_t cap, start, end; /* bytes buf[start..end) are read and not handed out */
	size_t line_max;
	uint64_t limit; /* bytes of the file that are looked at; all, unless set after lines_init()
			 */
	uint64_t off;	/* of buf[0] in the file */
	size_t no;
	bool eof, skipping;
};

struct lines_line {
	const char *text; /* borrowed until the next call; not NUL-terminated; may hold NULs */
	size_t len;	  /* without the newline */
	size_t no;	  /* from 1 */
	uint64_t off;	  /* of its first byte in the file */
	bool whole;	  /* a newline ends it (false where too_long) */
	bool too_long;	  /* over line_max: text holds only its beginning, the rest is skipped */
};

/* what names the file in errors (borrowed). */
void lines_init(struct lines_reader *r, int fd, size_t line_max, const char *what);
void lines_done(struct lines_reader *r);
/* 1: *out holds the next line; 0: no more; ERR_SYS, ERR_NOMEM. */
int lines_next(struct lines_reader *r, struct lines_line *out, struct err *err);

/*
 * Appends n bytes to a file of *size bytes with one write() (more only where the system takes less
 * at once) and fsync; fd was opened with O_APPEND.
 * On success *size grows.  On failure the file is cut back to *size (ERR_SYS, message names what);
 * *broken is set when that failed too, and then nothing may be appended before a new look at the
 * file.
 */
int lines_append(int fd, uint64_t *size, const void *data, size_t n, const char *what, bool *broken,
		 struct err *err);
/* Cuts the file to size and syncs it.  ERR_SYS. */
int lines_cut(int fd, uint64_t size, const char *what, struct err *err);

#endif
