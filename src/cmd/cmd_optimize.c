#include "cmd/cmd_optimize.h"

#include <pwd.h>
#include <regex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/cmd_slurm.h"
#include "cmd/cmd_term.h"
#include "cmd/opt.h"
#include "cmd/stop.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "flow/flow.h"
#include "measure/pattern.h"
#include "measure/stats.h"
#include "session/answers.h"

extern const struct cmd cmd_optimize;

struct optimize_args {
	const char *name, *type, *rocm, *modules, *build, *run, *check, *heldout, *fom, *unit;
	bool higher, lower, yes, json_events, resume, here, undo, allow_fp, fom_only, unchecked;
	struct opt_list tunables, ignore;
	double rtol, atol;
	uint64_t budget_ns, run_timeout_ns;
	unsigned pairs;
};

#define AT(member) offsetof(struct optimize_args, member)
static const struct opt optimize_opts[] = {
	{ OPT_STR, "name", 0, AT(name), "NAME", "name of the session" },
	{ OPT_STR, "type", 0, AT(type), "TYPE", "type of application" },
	{ OPT_STR, "rocm", 0, AT(rocm), "VERSION", "ROCm version, or none" },
	{ OPT_STR, "modules", 0, AT(modules), "M,...",
	  "modules loaded before every build and run" },
	{ OPT_STR, "build", 0, AT(build), "COMMAND", "builds the program (sh -c)" },
	{ OPT_STR, "run", 0, AT(run), "COMMAND", "runs the program (sh -c)" },
	{ OPT_STR, "check", 0, AT(check), "COMMAND",
	  "ends with status 0 where the result is right" },
	{ OPT_STR, "heldout", 0, AT(heldout), "COMMAND",
	  "runs it on an input that is not tuned on" },
	{ OPT_STR, "fom", 0, AT(fom), "REGEX",
	  "figure of merit in the output, or a word beside it" },
	{ OPT_STR, "unit", 0, AT(unit), "UNIT", "unit of the figure of merit" },
	{ OPT_FLAG, "higher", 0, AT(higher), NULL, "a larger figure of merit is better" },
	{ OPT_FLAG, "lower", 0, AT(lower), NULL, "a smaller figure of merit is better" },
	{ OPT_LIST, "tunable", 0, AT(tunables), "NAME=v1,v2",
	  "values to try for {NAME} in commands, or $NAME; the first holds now" },
	{ OPT_LIST, "ignore", 0, AT(ignore), "REGEX", "output that need not stay the same" },
	{ OPT_DOUBLE, "rtol", 0, AT(rtol), "X", "relative tolerance of results" },
	{ OPT_DOUBLE, "atol", 0, AT(atol), "X", "absolute tolerance of results" },
	{ OPT_DURATION, "budget", 0, AT(budget_ns), "T", "time for the whole search, such as 30m" },
	{ OPT_DURATION, "run-timeout", 0, AT(run_timeout_ns), "T", "a longer run hangs" },
	{ OPT_UINT, "pairs", 0, AT(pairs), "N", "pairs of a confirmation (20, at least 8)" },
	{ OPT_FLAG, "allow-fp", 0, AT(allow_fp), NULL,
	  "changes may alter floating-point results within the tolerances" },
	{ OPT_FLAG, "fom-only", 0, AT(fom_only), NULL, "wall time need not agree" },
	{ OPT_FLAG, "accept-unchecked", 0, AT(unchecked), NULL,
	  "keep changes although there is no result to compare" },
	{ OPT_FLAG, "yes", 'y', AT(yes), NULL, "take the defaults and agree to everything" },
	{ OPT_FLAG, "json-events", 0, AT(json_events), NULL, "one JSON object an event on stdout" },
	{ OPT_FLAG, "continue", 0, AT(resume), NULL, "go on with the last session" },
	{ OPT_FLAG, "undo", 0, AT(undo), NULL,
	  "bring the project back to before the last session" },
	{ OPT_FLAG, "here", 0, AT(here), NULL, "run although no Slurm job of yours runs here" },
	{ .type = OPT_END },
};

/* "a,b c" to a list; NULL stays NULL.  Owned by the answers. */
static char **optimize_modules(const char *text)
{
	char **v;
	size_t n = 0;

	if (!text)
		return NULL;
	v = xcalloc(1, sizeof(*v));
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, ", ");

		if (len) {
			v = xrealloc_n(v, n + 2, sizeof(*v));
			v[n++] = xstrndup(p, len);
			v[n] = NULL;
		}
		p += len;
		p += strspn(p, ", ");
	}
	return v;
}

/* Their use comes minutes later, after the first build. */
static int optimize_check_ignore(const struct optimize_args *args, struct err *err)
{
	for (size_t i = 0; i < args->ignore.n; i++) {
		regex_t re;
		int r = pattern_compile(&re, args->ignore.v[i], REG_NEWLINE, "--ignore", err);

		if (r < 0)
			return r;
		regfree(&re);
	}
	return ERR_OK;
}

static int optimize_answers(const struct optimize_args *args, struct session_answers *a,
			    struct err *err)
{
	int r;

	if (args->higher && args->lower)
		return err_set(err, ERR_INVALID, "--higher and --lower exclude each other");
	if (args->pairs && args->pairs < 8)
		return err_set(err, ERR_INVALID,
			       "--pairs %u: a confirmation takes at least 8 pairs", args->pairs);
	if (args->pairs > STATS_PAIRS_MAX)
		return err_set(err, ERR_INVALID, "--pairs %u: at most %d", args->pairs,
			       STATS_PAIRS_MAX);
	if ((r = optimize_check_ignore(args, err)) < 0)
		return r;
	if (args->rtol < 0 || args->atol < 0)
		return err_set(err, ERR_INVALID, "--rtol and --atol must not be negative");
	*a = (struct session_answers){
		.name = xstrdup(args->name),
		.type = xstrdup(args->type),
		.rocm = xstrdup(args->rocm),
		.modules = optimize_modules(args->modules),
		.build = xstrdup(args->build),
		.run = xstrdup(args->run),
		.check = xstrdup(args->check),
		.heldout = xstrdup(args->heldout),
		.fom_pattern = xstrdup(args->fom),
		.fom_unit = xstrdup(args->unit),
		.has_fom_higher = args->higher || args->lower,
		.fom_higher = args->higher,
	};
	return ERR_OK;
}

static char *optimize_line(int argc, char **argv)
{
	struct str s = { 0 };

	str_adds(&s, "rocbudai");
	for (int i = 0; i < argc; i++) {
		str_addc(&s, ' ');
		str_add_shquote(&s, argv[i]);
	}
	return str_take(&s);
}

static void optimize_say_end(const char *dir, const struct flow_outcome *out)
{
	AUTO_FREE char *report = out->report_path ? file_join(dir, out->report_path) : NULL;
	AUTO_FREE char *delivery = out->delivery_path ? file_join(dir, out->delivery_path) : NULL;
	AUTO_STR struct str undo = { 0 };

	(void)fprintf(stderr, "\n%u iterations: %u kept, %u rejected, %u void\n", out->iterations,
		      out->kept, out->rejected, out->voids);
	if (out->has_gain)
		(void)fprintf(stderr,
			      "gain: %.3f× (interval %.3f× to %.3f×), delivered against the "
			      "original\n",
			      out->gain, out->gain_low, out->gain_high);
	else if (!out->interrupted)
		(void)fprintf(stderr, "gain: none; the project is as it was\n");
	if (delivery)
		(void)fprintf(stderr, "delivered: %s\n", delivery);
	if (report)
		(void)fprintf(stderr, "report: %s\n", report);
	if (out->undo) {
		str_adds(&undo, out->undo);
		if (strcmp(dir, ".") != 0) {
			str_addc(&undo, ' ');
			str_add_shquote(&undo, dir);
		}
		(void)fprintf(stderr, "undo: %s\n", str_get(&undo));
	}
	if (out->interrupted)
		(void)fprintf(stderr, "interrupted; 'rocbudai optimize --continue' goes on\n");
}

static void optimize_tell_end(const struct flow_outcome *out)
{
	AUTO_JSON struct json *o = json_new_obj();
	AUTO_FREE char *line = NULL;

	json_set_str(o, "event", "end");
	json_set_int(o, "iterations", out->iterations);
	json_set_int(o, "kept", out->kept);
	json_set_int(o, "rejected", out->rejected);
	json_set_int(o, "void", out->voids);
	json_set(o, "gain", out->has_gain ? json_new_real(out->gain) : json_new_null());
	json_set_str(o, "report", out->report_path);
	json_set_bool(o, "interrupted", out->interrupted);
	line = json_dump(o);
	(void)printf("%s\n", line);
}

int cmd_optimize_run_flow(const struct flow_opts *opts, struct cmd_term *t, struct err *err)
{
	struct flow_outcome out;
	struct flow_ui ui;
	int r;

	cmd_term_ui(t, &ui);
	r = flow_run(opts, &ui, &out, err);
	cmd_term_clear(t);
	if (r == ERR_CANCELLED) {
		(void)fprintf(stderr, "rocbudai: %s; the project is as it was\n", err->msg);
		return CMD_EXIT_INTERRUPTED;
	}
	if (r < 0)
		return r;
	optimize_say_end(opts->dir, &out);
	if (t->json)
		optimize_tell_end(&out);
	r = out.interrupted ? CMD_EXIT_INTERRUPTED : CMD_EXIT_OK;
	flow_outcome_done(&out);
	return r;
}

static int optimize_undo(const char *dir, struct cmd_term *t, struct err *err)
{
	struct flow_ui ui;
	int r;

	cmd_term_ui(t, &ui);
	if (ui.agree && !ui.agree(ui.arg, "the project goes back to what it was before the last "
					  "session; files made since by others stay\n"))
		return err_set(err, ERR_REFUSED, "stopped: nothing was changed");
	r = flow_undo(dir, &ui, err);
	if (r == ERR_OK)
		(void)fprintf(stderr, "the project is what it was before the last session\n");
	return r;
}

static int optimize_with(struct optimize_args *args, const char *dir, const char *line,
			 struct err *err)
{
	struct session_answers answers = { 0 };
	struct cmd_term t = { .yes = args->yes, .json = args->json_events };
	struct flow_opts opts = {
		.dir = dir,
		.given = &answers,
		.tunables = args->tunables.v,
		.n_tunables = args->tunables.n,
		.ignore = args->ignore.v,
		.n_ignore = args->ignore.n,
		.rtol = args->rtol,
		.atol = args->atol,
		.budget_ns = args->budget_ns,
		.run_timeout_ns = args->run_timeout_ns,
		.pairs = args->pairs,
		.allow_fp = args->allow_fp,
		.fom_only = args->fom_only,
		.accept_unchecked = args->unchecked,
		.resume = args->resume,
		.command = line,
	};
	int r = optimize_answers(args, &answers, err);

	if (r == ERR_OK && (t.stop_fd = stop_open(err)) < 0)
		r = t.stop_fd;
	opts.stop_fd = t.stop_fd;
	if (r == ERR_OK && args->undo)
		r = optimize_undo(dir, &t, err);
	else if (r == ERR_OK && (args->here || (r = cmd_slurm_check(err)) == ERR_OK))
		r = cmd_optimize_run_flow(&opts, &t, err);
	session_answers_done(&answers);
	return r;
}

static int cmd_optimize_run(const struct cmd *self, int argc, char **argv, struct err *err)
{
	struct optimize_args args = { 0 };
	AUTO_FREE char *line = optimize_line(argc, argv);
	int i = opt_parse(self->opts, argc, argv, &args, err);
	int r = i;

	if (i >= 0 && argc - i > 1)
		r = err_set(err, ERR_INVALID, "one folder at the most: '%s' is too many",
			    argv[i + 1]);
	else if (i >= 0)
		r = optimize_with(&args, i < argc ? argv[i] : ".", line, err);
	opt_list_done(&args.tunables);
	opt_list_done(&args.ignore);
	return r;
}

const struct cmd cmd_optimize = {
	.name = "optimize",
	.summary = "make the program in a folder faster, and prove it",
	.operands = "[DIR]",
	.details =
		"Builds the program, learns what a correct result is, measures it, profiles it, and\n"
		"tries one change after the other; what is confirmed on fresh measurements is kept and\n"
		"delivered as a patch or a script.  On a terminal the seven questions are asked; else\n"
		"what was found is used.  Nothing leaves the folder but .rocbudai's master copy in\n"
		"$XDG_STATE_HOME/rocbudai.\n",
	.opts = optimize_opts,
	.flags = CMD_JSON,
	.run = cmd_optimize_run,
};
