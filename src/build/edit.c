/* Text files changed line by line, and their unified diff. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/deliver_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define MAX_FILE ((size_t)4 << 20)
#define CONTEXT	 3U

static void split_lines(struct edit_file *f)
{
	size_t n = 1, cap = 64;

	f->lines = xcalloc(cap, sizeof(*f->lines));
	f->lines[0].text = xstrdup("");
	for (const char *p = f->old; *p;) {
		size_t l = strcspn(p, "\n");

		if (n == cap) {
			cap *= 2;
			f->lines = xrealloc_n(f->lines, cap, sizeof(*f->lines));
		}
		f->lines[n++] = (struct edit_line){ .text = xstrndup(p, l) };
		f->last_newline = p[l] == '\n';
		p += l + (p[l] == '\n');
	}
	f->n_lines = n - 1;
}

struct edit_file *edit_open(struct edit_set *s, const char *dir, const char *full)
{
	AUTO_FREE char *text = NULL;
	char real[PATH_MAX];
	struct edit_file *f;
	struct stat st;
	size_t len;

	if (!realpath(full, real) || !build_path_below(dir, real))
		return NULL;
	for (size_t i = 0; i < s->n_files; i++) {
		if (strcmp(s->files[i].full, real) == 0)
			return &s->files[i];
	}
	if (stat(real, &st) < 0 || !S_ISREG(st.st_mode) ||
	    file_read(AT_FDCWD, real, MAX_FILE, &text, &len, NULL) < 0 || memchr(text, 0, len))
		return NULL;
	s->files = xrealloc_n(s->files, s->n_files + 1, sizeof(*s->files));
	f = &s->files[s->n_files++];
	*f = (struct edit_file){ .path = build_path_show(dir, real),
				 .full = xstrdup(real),
				 .old = TAKE_PTR(text),
				 .old_len = len,
				 .mtime = st.st_mtim,
				 .mode = st.st_mode & 07777,
				 .last_newline = true };
	split_lines(f);
	return f;
}

void edit_insert(struct edit_file *f, size_t i, const char *text)
{
	struct edit_line *l = &f->lines[i];
	/* a file of another system's keeps its line ends */
	bool cr = f->n_lines && *f->lines[1].text &&
		  f->lines[1].text[strlen(f->lines[1].text) - 1] == '\r';
	char *all = xasprintf("%s%s%s\n", l->after ? l->after : "", text, cr ? "\r" : "");

	free(l->after);
	l->after = all;
}

void edit_replace(struct edit_file *f, size_t i, char *take)
{
	free(f->lines[i].now);
	f->lines[i].now = take;
}

static bool line_changed(const struct edit_line *l)
{
	return l->now || l->after;
}

bool edit_changed(const struct edit_file *f)
{
	for (size_t i = 0; i <= f->n_lines; i++) {
		if (line_changed(&f->lines[i]))
			return true;
	}
	return false;
}

/* ---- the new text ---- */

static void new_text(const struct edit_file *f, struct str *out)
{
	if (f->lines[0].after)
		str_adds(out, f->lines[0].after);
	for (size_t i = 1; i <= f->n_lines; i++) {
		const struct edit_line *l = &f->lines[i];

		str_adds(out, l->now ? l->now : l->text);
		if (i < f->n_lines || f->last_newline || l->after)
			str_addc(out, '\n');
		if (l->after)
			str_adds(out, l->after);
	}
}

int edit_apply(const struct edit_set *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < s->n_files; i++) {
		const struct edit_file *f = &s->files[i];
		AUTO_STR struct str text = { 0 };

		if (!edit_changed(f))
			continue;
		new_text(f, &text);
		r = str_check(&text, f->path, err);
		if (r == 0)
			r = file_write_atomic(AT_FDCWD, f->full, str_get(&text), text.len, f->mode,
					      err);
	}
	return r;
}

int edit_undo(const struct edit_set *s, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < s->n_files; i++) {
		const struct edit_file *f = &s->files[i];
		struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, f->mtime };

		if (!edit_changed(f))
			continue;
		if (file_write_atomic(AT_FDCWD, f->full, f->old, f->old_len, f->mode,
				      r == 0 ? err : NULL) < 0)
			r = ERR_SYS;
		else
			(void)utimensat(AT_FDCWD, f->full, times, 0);
	}
	return r;
}

void edit_done(struct edit_set *s)
{
	for (size_t i = 0; i < s->n_files; i++) {
		struct edit_file *f = &s->files[i];

		for (size_t l = 0; l <= f->n_lines; l++) {
			free(f->lines[l].text);
			free(f->lines[l].after);
			free(f->lines[l].now);
		}
		free(f->lines);
		free(f->path);
		free(f->full);
		free(f->old);
	}
	free(s->files);
	*s = (struct edit_set){ 0 };
}

/* ---- diff ---- */

static void diff_line(struct str *out, char sign, const char *text, bool newline)
{
	str_addc(out, sign);
	str_adds(out, text);
	str_adds(out, newline ? "\n" : "\n\\ No newline at end of file\n");
}

static void diff_after(struct str *out, const char *after)
{
	while (*after) {
		size_t n = strcspn(after, "\n") + 1;

		str_addc(out, '+');
		str_add(out, after, n);
		after += n;
	}
}

static size_t count_lines(const char *s)
{
	size_t n = 0;

	for (; s && (s = strchr(s, '\n')); s++)
		n++;
	return n;
}

/* Lines first..last of the old file (from 1), with what is put behind line 0 where first is 1.
 * Returns by how many lines the file grows. */
static size_t diff_hunk(const struct edit_file *f, size_t first, size_t last, size_t grown,
			struct str *out)
{
	AUTO_STR struct str body = { 0 };
	size_t added = 0, n_old = last >= first ? last - first + 1 : 0;

	if (first <= 1 && f->lines[0].after) {
		diff_after(&body, f->lines[0].after);
		added += count_lines(f->lines[0].after);
	}
	for (size_t i = first; i <= last; i++) {
		const struct edit_line *l = &f->lines[i];
		bool bare = i == f->n_lines && !f->last_newline;

		if (!l->now && !(bare && l->after)) {
			diff_line(&body, ' ', l->text, !bare);
		} else {
			diff_line(&body, '-', l->text, !bare);
			diff_line(&body, '+', l->now ? l->now : l->text, !bare || l->after);
		}
		if (l->after) {
			diff_after(&body, l->after);
			added += count_lines(l->after);
		}
	}
	str_addf(out, "@@ -%zu,%zu +%zu,%zu @@\n", n_old ? first : 0, n_old, first + grown,
		 n_old + added);
	str_add(out, str_get(&body), body.len);
	return added;
}

static void diff_file(const struct edit_file *f, struct str *out)
{
	size_t grown = 0, i = 0;

	const char *end = strchr(f->path, ' ') ? "\t" : ""; /* for patch(1): the name ends there */

	str_addf(out, "--- a/%s%s\n+++ b/%s%s\n", f->path, end, f->path, end);
	while (i <= f->n_lines) {
		size_t first, last;

		if (!line_changed(&f->lines[i])) {
			i++;
			continue;
		}
		first = i > CONTEXT ? i - CONTEXT + (f->lines[i].now ? 0 : 1) : 1;
		last = i + CONTEXT;
		for (size_t j = i + 1; j <= f->n_lines && j <= last + CONTEXT; j++) {
			if (line_changed(&f->lines[j]))
				last = j + CONTEXT;
		}
		last = last < f->n_lines ? last : f->n_lines;
		grown += diff_hunk(f, first, last, grown, out);
		i = last + 1;
	}
}

void edit_diff(const struct edit_set *s, struct str *out)
{
	for (size_t i = 0; i < s->n_files; i++) {
		if (edit_changed(&s->files[i]))
			diff_file(&s->files[i], out);
	}
}
