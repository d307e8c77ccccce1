/* Between the files of delivery only: changes of text files, line by line. */
#ifndef BUILD_DELIVER_PRIV_H
#define BUILD_DELIVER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "build/build_priv.h"
#include "build/deliver.h"

struct str;

/* ---- text files as lines (edit.c) ---- */

struct edit_line {
	char *text;  /* without its newline */
	char *after; /* lines to put behind it, each with its newline; NULL: none */
	char *now;   /* replaces it; NULL: stays */
};

struct edit_file {
	char *path; /* relative to the project */
	char *full;
	char *old;
	size_t old_len;
	struct timespec mtime;
	unsigned mode;
	struct edit_line *lines; /* lines[0] is before the first: only its after counts */
	size_t n_lines;		 /* without lines[0] */
	bool last_newline;
};

struct edit_set {
	struct edit_file *files;
	size_t n_files;
};

/* Adds a regular file below dir to the set, or finds it there; NULL: it is none, or is larger than
 * 4 MiB, or is no text. */
struct edit_file *edit_open(struct edit_set *s, const char *dir, const char *full);
/* Text (one line, without newline) behind line i. */
void edit_insert(struct edit_file *f, size_t i, const char *text);
void edit_replace(struct edit_file *f, size_t i, char *take);
bool edit_changed(const struct edit_file *f);
/* Unified diff with a/ and b/ names. */
void edit_diff(const struct edit_set *s, struct str *out);
int edit_apply(const struct edit_set *s, struct err *err);
/* Back to what it was, times too. */
int edit_undo(const struct edit_set *s, struct err *err);
void edit_done(struct edit_set *s);

/* ---- strategies: each fills the set; ERR_NOT_FOUND: not for this project ---- */

/* The flags for sources of a language, and for links, joined by blanks; false where two compilers
 * of it get different ones.  Empty for none. */
bool deliver_flags(const struct build_plan *p, unsigned lang, struct str *compile);
bool deliver_link_flags(const struct build_plan *p, struct str *link);

/* deliver_cmake.c */
int deliver_cmake(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
		  struct err *err);
/* deliver_make.c: variables; link flags go to the link lines where no variable takes them */
int deliver_make(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
		 struct err *err);
/* The makefiles that the build's directories have, with what they include, in the set. */
void deliver_makefiles(const struct build_deliver_opts *o, struct edit_set *s);
/* deliver_lines.c: the compilers' own lines in makefiles and in scripts that the build names */
int deliver_lines(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
		  struct err *err);
/* Adds the flags to every compiler call of f; links_only: to those without -c alone.  Returns the
 * number of calls changed. */
size_t deliver_edit_calls(const struct build_deliver_opts *o, struct edit_file *f, bool makefile,
			  bool links_only);

/* deliver_script.c: the lines of apply.sh that build */
void deliver_env_lines(const struct build_deliver_opts *o, struct str *out);
void deliver_command_lines(const struct build_deliver_opts *o, struct str *out);

#endif
