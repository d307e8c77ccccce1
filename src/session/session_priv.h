/* Shared within the session module.  Threads: any. */
#ifndef SESSION_PRIV_H
#define SESSION_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;

#define SESSION_DOT	   ".rocbudai"
#define SESSION_NAMES_FILE ".rocbudai-sessions.json"

/* Text without control characters (line ends and tabs unless one_line), UTF-8, bounded.  key names
 * it in errors.  ERR_INVALID. */
int session_text_check(const char *key, const char *value, size_t max, bool one_line,
		       struct err *err);
/* "yyyymmdd_hhmmss-xxxx" */
bool session_is_id(const char *id);
/* Opens dir/.rocbudai, or one of its folders with sub; made where make says so.  Never follows a
 * link there.  Returns fd, or ERR_NOT_FOUND, ERR_INVALID, ERR_SYS. */
int session_dot_open(const char *dir, const char *sub, bool make, struct err *err);

/* The names file as an object; empty where there is none.  ERR_PARSE: damaged. */
int session_names_load(const char *dir, struct json **out, struct err *err);
/*
 * Changes one entry: name (NULL: as it is, "" for a new one), created (0: as it is, or now) and
 * last_active (now).
 */
int session_names_touch(const char *dir, const char *id, const char *name, int64_t created_s,
			struct err *err);

#endif
