#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "ckpt/ckpt_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

struct walk {
	struct ckpt *c;
	struct ckpt_tree *t;
	ckpt_note_cb note;
	void *arg;
	uint64_t dev; /* of the project */
	int depth;
};

/* The full paths of what a folder holds. */
struct walk_names {
	char **v;
	size_t n, cap;
};

enum ckpt_reason ckpt_excluded(const struct ckpt *c, const char *path)
{
	if (ckpt_path_below(path, ".git"))
		return CKPT_WHY_USER_GIT;
	for (char *const *e = c->exclude; *e; e++) {
		if (ckpt_path_below(path, *e))
			return CKPT_WHY_EXCLUDED;
	}
	return CKPT_WHY_NONE;
}

static int walk_cmp_names(const void *a, const void *b)
{
	/* all share the folder's path, so bytes after it decide */
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int walk_read_names(struct walk *w, DIR *d, const char *dir, struct walk_names *names,
			   struct err *err)
{
	size_t n_dir = strlen(dir);

	errno = 0;
	for (struct dirent *e; (e = readdir(d)); errno = 0) {
		size_t n = strlen(e->d_name);
		char *p;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (n_dir + n + 1 > CKPT_PATH_BYTES_MAX)
			return err_set(err, ERR_LIMIT,
				       "%.200s...: path of more than %d bytes; exclude the folder",
				       dir, CKPT_PATH_BYTES_MAX);
		if (names->n + w->t->len >= CKPT_ENTRIES_MAX)
			return err_set(err, ERR_LIMIT,
				       "%.200s: more than %d files and folders below the project; "
				       "exclude folders that builds and runs do not change",
				       dir, CKPT_ENTRIES_MAX);
		p = ckpt_tree_alloc(w->t, n_dir + n + 2);
		(void)snprintf(p, n_dir + n + 2, "%s%s%s", dir, n_dir ? "/" : "", e->d_name);
		if (names->n == names->cap) {
			names->cap = names->cap ? names->cap * 2 : 64;
			names->v = xrealloc_n(names->v, names->cap, sizeof(*names->v));
		}
		names->v[names->n++] = p;
	}
	if (errno)
		return err_sys(err, errno, "read folder %s", *dir ? dir : w->c->project);
	if (names->n)
		qsort(names->v, names->n, sizeof(*names->v), walk_cmp_names);
	return ERR_OK;
}

static int64_t walk_ns(int64_t sec, uint32_t nsec)
{
	/* years before 1678 and after 2261 do not fit */
	if (sec > INT64_MAX / 1000000000 - 1)
		sec = INT64_MAX / 1000000000 - 1;
	if (sec < -(INT64_MAX / 1000000000 - 1))
		sec = -(INT64_MAX / 1000000000 - 1);
	return sec * 1000000000 + nsec;
}

void ckpt_node_from_stat(struct ckpt_node *n, const struct stat *st)
{
	n->mode = st->st_mode & 07777;
	n->uid = st->st_uid;
	n->gid = st->st_gid;
	n->mtime_ns = walk_ns(st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec);
	n->ctime_ns = walk_ns(st->st_ctim.tv_sec, (uint32_t)st->st_ctim.tv_nsec);
	n->size = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0;
	n->ino = st->st_ino;
	n->dev = st->st_dev;
	n->many_links = S_ISREG(st->st_mode) && st->st_nlink > 1;
}

static void walk_from_statx(struct ckpt_node *n, const struct statx *st)
{
	n->mode = st->stx_mode & 07777;
	n->uid = st->stx_uid;
	n->gid = st->stx_gid;
	n->mtime_ns = walk_ns(st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec);
	n->ctime_ns = walk_ns(st->stx_ctime.tv_sec, st->stx_ctime.tv_nsec);
	n->size = S_ISREG(st->stx_mode) ? st->stx_size : 0;
	n->ino = st->stx_ino;
	n->dev = makedev(st->stx_dev_major, st->stx_dev_minor);
	n->many_links = S_ISREG(st->stx_mode) && st->stx_nlink > 1;
}

static bool walk_is_mount(const struct walk *w, const struct statx *st)
{
#ifdef STATX_ATTR_MOUNT_ROOT
	if (st->stx_attributes & STATX_ATTR_MOUNT_ROOT)
		return true; /* a bind mount of the same file system too */
#endif
	/* files on overlay file systems have device numbers of their own; folders do not */
	return S_ISDIR(st->stx_mode) && makedev(st->stx_dev_major, st->stx_dev_minor) != w->dev;
}

static enum ckpt_reason walk_why(const struct walk *w, const char *path, const struct statx *st)
{
	enum ckpt_reason why = ckpt_excluded(w->c, path);

	if (why != CKPT_WHY_NONE)
		return why;
	if (walk_is_mount(w, st))
		return CKPT_WHY_MOUNT;
	if (S_ISREG(st->stx_mode) && st->stx_size > w->c->file_bytes_max)
		return CKPT_WHY_SIZE;
	if (!S_ISREG(st->stx_mode) && !S_ISDIR(st->stx_mode) && !S_ISLNK(st->stx_mode))
		return CKPT_WHY_SPECIAL;
	return CKPT_WHY_NONE;
}

static int walk_link(struct walk *w, int dir_fd, const char *name, struct ckpt_node *n,
		     struct err *err)
{
	char target[CKPT_PATH_BYTES_MAX + 98];
	ssize_t len = readlinkat(dir_fd, name, target, sizeof(target) - 1);

	if (len < 0)
		return errno == ENOENT || errno == EINVAL
			       ? 1
			       : err_sys(err, errno, "read link %s", n->path);
	target[len] = '\0';
	n->target = ckpt_tree_strdup(w->t, target);
	return ERR_OK;
}

static int walk_dir(struct walk *w, int fd, const char *dir, struct err *err);

/* One name of a folder, with all below it. */
static int walk_one(struct walk *w, int dir_fd, const char *path, const char *name, struct err *err)
{
	struct ckpt_node n = { .path = path };
	struct statx st;
	enum ckpt_reason why;
	int fd, r = ERR_OK;

	if (statx(dir_fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st) < 0)
		return errno == ENOENT ? ERR_OK : err_sys(err, errno, "stat %s", path);
	walk_from_statx(&n, &st);
	why = walk_why(w, path, &st);
	n.why = (uint8_t)why;
	n.type = (uint8_t)(why != CKPT_WHY_NONE	  ? CKPT_UNCOVERED
			   : S_ISDIR(st.stx_mode) ? CKPT_DIR
			   : S_ISLNK(st.stx_mode) ? CKPT_LINK
						  : CKPT_FILE);
	if (n.type == CKPT_LINK)
		r = walk_link(w, dir_fd, name, &n, err);
	if (r != ERR_OK)
		return r < 0 ? r : ERR_OK;
	r = ckpt_tree_add(w->t, &n, err);
	if (r < 0)
		return r;
	if (w->note && why != CKPT_WHY_NONE)
		w->note(w->arg, path, why, n.size);
	if (w->note && n.type == CKPT_FILE && n.many_links)
		w->note(w->arg, path, CKPT_WHY_HARDLINK, n.size);
	if (n.type != CKPT_DIR)
		return ERR_OK;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return ERR_OK; /* removed since */
	if (fd < 0)
		return err_sys(err, errno, "read folder %s (make it readable, or exclude it)",
			       path);
	return walk_dir(w, fd, path, err);
}

/* Takes over fd. */
static int walk_dir(struct walk *w, int fd, const char *dir, struct err *err)
{
	size_t n_dir = *dir ? strlen(dir) + 1 : 0;
	struct walk_names names = { 0 };
	DIR *d = fdopendir(fd);
	int r;

	if (!d) {
		r = err_sys(err, errno, "read folder %s", dir);
		(void)close(fd);
		return r;
	}
	if (++w->depth > CKPT_DEPTH_MAX)
		r = err_set(err, ERR_LIMIT, "%.200s: more than %d folders deep; exclude it", dir,
			    CKPT_DEPTH_MAX);
	else
		r = walk_read_names(w, d, dir, &names, err);
	for (size_t i = 0; r == ERR_OK && i < names.n; i++) {
		/* a network file system may name an entry twice while it changes */
		if (i == 0 || strcmp(names.v[i], names.v[i - 1]) != 0)
			r = walk_one(w, dirfd(d), names.v[i], names.v[i] + n_dir, err);
	}
	w->depth--;
	free(names.v);
	(void)closedir(d);
	return r;
}

int ckpt_walk(struct ckpt *c, ckpt_note_cb note, void *arg, struct ckpt_tree **out, struct err *err)
{
	AUTO_TREE struct ckpt_tree *t = ckpt_tree_new();
	struct walk w = { .c = c, .t = t, .note = note, .arg = arg };
	int fd = openat(c->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return err_sys(err, errno, "read folder %s", c->project);
	if (fstat(fd, &st) < 0) {
		r = err_sys(err, errno, "stat %s", c->project);
		(void)close(fd);
		return r;
	}
	w.dev = st.st_dev;
	r = walk_dir(&w, fd, "", err);
	if (r < 0)
		return r;
	*out = TAKE_PTR(t);
	return ERR_OK;
}
