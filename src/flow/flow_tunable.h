/* Declared tunables (NAME=v1,v2,…) and their place in command lines.  Threads: any. */
#ifndef FLOW_FLOW_TUNABLE_H
#define FLOW_FLOW_TUNABLE_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json;

#define FLOW_MAX_TUNABLES 32
#define FLOW_MAX_VALUES	  64

struct flow_tunable {
	char *name;
	char **values; /* the first is the one that the original runs with */
	size_t n_values;
};

struct flow_tunables {
	struct flow_tunable v[FLOW_MAX_TUNABLES];
	size_t n;
};

/* "NAME=v1,v2,…": a shell name and at least one value.  ERR_INVALID names what is wrong. */
int flow_tunable_add(struct flow_tunables *t, const char *text, struct err *err);
void flow_tunables_done(struct flow_tunables *t);
const struct flow_tunable *flow_tunable_find(const struct flow_tunables *t, const char *name);

/*
 * The command with each {NAME} replaced by its value, quoted for the shell.  values is an object
 * NAME -> text; a {WORD} that is no key of it stays.  used, if wanted, receives true per value that
 * occurred, in the object's order (as many as it has keys).  Caller frees.
 */
char *flow_expand(const char *command, const struct json *values, bool *used);

#endif
