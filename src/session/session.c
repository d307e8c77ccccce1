#include "session/session.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/lines.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "session/session_priv.h"

#define SESSION_FOLDER "sessions"
#define SESSION_EXT    ".jsonl"
#define SESSION_ID_LEN 20
#define SESSION_TRIES  100
#define SESSION_MAX    10000 /* logs of one project */

struct session {
	char *dir, *path, *name;
	char id[SESSION_ID_CAP];
	int dir_fd, fd;
	uint64_t size;
	bool writable, written, broken;
	pid_t owner;
	struct json **events; /* n of them */
	size_t n, cap;
	char **remarks;
	size_t n_remarks;
};

static const char *const session_kinds[SESSION_N_KINDS] = {
	[SESSION_START] = "start",
	[SESSION_USER] = "user",
	[SESSION_ASSISTANT] = "assistant",
	[SESSION_TOOL_CALL] = "tool_call",
	[SESSION_TOOL_RESULT] = "tool_result",
	[SESSION_APPROVAL] = "approval",
	[SESSION_PHASE] = "phase",
	[SESSION_EVIDENCE] = "evidence",
	[SESSION_CHECKPOINT] = "checkpoint",
	[SESSION_USAGE] = "usage",
	[SESSION_NUDGE] = "nudge",
	[SESSION_ERROR] = "error",
	[SESSION_END] = "end",
};

const char *session_kind_name(enum session_kind kind)
{
	return session_kinds[kind];
}

enum session_kind session_event_kind(const struct json *event)
{
	const char *s = json_get_str(event, "kind", "");
	int i = 0;

	while (i < SESSION_N_KINDS && strcmp(session_kinds[i], s) != 0)
		i++;
	return (enum session_kind)i;
}

/* ---- lines ---- */

static bool session_is_time(const char *t)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";

	if (!t || strlen(t) != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < sizeof(form) - 1; i++) {
		if (form[i] == 'd' ? !isdigit((unsigned char)t[i]) : form[i] != t[i])
			return false;
	}
	return true;
}

int session_parse_line(const char *line, size_t len, const char *what, size_t line_no,
		       struct json **out, struct err *err)
{
	AUTO_JSON struct json *j = NULL;
	struct err why = { 0 };

	if (len > SESSION_LINE_MAX)
		return err_set(err, ERR_LIMIT, "%s:%zu: longer than %zu bytes", what, line_no,
			       SESSION_LINE_MAX);
	if (json_parse(line, len, "event", &j, &why) < 0) {
		const char *text = strstr(why.msg, "not valid JSON");

		return err_set(err, ERR_PARSE, "%s:%zu: %s", what, line_no, text ? text : why.msg);
	}
	if (json_kind(j) != JSON_KIND_OBJ)
		return err_set(err, ERR_PARSE, "%s:%zu: not an object", what, line_no);
	if (!session_is_time(json_get_str(j, "t", NULL)))
		return err_set(err, ERR_PARSE, "%s:%zu: t is not YYYY-MM-DDThh:mm:ss.mmmZ", what,
			       line_no);
	if (!json_get_str(j, "kind", "")[0])
		return err_set(err, ERR_PARSE, "%s:%zu: the event has no kind", what, line_no);
	*out = TAKE_PTR(j);
	return ERR_OK;
}

static void session_push(struct session *s, struct json *event)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->events = xrealloc_n(s->events, s->cap, sizeof(struct json *));
	}
	s->events[s->n++] = event;
}

static void session_remark_take(struct session *s, char *text)
{
	s->remarks = xrealloc_n(s->remarks, s->n_remarks + 1, sizeof(char *));
	s->remarks[s->n_remarks++] = text;
}

struct session_torn {
	size_t line; /* 0: none */
	uint64_t off, bytes;
};

static int session_load(struct session *s, struct session_torn *torn, struct err *err)
{
	struct lines_reader rd;
	struct lines_line ln;
	int r;

	*torn = (struct session_torn){ 0 };
	lines_init(&rd, s->fd, SESSION_LINE_MAX, s->path);
	while ((r = lines_next(&rd, &ln, err)) > 0) {
		struct json *event = NULL;
		struct err why = { 0 };

		if (!ln.whole && !ln.too_long)
			*torn = (struct session_torn){ .line = ln.no,
						       .off = ln.off,
						       .bytes = ln.len };
		else if (ln.too_long)
			session_remark_take(s, xasprintf("%s:%zu: longer than %zu bytes; left out",
							 s->path, ln.no, SESSION_LINE_MAX));
		else if (session_parse_line(ln.text, ln.len, s->path, ln.no, &event, &why) < 0)
			session_remark_take(s, xasprintf("%s; left out", why.msg));
		else
			session_push(s, event);
	}
	lines_done(&rd);
	return r;
}

/* ---- opening ---- */

static struct session *session_new(const char *dir)
{
	struct session *s = xcalloc(1, sizeof(*s));

	s->dir = xstrdup(dir);
	s->dir_fd = s->fd = -1;
	s->owner = getpid();
	return s;
}

static void session_free(struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		json_unref(s->events[i]);
	for (size_t i = 0; i < s->n_remarks; i++)
		free(s->remarks[i]);
	free(s->events);
	free(s->remarks);
	if (s->fd >= 0)
		(void)close(s->fd);
	if (s->dir_fd >= 0)
		(void)close(s->dir_fd);
	free(s->dir);
	free(s->path);
	free(s->name);
	free(s);
}

static void session_set_path(struct session *s)
{
	free(s->path);
	s->path = xasprintf("%s/" SESSION_DOT "/" SESSION_FOLDER "/%s" SESSION_EXT, s->dir, s->id);
}

static int session_open_fd(struct session *s, int flags, struct err *err)
{
	AUTO_FREE char *file = xasprintf("%s" SESSION_EXT, s->id);
	struct stat st;

	s->fd = openat(s->dir_fd, file, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		       0600);
	if (s->fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "%s: no such session", s->path);
	if (s->fd < 0 && errno == ELOOP)
		return err_set(err, ERR_INVALID, "%s is a link: move it away", s->path);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return err_sys(err, errno, "open %s", s->path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", s->path);
	if ((uint64_t)st.st_size > SESSION_LOG_MAX)
		return err_set(err, ERR_LIMIT, "%s: larger than %llu bytes", s->path,
			       (unsigned long long)SESSION_LOG_MAX);
	s->size = (uint64_t)st.st_size;
	return ERR_OK;
}

/* A name that nobody has: the second it is, and 16 random bits. */
static int session_make_file(struct session *s, time_t *created, struct err *err)
{
	for (int i = 0; i < SESSION_TRIES; i++) {
		struct err e = { 0 };
		uint16_t salt = 0;
		struct tm tm = { 0 };
		int r;

		*created = time(NULL);
		if (!gmtime_r(created, &tm) ||
		    getrandom(&salt, sizeof(salt), 0) != (ssize_t)sizeof(salt))
			return err_sys(err, errno, "read clock or random bytes");
		(void)snprintf(s->id, sizeof(s->id), "%04u%02u%02u_%02u%02u%02u-%04x",
			       (unsigned)(tm.tm_year + 1900) % 10000,
			       (unsigned)(tm.tm_mon + 1) % 100, (unsigned)tm.tm_mday % 100,
			       (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
			       (unsigned)tm.tm_sec % 100, salt);
		session_set_path(s);
		r = session_open_fd(s, O_RDWR | O_APPEND | O_CREAT | O_EXCL, &e);
		if (r == ERR_SYS && e.sys_errno == EEXIST)
			continue;
		if (r < 0 && err)
			*err = e;
		return r;
	}
	return err_set(err, ERR_LIMIT, "%s: no free name for a session", s->path);
}

static int session_create_with(struct session *s, const char *name, struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	struct err why = { 0 };
	time_t created = 0;
	int r;

	s->dir_fd = session_dot_open(s->dir, SESSION_FOLDER, true, err);
	if (s->dir_fd < 0)
		return s->dir_fd;
	if ((r = session_make_file(s, &created, err)) < 0)
		return r;
	s->writable = true;
	s->name = xstrdup(name);
	json_set_str(detail, "name", name);
	if ((r = session_append(s, SESSION_START, detail, err)) < 0) {
		AUTO_FREE char *file = xasprintf("%s" SESSION_EXT, s->id);

		(void)unlinkat(s->dir_fd, file, 0);
		return r;
	}
	(void)fsync(s->dir_fd); /* some network file systems refuse it on folders */
	if (session_names_touch(s->dir, s->id, name, (int64_t)created, &why) < 0)
		session_remark_take(s,
				    xasprintf("the session's name was not entered: %s", why.msg));
	return ERR_OK;
}

int session_create(const char *dir, const char *name, struct session **out, struct err *err)
{
	const char *n = name ? name : "";
	int r = session_text_check("session name", n, SESSION_NAME_MAX, true, err);
	struct session *s;

	if (r < 0)
		return r;
	s = session_new(dir);
	if ((r = session_create_with(s, n, err)) < 0)
		session_free(s);
	else
		*out = s;
	return r;
}

/* The name in the names file, else the one given at start. */
static char *session_find_name(const struct session *s, const struct json *names)
{
	const char *first = s->n && session_event_kind(s->events[0]) == SESSION_START
				    ? json_get_str(s->events[0], "name", "")
				    : "";

	return xstrdup(json_get_str(json_get(names, s->id), "name", first));
}

static int session_cut(struct session *s, const struct session_torn *torn, struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	int r = lines_cut(s->fd, torn->off, s->path, err);

	if (r < 0)
		return r;
	s->size = torn->off;
	json_set_str(detail, "what", "torn last line cut");
	json_set_int(detail, "line", (int64_t)torn->line);
	json_set_int(detail, "bytes", (int64_t)torn->bytes);
	return session_append(s, SESSION_ERROR, detail, err);
}

static int session_open_with(struct session *s, const char *id, bool write, struct err *err)
{
	AUTO_JSON struct json *names = NULL;
	struct session_torn torn;
	int r;

	if (!session_is_id(id))
		return err_set(err, ERR_NOT_FOUND, "'%.60s' is not the id of a session", id);
	(void)snprintf(s->id, sizeof(s->id), "%s", id);
	session_set_path(s);
	s->dir_fd = session_dot_open(s->dir, SESSION_FOLDER, false, err);
	if (s->dir_fd < 0)
		return s->dir_fd;
	if ((r = session_open_fd(s, write ? O_RDWR | O_APPEND : O_RDONLY, err)) < 0 ||
	    (r = session_load(s, &torn, err)) < 0)
		return r;
	s->writable = write;
	if (torn.line) {
		session_remark_take(s,
				    xasprintf("%s:%zu: the last line is not whole (a crash left it "
					      "so); %s",
					      s->path, torn.line, write ? "cut" : "left out"));
		if (write && (r = session_cut(s, &torn, err)) < 0)
			return r;
	}
	(void)session_names_load(s->dir, &names, NULL);
	s->name = session_find_name(s, names);
	return ERR_OK;
}

static int session_open_any(const char *dir, const char *id, bool write, struct session **out,
			    struct err *err)
{
	struct session *s = session_new(dir);
	int r = session_open_with(s, id, write, err);

	if (r < 0)
		session_free(s);
	else
		*out = s;
	return r;
}

int session_open(const char *dir, const char *id, struct session **out, struct err *err)
{
	return session_open_any(dir, id, true, out, err);
}

int session_open_read(const char *dir, const char *id, struct session **out, struct err *err)
{
	return session_open_any(dir, id, false, out, err);
}

int session_open_last(const char *dir, struct session **out, struct err *err)
{
	struct session_info *v = NULL;
	size_t n = 0;
	int r = session_list(dir, &v, &n, NULL, err);

	if (r < 0)
		return r;
	r = n ? session_open(dir, v[0].id, out, err)
	      : err_set(err, ERR_NOT_FOUND, "%s has no session yet", dir);
	session_list_free(v, n);
	return r;
}

void session_close(struct session *s)
{
	if (!s)
		return;
	/* only a convenience of the picker: the log's own time is there too */
	if (s->written && s->owner == getpid())
		(void)session_names_touch(s->dir, s->id, NULL, 0, NULL);
	session_free(s);
}

/* ---- appending ---- */

static int session_may_append(const struct session *s, const struct json *detail, struct err *err)
{
	struct stat st;

	if (!s->writable || s->owner != getpid())
		return err_set(err, ERR_INVALID, "%s is open for reading only%s", s->path,
			       s->writable ? " in this process" : "");
	if (detail && (json_kind(detail) != JSON_KIND_OBJ || json_get(detail, "t") ||
		       json_get(detail, "kind")))
		return err_set(err, ERR_INVALID,
			       "not recorded: an event's detail is an object without t and kind");
	if (s->broken)
		return err_set(err, ERR_STALE,
			       "%s could not be cut back after a failed write: open it again",
			       s->path);
	if (fstat(s->fd, &st) < 0)
		return err_sys(err, errno, "stat %s", s->path);
	if ((uint64_t)st.st_size != s->size || st.st_nlink == 0)
		return err_set(err, ERR_STALE,
			       "%s was changed or removed by another program while this one runs",
			       s->path);
	return ERR_OK;
}

int session_append(struct session *s, enum session_kind kind, const struct json *detail,
		   struct err *err)
{
	AUTO_JSON struct json *event = NULL;
	AUTO_FREE char *line = NULL;
	char now[32];
	size_t len;
	int r = session_may_append(s, detail, err);

	if (r < 0)
		return r;
	event = json_new_obj();
	clock_iso_now(now);
	json_set_str(event, "t", now);
	json_set_str(event, "kind", session_kind_name(kind));
	for (void *it = json_iter(detail); it; it = json_next(detail, it))
		json_set(event, json_iter_key(it), json_dup(json_iter_value(it)));
	line = json_dump(event);
	len = strlen(line);
	if (len > SESSION_LINE_MAX || s->size + len + 1 > SESSION_LOG_MAX)
		return err_set(
			err, ERR_LIMIT,
			"not recorded: an event of %zu bytes (%zu at most, %llu all together)", len,
			SESSION_LINE_MAX, (unsigned long long)SESSION_LOG_MAX);
	line[len] = '\n'; /* in place of its NUL */
	r = lines_append(s->fd, &s->size, line, len + 1, s->path, &s->broken, err);
	if (r < 0)
		return r;
	s->written = true;
	session_push(s, TAKE_PTR(event));
	return ERR_OK;
}

/* ---- the open session ---- */

const char *session_id(const struct session *s)
{
	return s->id;
}

const char *session_name(const struct session *s)
{
	return s->name;
}

const char *session_path(const struct session *s)
{
	return s->path;
}

size_t session_count(const struct session *s)
{
	return s->n;
}

const struct json *session_event(const struct session *s, size_t i)
{
	return i < s->n ? s->events[i] : NULL;
}

size_t session_n_remarks(const struct session *s)
{
	return s->n_remarks;
}

const char *session_remark(const struct session *s, size_t i)
{
	return i < s->n_remarks ? s->remarks[i] : NULL;
}

/* ---- listing ---- */

struct session_listed {
	struct session_info info;
	struct timespec mtime;
};

/* The first event's name, without reading the rest. */
static char *session_first_name(int dir_fd, const char *file)
{
	AUTO_CLOSE int fd = openat(dir_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_JSON struct json *event = NULL;
	struct lines_reader rd;
	struct lines_line ln;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return xstrdup("");
	lines_init(&rd, fd, 65536, file);
	if (lines_next(&rd, &ln, NULL) > 0 && ln.whole)
		(void)session_parse_line(ln.text, ln.len, file, 1, &event, NULL);
	lines_done(&rd);
	return xstrdup(json_get_str(event, "name", ""));
}

/* Seconds since 1970 of an id, which begins with a date and time in UTC. */
static int64_t session_id_time(const char *id)
{
	struct tm tm = { 0 };
	int v[6], at[] = { 0, 4, 6, 9, 11, 13 }, len[] = { 4, 2, 2, 2, 2, 2 };

	for (int i = 0; i < 6; i++) {
		v[i] = 0;
		for (int k = 0; k < len[i]; k++)
			v[i] = 10 * v[i] + (id[at[i] + k] - '0');
	}
	tm.tm_year = v[0] - 1900;
	tm.tm_mon = v[1] - 1;
	tm.tm_mday = v[2];
	tm.tm_hour = v[3];
	tm.tm_min = v[4];
	tm.tm_sec = v[5];
	return (int64_t)timegm(&tm);
}

static bool session_list_one(int dir_fd, const char *file, const struct json *names,
			     struct session_listed *out)
{
	size_t ext = sizeof(SESSION_EXT) - 1, len = strlen(file);
	const struct json *entry;
	const char *name;
	struct stat st;

	if (len != SESSION_ID_LEN + ext || strcmp(file + len - ext, SESSION_EXT) != 0)
		return false;
	memcpy(out->info.id, file, len - ext);
	out->info.id[len - ext] = '\0';
	if (!session_is_id(out->info.id) || fstatat(dir_fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode))
		return false;
	entry = json_get(names, out->info.id);
	name = json_get_str(entry, "name", NULL);
	out->info.name = name ? xstrdup(name) : session_first_name(dir_fd, file);
	out->info.created_s =
		(int64_t)json_get_num(entry, "created", (double)session_id_time(out->info.id));
	out->info.last_active_s = (int64_t)st.st_mtim.tv_sec;
	out->mtime = st.st_mtim;
	return true;
}

static int session_listed_cmp(const void *a, const void *b)
{
	const struct session_listed *x = a, *y = b;

	if (x->mtime.tv_sec != y->mtime.tv_sec)
		return x->mtime.tv_sec > y->mtime.tv_sec ? -1 : 1;
	if (x->mtime.tv_nsec != y->mtime.tv_nsec)
		return x->mtime.tv_nsec > y->mtime.tv_nsec ? -1 : 1;
	return -strcmp(x->info.id, y->info.id);
}

static int session_list_dir(DIR *d, const char *dir, const struct json *names,
			    struct session_listed **out, size_t *n, struct err *err)
{
	struct session_listed *v = NULL, one = { .mtime = { 0 } };
	size_t cap = 0;

	for (struct dirent *e; (e = readdir(d));) {
		if (!session_list_one(dirfd(d), e->d_name, names, &one))
			continue;
		if (*n == cap) {
			cap = cap ? 2 * cap : 16;
			v = xrealloc_n(v, cap, sizeof(*v));
		}
		v[(*n)++] = one;
		if (*n > SESSION_MAX)
			break;
	}
	*out = v;
	return *n > SESSION_MAX
		       ? err_set(err, ERR_LIMIT, "%s has more than %d sessions: prune them", dir,
				 SESSION_MAX)
		       : ERR_OK;
}

int session_list(const char *dir, struct session_info **out, size_t *n, char **remark,
		 struct err *err)
{
	AUTO_JSON struct json *names = NULL;
	AUTO_FREE struct session_listed *v = NULL;
	struct session_info *infos;
	struct err why = { 0 }, e = { 0 };
	size_t found = 0;
	int fd = session_dot_open(dir, SESSION_FOLDER, false, &e), r;
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	bool bad_names = session_names_load(dir, &names, &why) < 0;

	if (fd < 0 && fd != ERR_NOT_FOUND) {
		if (err)
			*err = e;
		return fd;
	}
	if (fd >= 0 && !d) {
		(void)close(fd);
		return err_set(err, ERR_NOMEM, "%s: no memory to list its sessions", dir);
	}
	r = d ? session_list_dir(d, dir, names, &v, &found, err) : ERR_OK;
	if (d)
		(void)closedir(d);
	if (found)
		qsort(v, found, sizeof(*v), session_listed_cmp);
	infos = xcalloc(found + 1, sizeof(*infos));
	for (size_t i = 0; i < found; i++)
		infos[i] = v[i].info;
	if (r < 0) {
		session_list_free(infos, found);
		return r;
	}
	*out = infos;
	*n = found;
	if (remark)
		*remark = bad_names ? xstrdup(why.msg) : NULL;
	return ERR_OK;
}

void session_list_free(struct session_info *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].name);
	free(v);
}
