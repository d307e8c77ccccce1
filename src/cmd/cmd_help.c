#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/env.h"
#include "cmd/cmd.h"
#include "cmd/opt.h"
#include "core/err.h"

extern const struct cmd cmd_help;

static void cmd_help_environment(void)
{
	printf("| variable | default | meaning |\n|---|---|---|\n");
	for (size_t i = 0; i < ENV_N; i++)
		printf("| `%s` | %s | %s |\n", env_table[i].name, env_table[i].fallback,
		       env_table[i].meaning);
}

static void cmd_help_list(void)
{
	printf("usage: rocbudai COMMAND [options]\n\n"
	       "Finds out why a program is slow, makes it faster, and proves it by measurements that\n"
	       "it took itself.\n\n");
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		if (!((*c)->flags & CMD_HIDDEN))
			printf("  %-12s %s\n", (*c)->name, (*c)->summary);
	}
	printf("\n'rocbudai COMMAND --help' tells more; 'rocbudai help environment' lists variables.\n");
}

static void cmd_help_one(const struct cmd *c)
{
	printf("usage: rocbudai %s%s%s%s\n\n%s\n", c->name, c->opts ? " [options]" : "",
	       c->operands ? " " : "", c->operands ? c->operands : "", c->summary);
	if (c->opts) {
		printf("\n");
		opt_print_help(c->opts, stdout);
	}
	if (c->details)
		printf("\n%s", c->details);
}

static int cmd_help_run(const struct cmd *self, int argc, char **argv, struct err *err)
{
	const struct cmd *c;

	(void)self;
	if (argc < 2) {
		cmd_help_list();
		return CMD_EXIT_OK;
	}
	if (strcmp(argv[1], "environment") == 0) {
		cmd_help_environment();
		return CMD_EXIT_OK;
	}
	if (!(c = cmd_find(argv[1])))
		return err_set(err, ERR_INVALID, "no command is called '%s'", argv[1]);
	cmd_help_one(c);
	return CMD_EXIT_OK;
}

const struct cmd cmd_help = {
	.name = "help",
	.summary = "list the commands, or tell about one",
	.operands = "[COMMAND|environment]",
	.run = cmd_help_run,
};
