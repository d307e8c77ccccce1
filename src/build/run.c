#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "interpose/reclog.h"
#include "proc/proc.h"

#define TAIL_LINES 20
#define OUTPUT_MAX ((size_t)4 << 20)

extern char **environ;

static const char *const *env_or_ours(const char *const *envp)
{
	return envp ? envp : (const char *const *)environ;
}

static const char *env_value(const char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; *envp; envp++) {
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	}
	return NULL;
}

/* ---- output ---- */

char *build_tail(const struct proc_result *res, unsigned lines)
{
	const char *s = res->out.tail ? res->out.tail : res->out.head;
	size_t n = res->out.tail ? res->out.tail_len : res->out.head_len, at;

	if (!s)
		return xstrdup("");
	while (n && s[n - 1] == '\n')
		n--;
	for (at = n; at > 0; at--) {
		if (s[at - 1] == '\n' && --lines == 0)
			break;
	}
	return xstrndup(s + at, n - at);
}

/* True for a line that says why: "x.c:1: error: ...", "ld: undefined reference to ...". */
static bool is_cause(const char *line, size_t n)
{
	static const char *const words[] = { "error:",	"Error:",	 "undefined reference",
					     "fatal",	"not supported", "unrecognized",
					     "cannot ", "No such file" };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (memmem(line, n, words[i], strlen(words[i])))
			return true;
	}
	return false;
}

char *build_cause(const char *tail)
{
	const char *last = tail;
	size_t last_n = 0;

	for (const char *p = tail; *p;) {
		size_t n = strcspn(p, "\n");

		if (is_cause(p, n))
			return xstrndup(p, n < 240 ? n : 240);
		if (n) {
			last = p;
			last_n = n;
		}
		p += n + (p[n] == '\n');
	}
	return last_n ? xstrndup(last, last_n < 240 ? last_n : 240) : xstrdup("no output");
}

int build_exec(struct proc_keeper *k, const char *const *argv, const char *cwd,
	       const char *const *envp, uint64_t timeout_ns, struct proc_result *res,
	       struct err *err)
{
	struct proc_spec spec = {
		.argv = argv,
		.envp = envp,
		.cwd = cwd,
		.out = PROC_IO_CAPTURE,
		.err = PROC_IO_CAPTURE,
		.merge_err = true,
		.timeout_ns = timeout_ns,
		.capture_max = OUTPUT_MAX,
	};

	return proc_run(k, &spec, res, err);
}

/* ---- the recorder's surroundings ---- */

struct recorder {
	char *dir; /* private, temporary */
	char *log;
	char *lib;
	const char **envp;
};

static void recorder_done(struct recorder *rc)
{
	if (rc->dir)
		(void)file_remove_tree(AT_FDCWD, rc->dir, NULL);
	free(rc->dir);
	free(rc->log);
	free(rc->lib);
	free(rc->envp);
}

/* LD_PRELOAD separates names by blanks and colons and knows no quoting. */
static bool preloadable(const char *path)
{
	return !strpbrk(path, " :\t\n");
}

const char *build_tmp_dir(const char *want)
{
	const char *tmp = want ? want : env_get(ENV_TMPDIR);

	return tmp && tmp[0] == '/' ? tmp : "/tmp";
}

static int make_dir(struct recorder *rc, const char *tmp_dir, struct err *err)
{
	const char *tmp = build_tmp_dir(tmp_dir);

	rc->dir = xasprintf("%s/rb-build.XXXXXX", tmp);
	if (!mkdtemp(rc->dir)) {
		int e = errno;

		free(TAKE_PTR(rc->dir));
		return err_sys(err, e, "cannot make a folder for the build's log in '%s'", tmp);
	}
	return 0;
}

static int find_lib(struct recorder *rc, struct err *err)
{
	rc->lib = file_lib_path(RECLOG_LIB);
	if (!file_exists(AT_FDCWD, rc->lib))
		return err_set(err, ERR_NOT_FOUND,
			       "the recorder of builds, '%s', is absent; install it with the "
			       "program",
			       rc->lib);
	if (!preloadable(rc->lib)) {
		AUTO_FREE char *via = file_join(rc->dir, RECLOG_LIB);

		if (symlink(rc->lib, via) < 0)
			return err_sys(err, errno, "cannot link '%s'", via);
		free(rc->lib);
		rc->lib = TAKE_PTR(via);
	}
	if (!preloadable(rc->lib))
		return err_set(
			err, ERR_INVALID,
			"builds cannot be recorded from '%s': a folder with blanks or colons "
			"cannot be preloaded from; set TMPDIR to another",
			rc->lib);
	return 0;
}

static int make_files(struct recorder *rc, const struct build_plan *plan, struct err *err)
{
	AUTO_CLOSE int fd = -1;
	AUTO_STR struct str text = { 0 };
	AUTO_FREE char *path = NULL;

	rc->log = file_join(rc->dir, "log");
	fd = open(rc->log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(err, errno, "cannot make '%s'", rc->log);
	if (!plan)
		return 0;
	path = xasprintf("%s.plan", rc->log);
	build_plan_write(plan, &text);
	if (str_check(&text, "the plan of a build", err) < 0)
		return ERR_LIMIT;
	if (text.len > RECLOG_MAX_PLAN)
		return err_set(err, ERR_LIMIT, "the plan of a build takes %zu bytes; at most %u",
			       text.len, RECLOG_MAX_PLAN);
	return file_write_atomic(AT_FDCWD, path, str_get(&text), text.len, 0600, err);
}

static int make_env(struct recorder *rc, const struct build_opts *o, struct err *err)
{
	const char *const *base = env_or_ours(o->envp);
	const char *preload = env_value(base, "LD_PRELOAD"),
		   *asan = env_value(base, "ASAN_OPTIONS");
	AUTO_FREE char *p =
		xasprintf("LD_PRELOAD=%s%s%s", rc->lib, preload ? ":" : "", preload ? preload : "");
	/* a sanitized program that the build runs insists on being loaded first */
	AUTO_FREE char *a = xasprintf("ASAN_OPTIONS=%s%sverify_asan_link_order=0", asan ? asan : "",
				      asan && *asan ? ":" : "");
	AUTO_FREE char *l = xasprintf(RECLOG_ENV_LOG "=%s", rc->log);
	/* flags added below a cache that does not see them would poison it */
	const char *cache = o->plan && o->plan->disable_cache ? "CCACHE_DISABLE=1" : NULL;
	static const char mark[] = RECLOG_ENV_MARK "=" RECLOG_MARK_NONE;
	const char *changes[] = { p, a, l, mark, cache, NULL };

	rc->envp = proc_env(base, changes);
	return rc->envp ? 0 : err_set(err, ERR_NOMEM, "out of memory for a build's environment");
}

static int recorder_init(struct recorder *rc, const struct build_opts *o, struct err *err)
{
	int r = make_dir(rc, o->tmp_dir, err);

	if (r == 0)
		r = find_lib(rc, err);
	if (r == 0)
		r = make_files(rc, o->plan, err);
	if (r == 0)
		r = make_env(rc, o, err);
	return r;
}

static int read_log(const struct recorder *rc, struct build_record *r, struct err *err)
{
	AUTO_FREE char *data = NULL;
	size_t len = 0;
	int n = file_read(AT_FDCWD, rc->log, BUILD_MAX_LOG, &data, &len, err);

	return n < 0 ? n : build_log_parse(data, len, r, err);
}

/* ---- one build ---- */

static int run_command(struct proc_keeper *k, const struct build_opts *o, const char *const *envp,
		       struct build_record *r, struct err *err)
{
	const char *const argv[] = { "/bin/sh", "-c", o->command, NULL };
	struct proc_spec spec = {
		.argv = argv,
		.envp = envp,
		.cwd = r->dir,
		.out = PROC_IO_CAPTURE,
		.err = PROC_IO_CAPTURE,
		.merge_err = true,
		.timeout_ns = o->timeout_ns,
		.capture_max = o->output_max ? o->output_max : OUTPUT_MAX,
		.mounts = o->mounts,
		.n_mounts = o->n_mounts,
		.stop_fd = o->stop_fd,
		.on_output = o->on_output,
		.on_tick = o->on_tick,
		.arg = o->arg,
	};
	struct proc_result res = { 0 };
	char text[160];
	int n = proc_run(k, &spec, &res, err);

	if (n < 0)
		return err_wrap(err, n, "the build '%s'", o->command);
	proc_result_text(&res, text, sizeof(text));
	r->status = xstrdup(text);
	r->exit_code = res.exit_code;
	r->term_signal = res.term_signal;
	r->timed_out = res.timed_out;
	r->stopped = res.stopped;
	r->wall_ns = res.wall_ns;
	r->tail = build_tail(&res, TAIL_LINES);
	proc_result_done(&res);
	return 0;
}

/* The programs of an earlier record, as they are now. */
static void hash_hinted(struct build_record *r, const struct build_record *hint)
{
	for (size_t i = 0; i < hint->n_programs; i++) {
		const struct build_program *from = &hint->programs[i];
		AUTO_FREE char *full = build_path_full(hint, from->path);
		struct build_program p = { .step = from->step };

		if (hash_file_hex(AT_FDCWD, full, p.sha256, NULL) < 0 ||
		    build_code_hash(full, p.code_sha256, NULL) < 0)
			continue;
		p.path = xstrdup(from->path);
		r->programs = xrealloc_n(r->programs, r->n_programs + 1, sizeof(*r->programs));
		r->programs[r->n_programs++] = p;
	}
}

static int run_recorded(struct proc_keeper *k, const struct build_opts *o, struct build_record *r,
			struct err *err)
{
	struct recorder rc = { 0 };
	int n = recorder_init(&rc, o, err);

	if (n == 0)
		n = run_command(k, o, rc.envp, r, err);
	if (n == 0)
		n = read_log(&rc, r, err);
	recorder_done(&rc);
	if (n == 0) {
		build_drop_transient(r);
		build_find_programs(r);
	}
	return n;
}

int build_run(struct proc_keeper *k, const struct build_opts *opts, struct build_record **out,
	      struct err *err)
{
	struct build_record *r = xcalloc(1, sizeof(*r));
	char real[PATH_MAX];
	int n;

	if (!realpath(opts->dir, real)) {
		n = err_sys(err, errno, "the project's folder '%s'", opts->dir);
	} else {
		r->command = xstrdup(opts->command);
		r->dir = xstrdup(real);
		n = opts->no_recorder ? run_command(k, opts, env_or_ours(opts->envp), r, err)
				      : run_recorded(k, opts, r, err);
	}
	if (n == 0 && opts->no_recorder && opts->hint)
		hash_hinted(r, opts->hint);
	if (n < 0)
		build_record_free(r);
	else
		*out = r;
	return n;
}
