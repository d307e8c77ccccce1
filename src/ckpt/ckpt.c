#include "ckpt/ckpt.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "ckpt/ckpt_priv.h"
#include "ckpt/text.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define CKPT_LAST	"last-id"
#define CKPT_LABEL_MAX	200
#define CKPT_HEAD_BYTES 2048 /* the lines before the entries fit */

const char *ckpt_reason_text(enum ckpt_reason why)
{
	static const char *const texts[] = {
		[CKPT_WHY_NONE] = "covered",
		[CKPT_WHY_EXCLUDED] = "excluded",
		[CKPT_WHY_USER_GIT] = "the project's own git folder, which is never touched",
		[CKPT_WHY_SIZE] = "larger than the size limit",
		[CKPT_WHY_SPECIAL] = "a socket, fifo or device",
		[CKPT_WHY_MOUNT] = "another file system is mounted there",
		[CKPT_WHY_HARDLINK] = "has several names (hard links); kept as a file of its own",
		[CKPT_WHY_CHANGING] = "changed while it was read; kept as it was read last",
	};

	return texts[why];
}

/* The store's parts, made if absent. */
static int ckpt_open_dirs(struct ckpt *c, struct err *err)
{
	AUTO_FREE char *manifests = file_join(c->where, "manifests");
	AUTO_FREE char *packs = file_join(c->where, "packs");
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int r = file_mkdirs(manifests, 0700, err);

	if (r == ERR_OK)
		r = file_mkdirs(packs, 0700, err);
	if (r < 0)
		return r;
	c->dir = open(c->where, flags);
	c->manifests = open(manifests, flags);
	c->packs = open(packs, flags);
	c->lock = c->dir < 0
			  ? -1
			  : openat(c->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->dir < 0 || c->manifests < 0 || c->packs < 0 || c->lock < 0)
		return err_sys(err, errno, "open checkpoint store %s", c->where);
	return ERR_OK;
}

/* One program at a time.  File systems without locks leave that to the ledger's lease. */
static int ckpt_take_lock(struct ckpt *c, struct err *err)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(c->lock, F_OFD_SETLK, &fl) == 0 || (errno != EAGAIN && errno != EACCES))
		return ERR_OK;
	return err_set(err, ERR_BUSY,
		       "checkpoint store %s: another program works with this project; wait for it "
		       "or end it",
		       c->where);
}

/* Ours, the caller's, and the state folder where it lies in the project. */
static int ckpt_set_excludes(struct ckpt *c, const struct ckpt_opts *opts, struct err *err)
{
	static const char *const own[] = { CKPT_OWN_DIR, ".rocbudai-sessions.json" };
	const char *const *given = opts ? opts->exclude : NULL;
	AUTO_FREE char *state = realpath(c->where, NULL);
	size_t n = 0, n_given = 0, n_project = strlen(c->project);

	while (given && given[n_given])
		n_given++;
	c->exclude = xcalloc(n_given + 4, sizeof(*c->exclude));
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		c->exclude[n++] = xstrdup(own[i]);
	n_project = strcmp(c->project, "/") == 0 ? 0 : n_project;
	if (state && strncmp(state, c->project, n_project) == 0 && state[n_project] == '/')
		c->exclude[n++] = xstrdup(state + n_project + 1);
	for (size_t i = 0; i < n_given; i++) {
		if (!ckpt_path_valid(given[i]))
			return err_set(err, ERR_INVALID,
				       "'%.200s' to exclude: not a path below the project",
				       given[i]);
		c->exclude[n++] = xstrdup(given[i]);
	}
	return ERR_OK;
}

static int ckpt_read_last_id(struct ckpt *c, struct err *err)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE uint64_t *v = NULL;
	size_t n = 0;
	int r = ckpt_numbers(c, &v, &n, err);

	if (r < 0)
		return r;
	/* those that gc dropped are not given again */
	if (file_read(c->dir, CKPT_LAST, 64, &text, NULL, NULL) == ERR_OK)
		(void)num_u64(text, &c->last_id, NULL);
	if (n && v[n - 1] > c->last_id)
		c->last_id = v[n - 1];
	return ERR_OK;
}

static int ckpt_open_all(struct ckpt *c, const struct ckpt_opts *opts, struct err *err)
{
	AUTO_FREE char *packs = file_join(c->where, "packs");
	int r;

	c->root = open(c->project, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->root < 0)
		return err_sys(err, errno, "open folder %s", c->project);
	r = ckpt_open_dirs(c, err);
	if (r == ERR_OK)
		r = ckpt_take_lock(c, err);
	if (r == ERR_OK)
		r = ckpt_set_excludes(c, opts, err);
	if (r == ERR_OK)
		r = ckpt_store_open(c->packs, packs, &c->store, err);
	if (r == ERR_OK)
		r = ckpt_read_last_id(c, err);
	return r == ERR_OK ? ckpt_recover(c, err) : r;
}

int ckpt_open(const char *state_dir, const char *project_dir, const struct ckpt_opts *opts,
	      struct ckpt **out, struct err *err)
{
	char *project = realpath(project_dir, NULL);
	struct ckpt *c;
	int r;

	if (!project)
		return err_sys(err, errno, "open folder %s", project_dir);
	c = xcalloc(1, sizeof(*c));
	c->project = project;
	c->where = file_join(state_dir, "ckpt");
	c->file_bytes_max =
		opts && opts->file_bytes_max ? opts->file_bytes_max : CKPT_FILE_BYTES_DEFAULT;
	c->total_bytes_max = opts ? opts->total_bytes_max : 0;
	c->on_note = opts ? opts->on_note : NULL;
	c->arg = opts ? opts->arg : NULL;
	c->root = c->dir = c->manifests = c->packs = c->lock = -1;
	c->buf = xcalloc(1, CKPT_BUF_BYTES);
	r = ckpt_open_all(c, opts, err);
	if (r < 0)
		ckpt_close(c);
	else
		*out = c;
	return r;
}

void ckpt_close(struct ckpt *c)
{
	if (!c)
		return;
	ckpt_store_close(c->store);
	ckpt_tree_free(c->index);
	for (size_t i = 0; c->exclude && c->exclude[i]; i++)
		free(c->exclude[i]);
	free(c->exclude);
	const int fds[] = { c->root, c->manifests, c->packs, c->dir, c->lock };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		if (fds[i] >= 0)
			(void)close(fds[i]);
	}
	free(c->recovered);
	free(c->project);
	free(c->where);
	free(c->buf);
	free(c);
}

const char *ckpt_recovered(const struct ckpt *c)
{
	return c->recovered;
}

static int ckpt_not_switching(const struct ckpt *c, struct err *err)
{
	return c->switching ? err_set(err, ERR_BUSY, "a switch between checkpoints is open")
			    : ERR_OK;
}

int ckpt_plan(struct ckpt *c, ckpt_note_cb note, void *arg, struct ckpt_summary *sum,
	      struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	struct ckpt_summary s;
	int r = ckpt_walk(c, note, arg, &t, err);

	if (r < 0)
		return r;
	ckpt_tree_sum(t, &s);
	if (sum)
		*sum = s;
	if (c->total_bytes_max && s.total_bytes > c->total_bytes_max)
		return err_set(
			err, ERR_LIMIT,
			"%s: its files hold %llu bytes, more than the limit of %llu; exclude "
			"large folders or raise the limit",
			c->project, (unsigned long long)s.total_bytes,
			(unsigned long long)c->total_bytes_max);
	return ERR_OK;
}

void ckpt_format_id(uint64_t number, char id[CKPT_ID_CAP])
{
	(void)snprintf(id, CKPT_ID_CAP, "C%04llu", (unsigned long long)number);
}

static int ckpt_cmp_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int ckpt_numbers(struct ckpt *c, uint64_t **out, size_t *n_out, struct err *err)
{
	int fd = openat(c->manifests, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t *v = NULL;
	size_t n = 0;

	if (!d) {
		int e = errno;

		if (fd >= 0)
			(void)close(fd);
		return err_sys(err, e, "read folder %s/manifests", c->where);
	}
	for (struct dirent *e; (e = readdir(d));) {
		uint64_t number;

		if (ckpt_id_number(e->d_name, &number) < 0)
			continue; /* ".", "..", and what a killed program left */
		v = xrealloc_n(v, n + 1, sizeof(*v));
		v[n++] = number;
	}
	(void)closedir(d);
	if (n)
		qsort(v, n, sizeof(*v), ckpt_cmp_u64);
	*out = v;
	*n_out = n;
	return ERR_OK;
}

int ckpt_save(struct ckpt *c, const struct ckpt_tree *t, char id[CKPT_ID_CAP], struct err *err)
{
	char name[CKPT_ID_CAP];
	AUTO_STR struct str text;
	int r;

	if (c->last_id >= 999999999)
		return err_set(err, ERR_LIMIT, "%s: no number is left for a checkpoint", c->where);
	ckpt_format_id(c->last_id + 1, name);
	str_init(&text, CKPT_TEXT_BYTES_MAX);
	ckpt_manifest_write(t, &text);
	r = str_check(&text, "checkpoint", err);
	if (r == ERR_OK)
		r = file_write_atomic(c->manifests, name, text.s, text.len, 0600, err);
	if (r < 0)
		return err_wrap(err, r, "save checkpoint in %s", c->where);
	c->last_id++;
	memcpy(id, name, sizeof(name));
	return ERR_OK;
}

int ckpt_create(struct ckpt *c, const char *label, char id[CKPT_ID_CAP], struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	int r = ckpt_not_switching(c, err);

	if (r < 0)
		return r;
	if (label && strlen(label) > CKPT_LABEL_MAX)
		return err_set(err, ERR_INVALID, "checkpoint label '%.60s...': more than %d bytes",
			       label, CKPT_LABEL_MAX);
	r = ckpt_store_begin(c->store, err);
	if (r == ERR_OK)
		r = ckpt_scan(c, true, &t, err);
	if (r == ERR_OK)
		r = ckpt_store_commit(c->store, err);
	if (r < 0 || !t) {
		ckpt_store_abort(c->store);
		return r;
	}
	t->label = ckpt_tree_strdup(t, label ? label : "");
	t->created_s = (int64_t)time(NULL);
	return ckpt_save(c, t, id, err);
}

int ckpt_load(struct ckpt *c, const char *id, struct ckpt_tree **out, struct err *err)
{
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *what = NULL;
	uint64_t number;
	size_t len;
	struct err e = { 0 };
	int r;

	if (strcmp(id, CKPT_LIVE) == 0)
		return ckpt_scan(c, false, out, err);
	if (ckpt_id_number(id, &number) < 0)
		return err_set(err, ERR_NOT_FOUND, "'%.40s': no such checkpoint", id);
	r = file_read(c->manifests, id, CKPT_TEXT_BYTES_MAX, &text, &len, &e);
	if (r == ERR_SYS && e.sys_errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "'%s': no such checkpoint in %s", id, c->where);
	if (r < 0) {
		if (err)
			*err = e;
		return err_wrap(err, r, "checkpoint %s in %s", id, c->where);
	}
	what = xasprintf("%s/manifests/%s", c->where, id);
	r = ckpt_text_check(text, len, what, err);
	return r == ERR_OK ? ckpt_manifest_parse(text, len, what, out, err) : r;
}

int ckpt_load_whole(struct ckpt *c, const char *id, struct ckpt_tree **out, struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	int r = strcmp(id, CKPT_LIVE) == 0
			? err_set(err, ERR_NOT_FOUND, "'%s': no such checkpoint", id)
			: ckpt_load(c, id, &t, err);

	if (r < 0 || !t)
		return r;
	if (t->partial)
		return err_set(err, ERR_REFUSED,
			       "checkpoint %s holds only what a restoration replaced; read its "
			       "files one by one",
			       id);
	*out = TAKE_PTR(t);
	return ERR_OK;
}

static int ckpt_read_head(struct ckpt *c, const char *id, struct ckpt_tree **out,
			  struct ckpt_summary *sum, struct err *err)
{
	AUTO_CLOSE int fd = openat(c->manifests, id, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char buf[CKPT_HEAD_BYTES];
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf));

	if (n < 0)
		return err_sys(err, errno, "read %s/manifests/%s", c->where, id);
	return ckpt_manifest_parse_head(buf, (size_t)n, id, out, sum, err);
}

int ckpt_list(struct ckpt *c, ckpt_info_cb cb, void *arg, struct err *err)
{
	AUTO_FREE uint64_t *v = NULL;
	size_t n = 0;
	int r = ckpt_numbers(c, &v, &n, err);

	for (size_t i = 0; r == ERR_OK && i < n; i++) {
		AUTO_TREE struct ckpt_tree *t = NULL;
		struct ckpt_info info = { 0 };
		char id[CKPT_ID_CAP];

		ckpt_format_id(v[i], id);
		r = ckpt_read_head(c, id, &t, &info.sum, err);
		if (r < 0 || !t)
			break;
		info.id = id;
		info.label = t->label;
		info.created_s = t->created_s;
		info.partial = t->partial;
		r = cb(arg, &info);
	}
	return r;
}

int ckpt_each(struct ckpt *c, const char *id, ckpt_entry_cb cb, void *arg, struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	char hex[HASH_HEX_LEN + 1];
	int r = strcmp(id, CKPT_LIVE) == 0 ? ckpt_not_switching(c, err) : ERR_OK;

	if (r == ERR_OK)
		r = ckpt_load(c, id, &t, err);
	for (size_t i = 0; r == ERR_OK && t && i < t->len; i++) {
		struct ckpt_entry e;

		ckpt_node_to_entry(&t->v[i], hex, &e);
		r = cb(arg, &e);
	}
	return r;
}

struct ckpt_read_arg {
	char *buf;
	size_t n;
};

static int ckpt_read_cb(void *arg, const void *data, size_t n, struct err *err)
{
	struct ckpt_read_arg *a = arg;

	(void)err;
	memcpy(a->buf + a->n, data, n); /* the store hands out no more than the size asked for */
	a->n += n;
	return ERR_OK;
}

int ckpt_read(struct ckpt *c, const char *id, const char *path, size_t max, char **out, size_t *len,
	      struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = NULL;
	struct ckpt_read_arg a = { 0 };
	const struct ckpt_node *n;
	int r = strcmp(id, CKPT_LIVE) == 0 ? ERR_NOT_FOUND : ckpt_load(c, id, &t, err);

	if (r == ERR_NOT_FOUND && !t)
		return err_set(err, r, "'%.40s': no such checkpoint", id);
	if (r < 0)
		return r;
	n = ckpt_tree_find(t, path);
	if (!n || n->type != CKPT_FILE)
		return err_set(err, ERR_NOT_FOUND, "%.200s: no file of checkpoint %s", path, id);
	if (n->size > max)
		return err_set(err, ERR_LIMIT, "%.200s: %llu bytes, more than the limit of %zu",
			       path, (unsigned long long)n->size, max);
	a.buf = malloc(n->size + 1);
	if (!a.buf)
		return err_set(err, ERR_NOMEM, "%.200s: no memory for %llu bytes", path,
			       (unsigned long long)n->size);
	r = ckpt_store_get(c->store, n->sha, n->size, ckpt_read_cb, &a, err);
	if (r < 0) {
		free(a.buf);
		return err_wrap(err, r, "%.150s of checkpoint %s", path, id);
	}
	a.buf[a.n] = '\0';
	*out = a.buf;
	if (len)
		*len = a.n;
	return ERR_OK;
}
