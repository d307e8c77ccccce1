/*
 * Session event logs: .rocbudai/sessions/<id>.jsonl, one event a line, appended only.  A session is
 * the list of its events; everything else is rebuilt from it.
 *
 * Writers: whoever creates a session or opens one for writing holds the project's lease (an open
 * `struct ledger` from ledger_open()) as long as it does; this module takes no lock of its own for
 * logs.  Readers need none.
 * Threads: one thread per object.
 */
#ifndef SESSION_SESSION_H
#define SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct session;

#define SESSION_ID_CAP	 24 /* "yyyymmdd_hhmmss-xxxx" with its NUL; UTC, sorts by time */
#define SESSION_NAME_MAX 200
#define SESSION_LINE_MAX ((size_t)16 << 20)    /* bytes of one event */
#define SESSION_LOG_MAX	 ((uint64_t)512 << 20) /* bytes of one log */

enum session_kind {
	SESSION_START,
	SESSION_USER,
	SESSION_ASSISTANT,
	SESSION_TOOL_CALL,
	SESSION_TOOL_RESULT,
	SESSION_APPROVAL,
	SESSION_PHASE,
	SESSION_EVIDENCE, /* "id" only */
	SESSION_CHECKPOINT,
	SESSION_USAGE,
	SESSION_NUDGE,
	SESSION_ERROR,
	SESSION_END,
	SESSION_N_KINDS,
};

const char *session_kind_name(enum session_kind kind);

/*
 * Starts a session in the project at dir (.rocbudai/sessions is made if absent), records `start`
 * and enters the name (NULL: unnamed) in .rocbudai-sessions.json.
 * ERR_INVALID: a name with control characters, or too long.  ERR_SYS.
 */
int session_create(const char *dir, const char *name, struct session **out, struct err *err);
/*
 * Opens a session to go on with it.  A torn last line is cut and recorded as an `error` event;
 * other damaged lines stay in the file, are left out of the events and told in the remarks.
 * ERR_NOT_FOUND, ERR_SYS, ERR_LIMIT.
 */
int session_open(const char *dir, const char *id, struct session **out, struct err *err);
/* The session that was written to last.  ERR_NOT_FOUND: the project has none. */
int session_open_last(const char *dir, struct session **out, struct err *err);
/* For reading only: changes nothing. */
int session_open_read(const char *dir, const char *id, struct session **out, struct err *err);
/* Updates last_active in the names where the session was written to; NULL is fine. */
void session_close(struct session *s);

/*
 * Appends {"t":…,"kind":…} and the members of detail (an object without these two keys, borrowed;
 * NULL: none): one write() and fsync.  On failure the event does not count and the file is cut
 * back. ERR_INVALID: detail is not such an object, or the session is read-only.  ERR_LIMIT,
 * ERR_SYS.
 */
int session_append(struct session *s, enum session_kind kind, const struct json *detail,
		   struct err *err);

const char *session_id(const struct session *s);   /* borrowed */
const char *session_name(const struct session *s); /* when it was opened; "" when unnamed */
const char *session_path(const struct session *s); /* of the log; borrowed */
/* Events that could be read, in order; borrowed until close. */
size_t session_count(const struct session *s);
const struct json *session_event(const struct session *s, size_t i);
/* The kind of an event; SESSION_N_KINDS for one of a later version. */
enum session_kind session_event_kind(const struct json *event);
/* Damage met while opening, one sentence each, with file and line. */
size_t session_n_remarks(const struct session *s);
const char *session_remark(const struct session *s, size_t i);

/*
 * Parses one line of a log; what and line_no name it in errors.  Caller owns *out.  ERR_PARSE,
 * ERR_LIMIT.
 */
int session_parse_line(const char *line, size_t len, const char *what, size_t line_no,
		       struct json **out, struct err *err);

/* ---- names ---- */

struct session_info {
	char id[SESSION_ID_CAP];
	char *name;			  /* "" when unnamed */
	int64_t created_s, last_active_s; /* since 1970 */
};

/*
 * The project's sessions, most recently active first: every log, with what .rocbudai-sessions.json
 * says of it (names of other tools' sessions are left out).  No sessions: success with *n 0.
 * A damaged names file does not hide them: they are unnamed then, and *remark (if wanted; free())
 * says why, else it is NULL.  Caller frees with session_list_free().
 */
int session_list(const char *dir, struct session_info **out, size_t *n, char **remark,
		 struct err *err);
void session_list_free(struct session_info *v, size_t n);
/*
 * Names a session in .rocbudai-sessions.json, whose other entries and keys stay.  ERR_INVALID: the
 * name; ERR_PARSE: the file is damaged (it is left alone); ERR_BUSY: somebody else changes it.
 */
int session_set_name(const char *dir, const char *id, const char *name, struct err *err);

#endif
