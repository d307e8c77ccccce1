/* Applied or void. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

__attribute__((format(printf, 2, 3))) static bool is_void(struct build_verdict *v, const char *fmt,
							  ...)
{
	va_list ap;

	v->applied = false;
	va_start(ap, fmt);
	(void)vsnprintf(v->reason, sizeof(v->reason), fmt, ap);
	va_end(ap);
	return false;
}

/* What a step is called in messages: its first source, or what it links. */
static const char *step_name(const struct build_step *s)
{
	if (s->kind == BUILD_LINK && s->output)
		return s->output;
	return s->n_sources ? s->sources[0] : s->output ? s->output : s->driver;
}

struct keyed {
	uint64_t exact, loose;
	const struct build_step *step;
};

/* The step of cand that does what base's step did; NULL: none. */
static const struct build_step *find_again(const struct keyed *v, size_t n,
					   const struct build_step *base)
{
	uint64_t exact = build_step_key(base, true), loose = build_step_key(base, false);
	const struct build_step *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (exact && v[i].exact == exact)
			return v[i].step;
		if (loose && v[i].loose == loose)
			found = v[i].step;
	}
	return found;
}

static bool has_flag(const struct build_step *s, const char *flag)
{
	return build_strv_has(s->added, s->n_added, flag) ||
	       build_strv_has(s->argv, s->n_argv, flag);
}

static bool step_applied(const struct build_step *base, const struct build_step *again,
			 const struct build_plan *plan, struct build_verdict *v)
{
	AUTO_FREE const char **want = NULL;
	size_t n = 0;

	if (!again)
		return is_void(v, "%s was not %s again", step_name(base),
			       base->kind == BUILD_LINK ? "linked" : "compiled");
	if (again->hidden)
		return is_void(v, "%s is compiled below a compiler cache that cannot be recorded",
			       step_name(base));
	if (plan)
		want = build_plan_for_step(plan, base, &n);
	for (size_t i = 0; i < n; i++) {
		if (!has_flag(again, want[i]))
			return is_void(v, "%s was made again without %s", step_name(base), want[i]);
	}
	return true;
}

static bool steps_applied(const struct build_record *base, const struct build_record *cand,
			  const struct build_plan *plan, struct build_verdict *v)
{
	AUTO_FREE struct keyed *keyed = xcalloc(cand->n_steps + 1, sizeof(*keyed));
	size_t n = 0, counted = 0;
	bool ok = true;

	for (size_t i = 0; i < cand->n_steps; i++) {
		const struct build_step *s = &cand->steps[i];

		if (build_step_counts(s))
			keyed[n++] = (struct keyed){ build_step_key(s, true),
						     build_step_key(s, false), s };
	}
	for (size_t i = 0; ok && i < base->n_steps; i++) {
		const struct build_step *s = &base->steps[i];

		if (!build_step_counts(s))
			continue;
		counted++;
		ok = step_applied(s, find_again(keyed, n, s), plan, v);
	}
	if (ok && !counted)
		return is_void(v, "the first build recorded no compile");
	return ok;
}

static bool programs_differ(const struct build_record *base, const struct build_record *cand,
			    struct build_verdict *v)
{
	size_t same = 0;

	for (size_t i = 0; i < base->n_programs; i++) {
		const struct build_program *p = build_record_program(cand, base->programs[i].path);

		if (!p)
			return is_void(v, "the program '%s' was not made again",
				       base->programs[i].path);
		same += strcmp(p->code_sha256, base->programs[i].code_sha256) == 0;
	}
	if (!base->n_programs)
		return is_void(v, "the first build made no program");
	if (same == base->n_programs) {
		v->same = true;
		return is_void(v, "the compiler produced the same program");
	}
	return true;
}

static bool built(const struct build_record *cand, struct build_verdict *v)
{
	AUTO_FREE char *cause = NULL;

	if (build_record_ok(cand) && !cand->truncated)
		return true;
	if (cand->truncated)
		return is_void(v, "the recording of the build is incomplete");
	cause = build_cause(cand->tail);
	return is_void(v, "the build %s: %s", cand->status, cause);
}

void build_applied(const struct build_record *base, const struct build_record *cand,
		   const struct build_plan *plan, struct build_verdict *out)
{
	*out = (struct build_verdict){ .applied = true };
	if (built(cand, out) && steps_applied(base, cand, plan, out))
		(void)programs_differ(base, cand, out);
}

/* ---- forced rebuild ---- */

static bool is_source_of_any(const struct build_record *r, const char *path)
{
	for (size_t i = 0; i < r->n_steps; i++) {
		if (build_strv_has(r->steps[i].sources, r->steps[i].n_sources, path))
			return true;
	}
	return false;
}

/* Removes a regular file below the project; 1: removed. */
static int remove_file(const struct build_record *r, const char *path, struct err *err)
{
	AUTO_FREE char *full = build_path_full(r, path);
	char real[PATH_MAX];
	struct stat st;

	/* a folder on the way may be a link to outside */
	if (lstat(full, &st) < 0 || !S_ISREG(st.st_mode) || !realpath(full, real) ||
	    !build_path_below(r->dir, real))
		return 0;
	if (unlink(full) < 0)
		return err_sys(err, errno, "cannot remove '%s' to have it built again", full);
	return 1;
}

/* libtool decides by "x.lo" whether x.o is there, which lies beside it or in .libs/. */
static int remove_companion(const struct build_record *r, const char *path, struct err *err)
{
	AUTO_FREE char *dir = xstrndup(path, (size_t)(build_path_base(path) - path));
	AUTO_FREE char *stem = xstrdup(build_path_base(path)), *lo = NULL, *full = NULL;
	AUTO_FREE char *text = NULL;
	char *dot = strrchr(stem, '.');
	size_t n = strlen(dir), len;

	if (!dot || (strcmp(dot, ".o") != 0 && strcmp(dot, ".a") != 0 && strcmp(dot, ".so") != 0))
		return 0;
	if (n >= 6 && strcmp(dir + n - 6, ".libs/") == 0)
		dir[n - 6] = '\0';
	*dot = '\0';
	lo = xasprintf("%s%s.%s", dir, stem, strcmp(dot + 1, "o") == 0 ? "lo" : "la");
	full = build_path_full(r, lo);
	if (file_read(AT_FDCWD, full, 65536, &text, &len, NULL) < 0 || !strstr(text, "libtool"))
		return 0;
	return remove_file(r, lo, err);
}

int build_remove_outputs(const struct build_record *base, struct err *err)
{
	int removed = 0;

	for (size_t i = 0; i < base->n_steps; i++) {
		const struct build_step *s = &base->steps[i];

		if (s->kind == BUILD_PROBE || s->kind == BUILD_OTHER)
			continue;
		for (size_t o = 0; o < s->n_outputs; o++) {
			int n, c;

			if (is_source_of_any(base, s->outputs[o]))
				continue;
			n = remove_file(base, s->outputs[o], err);
			c = n < 0 ? n : remove_companion(base, s->outputs[o], err);
			if (c < 0)
				return c;
			removed += n + c;
		}
	}
	return removed;
}

/* True where building again from nothing may help. */
static bool worth_forcing(const struct build_record *base, const struct build_record *cand,
			  const struct build_plan *plan)
{
	struct build_verdict v = { .applied = true };

	if (cand->timed_out || cand->stopped || cand->truncated)
		return false;
	/* objects of two kinds may be what made the link fail */
	return !build_record_ok(cand) || !steps_applied(base, cand, plan, &v);
}

int build_change(struct proc_keeper *k, const struct build_opts *opts,
		 const struct build_record *base, struct build_record **out,
		 struct build_verdict *verdict, struct err *err)
{
	struct build_record *cand = NULL;
	bool forced = false;
	int n = build_run(k, opts, &cand, err);

	if (n == 0 && worth_forcing(base, cand, opts->plan)) {
		n = build_remove_outputs(base, err);
		if (n >= 0) {
			build_record_free(TAKE_PTR(cand));
			forced = true;
			n = build_run(k, opts, &cand, err);
		}
	}
	if (n < 0) {
		build_record_free(cand);
		return n;
	}
	build_applied(base, cand, opts->plan, verdict);
	verdict->forced = forced;
	*out = cand;
	return 0;
}
