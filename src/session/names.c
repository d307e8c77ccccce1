/* Names of sessions, in the earlier system's file, and what all of the module needs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "session/session.h"
#include "session/session_priv.h"

#define NAMES_MAX_BYTES ((size_t)4 << 20)
#define NAMES_ID_MAX	128
#define NAMES_TRIES	100 /* of 20 ms */
#define DOT_FLAGS	(O_RDONLY | O_DIRECTORY | O_NOFOLLOW)

int session_text_check(const char *key, const char *value, size_t max, bool one_line,
		       struct err *err)
{
	AUTO_JSON struct json *j = json_new_str(value);
	size_t len = strlen(value);

	if (len > max)
		return err_set(err, ERR_INVALID, "%s: %zu bytes, more than %zu", key, len, max);
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		bool layout = !one_line && (*p == '\n' || *p == '\t');

		if ((*p < 0x20 || *p == 0x7f) && !layout)
			return err_set(err, ERR_INVALID,
				       "%s: the control character 0x%02x is in it", key, *p);
	}
	if (strcmp(json_str(j), value) != 0)
		return err_set(err, ERR_INVALID, "%s: '%.100s' is not UTF-8 text", key,
			       json_str(j));
	return ERR_OK;
}

bool session_is_id(const char *id)
{
	static const char form[] = "dddddddd_dddddd-xxxx";

	for (size_t i = 0; i < sizeof(form); i++) {
		bool digit = id[i] >= '0' && id[i] <= '9';
		bool ok = form[i] == 'd'   ? digit
			  : form[i] == 'x' ? digit || (id[i] >= 'a' && id[i] <= 'f')
					   : id[i] == form[i];

		if (!ok)
			return false;
	}
	return true;
}

int session_dot_open(const char *dir, const char *sub, bool make, struct err *err)
{
	AUTO_FREE char *path = file_join(dir, SESSION_DOT);

	for (int i = 0; i < (sub ? 2 : 1); i++) {
		AUTO_FREE char *next = i ? file_join(path, sub) : xstrdup(path);
		struct stat st;

		if (make && mkdir(next, 0777) < 0 && errno != EEXIST)
			return err_sys(err, errno, "create folder %s", next);
		if (lstat(next, &st) < 0 && errno == ENOENT)
			return err_set(err, ERR_NOT_FOUND, "%s is not there yet", next);
		free(path);
		path = TAKE_PTR(next);
	}
	{
		int fd = open(path, DOT_FLAGS | O_CLOEXEC);

		if (fd >= 0)
			return fd;
	}
	/* a link would let a sandboxed command choose where we write */
	if (errno == ELOOP || errno == ENOTDIR)
		return err_set(err, ERR_INVALID, "%s is not a folder: move it away", path);
	return err_sys(err, errno, "open folder %s", path);
}

/* ---- the names file ---- */

int session_names_load(const char *dir, struct json **out, struct err *err)
{
	AUTO_FREE char *path = file_join(dir, SESSION_NAMES_FILE);
	AUTO_FREE char *text = NULL;
	AUTO_JSON struct json *j = NULL;
	struct err e = { 0 };
	size_t len = 0;
	int r = file_read(AT_FDCWD, path, NAMES_MAX_BYTES, &text, &len, &e);

	if (r == ERR_SYS && e.sys_errno == ENOENT) {
		*out = json_new_obj();
		return ERR_OK;
	}
	if (r < 0) {
		if (err)
			*err = e;
		return r;
	}
	if ((r = json_parse(text, len, path, &j, err)) < 0)
		return err_wrap(err, r, "session names (move the file away to start it anew)");
	if (json_kind(j) != JSON_KIND_OBJ)
		return err_set(
			err, ERR_PARSE,
			"%s:1: not an object of sessions: move the file away to start it anew",
			path);
	*out = TAKE_PTR(j);
	return ERR_OK;
}

/* Two programs that change names at once would lose one's change.  The lock is on the project's
 * folder, since the file itself is replaced; where folders cannot be locked it is done without. */
static int names_lock(const char *dir, struct err *err)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(err, errno, "open folder %s", dir);
	for (int i = 0; i < NAMES_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
			return fd;
		(void)poll(NULL, 0, 20);
	}
	(void)close(fd);
	return err_set(err, ERR_BUSY, "%s/%s is being changed by another program: try again", dir,
		       SESSION_NAMES_FILE);
}

int session_names_touch(const char *dir, const char *id, const char *name, int64_t created_s,
			struct err *err)
{
	AUTO_CLOSE int lock = names_lock(dir, err);
	AUTO_FREE char *path = file_join(dir, SESSION_NAMES_FILE);
	AUTO_JSON struct json *all = NULL;
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *line = NULL;
	struct json *entry;
	int64_t now = (int64_t)time(NULL);
	int r;

	if (lock < 0)
		return lock;
	if ((r = session_names_load(dir, &all, err)) < 0)
		return r;
	entry = json_get(all, id);
	if (json_kind(entry) != JSON_KIND_OBJ) {
		entry = json_new_obj();
		json_set(all, id, entry);
		json_set_str(entry, "name", "");
		json_set_int(entry, "created", created_s ? created_s : now);
	}
	if (name)
		json_set_str(entry, "name", name);
	json_set_int(entry, "last_active", now);
	text = json_dump_pretty(all);
	line = xasprintf("%s\n", text);
	return file_write_atomic(AT_FDCWD, path, line, strlen(line), 0644, err);
}

int session_set_name(const char *dir, const char *id, const char *name, struct err *err)
{
	int r = session_text_check("session name", name, SESSION_NAME_MAX, true, err);

	if (r == ERR_OK)
		r = session_text_check("session id", id, NAMES_ID_MAX, true, err);
	if (r == ERR_OK && !*id)
		r = err_set(err, ERR_INVALID, "the session id is empty");
	return r < 0 ? r : session_names_touch(dir, id, name, 0, err);
}
