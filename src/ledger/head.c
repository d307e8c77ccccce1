#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "ledger/ledger_priv.h"

#define HEAD_FILE  "head"
#define HEAD_MAX   512
#define HEAD_TRIES 1000

/* "<n> <hash>\n" at *p, which moves behind it. */
static bool ledger_mark_line(char **p, uint64_t *n, char head[HASH_HEX_LEN + 1])
{
	char *nl = strchr(*p, '\n'), *sp;

	if (!nl)
		return false;
	*nl = '\0';
	if (!(sp = strchr(*p, ' ')))
		return false;
	*sp = '\0';
	if (num_u64(*p, n, NULL) < 0 || !ledger_is_hash(sp + 1))
		return false;
	memcpy(head, sp + 1, HASH_HEX_LEN + 1);
	*p = nl + 1;
	return true;
}

int ledger_mark_read(int state_fd, const char *what, struct ledger_mark *out, struct err *err)
{
	AUTO_FREE char *text = NULL;
	struct ledger_mark m = { 0 };
	struct err e = { 0 };
	int r = file_read(state_fd, HEAD_FILE, HEAD_MAX, &text, NULL, &e);
	char *p = text;

	if (r == ERR_SYS && e.sys_errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "%s/%s is missing", what, HEAD_FILE);
	if (r < 0) {
		if (err)
			*err = e;
		return err_wrap(err, r, "%s", what);
	}
	if (!ledger_mark_line(&p, &m.n, m.head))
		return err_set(err, ERR_PARSE, "%s/%s:1: not a count and a hash", what, HEAD_FILE);
	m.has_next = *p != '\0';
	if (m.has_next && (!ledger_mark_line(&p, &m.next_n, m.next_head) || m.next_n <= m.n || *p))
		return err_set(err, ERR_PARSE, "%s/%s:2: not a later count and its hash", what,
			       HEAD_FILE);
	*out = m;
	return ERR_OK;
}

int ledger_mark_write(int state_fd, const char *what, const struct ledger_mark *m, struct err *err)
{
	char text[HEAD_MAX];
	int n = snprintf(text, sizeof(text), "%llu %s\n", (unsigned long long)m->n, m->head);
	int r;

	if (m->has_next)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%llu %s\n",
			      (unsigned long long)m->next_n, m->next_head);
	r = file_write_atomic(state_fd, HEAD_FILE, text, (size_t)n, 0600, err);
	return r < 0 ? err_wrap(err, r, "%s", what) : ERR_OK;
}

static bool ledger_mark_same(const struct ledger_mark *a, const struct ledger_mark *b)
{
	return a->n == b->n && strcmp(a->head, b->head) == 0 && a->has_next == b->has_next &&
	       (!a->has_next ||
		(a->next_n == b->next_n && strcmp(a->next_head, b->next_head) == 0));
}

static int ledger_size(int fd, const char *what, uint64_t *out, struct err *err)
{
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) < 0)
		return err_sys(err, errno, "stat a file of %s", what);
	*out = fd >= 0 ? (uint64_t)st.st_size : 0;
	return ERR_OK;
}

int ledger_view_take(int state_fd, const char *what, int master_fd, int copy_fd,
		     struct ledger_view *out, struct err *err)
{
	struct ledger_view v = { .master = 0 };
	struct ledger_mark after = { .n = 0 };
	int r = ledger_mark_read(state_fd, what, &v.mark, err);

	/* the mark is written before the files: where it stayed, so did what it says of them */
	for (int i = 0; r == ERR_OK && i < HEAD_TRIES; i++) {
		if ((r = ledger_size(copy_fd, what, &v.copy, err)) < 0 ||
		    (r = ledger_size(master_fd, what, &v.master, err)) < 0 ||
		    (r = ledger_mark_read(state_fd, what, &after, err)) < 0)
			return r;
		if (ledger_mark_same(&v.mark, &after))
			break;
		v.mark = after;
	}
	if (r == ERR_OK)
		*out = v;
	return r;
}

int ledger_mark_check(const struct ledger_mark *m, uint64_t n, const char *head, const char *at_n,
		      struct err *err)
{
	if (n < m->n)
		return err_set(
			err, ERR_PARSE,
			"it has %llu records, but %llu were written: the last ones are missing",
			(unsigned long long)n, (unsigned long long)m->n);
	if (strcmp(at_n, m->head) != 0)
		return err_set(err, ERR_PARSE,
			       "record %llu is not the one that was written (its hash differs from "
			       "the head's)",
			       (unsigned long long)m->n);
	if (n > m->n && !m->has_next)
		return err_set(err, ERR_PARSE, "it has %llu records, but only %llu were written",
			       (unsigned long long)n, (unsigned long long)m->n);
	if (n > m->n && (n > m->next_n || (n == m->next_n && strcmp(head, m->next_head) != 0)))
		return err_set(err, ERR_PARSE,
			       "the records after number %llu are not those that were written",
			       (unsigned long long)m->n);
	return ERR_OK;
}
