#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "ckpt/ckpt_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

/* Where a file cannot be renamed from the stage, because of quotas or file systems that differ. */
#define PLACE_TMP ".rocbudai-restore.tmp"

static struct timespec place_time(int64_t ns)
{
	struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	if (ts.tv_nsec < 0) {
		ts.tv_sec--;
		ts.tv_nsec += 1000000000;
	}
	return ts;
}

/* Owner first, since that clears set-user-id bits; who may not give files away keeps neither. */
int ckpt_set_meta(int dir_fd, const char *name, const struct ckpt_node *node, struct err *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, place_time(node->mtime_ns) };
	uint32_t mode = node->mode;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, errno, "stat %s", name);
	if ((st.st_uid != node->uid || st.st_gid != node->gid) &&
	    fchownat(dir_fd, name, node->uid, node->gid, AT_SYMLINK_NOFOLLOW) < 0)
		mode &= ~(uint32_t)(S_ISUID | S_ISGID);
	if (!S_ISLNK(st.st_mode) && ((st.st_mode & 07777) != mode || mode & (S_ISUID | S_ISGID)) &&
	    fchmodat(dir_fd, name, mode, AT_SYMLINK_NOFOLLOW) < 0 &&
	    (errno != EOPNOTSUPP || fchmodat(dir_fd, name, mode, 0) < 0))
		return err_sys(err, errno, "set mode of %s", name);
	if (utimensat(dir_fd, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(err, errno, "set time of %s", name);
	return ERR_OK;
}

struct place_out {
	int fd;
	const char *path;
};

static int place_write_cb(void *arg, const void *data, size_t n, struct err *err)
{
	const struct place_out *o = arg;

	return file_write_all(o->fd, data, n, o->path, err);
}

static int place_file(struct ckpt *c, int dir_fd, const char *name, const struct ckpt_node *node,
		      struct err *err)
{
	struct place_out o = { .path = node->path };
	int r;

	o.fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (o.fd < 0)
		return err_sys(err, errno, "create the new %s", node->path);
	r = ckpt_store_get(c->store, node->sha, node->size, place_write_cb, &o, err);
	if (close(o.fd) < 0 && r == ERR_OK)
		r = err_sys(err, errno, "write %s", node->path);
	return r < 0 ? err_wrap(err, r, "restore %.150s", node->path) : r;
}

int ckpt_materialise(struct ckpt *c, int dir_fd, const char *name, const struct ckpt_node *node,
		     struct err *err)
{
	int r = ERR_OK;

	if (node->type == CKPT_FILE)
		r = place_file(c, dir_fd, name, node, err);
	else if (symlinkat(node->target, dir_fd, name) < 0)
		r = err_sys(err, errno, "create the new link %s", node->path);
	if (r == ERR_OK)
		r = ckpt_set_meta(dir_fd, name, node, err);
	if (r < 0)
		(void)unlinkat(dir_fd, name, 0);
	return r;
}

/* The stage lies in our folder of the project, so that renames into the tree stay on one file
 * system. */
static int place_own_dir(struct ckpt *c, struct err *err)
{
	int fd;

	if (mkdirat(c->root, CKPT_OWN_DIR, 0777) < 0 && errno != EEXIST)
		return err_sys(err, errno, "create folder %s/%s", c->project, CKPT_OWN_DIR);
	fd = openat(c->root, CKPT_OWN_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(err, errno, "open folder %s/%s", c->project, CKPT_OWN_DIR);
	return fd;
}

int ckpt_stage_drop(struct ckpt *c, const char *stage, struct err *err)
{
	AUTO_CLOSE int own =
		openat(c->root, CKPT_OWN_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (own < 0)
		return ERR_OK; /* no such folder, or none of ours */
	return file_remove_tree(own, stage, err);
}

int ckpt_stage_make(struct ckpt *c, const char *stage, int *fd, struct err *err)
{
	AUTO_CLOSE int own = place_own_dir(c, err);
	int r, dir;

	if (own < 0)
		return own;
	r = file_remove_tree(own, stage, err);
	if (r < 0)
		return r;
	if (mkdirat(own, stage, 0700) < 0)
		return err_sys(err, errno, "create folder %s/%s/%s", c->project, CKPT_OWN_DIR,
			       stage);
	dir = openat(own, stage, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(err, errno, "open folder %s/%s/%s", c->project, CKPT_OWN_DIR, stage);
	*fd = dir;
	return ERR_OK;
}

struct place {
	struct ckpt *c;
	struct ckpt_dirs dirs;
	const struct ckpt_tree *target;
	int stage; /* -1: gone */
};

static bool place_absent(int e)
{
	return e == ENOENT || e == ENOTDIR || e == ELOOP;
}

static int place_in_the_way(const struct ckpt_op *op, struct err *err)
{
	return err_set(err, ERR_REFUSED,
		       "%.200s: something made meanwhile stands there; move it away and try again",
		       op->path);
}

/* Only what was there when the journal was written: same type, and for files same size and time. */
static bool place_is_doomed(const struct ckpt_op *op, const struct stat *st)
{
	struct ckpt_node now = { 0 };

	ckpt_node_from_stat(&now, st);
	switch ((enum ckpt_type)op->node.type) {
	case CKPT_DIR:
		return S_ISDIR(st->st_mode);
	case CKPT_LINK:
		return S_ISLNK(st->st_mode) && now.mtime_ns == op->node.mtime_ns;
	case CKPT_FILE:
	case CKPT_UNCOVERED:
	default:
		return !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode) &&
		       now.size == op->node.size && now.mtime_ns == op->node.mtime_ns;
	}
}

static int place_remove(struct place *p, const struct ckpt_op *op, struct err *err)
{
	bool is_dir = op->node.type == CKPT_DIR;
	struct err e = { 0 };
	const char *name;
	struct stat st;
	int dir = ckpt_dirs_at(&p->dirs, op->path, true, &name, &e);

	if (dir < 0 && e.code == ERR_SYS && place_absent(e.sys_errno))
		return ERR_OK; /* done before */
	if (dir < 0) {
		if (err)
			*err = e;
		return dir;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? ERR_OK : err_sys(err, errno, "stat %s", op->path);
	if (!place_is_doomed(op, &st))
		return ERR_OK;
	if (unlinkat(dir, name, is_dir ? AT_REMOVEDIR : 0) < 0 && errno != ENOENT &&
	    errno != ENOTEMPTY && errno != EEXIST)
		return err_sys(err, errno, "remove %s", op->path);
	if (is_dir)
		ckpt_dirs_reset(&p->dirs);
	return ERR_OK;
}

static int place_mkdir(struct place *p, const struct ckpt_op *op, struct err *err)
{
	const char *name;
	struct stat st;
	int dir = ckpt_dirs_at(&p->dirs, op->path, true, &name, err);

	if (dir < 0)
		return dir;
	if (mkdirat(dir, name, 0700) == 0)
		return ERR_OK;
	if (errno != EEXIST)
		return err_sys(err, errno, "create folder %s", op->path);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return place_in_the_way(op, err);
	return ERR_OK;
}

static bool place_is_there(int dir, const char *name, const struct ckpt_node *node)
{
	struct ckpt_node now = { 0 };
	struct stat st;
	char target[CKPT_PATH_BYTES_MAX + 98];
	ssize_t n;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	ckpt_node_from_stat(&now, &st);
	if (now.mtime_ns != node->mtime_ns)
		return false;
	if (node->type == CKPT_FILE)
		return S_ISREG(st.st_mode) && now.size == node->size;
	n = readlinkat(dir, name, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	return strcmp(target, node->target) == 0;
}

static int place_anew(struct place *p, int dir, const char *name, const struct ckpt_node *node,
		      const struct ckpt_op *op, struct err *err)
{
	int r;

	(void)unlinkat(dir, PLACE_TMP, 0); /* of a killed program */
	r = ckpt_materialise(p->c, dir, PLACE_TMP, node, err);
	if (r < 0)
		return r;
	if (renameat(dir, PLACE_TMP, dir, name) == 0)
		return ERR_OK;
	r = errno == EISDIR ? place_in_the_way(op, err)
			    : err_sys(err, errno, "put back %s", op->path);
	(void)unlinkat(dir, PLACE_TMP, 0);
	return r;
}

static int place_content(struct place *p, const struct ckpt_op *op, const struct ckpt_node *node,
			 struct err *err)
{
	char slot[16];
	const char *name;
	int dir = ckpt_dirs_at(&p->dirs, op->path, true, &name, err);

	if (dir < 0)
		return dir;
	(void)snprintf(slot, sizeof(slot), "%u", op->slot);
	if (p->stage >= 0 && renameat(p->stage, slot, dir, name) == 0)
		return ERR_OK;
	if (p->stage >= 0 && errno == EISDIR)
		return place_in_the_way(op, err);
	if (p->stage >= 0 && errno != ENOENT && errno != EXDEV)
		return err_sys(err, errno, "put back %s", op->path);
	/* renamed before a crash; or the stage is no use here */
	if (place_is_there(dir, name, node))
		return ERR_OK;
	return place_anew(p, dir, name, node, op, err);
}

static int place_meta(struct place *p, const struct ckpt_op *op, const struct ckpt_node *node,
		      struct err *err)
{
	struct err e = { 0 };
	const char *name;
	int dir = ckpt_dirs_at(&p->dirs, op->path, false, &name, &e);
	int r = dir < 0 ? dir : ckpt_set_meta(dir, name, node, &e);

	if (r == ERR_OK)
		return r;
	if (e.code == ERR_SYS && place_absent(e.sys_errno)) {
		if (op->kind == CKPT_OP_FOLDER)
			return ERR_OK;
		if (dir >= 0)
			return place_anew(p, dir, name, node, op, err);
	}
	if (err)
		*err = e;
	return err_wrap(err, r, "%.200s", op->path);
}

static int place_op(struct place *p, const struct ckpt_op *op, struct err *err)
{
	const struct ckpt_node *node = ckpt_tree_find(p->target, op->path);

	switch (op->kind) {
	case CKPT_OP_REMOVE:
		return place_remove(p, op, err);
	case CKPT_OP_MKDIR:
		return place_mkdir(p, op, err);
	case CKPT_OP_FOLDER:
		return place_meta(p, op, &op->node, err);
	case CKPT_OP_PLACE:
	case CKPT_OP_META:
	case CKPT_OP_N:
	default:
		break;
	}
	if (!node || (node->type != CKPT_FILE && node->type != CKPT_LINK))
		return err_set(err, ERR_PARSE,
			       "journal in %s: '%.200s' is no file of the checkpoint", p->c->where,
			       op->path);
	return op->kind == CKPT_OP_PLACE ? place_content(p, op, node, err)
					 : place_meta(p, op, node, err);
}

int ckpt_apply(struct ckpt *c, const struct ckpt_journal *j, const struct ckpt_tree *target,
	       struct err *err)
{
	struct place p = { .c = c, .target = target, .stage = -1 };
	AUTO_CLOSE int own =
		openat(c->root, CKPT_OWN_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = ERR_OK;

	if (own >= 0)
		p.stage = openat(own, CKPT_STAGE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	ckpt_dirs_init(&p.dirs, c->root);
	for (size_t i = 0; r == ERR_OK && i < j->len; i++)
		r = place_op(&p, &j->v[i], err);
	ckpt_dirs_done(&p.dirs);
	if (p.stage >= 0)
		(void)close(p.stage);
	if (r == ERR_OK && syncfs(c->root) < 0)
		r = err_sys(err, errno, "save the files of %s", c->project);
	return r;
}
