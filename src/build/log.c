#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "interpose/reclog.h"

void build_step_done(struct build_step *s)
{
	free(s->driver);
	free(s->cwd);
	free(s->output);
	free(s->swapped);
	build_strv_free(s->argv, s->n_argv);
	build_strv_free(s->added, s->n_added);
	build_strv_free(s->env, s->n_env);
	build_strv_free(s->sources, s->n_sources);
	build_strv_free(s->objects, s->n_objects);
	build_strv_free(s->outputs, s->n_outputs);
	*s = (struct build_step){ 0 };
}

/* ---- classification ---- */

static const char *const *argv_of(const struct build_step *s)
{
	return (const char *const *)s->argv;
}

enum argclass_tool build_step_tool(const struct build_step *s)
{
	enum argclass_tool t = s->n_argv ? argclass_tool_of(s->argv[0]) : ARGCLASS_NONE;

	return t == ARGCLASS_NONE && s->driver ? argclass_tool_of(s->driver) : t;
}

uint64_t build_step_key(const struct build_step *s, bool with_output)
{
	return argclass_key(build_step_tool(s), s->n_argv, argv_of(s), s->cwd, with_output);
}

bool build_step_counts(const struct build_step *s)
{
	return (s->kind == BUILD_COMPILE || s->kind == BUILD_LINK ||
		s->kind == BUILD_COMPILE_LINK) &&
	       s->langs != BUILD_LANG_ASM;
}

static enum build_family family_of(enum argclass_tool t)
{
	switch (t) {
	case ARGCLASS_GCC:
		return BUILD_FAM_GCC;
	case ARGCLASS_CLANG:
		return BUILD_FAM_CLANG;
	case ARGCLASS_NVCC:
		return BUILD_FAM_NVCC;
	case ARGCLASS_HIPCC:
		return BUILD_FAM_HIPCC;
	case ARGCLASS_AR:
	case ARGCLASS_RANLIB:
	case ARGCLASS_NM:
	case ARGCLASS_LD:
	case ARGCLASS_AS:
		return BUILD_FAM_BINUTILS;
	case ARGCLASS_NONE:
	case ARGCLASS_CC:
	case ARGCLASS_MPI:
	case ARGCLASS_FOREIGN:
	case ARGCLASS_LAUNCHER:
		break;
	}
	return BUILD_FAM_UNKNOWN;
}

static enum build_kind kind_of(enum argclass_kind k)
{
	static const enum build_kind map[] = {
		[ARGCLASS_COMPILE] = BUILD_COMPILE,
		[ARGCLASS_LINK] = BUILD_LINK,
		[ARGCLASS_COMPILE_LINK] = BUILD_COMPILE_LINK,
		[ARGCLASS_ARCHIVE] = BUILD_ARCHIVE,
		[ARGCLASS_PROBE] = BUILD_PROBE,
		[ARGCLASS_OTHER] = BUILD_OTHER,
	};

	return map[k];
}

struct inputs {
	struct build_step *s;
	const char *dir;
};

static char *shown(const struct inputs *in, const char *path)
{
	AUTO_FREE char *abs = build_path_abs(in->s->cwd, path);

	return build_path_show(in->dir, abs);
}

static void on_input(void *arg, bool is_source, size_t index, const char *path)
{
	struct inputs *in = arg;
	struct build_step *s = in->s;

	(void)index;
	if (is_source)
		build_strv_add(&s->sources, &s->n_sources, shown(in, path));
	else
		build_strv_add(&s->objects, &s->n_objects, shown(in, path));
}

/* "dir/a.c" compiled without -o writes a.o where the compiler runs. */
static char *default_object(const struct inputs *in, const char *source, char ext)
{
	AUTO_FREE char *name = xstrdup(build_path_base(source));
	AUTO_FREE char *with = NULL;
	char *dot = strrchr(name, '.');

	if (dot)
		*dot = '\0';
	with = xasprintf("%s.%c", name, ext);
	return shown(in, with);
}

static void add_outputs(struct inputs *in, const struct argclass *c)
{
	struct build_step *s = in->s;

	if (c->output) {
		build_strv_add(&s->outputs, &s->n_outputs, shown(in, c->output));
	} else if (c->default_ext) {
		for (size_t i = 0; i < s->n_sources; i++) {
			build_strv_add(&s->outputs, &s->n_outputs,
				       default_object(in, s->sources[i], c->default_ext));
		}
	} else if (s->kind == BUILD_COMPILE && s->n_sources == 1) {
		AUTO_FREE char *gch = xasprintf("%s.gch", s->sources[0]);

		build_strv_add(&s->outputs, &s->n_outputs, xstrdup(gch));
	} else if (s->kind == BUILD_LINK || s->kind == BUILD_COMPILE_LINK) {
		build_strv_add(&s->outputs, &s->n_outputs, shown(in, "a.out"));
	}
	if (s->n_outputs == 1)
		s->output = xstrdup(s->outputs[0]);
}

void build_step_classify(struct build_step *s, const char *dir)
{
	enum argclass_tool t = build_step_tool(s);
	struct inputs in = { .s = s, .dir = dir };
	struct argclass c;

	argclass_parse(t, s->n_argv, argv_of(s), s->cwd, on_input, &in, &c);
	s->family = family_of(t);
	s->kind = kind_of(c.kind);
	s->langs = c.langs;
	if (s->kind != BUILD_PROBE && s->kind != BUILD_OTHER)
		add_outputs(&in, &c);
}

static bool any_exists(const struct build_record *r, char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *full = build_path_full(r, v[i]);

		if (file_exists(AT_FDCWD, full))
			return true;
	}
	return false;
}

void build_drop_transient(struct build_record *r)
{
	for (size_t i = 0; i < r->n_steps; i++) {
		struct build_step *s = &r->steps[i];
		bool inputs = s->n_sources ? any_exists(r, s->sources, s->n_sources)
					   : any_exists(r, s->objects, s->n_objects);

		if (build_step_counts(s) && !inputs && !any_exists(r, s->outputs, s->n_outputs))
			s->kind = BUILD_PROBE;
	}
}

/* ---- the log ---- */

struct reader {
	struct build_record *r;
	struct build_step step;
	char *file;
	char *inner;
	int64_t pid;
	bool cancel, cut, hidden;
};

static void take_str(char **to, const char *v)
{
	free(*to);
	*to = xstrdup(v);
}

static bool add_bounded(char ***v, size_t *n, const char *s)
{
	if (*n >= BUILD_MAX_STRINGS)
		return false;
	build_strv_add(v, n, xstrdup(s));
	return true;
}

/* False where the record is not one of ours. */
static bool read_field(struct reader *rd, char tag, const char *v)
{
	struct build_step *s = &rd->step;

	switch ((enum reclog_tag)tag) {
	case RECLOG_PID:
		return num_i64(v, &rd->pid, NULL) == 0;
	case RECLOG_DIR:
		take_str(&s->cwd, v);
		return v[0] == '/';
	case RECLOG_FILE:
		take_str(&rd->file, v);
		return v[0] == '/';
	case RECLOG_INNER:
		take_str(&rd->inner, v);
		return true;
	case RECLOG_ARG:
		return add_bounded(&s->argv, &s->n_argv, v);
	case RECLOG_ADDED:
		return add_bounded(&s->added, &s->n_added, v);
	case RECLOG_ENV:
		return add_bounded(&s->env, &s->n_env, v);
	case RECLOG_SWAP:
		take_str(&s->swapped, v);
		return true;
	case RECLOG_HIDDEN:
		rd->hidden = true;
		return true;
	case RECLOG_CANCEL:
		rd->cancel = true;
		return true;
	case RECLOG_CUT:
		rd->cut = true;
		return true;
	case RECLOG_PLAN_DRIVER:
	case RECLOG_PLAN_COMPILE:
	case RECLOG_PLAN_LINK:
	case RECLOG_PLAN_AR:
	case RECLOG_PLAN_RANLIB:
	case RECLOG_PLAN_NM:
	case RECLOG_PLAN_KEY:
		break;
	}
	return false;
}

/* The process's step loses what was to be added: its altered command could not be started. */
static void cancel_last(struct build_record *r, int64_t pid)
{
	struct build_step *s = NULL;

	for (size_t i = r->n_steps; i > 0 && !s; i--) {
		if (r->steps[i - 1].pid == pid)
			s = &r->steps[i - 1];
	}
	if (!s)
		return;
	build_strv_free(s->added, s->n_added);
	s->added = NULL;
	s->n_added = 0;
	free(s->swapped);
	s->swapped = NULL;
}

static bool finish_record(struct reader *rd)
{
	struct build_record *r = rd->r;
	struct build_step *s = &rd->step;

	if (rd->cancel) {
		cancel_last(r, rd->pid);
		return true;
	}
	if (rd->cut || r->n_steps >= BUILD_MAX_STEPS) {
		r->truncated = true;
		return true;
	}
	if (!s->cwd || !rd->file || !s->n_argv)
		return false;
	s->driver = rd->inner ? xasprintf("%s %s", rd->file, rd->inner) : TAKE_PTR(rd->file);
	build_step_classify(s, r->dir);
	s->hidden = rd->hidden;
	s->pid = rd->pid;
	r->steps = xrealloc_n(r->steps, r->n_steps + 1, sizeof(*r->steps));
	r->steps[r->n_steps++] = *s;
	*s = (struct build_step){ 0 };
	return true;
}

static bool read_record(struct build_record *r, const char *p, size_t len)
{
	struct reader rd = { .r = r };
	bool ok = len > 0 && p[len - 1] == '\0';

	for (size_t at = 0; ok && at < len;) {
		size_t n = strlen(p + at); /* ends: the last byte is NUL */

		ok = n > 0 && read_field(&rd, p[at], p + at + 1);
		at += n + 1;
	}
	if (ok)
		ok = finish_record(&rd);
	free(rd.file);
	free(rd.inner);
	build_step_done(&rd.step);
	return ok;
}

int build_log_parse(const char *data, size_t len, struct build_record *r, struct err *err)
{
	size_t at = 0;

	while (at < len) {
		const unsigned char *f = (const unsigned char *)data + at;
		uint32_t n;

		if (len - at < RECLOG_FRAME)
			break;
		if (memcmp(f, RECLOG_MAGIC, 4) != 0)
			return err_set(err, ERR_PARSE, "the recorder's log: no record at byte %zu",
				       at);
		n = (uint32_t)f[4] | (uint32_t)f[5] << 8 | (uint32_t)f[6] << 16 |
		    (uint32_t)f[7] << 24;
		if (n > RECLOG_MAX_RECORD)
			return err_set(err, ERR_PARSE,
				       "the recorder's log: a record of %u bytes at byte %zu", n,
				       at);
		if (n > len - at - RECLOG_FRAME)
			break;
		if (!read_record(r, data + at + RECLOG_FRAME, n))
			return err_set(err, ERR_PARSE,
				       "the recorder's log: record at byte %zu not understood", at);
		at += RECLOG_FRAME + n;
	}
	if (at < len)
		r->truncated = true; /* the disk was full */
	return 0;
}
