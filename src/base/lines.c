#include "base/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "core/err.h"

#define LINES_CHUNK ((size_t)64 << 10)

void lines_init(struct lines_reader *r, int fd, size_t line_max, const char *what)
{
	*r = (struct lines_reader){
		.fd = fd, .line_max = line_max, .limit = UINT64_MAX, .what = what
	};
}

void lines_done(struct lines_reader *r)
{
	free(r->buf);
	r->buf = NULL;
}

/* Moves what is left to the front and reads more behind it. */
static int lines_fill(struct lines_reader *r, struct err *err)
{
	uint64_t at = r->off + r->end, left = at < r->limit ? r->limit - at : 0;
	size_t want;
	ssize_t n;

	if (r->start > 0) {
		memmove(r->buf, r->buf + r->start, r->end - r->start);
		r->off += r->start;
		r->end -= r->start;
		r->start = 0;
	}
	if (r->cap - r->end < LINES_CHUNK) {
		size_t cap = r->cap * 2 + LINES_CHUNK;
		char *p = realloc(r->buf, cap);

		if (!p)
			return err_set(err, ERR_NOMEM, "%s: no memory for a line of %zu bytes",
				       r->what, cap);
		r->buf = p;
		r->cap = cap;
	}
	want = r->cap - r->end;
	want = left < want ? (size_t)left : want;
	do
		n = want ? pread(r->fd, r->buf + r->end, want, (off_t)at) : 0;
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(err, errno, "read %s", r->what);
	r->end += (size_t)n;
	r->eof = n == 0;
	return ERR_OK;
}

/* Drops what is left of a line that was too long. */
static int lines_skip(struct lines_reader *r, struct err *err)
{
	while (r->skipping) {
		size_t n = r->end - r->start;
		char *nl = n ? memchr(r->buf + r->start, '\n', n) : NULL;
		int e;

		r->start += nl ? (size_t)(nl + 1 - (r->buf + r->start)) : n;
		r->skipping = !nl && !r->eof;
		if (r->skipping && (e = lines_fill(r, err)) < 0)
			return e;
	}
	return ERR_OK;
}

int lines_next(struct lines_reader *r, struct lines_line *out, struct err *err)
{
	size_t seen = 0;
	int e = lines_skip(r, err);

	if (e < 0)
		return e;
	for (;;) {
		size_t n = r->end - r->start;
		char *nl = n > seen ? memchr(r->buf + r->start + seen, '\n', n - seen) : NULL;

		if (nl)
			n = (size_t)(nl - (r->buf + r->start));
		if (nl || r->eof || n > r->line_max) {
			if (!nl && n == 0)
				return 0;
			*out = (struct lines_line){ .text = r->buf + r->start,
						    .len = n > r->line_max ? r->line_max : n,
						    .no = ++r->no,
						    .off = r->off + r->start,
						    .whole = nl && n <= r->line_max,
						    .too_long = n > r->line_max };
			r->start += n + (nl != NULL);
			r->skipping = out->too_long && !nl;
			return 1;
		}
		seen = n;
		if ((e = lines_fill(r, err)) < 0)
			return e;
	}
}

int lines_cut(int fd, uint64_t size, const char *what, struct err *err)
{
	if (ftruncate(fd, (off_t)size) < 0 || fsync(fd) < 0)
		return err_sys(err, errno, "cut %s back to %llu bytes", what,
			       (unsigned long long)size);
	return ERR_OK;
}

int lines_append(int fd, uint64_t *size, const void *data, size_t n, const char *what, bool *broken,
		 struct err *err)
{
	int e = file_write_all(fd, data, n, what, err);

	if (e == ERR_OK && fsync(fd) < 0)
		e = err_sys(err, errno, "fsync %s", what);
	if (e == ERR_OK)
		*size += n;
	else if (lines_cut(fd, *size, what, NULL) < 0)
		*broken = true;
	return e;
}
