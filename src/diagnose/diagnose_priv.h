/* Shared by the files of diagnose and by nobody else. */
#ifndef DIAGNOSE_DIAGNOSE_PRIV_H
#define DIAGNOSE_DIAGNOSE_PRIV_H

#include <stdbool.h>
#include <stddef.h>

#include "diagnose/diagnose.h"

struct err;
struct json;
struct profile_func;
struct str;

/* The shape of `applies` and `action`; lines maps dotted paths to lines.  ERR_INVALID with line. */
int diagnose_applies_check(const struct json *applies, const struct json *lines, const char *what,
			   struct err *err);
int diagnose_action_check(const struct json *action, const struct json *lines, const char *what,
			  struct err *err);
/*
 * Holds every condition against the facts.  False: reason says which does not hold.  True: seen
 * receives what was found, with the ids of evidence.
 */
bool diagnose_applies(const struct diagnose_facts *f, const struct json *applies, struct str *seen,
		      struct str *reason);

/* Effective optimisation level of a compile: 0 to 3; -Os and -Oz count as 2, -Og as 1, -Ofast 3. */
unsigned diagnose_opt_level(const struct diagnose_unit *u, const char **flag);
/* The unit has an argument that starts so. */
bool diagnose_has_flag(const struct diagnose_unit *u, const char *prefix);
/* The hottest function of the profile that lies in a source of which `is` is true; NULL: none, or
 * no profile with source lines. */
const struct profile_func *diagnose_hottest(const struct diagnose_facts *f,
					    bool (*is)(const struct diagnose_unit *u, unsigned arg),
					    unsigned arg);
/* A compiler's name of a source and the build's name of it ("./src/a.c") are the same file. */
bool diagnose_same_source(const char *compiled, const char *source);

#endif
