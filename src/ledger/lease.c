/*
 * The lease is a file that link(2) gave its name, which one program only can do, also over NFS.
 * The holder keeps it open and touches it; who judges its age compares times that the file's own
 * server set, so that clocks of hosts do not matter.
 *
 * A stale lease is replaced under a second one of the same kind ("lease.takeover"), so that two
 * programs that judged it at once do not both take it.  Whoever lost it nevertheless finds out
 * before its next record: the name then leads to another inode.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "core/str.h"
#include "ledger/ledger_priv.h"

#define LEASE_FILE     "lease"
#define LEASE_TAKEOVER "lease.takeover"
#define LEASE_MAX      4096
#define LEASE_OLD_S    300
#define LEASE_TRIES    20
/* one spelling of the rule, in messages and remarks */
#define LEASE_RULE                                                                                 \
	"a program that died loses it at once on its own host, on another one after 5 minutes "    \
	"without a sign of life"

/* What tells this process from all others, and whether another one still runs. */
struct lease_self {
	char host[64];
	char boot[64];	/* "" where /proc is missing: then only age counts */
	uint64_t pidns; /* inode of the pid namespace; 0 unknown */
	uint64_t start; /* clock ticks after boot; 0 unknown */
};

enum lease_state { LEASE_FREE, LEASE_HELD, LEASE_STALE };

/* Field 22 of /proc/<pid>/stat; 0 when it cannot be read.  *zombie: it only waits to be reaped. */
static uint64_t lease_start_ticks(int root, pid_t pid, bool *zombie)
{
	char path[64], buf[2048], *p, *end;
	uint64_t v = 0;

	(void)snprintf(path, sizeof(path), "proc/%d/stat", (int)pid);
	if (rootfs_read(root, path, buf, sizeof(buf), NULL) < 0)
		return 0;
	p = strrchr(buf, ')'); /* the name in field 2 may hold anything, blanks and brackets too */
	if (!p || p[1] != ' ')
		return 0;
	*zombie = p[2] == 'Z' || p[2] == 'X';
	p += 2;
	for (int field = 3; field < 22; field++) {
		if (!(p = strchr(p, ' ')))
			return 0;
		p++;
	}
	if ((end = strchr(p, ' ')))
		*end = '\0';
	return num_u64(p, &v, NULL) < 0 ? 0 : v;
}

static void lease_self_get(int root, struct lease_self *s)
{
	struct stat st;
	bool zombie;

	*s = (struct lease_self){ 0 };
	ledger_host(s->host);
	if (rootfs_read(root, "proc/sys/kernel/random/boot_id", s->boot, sizeof(s->boot), NULL) < 0)
		s->boot[0] = '\0';
	if (fstatat(root, "proc/self/ns/pid", &st, 0) == 0)
		s->pidns = st.st_ino;
	s->start = lease_start_ticks(root, getpid(), &zombie);
}

static bool lease_runs(int root, pid_t pid, uint64_t start)
{
	bool zombie = false;
	uint64_t now;

	if (pid <= 0 || (kill(pid, 0) < 0 && errno == ESRCH))
		return false;
	now = lease_start_ticks(root, pid, &zombie);
	/* hidden from us (hidepid): it answers to kill, so it runs */
	return now == 0 || (!zombie && (start == 0 || now == start));
}

/* ---- writing ---- */

static char *lease_text(const struct lease_self *s, const char *id)
{
	AUTO_JSON struct json *j = json_new_obj();
	AUTO_FREE char *text = NULL;
	char now[32];

	clock_iso_now(now);
	json_set_str(j, "host", s->host);
	json_set_str(j, "boot_id", s->boot);
	json_set_int(j, "pid", getpid());
	json_set_int(j, "pid_namespace", (int64_t)s->pidns);
	json_set_int(j, "start_ticks", (int64_t)s->start);
	json_set_str(j, "since", now);
	json_set_str(j, "id", id);
	json_set_str(j, "heartbeat", now); /* last: rewritten in place */
	text = json_dump(j);
	return xasprintf("%s\n", text);
}

static int lease_make(struct ledger_lease *ls, const struct lease_self *self, char tmp[96],
		      struct err *err)
{
	unsigned char rnd[16];
	AUTO_CLOSE int fd = -1;
	int r;

	if (getrandom(rnd, sizeof(rnd), 0) != (ssize_t)sizeof(rnd))
		return err_sys(err, errno, "read random bytes");
	for (size_t i = 0; i < sizeof(rnd); i++)
		(void)snprintf(ls->id + 2 * i, 3, "%02x", rnd[i]);
	(void)snprintf(tmp, 96, "%s.%s", LEASE_FILE, ls->id);
	free(ls->text);
	ls->text = lease_text(self, ls->id);
	fd = openat(ls->dir_fd, tmp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(err, errno, "create %s (project lease)", ls->path);
	r = file_write_all(fd, ls->text, strlen(ls->text), ls->path, err);
	if (r == ERR_OK && fsync(fd) < 0)
		r = err_sys(err, errno, "fsync %s", ls->path);
	if (r < 0) {
		(void)unlinkat(ls->dir_fd, tmp, 0);
		return r;
	}
	ls->fd = TAKE_FD(fd);
	return ERR_OK;
}

/* True: the name is ours now.  Over NFS an answer that got lost makes link() fail though it was
 * done; the number of links tells. */
static bool lease_link(struct ledger_lease *ls, const char *tmp, const char *name)
{
	struct stat st;

	return linkat(ls->dir_fd, tmp, ls->dir_fd, name, 0) == 0 ||
	       (fstat(ls->fd, &st) == 0 && st.st_nlink == 2);
}

/* ---- judging ---- */

struct lease_look {
	enum lease_state state;
	ino_t ino;
	char who[300]; /* "host n1, process 12, since ..." */
};

/* Seconds since the holder's last sign of life, by the clock of the file's server. */
static int64_t lease_age(const struct ledger_lease *ls, const struct stat *held)
{
	struct stat now;

	return fstat(ls->fd, &now) < 0 ? 0 : (int64_t)(now.st_mtime - held->st_mtime);
}

static void lease_judge(const struct ledger_lease *ls, int root, const struct lease_self *self,
			const struct json *j, const struct stat *st, struct lease_look *look)
{
	const char *boot = json_get_str(j, "boot_id", "");
	int64_t age = lease_age(ls, st);
	pid_t pid = (pid_t)json_get_int(j, "pid", 0);
	bool here = self->boot[0] && strcmp(boot, self->boot) == 0 && self->pidns &&
		    (uint64_t)json_get_int(j, "pid_namespace", 0) == self->pidns;

	look->ino = st->st_ino;
	(void)snprintf(look->who, sizeof(look->who),
		       "host %.64s, process %d, since %.32s (last sign of life %lld s ago)",
		       json_get_str(j, "host", "unknown"), (int)pid,
		       json_get_str(j, "since", "unknown"), (long long)(age > 0 ? age : 0));
	if (here)
		look->state = lease_runs(root, pid, (uint64_t)json_get_int(j, "start_ticks", 0))
				      ? LEASE_HELD
				      : LEASE_STALE;
	else
		look->state = age > LEASE_OLD_S ? LEASE_STALE : LEASE_HELD;
}

static int lease_look(const struct ledger_lease *ls, int root, const struct lease_self *self,
		      const char *name, struct lease_look *look, struct err *err)
{
	AUTO_CLOSE int fd =
		openat(ls->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	AUTO_JSON struct json *j = NULL;
	char buf[LEASE_MAX];
	struct stat st;
	ssize_t n;

	*look = (struct lease_look){ .state = LEASE_FREE };
	if (fd < 0 && errno == ENOENT)
		return ERR_OK;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "open %s", ls->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file: remove it", ls->path);
	do
		n = read(fd, buf, sizeof(buf));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(err, errno, "read %s", ls->path);
	/* what cannot be read has no holder that could be asked, only an age */
	(void)json_parse(buf, (size_t)n, ls->path, &j, NULL);
	lease_judge(ls, root, self, j, &st, look);
	return ERR_OK;
}

static int lease_busy(const struct ledger_lease *ls, const struct lease_look *look, struct err *err)
{
	return err_set(err, ERR_BUSY,
		       "the project is held by %s; wait for it or end it (%s; if nobody holds it, "
		       "remove %s)",
		       look->who, LEASE_RULE, ls->path);
}

/* Replaces the stale lease that was looked at.  1: ours; 0: look again. */
static int lease_replace(struct ledger_lease *ls, int root, const struct lease_self *self,
			 const char *tmp, const struct lease_look *seen, struct err *err)
{
	struct lease_look look;
	int r;

	if (!lease_link(ls, tmp, LEASE_TAKEOVER)) {
		r = lease_look(ls, root, self, LEASE_TAKEOVER, &look, err);
		if (r < 0)
			return r;
		if (look.state == LEASE_HELD)
			return lease_busy(ls, &look, err);
		if (look.state == LEASE_STALE)
			(void)unlinkat(ls->dir_fd, LEASE_TAKEOVER, 0);
		return 0;
	}
	r = lease_look(ls, root, self, LEASE_FILE, &look, err);
	if (r == ERR_OK && look.state == LEASE_STALE && look.ino == seen->ino) {
		/* both names are links of our file; renaming one link of a file over another
		 * file replaces that */
		if (renameat(ls->dir_fd, LEASE_TAKEOVER, ls->dir_fd, LEASE_FILE) == 0)
			return 1;
		r = err_sys(err, errno, "take over %s", ls->path);
	}
	(void)unlinkat(ls->dir_fd, LEASE_TAKEOVER, 0);
	return r < 0 ? r : 0;
}

/* 1: ours; ERR_*.  *from says who held it. */
static int lease_try(struct ledger_lease *ls, int root, const char *tmp,
		     const struct lease_self *self, char **from, struct err *err)
{
	struct lease_look look = { .state = LEASE_FREE };

	for (int i = 0; i < LEASE_TRIES; i++) {
		int r;

		if (lease_link(ls, tmp, LEASE_FILE))
			return 1;
		if (errno == EPERM || errno == EOPNOTSUPP)
			return err_set(
				err, ERR_INVALID,
				"%s: this file system has no hard links, which the project's "
				"lease needs: keep the project on another one",
				ls->path);
		if (errno != EEXIST)
			return err_sys(err, errno, "link %s", ls->path);
		if ((r = lease_look(ls, root, self, LEASE_FILE, &look, err)) < 0)
			return r;
		if (look.state == LEASE_HELD)
			return lease_busy(ls, &look, err);
		if (look.state == LEASE_FREE)
			continue;
		if ((r = lease_replace(ls, root, self, tmp, &look, err)) < 0)
			return r;
		if (r == 1) {
			free(*from);
			*from = xasprintf("%s; %s", look.who, LEASE_RULE);
			return 1;
		}
	}
	return lease_busy(ls, &look, err);
}

int ledger_lease_take(struct ledger_lease *ls, int dir_fd, const char *dir, char **from,
		      struct err *err)
{
	struct lease_self self;
	AUTO_CLOSE int root = rootfs_open("/", err);
	char tmp[96];
	int r;

	if (root < 0)
		return root;
	*from = NULL;
	ls->dir_fd = dir_fd;
	free(ls->path);
	ls->path = file_join(dir, LEASE_FILE);
	lease_self_get(root, &self);
	if ((r = lease_make(ls, &self, tmp, err)) < 0)
		return r;
	r = lease_try(ls, root, tmp, &self, from, err);
	(void)unlinkat(dir_fd, tmp, 0);
	if (r < 0) {
		(void)close(ls->fd);
		ls->fd = -1;
	}
	return r < 0 ? r : ERR_OK;
}

/* ---- holding ---- */

/* 1: ours; 0: no such file; -1: somebody else's. */
static int lease_is_ours(const struct ledger_lease *ls)
{
	struct stat a, b;

	if (fstat(ls->fd, &a) < 0)
		return -1;
	if (fstatat(ls->dir_fd, LEASE_FILE, &b, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -1;
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino ? 1 : -1;
}

int ledger_lease_check(struct ledger_lease *ls, struct err *err)
{
	AUTO_FREE char *dir = NULL, *from = NULL;
	int ours = lease_is_ours(ls), r;

	if (ours > 0)
		return ERR_OK;
	if (ours < 0)
		return err_set(
			err, ERR_STALE,
			"%s: another program has taken the project over; what is recorded so "
			"far is kept, this program must end",
			ls->path);
	/* swept away, by a `git clean` for instance: nobody else came in between */
	dir = xstrndup(ls->path, strlen(ls->path) - strlen("/" LEASE_FILE));
	(void)close(ls->fd);
	ls->fd = -1;
	r = ledger_lease_take(ls, ls->dir_fd, dir, &from, err);
	return r < 0 ? err_wrap(err, r, "the project's lease was removed") : ERR_OK;
}

int ledger_lease_beat(struct ledger_lease *ls, struct err *err)
{
	static const char key[] = "\"heartbeat\":\"";
	int r = ledger_lease_check(ls, err);
	char *at, now[32];

	if (r < 0)
		return r;
	clock_iso_now(now);
	at = strstr(ls->text, key) + sizeof(key) - 1;
	memcpy(at, now, strlen(now));
	/* The time of the file is what counts, and setting it works on a full disk too.  The text
	 * is for people; it is written in place, so that a file that somebody put there meanwhile
	 * is not touched. */
	if (futimens(ls->fd, NULL) < 0)
		return err_sys(err, errno, "touch %s", ls->path);
	if (pwrite(ls->fd, ls->text, strlen(ls->text), 0) > 0)
		(void)fsync(ls->fd);
	return ERR_OK;
}

void ledger_lease_done(struct ledger_lease *ls, bool release)
{
	if (ls->fd >= 0 && release && lease_is_ours(ls) > 0)
		(void)unlinkat(ls->dir_fd, LEASE_FILE, 0);
	if (ls->fd >= 0)
		(void)close(ls->fd);
	free(ls->path);
	free(ls->text);
	*ls = (struct ledger_lease)LEDGER_LEASE_INIT;
}
