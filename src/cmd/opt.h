/* Option table: parsing, --help, completion and the man page all read it.  Threads: main only. */
#ifndef CMD_OPT_H
#define CMD_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct err;

enum opt_type {
	OPT_END,
	OPT_FLAG,     /* bool */
	OPT_STR,      /* const char * */
	OPT_UINT,     /* unsigned */
	OPT_DOUBLE,   /* double */
	OPT_DURATION, /* uint64_t, nanoseconds */
	OPT_LIST,     /* struct opt_list; the option may be repeated */
};

struct opt_list {
	const char **v; /* n values, borrowed from argv; freed by opt_list_done() */
	size_t n;
};

struct opt {
	enum opt_type type;
	const char *name; /* long name without dashes; NULL: short only */
	char key;	  /* short name or 0 */
	size_t off;	  /* offset of the field in the command's args struct */
	const char *arg;  /* value name in help, NULL for flags */
	const char *help; /* one line without full stop */
};

/*
 * Options end at "--" or at the first operand.  "--name value", "--name=value", "-k value",
 * "-kvalue". Returns the index of the first operand, or ERR_INVALID naming the option.  Every table
 * is searched after --help, which the dispatcher handles before.
 */
int opt_parse(const struct opt *opts, int argc, char **argv, void *args, struct err *err);
void opt_list_done(struct opt_list *l);
void opt_print_help(const struct opt *opts, FILE *to);

#endif
