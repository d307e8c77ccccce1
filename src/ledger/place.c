#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger_priv.h"

#define PLACE_ID   "id"
#define PLACE_PATH "path" /* in the state folder: realpath of the project, bytes as they are */
#define PLACE_DIR  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

void ledger_place_init(struct ledger_place *p)
{
	*p = (struct ledger_place){ .dot_fd = -1, .state_fd = -1 };
}

static void ledger_place_drop_state(struct ledger_place *p)
{
	if (p->state_fd >= 0)
		(void)close(p->state_fd);
	p->state_fd = -1;
	free(p->state);
	p->state = NULL;
}

void ledger_place_done(struct ledger_place *p)
{
	ledger_place_drop_state(p);
	if (p->dot_fd >= 0)
		(void)close(p->dot_fd);
	free(p->dir);
	free(p->real);
	free(p->dot);
	free(p->state_root);
	ledger_place_init(p);
}

/* NULL where neither variable is set. */
static char *ledger_state_root(void)
{
	const char *state = env_get(ENV_STATE_HOME), *home = env_get(ENV_HOME);
	AUTO_FREE char *base = NULL;

	/* a relative path is to be ignored (XDG Base Directory Specification) */
	if (state && state[0] == '/')
		base = xstrdup(state);
	else if (home && home[0] == '/')
		base = file_join(home, ".local/state");
	return base ? file_join(base, "rocbudai") : NULL;
}

int ledger_place_open(struct ledger_place *p, const char *dir, bool make, struct err *err)
{
	p->dir = xstrdup(dir);
	if (!(p->real = realpath(dir, NULL)))
		return err_sys(err, errno, "project folder %s", dir);
	p->dot = file_join(dir, LEDGER_DOT);
	p->state_root = ledger_state_root();
	if (make && !p->state_root)
		return err_set(
			err, ERR_INVALID,
			"neither XDG_STATE_HOME nor HOME is set to an absolute path: set one, "
			"the evidence's master copy is kept below it");
	if (make && mkdir(p->dot, 0777) < 0 && errno != EEXIST)
		return err_sys(err, errno, "create folder %s", p->dot);
	p->dot_fd = open(p->dot, PLACE_DIR | O_CLOEXEC);
	if (p->dot_fd >= 0 || (errno == ENOENT && !make))
		return ERR_OK;
	/* a link would let a sandboxed command choose where we write */
	if (errno == ELOOP || errno == ENOTDIR)
		return err_set(err, ERR_INVALID, "%s is not a folder: move it away", p->dot);
	return err_sys(err, errno, "open folder %s", p->dot);
}

static bool ledger_is_id(const char *s)
{
	return strlen(s) == 16 && strspn(s, "0123456789abcdef") == 16;
}

/* Reads dir_fd/id.  ERR_NOT_FOUND: absent. */
static int ledger_id_read(int dir_fd, const char *dir, char id[17], struct err *err)
{
	AUTO_FREE char *text = NULL;
	struct err e = { 0 };
	size_t len = 0;
	int r = file_read(dir_fd, PLACE_ID, 64, &text, &len, &e);

	if (r == ERR_SYS && e.sys_errno == ENOENT)
		return ERR_NOT_FOUND;
	if (r < 0) {
		if (err)
			*err = e;
		return err_wrap(err, r, "%s", dir);
	}
	if (len && text[len - 1] == '\n')
		text[len - 1] = '\0';
	if (!ledger_is_id(text))
		return err_set(
			err, ERR_PARSE,
			"%s/%s:1: not a project id; remove the file to start a new ledger (the "
			"evidence so far is set aside)",
			dir, PLACE_ID);
	memcpy(id, text, 17);
	return ERR_OK;
}

/* Is the project's folder a copy of the one recorded (found), or was that one moved here? */
static int ledger_place_compare(const struct ledger_place *p, const char *other,
				enum ledger_found *found, struct err *err)
{
	AUTO_FREE char *dot = file_join(other, LEDGER_DOT);
	AUTO_CLOSE int fd = open(dot, PLACE_DIR | O_CLOEXEC);
	struct stat a, b;
	char id[17] = "";
	int r;

	*found = LEDGER_FOUND_MOVED;
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return ERR_OK;
	if (fd < 0)
		return err_sys(err, errno,
			       "cannot tell whether %s was copied or moved from %s: open folder %s",
			       p->dir, other, dot);
	if (fstat(fd, &a) < 0 || fstat(p->dot_fd, &b) < 0)
		return err_sys(err, errno, "stat %s", dot);
	if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
		*found = LEDGER_FOUND; /* the same folder under two paths */
		return ERR_OK;
	}
	r = ledger_id_read(fd, dot, id, err);
	if (r < 0 && r != ERR_NOT_FOUND && r != ERR_PARSE)
		return r;
	if (r == ERR_OK && strcmp(id, p->id) == 0)
		*found = LEDGER_FOUND_COPY;
	return ERR_OK;
}

int ledger_place_find(struct ledger_place *p, enum ledger_found *found, char **other,
		      struct err *err)
{
	AUTO_FREE char *path = NULL;
	struct err e = { 0 };
	int r = p->dot_fd < 0 ? ERR_NOT_FOUND : ledger_id_read(p->dot_fd, p->dot, p->id, err);

	*other = NULL;
	*found = LEDGER_FOUND_NONE;
	if (r == ERR_NOT_FOUND)
		return ERR_OK;
	if (r < 0)
		return r;
	*found = LEDGER_FOUND_LOST;
	if (!p->state_root)
		return ERR_OK;
	p->state = file_join(p->state_root, p->id);
	p->state_fd = open(p->state, PLACE_DIR | O_CLOEXEC);
	if (p->state_fd < 0) {
		r = errno == ENOENT ? ERR_OK : err_sys(err, errno, "open folder %s", p->state);
		ledger_place_drop_state(p);
		return r;
	}
	*found = LEDGER_FOUND;
	r = file_read(p->state_fd, PLACE_PATH, PATH_MAX, &path, NULL, &e);
	if (r < 0 && !(r == ERR_SYS && e.sys_errno == ENOENT)) {
		if (err)
			*err = e;
		return err_wrap(err, r, "%s", p->state);
	}
	if (r < 0)
		*found = LEDGER_FOUND_MOVED; /* from where is not known */
	if (r < 0 || strcmp(path, p->real) == 0)
		return ERR_OK;
	r = ledger_place_compare(p, path, found, err);
	if (r == ERR_OK)
		*other = TAKE_PTR(path);
	return r;
}

int ledger_place_claim(struct ledger_place *p, struct err *err)
{
	int r = file_write_atomic(p->state_fd, PLACE_PATH, p->real, strlen(p->real), 0600, err);

	return r < 0 ? err_wrap(err, r, "%s", p->state) : ERR_OK;
}

int ledger_place_new(struct ledger_place *p, struct err *err)
{
	unsigned char seed[32];
	char hex[HASH_HEX_LEN + 1];
	int r;

	ledger_place_drop_state(p);
	if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return err_sys(err, errno, "read random bytes");
	hash_mem_hex(seed, sizeof(seed), hex);
	memcpy(p->id, hex, 16);
	p->id[16] = '\0';
	p->state = file_join(p->state_root, p->id);
	if ((r = file_mkdirs(p->state, 0700, err)) < 0)
		return err_wrap(err, r,
				"state folder (set XDG_STATE_HOME to one that can be written)");
	p->state_fd = open(p->state, PLACE_DIR | O_CLOEXEC);
	if (p->state_fd < 0)
		return err_sys(err, errno, "open folder %s", p->state);
	return ledger_place_claim(p, err);
}

int ledger_place_publish_id(struct ledger_place *p, struct err *err)
{
	char text[18];
	int r;

	(void)snprintf(text, sizeof(text), "%s\n", p->id);
	r = file_write_atomic(p->dot_fd, PLACE_ID, text, strlen(text), 0644, err);
	return r < 0 ? err_wrap(err, r, "%s", p->dot) : ERR_OK;
}

/* Renames name to name-<time>-<random>; *to stays NULL where there is no such name. */
static int ledger_rename_aside(const struct ledger_place *p, const char *name, const char *suffix,
			       char **to, struct err *err)
{
	AUTO_FREE char *target = xasprintf("%s%s", name, suffix);

	if (renameat(p->dot_fd, name, p->dot_fd, target) < 0)
		return errno == ENOENT
			       ? ERR_OK
			       : err_sys(err, errno, "rename %s/%s to %s", p->dot, name, target);
	if (to)
		*to = TAKE_PTR(target);
	return ERR_OK;
}

int ledger_place_set_aside(struct ledger_place *p, char **file, struct err *err)
{
	AUTO_FREE char *suffix = NULL;
	unsigned salt = 0;
	struct stat st;
	int r;

	*file = NULL;
	if (fstatat(p->dot_fd, LEDGER_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == 0 && unlinkat(p->dot_fd, LEDGER_FILE, 0) < 0)
		return err_sys(err, errno, "remove %s/%s", p->dot, LEDGER_FILE);
	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) < 0)
		salt = (unsigned)getpid();
	suffix = xasprintf("-aside-%08x", salt);
	r = ledger_rename_aside(p, LEDGER_FILE, suffix, file, err);
	if (r == ERR_OK)
		r = ledger_rename_aside(p, LEDGER_SHARDS, suffix, NULL, err);
	return r;
}
