/*
 * The answers to the seven questions, kept as data in .rocbudai/project.yaml.  Threads: any; one
 * thread per object.
 */
#ifndef SESSION_ANSWERS_H
#define SESSION_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json;

#define SESSION_TEXT_MAX 65536 /* bytes of one answer */
#define SESSION_LIST_MAX 256   /* entries of one list */

/* A NULL member was not answered.  Owned strings; all zero is a good start. */
struct session_answers {
	char *name;	/* of the session; one line */
	char *type;	/* of application, such as "openmp"; one line */
	char *rocm;	/* version, such as "7.2"; one line */
	char **modules; /* NULL-terminated, may be empty ("none") */
	char *build;	/* shell commands */
	char *run;
	char *check;	   /* ends with status 0 where the result is right */
	char *heldout;	   /* the same on inputs that are not tuned on */
	char *fom_pattern; /* regular expression whose first group is the figure; NULL: wall time */
	char *fom_unit;
	bool has_fom_higher;
	bool fom_higher;    /* a larger figure is better */
	char **tunables;    /* "NAME=v1,v2"; NULL-terminated */
	struct json *extra; /* object: keys of the file that are none of ours, kept on save; NULL */
};

void session_answers_done(struct session_answers *a); /* frees what it holds, zeroes it */

/*
 * Reads .rocbudai/project.yaml below dir.  ERR_NOT_FOUND: there is none.  ERR_PARSE: message
 * starts with file and line.  ERR_SYS, ERR_LIMIT.
 */
int session_answers_load(const char *dir, struct session_answers *out, struct err *err);
/* The same from text; what names it. */
int session_answers_parse(const char *text, size_t len, const char *what,
			  struct session_answers *out, struct err *err);
/*
 * Replaces the file whole (.rocbudai is made if absent).  ERR_INVALID: an answer would not be read
 * back as it is, named: control characters, not UTF-8, a tunable that is not NAME=v1,v2.
 */
int session_answers_save(const char *dir, const struct session_answers *a, struct err *err);
/* As docs/evidence.md has them in a `user` record; null where not answered.  A new reference. */
struct json *session_answers_json(const struct session_answers *a);

/*
 * Checks one answer as save would, so that a question can be asked again at once.  key is "name",
 * "modules" (one entry), "tunables" (one entry), "fom.pattern" and so on.
 */
int session_answer_check(const char *key, const char *value, struct err *err);

#endif
