#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/opt.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger.h"
#include "report/report.h"

extern const struct cmd cmd_report;

struct report_args {
	bool verify, check, json;
};

static const struct opt report_opts[] = {
	{ OPT_FLAG, "verify", 0, offsetof(struct report_args, verify), NULL,
	  "check ledger and report against each other; exit 1 on any finding" },
	{ OPT_FLAG, "check", 0, offsetof(struct report_args, check), NULL, "the same" },
	{ OPT_FLAG, "json", 0, offsetof(struct report_args, json), NULL,
	  "one JSON document on stdout" },
	{ .type = OPT_END },
};

struct report_findings {
	struct json *arr; /* NULL: as text */
};

static void report_one(void *arg, const struct report_finding *f)
{
	struct report_findings *to = arg;
	struct json *o;

	if (!to->arr) {
		if (f->line)
			printf("%s:%zu: %s\n", f->file, f->line, f->what);
		else
			printf("%s: %s\n", f->file, f->what);
		return;
	}
	o = json_new_obj();
	json_set_str(o, "file", f->file);
	json_set_int(o, "line", (int64_t)f->line);
	json_set_str(o, "what", f->what);
	json_add(to->arr, o);
}

static void report_print(const struct json *j)
{
	AUTO_FREE char *text = json_dump_pretty(j);

	printf("%s\n", text);
}

static int report_do_verify(const char *dir, bool json, struct err *err)
{
	AUTO_JSON struct json *o = json ? json_new_obj() : NULL;
	struct report_findings to = { .arr = json ? json_new_arr() : NULL };
	int n = report_verify(dir, report_one, &to, err);

	if (n < 0) {
		json_unref(to.arr);
		return n;
	}
	if (json) {
		json_set_bool(o, "ok", n == 0);
		json_set(o, "findings", to.arr);
		report_print(o);
	} else if (n == 0) {
		printf("ledger and report agree\n");
	}
	return n ? CMD_EXIT_FAIL : CMD_EXIT_OK;
}

static int report_do_write(const char *dir, bool json, struct err *err)
{
	struct ledger *l = NULL;
	const char *path;
	int r = ledger_open_read(dir, &l, err);

	if (r == ERR_OK && json) {
		AUTO_JSON struct json *j = report_json(l);

		report_print(j);
	} else if (r == ERR_OK && (r = report_write(l, dir, &path, err)) == ERR_OK) {
		printf("%s\n", path);
	}
	ledger_close(l);
	return r;
}

static int cmd_report_run(const struct cmd *self, int argc, char **argv, struct err *err)
{
	struct report_args args = { 0 };
	int i = opt_parse(self->opts, argc, argv, &args, err);
	const char *dir = i >= 0 && i < argc ? argv[i] : ".";

	if (i < 0)
		return i;
	if (argc - i > 1)
		return err_set(err, ERR_INVALID, "one folder at the most: '%s' is too many",
			       argv[i + 1]);
	return args.verify || args.check ? report_do_verify(dir, args.json, err)
					 : report_do_write(dir, args.json, err);
}

const struct cmd cmd_report = {
	.name = "report",
	.summary = "render report.md from the evidence, or verify it",
	.operands = "[DIR]",
	.details =
		"Without options report.md is written again from the ledger.  --json prints gain,\n"
		"baseline, best and iterations.  A report.md that is not ours is left alone;\n"
		"rocbudai-report.md is written beside it then.\n",
	.opts = report_opts,
	.flags = CMD_JSON,
	.run = cmd_report_run,
};
