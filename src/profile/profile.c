#include "profile/profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "core/str.h"
#include "proc/proc.h"
#include "profile/profile_priv.h"
#include "profile/script.h"

#define PROFILE_PROBE_NS   (10 * NS_PER_SEC)
#define PROFILE_ANALYSE_NS (60 * NS_PER_SEC)

/* Hardware cycles first; then clocks of the kernel, which need no counters; `:u` where the kernel
 * lets users see only their own programs. */
static const char *const profile_events[] = { "cycles", "cycles:u", "cpu-clock", "cpu-clock:u",
					      "task-clock:u" };

/* One profile while it is taken. */
struct profile_job {
	struct proc_keeper *k;
	const struct profile_opts *opts;
	struct profile_result *res;
	const char *perf;
	char hz[16];
	char *data, *probe; /* files */
	uint64_t analyse_ns;
};

/* ---- running perf ---- */

static void profile_on_output(void *arg, bool is_err, const char *data, size_t n)
{
	if (!is_err)
		profile_script_add(arg, data, n);
}

/* perf for our own ends: nothing of the user's configuration, no network.  Its output goes to
 * script, where given. */
static int profile_run_tool(struct profile_job *j, const char *const *argv, uint64_t timeout_ns,
			    struct profile_script *script, struct proc_result *out, struct err *err)
{
	static const char *const changes[] = { "LC_ALL=C", "PERF_CONFIG=/dev/null",
					       "DEBUGINFOD_URLS", NULL };
	const struct proc_spec *cmd = j->opts->cmd;
	AUTO_FREE const char **envp = proc_env(cmd->envp, changes);
	struct proc_spec spec = { .argv = argv,
				  .envp = envp,
				  .cwd = cmd->cwd,
				  .out = PROC_IO_CAPTURE,
				  .err = PROC_IO_CAPTURE,
				  .capture_max = 16384,
				  .timeout_ns = timeout_ns,
				  .mounts = cmd->mounts,
				  .n_mounts = cmd->n_mounts,
				  .stop_fd = cmd->stop_fd,
				  .on_output = script ? profile_on_output : NULL,
				  .on_tick = script ? NULL : cmd->on_tick,
				  .arg = script ? (void *)script : cmd->arg };
	int r;

	if (!envp)
		return err_set(err, ERR_NOMEM, "no memory for an environment");
	r = proc_run(j->k, &spec, out, err);
	if (r == ERR_OK && out->stopped) {
		proc_result_done(out);
		return err_set(err, ERR_CANCELLED, "stopped while profiling");
	}
	return r;
}

/* The last line that is not blank of what a tool said, for people. */
static void profile_last_line(const struct proc_result *r, char *buf, size_t cap)
{
	const struct proc_capture *c = r->err.head_len ? &r->err : &r->out;
	const char *p = c->tail ? c->tail : c->head;
	size_t n = c->tail ? c->tail_len : c->head_len, start, end;

	end = n;
	while (end && (unsigned char)p[end - 1] <= ' ')
		end--;
	start = end;
	while (start && p[start - 1] != '\n')
		start--;
	n = end - start < cap - 1 ? end - start : cap - 1;
	for (size_t i = 0; i < n; i++) {
		buf[i] = p[start + i];
		if ((unsigned char)buf[i] < 0x20 || buf[i] == 0x7f)
			buf[i] = '?';
	}
	buf[n] = '\0';
}

__attribute__((format(printf, 2, 3))) static void profile_why(struct profile_job *j,
							      const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(j->res->why, sizeof(j->res->why), fmt, ap);
	va_end(ap);
}

/*
 * True where a tool could not be started because it is not there: a result, not an error.  The
 * keeper's death and a stop are errors.
 */
static bool profile_absent(struct profile_job *j, const struct err *err)
{
	if (err->code != ERR_SYS || (err->sys_errno != ENOENT && err->sys_errno != EACCES))
		return false;
	profile_why(j, "perf is not installed here: %.200s", err->msg);
	return true;
}

/* ---- what works ---- */

static int profile_ask_version(struct profile_job *j, bool *usable, struct err *err)
{
	const char *argv[] = { j->perf, "--version", NULL };
	struct proc_result out = { 0 };
	struct err why = { 0 };
	int r = profile_run_tool(j, argv, PROFILE_PROBE_NS, NULL, &out, &why);

	*usable = false;
	if (r < 0) {
		if (profile_absent(j, &why))
			return ERR_OK;
		if (err)
			*err = why;
		return r;
	}
	if (out.exit_code == 0) {
		profile_last_line(&out, j->res->version, sizeof(j->res->version));
		*usable = true;
	} else {
		char how[80], said[120];

		proc_result_text(&out, how, sizeof(how));
		profile_last_line(&out, said, sizeof(said));
		profile_why(j, "perf does not work here: 'perf --version' %s: %s", how, said);
	}
	proc_result_done(&out);
	return ERR_OK;
}

static void profile_why_refused(struct profile_job *j, const char *said)
{
	int root = rootfs_open("/", NULL);
	char level[16];

	if (root >= 0 && rootfs_read(root, "proc/sys/kernel/perf_event_paranoid", level,
				     sizeof(level), NULL) > 0)
		profile_why(
			j,
			"perf may not or cannot sample here (kernel.perf_event_paranoid is %s): "
			"%s",
			level, said);
	else
		profile_why(j, "perf may not or cannot sample here: %s", said);
	if (root >= 0)
		(void)close(root);
}

/* The first event that `true` can be sampled with; NULL in *event: none, and why says so. */
static int profile_find_event(struct profile_job *j, const char **event, struct err *err)
{
	char said[160] = "";

	*event = NULL;
	for (size_t i = 0; i < sizeof(profile_events) / sizeof(profile_events[0]); i++) {
		const char *argv[] = {
			j->perf, "record", "-q", "-B",	   "-N", "-e",	 profile_events[i],
			"-F",	 j->hz,	   "-o", j->probe, "--", "true", NULL
		};
		struct proc_result out = { 0 };
		int r = profile_run_tool(j, argv, PROFILE_PROBE_NS, NULL, &out, err);
		bool ok, hangs;

		if (r < 0)
			return r;
		hangs = out.timed_out;
		ok = out.exit_code == 0 && !hangs;
		if (hangs)
			(void)snprintf(said, sizeof(said), "'perf record' of 'true' does not end");
		else if (!ok)
			profile_last_line(&out, said, sizeof(said));
		proc_result_done(&out);
		if (ok) {
			*event = profile_events[i];
			return ERR_OK;
		}
		if (hangs)
			break;
	}
	profile_why_refused(j, said);
	return ERR_OK;
}

/* perf may have taken another event than it was asked for: "cycles" becomes a clock without a
 * message where there are no counters. */
static int profile_real_event(struct profile_job *j, const char *asked, struct err *err)
{
	const char *argv[] = { j->perf, "evlist", "-i", j->data, NULL };
	char event[64];
	const char *mod;
	struct proc_result out = { 0 };
	int r = profile_run_tool(j, argv, PROFILE_PROBE_NS, NULL, &out, err);

	if (r < 0)
		return r;
	(void)snprintf(event, sizeof(event), "%s", asked);
	if (out.exit_code == 0 && out.out.head_len) {
		size_t n = strcspn(out.out.head, " \t\r\n");

		(void)snprintf(event, sizeof(event), "%.*s", (int)(n < 63 ? n : 63), out.out.head);
	}
	proc_result_done(&out);
	mod = strchr(event, ':');
	j->res->has_counters = strncmp(event, "cycles", 6) == 0 || strstr(event, "/cycles");
	j->res->user_only = mod && strchr(mod, 'u') && !strchr(mod, 'k');
	(void)snprintf(j->res->tool, sizeof(j->res->tool), "perf record -e %s -F %s", event, j->hz);
	return ERR_OK;
}

/* ---- recording ---- */

static size_t profile_argc(const char *const *argv)
{
	size_t n = 0;

	while (argv[n])
		n++;
	return n;
}

/* *ok: there is a file of samples of a program that did not fail. */
static int profile_record(struct profile_job *j, const char *event, bool *ok, struct err *err)
{
	const char *const head[] = { j->perf, "record", "-q",  "-B", "-N",    "-e",
				     event,   "-F",	j->hz, "-o", j->data, "--" };
	size_t n_head = sizeof(head) / sizeof(head[0]), n = profile_argc(j->opts->cmd->argv);
	AUTO_FREE const char **argv = xcalloc(n_head + n + 1, sizeof(*argv));
	struct proc_spec spec = *j->opts->cmd;
	struct proc_result out = { 0 };
	char how[96], said[160];
	int r;

	memcpy(argv, head, sizeof(head));
	memcpy(argv + n_head, j->opts->cmd->argv, n * sizeof(*argv));
	spec.argv = argv;
	spec.out = spec.err = PROC_IO_CAPTURE;
	spec.merge_err = false;
	spec.capture_max = 16384;
	spec.on_output = NULL;
	*ok = false;
	r = proc_run(j->k, &spec, &out, err);
	if (r < 0)
		return r;
	if (out.stopped) {
		proc_result_done(&out);
		return err_set(err, ERR_CANCELLED, "stopped while profiling");
	}
	*ok = out.exit_code == 0 && !out.timed_out;
	if (!*ok) {
		proc_result_text(&out, how, sizeof(how));
		profile_last_line(&out, said, sizeof(said));
		profile_why(j, "the program under perf %s%s%s", how, said[0] ? ": " : "", said);
	} else if (!file_exists(AT_FDCWD, j->data)) {
		*ok = false;
		profile_why(j, "perf record wrote no file '%s'", j->data);
	}
	proc_result_done(&out);
	return ERR_OK;
}

/* ---- reading the samples ---- */

static int profile_by_weight(const void *x, const void *y, void *arg)
{
	const struct profile_script_func *f = arg;
	size_t i = *(const size_t *)x, k = *(const size_t *)y;
	double a = f[i].weight, b = f[k].weight;

	if (a != b)
		return a > b ? -1 : 1;
	return i < k ? -1 : i > k ? 1 : 0;
}

static void profile_take_funcs(struct profile_result *res, const struct profile_script *s)
{
	size_t n;
	const struct profile_script_func *f = profile_script_funcs(s, &n);
	AUTO_FREE size_t *by = xcalloc(n + 1, sizeof(*by));
	double total = profile_script_weight(s);

	for (size_t i = 0; i < n; i++)
		by[i] = i;
	qsort_r(by, n, sizeof(*by), profile_by_weight, (void *)(uintptr_t)f);
	res->n_funcs = n < PROFILE_FUNCS_MAX ? n : PROFILE_FUNCS_MAX;
	res->funcs = xcalloc(res->n_funcs + 1, sizeof(*res->funcs));
	for (size_t i = 0; i < res->n_funcs; i++) {
		res->funcs[i] = (struct profile_func){
			.name = xstrdup(f[by[i]].name),
			.dso = xstrdup(f[by[i]].dso),
			.share_pct = total > 0 ? 100 * f[by[i]].weight / total : 0,
			.samples = f[by[i]].samples,
		};
	}
}

/* *s is set where perf script ran to its end; else why says what happened. */
static int profile_read(struct profile_job *j, struct profile_script **s, struct err *err)
{
	const char *argv[] = { j->perf,
			       "script",
			       "-i",
			       j->data,
			       "--force",
			       "--show-mmap-events",
			       "--show-task-events",
			       "--show-lost-events",
			       "-F",
			       PROFILE_SCRIPT_FIELDS,
			       NULL };
	struct profile_script *script = profile_script_new();
	struct proc_result out = { 0 };
	char how[96], said[160];
	int r = profile_run_tool(j, argv, j->analyse_ns, script, &out, err);

	*s = NULL;
	if (r < 0) {
		profile_script_free(script);
		return r;
	}
	profile_script_end(script);
	if (out.exit_code != 0 || out.timed_out) {
		proc_result_text(&out, how, sizeof(how));
		profile_last_line(&out, said, sizeof(said));
		profile_why(j, "'perf script' %s%s%s", how, said[0] ? ": " : "", said);
		profile_script_free(script);
	} else if (profile_script_samples(script) == 0) {
		if (profile_script_bad(script))
			profile_why(j,
				    "%llu lines of 'perf script' were not understood, none is a "
				    "sample",
				    (unsigned long long)profile_script_bad(script));
		else
			profile_why(j,
				    "perf took no sample: the program is too short for %s "
				    "samples a second",
				    j->hz);
		profile_script_free(script);
	} else {
		*s = script;
	}
	proc_result_done(&out);
	return ERR_OK;
}

static int profile_analyse(struct profile_job *j, struct err *err)
{
	struct profile_script *s;
	struct profile_result *res = j->res;
	int r = profile_read(j, &s, err);

	if (r < 0 || !s)
		return r;
	res->samples = profile_script_samples(s);
	res->lost = profile_script_lost(s);
	if (!res->has_counters)
		res->busy_s = profile_script_weight(s) / 1e9;
	profile_take_funcs(res, s);
	r = profile_find_lines(j->k, j->opts, j->analyse_ns, s, res, err);
	res->ok = r == ERR_OK;
	profile_script_free(s);
	return r;
}

/* ---- the whole ---- */

static int profile_take(struct profile_job *j, struct err *err)
{
	const char *event;
	bool ok;
	int r = profile_ask_version(j, &ok, err);

	if (r < 0 || !ok)
		return r;
	r = profile_find_event(j, &event, err);
	if (r < 0 || !event)
		return r;
	r = profile_record(j, event, &ok, err);
	if (r < 0 || !ok)
		return r;
	r = profile_real_event(j, event, err);
	if (r < 0)
		return r;
	r = profile_analyse(j, err);
	if (r < 0)
		return r;
	if (hash_file_hex(AT_FDCWD, j->data, j->res->data_sha256, NULL) == ERR_OK)
		j->res->data_path = xstrdup(j->data);
	return ERR_OK;
}

int profile_run(struct proc_keeper *k, const struct profile_opts *opts, struct profile_result *out,
		struct err *err)
{
	struct profile_result res = { 0 };
	struct profile_job j = { .k = k, .opts = opts, .res = &res };
	int r = file_mkdirs(opts->out_dir, 0777, err);
	AUTO_FREE char *dir = NULL;

	if (r < 0)
		return r;
	/* perf starts in cmd's folder */
	dir = realpath(opts->out_dir, NULL);
	if (!dir)
		return err_sys(err, errno, "'%.300s'", opts->out_dir);
	if (access(dir, W_OK | X_OK) < 0)
		return err_sys(err, errno, "write to '%.300s'", dir);
	j.perf = opts->perf ? opts->perf : "perf";
	j.data = file_join(dir, "perf.data");
	j.probe = file_join(dir, "probe.data");
	j.analyse_ns = opts->analysis_timeout_ns ? opts->analysis_timeout_ns : PROFILE_ANALYSE_NS;
	(void)snprintf(j.hz, sizeof(j.hz), "%u", opts->hz ? opts->hz : PROFILE_HZ_DEFAULT);
	(void)unlink(j.data);
	r = profile_take(&j, err);
	(void)unlink(j.probe);
	if (!res.data_path)
		(void)unlink(j.data);
	free(j.data);
	free(j.probe);
	if (r < 0)
		profile_result_done(&res);
	else
		*out = res;
	return r;
}
