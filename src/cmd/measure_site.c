#include "cmd/measure_site.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/file.h"
#include "base/json.h"
#include "cmd/cmd.h"
#include "cmd/stop.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "measure/bench.h"
#include "measure/cmd.h"
#include "measure/fom.h"
#include "proc/proc.h"

/* ---- project ---- */

char *measure_project(void)
{
	AUTO_FREE char *dir = getcwd(NULL, 0);
	const char *home = env_get(ENV_HOME);

	while (dir && strcmp(dir, "/") != 0 && (!home || strcmp(dir, home) != 0)) {
		AUTO_FREE char *mark = file_join(dir, ".rocbudai");
		char *slash = strrchr(dir, '/');

		if (file_exists(AT_FDCWD, mark))
			return TAKE_PTR(dir);
		slash[slash == dir] = '\0';
	}
	return NULL;
}

int measure_site_ledger(const struct measure_site *s, struct ledger **out, struct err *err)
{
	struct err why = { 0 };
	struct ledger *l = NULL;
	int r;

	*out = NULL;
	if (!s->project)
		return ERR_OK;
	r = ledger_open(s->project, &l, &why);
	if (r == 0) {
		*out = l;
		return ERR_OK;
	}
	if (s->args->record)
		return err_set(err, r, "the result cannot be recorded: %s", why.msg);
	(void)fprintf(stderr, "rocbudai: not recorded: %s\n", why.msg);
	return ERR_OK;
}

/* ---- figure of merit ---- */

static bool measure_is_word(const char *text)
{
	return !text[strcspn(text, "()[]{}.*+?^$|\\")];
}

static int measure_direction(const struct measure_args *a, struct fom_spec *spec, bool known,
			     struct err *err)
{
	if (a->higher || a->lower)
		spec->higher = a->higher;
	else if (!known && !(a->unit && fom_direction(a->unit, &spec->higher)))
		return err_set(err, ERR_INVALID,
			       "say whether more or less of the figure of merit is better: "
			       "--higher or --lower");
	return ERR_OK;
}

/* A run whose output shows where the number stands; it is not counted. */
static int measure_propose(struct measure_site *s, const struct measure_cmd *trial,
			   struct fom_guess *guess, struct err *err)
{
	struct measure_cmd cmd = *trial;
	struct bench_rep rep = { 0 };
	const struct proc_capture *c;
	int r;

	measure_site_apply(s, &cmd);
	if ((r = bench_once(s->keeper, &cmd, NULL, &rep, err)) < 0)
		return r;
	c = &rep.res->out;
	if (!rep.ok)
		r = err_set(err, ERR_INVALID,
			    "the run that should show the figure of merit failed: %s", rep.why);
	else
		r = fom_propose(s->args->fom, c->tail ? c->tail : c->head,
				c->tail ? c->tail_len : c->head_len, guess, err);
	bench_rep_done(&rep);
	if (r == 0)
		(void)fprintf(stderr, "figure of merit: --fom '%s'%s%s%s%s (%g in a trial run)\n",
			      guess->pattern, guess->unit[0] ? " --unit '" : "", guess->unit,
			      guess->unit[0] ? "'" : "",
			      !guess->has_direction ? ""
			      : guess->higher	    ? " --higher"
						    : " --lower",
			      guess->value);
	return r;
}

static int measure_fom(struct measure_site *s, const struct measure_cmd *trial, struct err *err)
{
	const struct measure_args *a = s->args;
	struct fom_spec spec = { .pattern = a->fom, .unit = a->unit };
	struct fom_guess guess = { .has_direction = false };
	int r;

	if (!a->fom)
		return a->unit || a->higher || a->lower
			       ? err_set(err, ERR_INVALID,
					 "--unit, --higher and --lower say what --fom is, which is "
					 "missing")
			       : ERR_OK;
	if (a->higher && a->lower)
		return err_set(err, ERR_INVALID, "--higher and --lower exclude each other");
	if (measure_is_word(a->fom) && trial) {
		if ((r = measure_propose(s, trial, &guess, err)) < 0)
			return r;
		spec.pattern = guess.pattern;
		if (!a->unit)
			spec.unit = guess.unit;
		spec.higher = guess.higher;
	}
	if ((r = measure_direction(a, &spec, guess.has_direction, err)) < 0)
		return r;
	return fom_new(&spec, &s->fom, err);
}

/* ---- quiet GPU ---- */

bool measure_site_progress(const struct measure_site *s)
{
	return !s->args->json && isatty(STDERR_FILENO);
}

static void measure_waiting(void *arg, double busy_pct, uint64_t waited_ns)
{
	const struct measure_site *s = arg;

	if (measure_site_progress(s))
		(void)fprintf(stderr, "\rGPU %u is %.0f %% busy, waiting for %.0f s ", s->pin.gpu,
			      busy_pct, (double)waited_ns / 1e9);
}

static int measure_wait(struct measure_site *s, struct err *err)
{
	const struct measure_args *a = s->args;
	struct quiet_opts o = {
		QUIET_DEFAULTS,	       .root_fd = s->root_fd,	     .where = s->where,
		.stop_fd = s->stop_fd, .on_sample = measure_waiting, .arg = s
	};
	struct err why = { 0 };
	int r;

	if (!s->pin.has_gpu || a->no_wait)
		return ERR_OK;
	if (!s->pin.has_minor) {
		unsigned minor;

		r = pin_gpu_minor(s->root_fd, s->pin.gpu, &minor, &why);
	} else {
		o.threshold_pct = a->threshold_pct;
		o.max_wait_ns = a->max_wait_ns;
		o.poll_ns = a->poll_ns;
		r = quiet_wait(&o, &s->quiet, &why);
	}
	if (r == ERR_NOT_FOUND) {
		(void)fprintf(stderr, "rocbudai: %s\n", why.msg);
		return MEASURE_EXIT_BLIND;
	}
	if (r < 0)
		return err_set(err, r, "%s", why.msg);
	s->waited = true;
	if (measure_site_progress(s))
		(void)fputc('\n', stderr);
	if (!s->quiet.quiet)
		(void)fprintf(stderr,
			      "rocbudai: GPU %u was still %.0f %% busy after %.0f s; measuring all "
			      "the same\n",
			      s->pin.gpu, s->quiet.last_busy_pct, (double)s->quiet.waited_ns / 1e9);
	return ERR_OK;
}

/* ---- the whole ---- */

static int measure_pin(struct measure_site *s, struct err *err)
{
	struct pin_opts o = { .root_fd = s->root_fd, .cpus = s->args->cpus, .gpu = s->args->gpu };
	int r = pin_resolve(&o, &s->pin, err);

	if (r < 0)
		return r;
	s->where = (struct disturb_where){ .cpus = s->pin.has_cpus ? &s->pin.cpus : NULL,
					   .has_minor = s->pin.has_minor,
					   .minor = s->pin.minor };
	return ERR_OK;
}

int measure_site_open(struct measure_site *s, const struct measure_args *args,
		      const struct measure_cmd *trial, struct err *err)
{
	const char *root = env_get(ENV_SYSROOT);
	int r;

	*s = (struct measure_site){ .args = args, .root_fd = -1, .stop_fd = -1 };
	s->project = measure_project();
	if (!s->project && args->record)
		s->project = getcwd(NULL, 0);
	if ((s->root_fd = rootfs_open(root ? root : "/", err)) < 0)
		return s->root_fd;
	if ((r = measure_pin(s, err)) < 0)
		return r;
	if ((r = proc_keeper_open(&s->keeper, err)) < 0)
		return r;
	if ((s->stop_fd = stop_open(err)) < 0)
		return s->stop_fd;
	if ((r = measure_wait(s, err)) != 0 || (r = measure_fom(s, trial, err)) < 0)
		return r == ERR_CANCELLED ? stop_exit_code() : r;
	disturb_read(s->root_fd, &s->where, &s->before);
	return ERR_OK;
}

void measure_site_close(struct measure_site *s)
{
	fom_free(s->fom);
	proc_keeper_close(s->keeper);
	free(s->project);
	core_closep(&s->root_fd);
	core_closep(&s->stop_fd);
}

void measure_site_apply(const struct measure_site *s, struct measure_cmd *cmd)
{
	if (s->pin.has_cpus)
		cmd->cpus = &s->pin.cpus;
	if (s->pin.has_gpu)
		cmd->env = s->pin.env;
	if (s->args->timeout_ns)
		cmd->timeout_ns = s->args->timeout_ns;
	cmd->stop_fd = s->stop_fd;
}

void measure_site_disturbed(const struct measure_site *s, double own_cpu_s,
			    struct disturb_report *out)
{
	struct disturb_snap after;

	disturb_read(s->root_fd, &s->where, &after);
	disturb_compare(&s->before, &after, own_cpu_s, out);
}

void measure_site_json(const struct measure_site *s, const struct disturb_report *d, struct json *o)
{
	if (s->args->label)
		json_set_str(o, "label", s->args->label);
	json_set_str(o, "pinned", s->pin.text);
	if (s->waited) {
		json_set_bool(o, "gpu_was_quiet", s->quiet.quiet);
		json_set_real(o, "gpu_waited_s", (double)s->quiet.waited_ns / 1e9);
	}
	json_set(o, "machine", disturb_json(d));
}
