#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/err.h"

#ifndef RB_VERSION
#error "RB_VERSION comes from CMake"
#endif

static int cmd_usage_error(const char *what)
{
	(void)fprintf(stderr, "rocbudai: no command is called '%s'; 'rocbudai help' lists them\n",
		      what);
	return CMD_EXIT_USAGE;
}

/* "--help" or "-h" before "--" asks for the command's help. */
static bool cmd_wants_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	}
	return false;
}

static int cmd_dispatch(const struct cmd *cmd, int argc, char **argv)
{
	struct err err = { 0 };
	int r;

	if (cmd_wants_help(argc, argv)) {
		char *help_argv[] = { argv[0], NULL, NULL };
		char name[64];

		(void)snprintf(name, sizeof(name), "%s", cmd->name);
		help_argv[1] = name;
		cmd = cmd_find("help");
		r = cmd->run(cmd, 2, help_argv, &err);
	} else {
		r = cmd->run(cmd, argc, argv, &err);
	}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		(void)fprintf(stderr, "rocbudai: writing to standard output failed\n");
		return CMD_EXIT_FAIL;
	}
	if (r >= 0)
		return r;
	(void)fprintf(stderr, "rocbudai %s: %s\n", cmd->name, err.msg);
	if (r == ERR_INVALID)
		(void)fprintf(stderr, "'rocbudai %s --help' tells more\n", cmd->name);
	return r == ERR_INVALID ? CMD_EXIT_USAGE : CMD_EXIT_FAIL;
}

int cmd_main(int argc, char **argv)
{
	static const char prefix[] = "rocbudai-";
	const char *base = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const struct cmd *cmd;

	(void)setlocale(LC_CTYPE, "");
	base = base ? base + 1 : argc > 0 ? argv[0] : "rocbudai";
	if (strncmp(base, prefix, sizeof(prefix) - 1) == 0) {
		cmd = cmd_find(base + sizeof(prefix) - 1);
		return cmd ? cmd_dispatch(cmd, argc, argv) : cmd_usage_error(base);
	}
	if (argc < 2)
		return cmd_dispatch(cmd_find("help"), 1, argv);
	if (strcmp(argv[1], "--version") == 0) {
		printf("rocbudai %s\n", RB_VERSION);
		return fflush(stdout) == 0 ? CMD_EXIT_OK : CMD_EXIT_FAIL;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return cmd_dispatch(cmd_find("help"), argc - 1, argv + 1);
	cmd = cmd_find(argv[1]);
	return cmd ? cmd_dispatch(cmd, argc - 1, argv + 1) : cmd_usage_error(argv[1]);
}
