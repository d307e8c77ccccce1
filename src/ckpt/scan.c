#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "ckpt/ckpt_priv.h"
#include "ckpt/text.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define SCAN_INDEX     "index"
#define SCAN_INDEX_TMP "index.tmp"
#define SCAN_CLOCK_TMP "clock.tmp"
#define SCAN_TRIES     3
/* A file changed twice within the clock's or file system's step of time looks unchanged; this is
 * the coarsest step that file systems in use have (FAT). */
#define SCAN_RACY_NS INT64_C(2000000000)

struct scan {
	struct ckpt *c;
	struct ckpt_dirs dirs;
	bool store;
	int64_t looked_ns; /* when the walk began */
	bool index_stale;  /* the index lacks or misstates something */
};

static int64_t scan_ns(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * (int64_t)NS_PER_SEC + ts->tv_nsec;
}

/*
 * Now, by our clock or the file server's, whichever is behind: a server that lags writes times that
 * look older than they are.
 */
static int64_t scan_now(const struct ckpt *c)
{
	AUTO_CLOSE int dir =
		openat(c->root, CKPT_OWN_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_CLOSE int fd = -1;
	struct timespec ts = { 0 };
	struct stat st;
	int64_t now;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	now = scan_ns(&ts);
	if (dir < 0)
		return now;
	(void)unlinkat(dir, SCAN_CLOCK_TMP, 0);
	fd = openat(dir, SCAN_CLOCK_TMP, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && fstat(fd, &st) == 0 && scan_ns(&st.st_ctim) < now)
		now = scan_ns(&st.st_ctim);
	(void)unlinkat(dir, SCAN_CLOCK_TMP, 0);
	return now;
}

static bool scan_same_times(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && scan_ns(&a->st_mtim) == scan_ns(&b->st_mtim) &&
	       scan_ns(&a->st_ctim) == scan_ns(&b->st_ctim);
}

/*
 * Reads all of fd into the store or the hash alone, node->size being what stat says: no read is
 * spent on finding the end of a file that has it where it should be.  1: it grew beyond the limit.
 */
static int scan_content(struct ckpt *c, int fd, bool store, struct ckpt_node *node, struct err *err)
{
	uint64_t total = 0;
	struct hash h;
	int r = ERR_OK;

	if (store)
		ckpt_store_put_begin(c->store);
	hash_init(&h);
	while (total == 0 || total != node->size) {
		ssize_t n = read(fd, c->buf, CKPT_BUF_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = err_sys(err, errno, "read file %s", node->path);
		if (n <= 0)
			break;
		total += (uint64_t)n;
		if (total > c->file_bytes_max)
			r = 1;
		else if (store)
			r = ckpt_store_put(c->store, c->buf, (size_t)n, err);
		else
			hash_add(&h, c->buf, (size_t)n);
		if (r != ERR_OK)
			break;
	}
	node->size = total;
	if (r != ERR_OK && store)
		ckpt_store_put_drop(c->store);
	else if (store)
		r = ckpt_store_put_end(c->store, node->sha, err);
	else
		hash_end(&h, node->sha);
	return r;
}

/* Reads the open file until it stays the same meanwhile. */
static int scan_stable(struct ckpt *c, int fd, bool store, struct ckpt_node *node, struct err *err)
{
	struct stat before, after;
	int r = ERR_OK;

	for (int i = 0; i < SCAN_TRIES; i++) {
		if ((i > 0 && lseek(fd, 0, SEEK_SET) < 0) || fstat(fd, &before) < 0)
			return err_sys(err, errno, "read file %s", node->path);
		if (!S_ISREG(before.st_mode))
			return 1;
		ckpt_node_from_stat(node, &before);
		r = scan_content(c, fd, store, node, err);
		if (r == 1) {
			node->type = CKPT_UNCOVERED;
			node->why = CKPT_WHY_SIZE;
			node->size = (uint64_t)before.st_size;
			return ERR_OK;
		}
		if (r < 0)
			return r;
		node->has_sha = true;
		if (fstat(fd, &after) == 0 && scan_same_times(&before, &after) &&
		    node->size == (uint64_t)before.st_size)
			return ERR_OK;
	}
	node->ctime_ns = INT64_MAX; /* never settled */
	if (store && c->on_note)
		c->on_note(c->arg, node->path, CKPT_WHY_CHANGING, node->size);
	return ERR_OK;
}

int ckpt_read_live(struct ckpt *c, struct ckpt_dirs *dirs, bool store, struct ckpt_node *node,
		   struct err *err)
{
	const char *name;
	struct err e = { 0 };
	int dir = ckpt_dirs_at(dirs, node->path, false, &name, &e);
	AUTO_CLOSE int fd = -1;

	if (dir >= 0)
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	else
		errno = e.sys_errno;
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 1; /* gone, or something else since the walk */
	if (fd < 0)
		return err_sys(err, errno, "read file %s (make it readable, or exclude it)",
			       node->path);
	return scan_stable(c, fd, store, node, err);
}

/* The index of the last look; anything wrong with it only costs reading again. */
static void scan_load_index(struct ckpt *c)
{
	AUTO_FREE char *text = NULL;
	size_t len;

	if (c->index)
		return;
	if (file_read(c->dir, SCAN_INDEX, CKPT_TEXT_BYTES_MAX, &text, &len, NULL) < 0 ||
	    ckpt_text_check(text, len, SCAN_INDEX, NULL) < 0 ||
	    ckpt_index_parse(text, len, SCAN_INDEX, &c->index, NULL) < 0)
		c->index = ckpt_tree_new();
}

/* Not synced: it is checked when read, and can be made again. */
static void scan_save_index(struct ckpt *c, const struct ckpt_tree *live)
{
	AUTO_CLOSE int fd = openat(c->dir, SCAN_INDEX_TMP,
				   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	AUTO_STR struct str text;

	ckpt_tree_free(c->index);
	c->index = NULL;
	str_init(&text, CKPT_TEXT_BYTES_MAX);
	ckpt_index_write(live, &text);
	if (fd < 0 || text.failed || file_write_all(fd, text.s, text.len, SCAN_INDEX, NULL) < 0 ||
	    renameat(c->dir, SCAN_INDEX_TMP, c->dir, SCAN_INDEX) < 0)
		(void)unlinkat(c->dir, SCAN_INDEX_TMP, 0);
}

static bool scan_unchanged(const struct ckpt_node *n, const struct ckpt_node *old)
{
	return n->size == old->size && n->mtime_ns == old->mtime_ns &&
	       n->ctime_ns == old->ctime_ns && n->ino == old->ino && n->dev == old->dev;
}

static int scan_file(struct scan *s, struct ckpt_node *n, const struct ckpt_node *old,
		     struct err *err)
{
	int r;

	if (old && scan_unchanged(n, old) && (!s->store || ckpt_store_has(s->c->store, old->sha))) {
		memcpy(n->sha, old->sha, sizeof(n->sha));
		n->has_sha = n->settled = true;
		return ERR_OK;
	}
	s->index_stale = true;
	r = ckpt_read_live(s->c, &s->dirs, s->store, n, err);
	if (r == 1) {
		n->path = NULL;
		return ERR_OK;
	}
	n->settled = n->ctime_ns <= s->looked_ns - SCAN_RACY_NS &&
		     (n->mtime_ns <= s->looked_ns - SCAN_RACY_NS ||
		      n->mtime_ns > s->looked_ns + SCAN_RACY_NS);
	return r;
}

static int scan_files(struct scan *s, struct ckpt_tree *t, struct err *err)
{
	const struct ckpt_tree *index = s->c->index;
	uint64_t total = 0;
	bool gone = false;
	size_t k = 0;

	for (size_t i = 0; i < t->len; i++) {
		struct ckpt_node *n = &t->v[i];
		const struct ckpt_node *old = NULL;
		int r;

		if (n->type != CKPT_FILE)
			continue;
		for (; k < index->len && ckpt_path_cmp(index->v[k].path, n->path) < 0; k++)
			s->index_stale = true;
		if (k < index->len && strcmp(index->v[k].path, n->path) == 0)
			old = &index->v[k++];
		r = scan_file(s, n, old, err);
		if (r < 0)
			return r;
		gone |= !n->path;
		total += n->type == CKPT_FILE ? n->size : 0;
		if (s->store && s->c->total_bytes_max && total > s->c->total_bytes_max)
			return err_set(err, ERR_LIMIT,
				       "the project's files hold more than the limit of %llu bytes "
				       "(reached at %s); exclude large folders or raise the limit",
				       (unsigned long long)s->c->total_bytes_max, n->path);
	}
	if (gone)
		ckpt_tree_compact(t);
	s->index_stale |= k < index->len;
	return ERR_OK;
}

int ckpt_scan(struct ckpt *c, bool store, struct ckpt_tree **out, struct err *err)
{
	struct scan s = { .c = c, .store = store };
	AUTO_TREE struct ckpt_tree *t = NULL;
	int r;

	scan_load_index(c);
	s.looked_ns = scan_now(c);
	r = ckpt_walk(c, store ? c->on_note : NULL, c->arg, &t, err);
	if (r < 0)
		return r;
	ckpt_dirs_init(&s.dirs, c->root);
	r = scan_files(&s, t, err);
	ckpt_dirs_done(&s.dirs);
	if (r < 0)
		return r;
	if (s.index_stale)
		scan_save_index(c, t);
	*out = TAKE_PTR(t);
	return ERR_OK;
}
