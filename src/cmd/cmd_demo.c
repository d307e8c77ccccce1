#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "cmd/cmd.h"
#include "cmd/cmd_optimize.h"
#include "cmd/cmd_term.h"
#include "cmd/opt.h"
#include "cmd/stop.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "flow/flow.h"
#include "session/answers.h"

extern const struct cmd cmd_demo;

#define DEMO_FILE_MAX ((size_t)1 << 20)

struct demo_args {
	const char *dir;
	bool yes;
};

static const struct opt demo_opts[] = {
	{ OPT_STR, "dir", 0, offsetof(struct demo_args, dir), "DIR",
	  "folder for the copy (default: rocbudai-demo in the current one)" },
	{ OPT_FLAG, "yes", 'y', offsetof(struct demo_args, yes), NULL, "ask nothing" },
	{ .type = OPT_END },
};

static int demo_copy_file(int from, int to, const char *name, struct err *err)
{
	AUTO_FREE char *text = NULL;
	struct stat st;
	size_t len;
	int r = file_read(from, name, DEMO_FILE_MAX, &text, &len, err);

	if (r < 0)
		return r;
	if (fstatat(from, name, &st, 0) < 0)
		return err_sys(err, errno, "stat %s", name);
	return file_write_atomic(to, name, text, len, st.st_mode & 0777, err);
}

static int demo_copy(const char *from, const char *to, struct err *err)
{
	AUTO_CLOSE int out = -1;
	DIR *d = opendir(from);
	int r = ERR_OK;

	if (!d)
		return err_sys(err, errno, "the example is missing: open folder %s", from);
	out = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out < 0)
		r = err_sys(err, errno, "open folder %s", to);
	for (struct dirent *e; r == ERR_OK && (e = readdir(d));) {
		if (e->d_name[0] != '.')
			r = demo_copy_file(dirfd(d), out, e->d_name, err);
	}
	(void)closedir(d);
	return r;
}

/* What a failed copy left: the folder is ours, and the next demonstration wants it absent. */
static void demo_remove(const char *dir)
{
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			(void)unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		(void)closedir(d);
	(void)rmdir(dir);
}

static int demo_begin(struct cmd_term *t, bool yes, const char *dir, struct err *err)
{
	AUTO_FREE char *text = xasprintf("A heat stencil, built the way beginners build it, is "
					 "copied to %s and made faster.\nThis takes two to three "
					 "minutes.\n",
					 dir);
	struct flow_ui ui;

	t->yes = yes;
	cmd_term_ui(t, &ui);
	t->yes = true; /* only whether to begin is asked; what is done is shown as it goes */
	if (!ui.agree)
		ui.say(ui.arg, text);
	else if (!ui.agree(ui.arg, text))
		return err_set(err, ERR_REFUSED, "stopped: nothing was copied");
	return ERR_OK;
}

static int demo_folder(const char *dir, struct err *err)
{
	if (mkdir(dir, 0777) == 0)
		return ERR_OK;
	if (errno == EEXIST)
		return err_set(err, ERR_REFUSED,
			       "%s is there already and is left alone: remove it, or name another "
			       "folder with --dir",
			       dir);
	return err_sys(err, errno, "create folder %s", dir);
}

static int cmd_demo_run(const struct cmd *self, int argc, char **argv, struct err *err)
{
	struct demo_args args = { .dir = "rocbudai-demo" };
	AUTO_FREE char *from = file_data_path("examples/stencil2d");
	struct session_answers answers = { 0 };
	struct cmd_term t = { 0 };
	struct flow_opts opts = { .given = &answers, .command = "rocbudai demo" };
	int i = opt_parse(self->opts, argc, argv, &args, err), r;

	if (i < 0)
		return i;
	if (i < argc)
		return err_set(err, ERR_INVALID,
			       "demo takes no operand ('%s'); --dir names the folder", argv[i]);
	if ((t.stop_fd = stop_open(err)) < 0)
		return t.stop_fd;
	if ((r = demo_begin(&t, args.yes, args.dir, err)) < 0 ||
	    (r = demo_folder(args.dir, err)) < 0)
		return r;
	if ((r = demo_copy(from, args.dir, err)) < 0) {
		demo_remove(args.dir);
		return r;
	}
	opts.dir = args.dir;
	opts.stop_fd = t.stop_fd;
	answers.name = xstrdup("stencil2d");
	answers.fom_pattern = xstrdup("GLUPS: ([0-9.]+)");
	answers.fom_unit = xstrdup("GLUPS");
	answers.has_fom_higher = answers.fom_higher = true;
	r = cmd_optimize_run_flow(&opts, &t, err);
	session_answers_done(&answers);
	return r;
}

const struct cmd cmd_demo = {
	.name = "demo",
	.summary = "watch an example being made faster",
	.opts = demo_opts,
	.run = cmd_demo_run,
};
