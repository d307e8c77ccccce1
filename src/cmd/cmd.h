/* Subcommand descriptor; one const per cmd_<name>.c, listed in cmd_table.c.  Threads: main only. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

struct err;
struct opt;

enum cmd_exit {
	CMD_EXIT_OK = 0,
	CMD_EXIT_FAIL = 1,
	CMD_EXIT_USAGE = 2,
	CMD_EXIT_INTERRUPTED = 130
};

enum cmd_flags {
	CMD_JSON = 1U << 0,   /* honours --json */
	CMD_HIDDEN = 1U << 1, /* not in the list of commands */
};

struct cmd {
	const char *name;
	const char *summary;  /* one line, lower case, no full stop */
	const char *operands; /* as in the usage line, such as "[DIR]" or "-- COMMAND..."; NULL */
	const char *details;  /* paragraphs for --help after the options; NULL */
	const struct opt *opts;
	unsigned flags;
	/* argv[0] is the command's name.  Returns an exit code of 0 or more, or ERR_* (with err
	 * filled): ERR_INVALID becomes exit code 2, all others 1. */
	int (*run)(const struct cmd *self, int argc, char **argv, struct err *err);
};

extern const struct cmd *const cmd_table[]; /* NULL-terminated, sorted by name */

const struct cmd *cmd_find(const char *name);
/* The whole program: version, help, links such as rocbudai-bench, dispatch.  Returns exit code. */
int cmd_main(int argc, char **argv);

#endif
