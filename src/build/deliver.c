/* Delivery: the strategies in turn, each proven by clean builds. */
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/deliver_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define SCRIPT ".rocbudai/apply.sh"

void build_delivery_free(struct build_delivery *d)
{
	if (!d)
		return;
	build_strv_free(d->files, d->n_files);
	free(d->patch);
	free(d->script);
	free(d->how);
	free(d->undo);
	free(d->not_proven);
	free(d);
}

/* ---- flags by language ---- */

static void join(char *const *v, size_t n, struct str *out)
{
	for (size_t i = 0; i < n; i++)
		str_addf(out, "%s%s", out->len ? " " : "", v[i]);
}

bool deliver_flags(const struct build_plan *p, unsigned lang, struct str *compile)
{
	for (size_t i = 0; i < p->n_drivers; i++) {
		const struct build_plan_driver *d = &p->drivers[i];
		AUTO_STR struct str mine = { 0 };

		if (!(d->driver.langs & lang))
			continue;
		join(d->flags.compile, d->flags.n_compile, &mine);
		if (compile->len && strcmp(str_get(compile), str_get(&mine)) != 0)
			return false;
		if (!compile->len)
			str_adds(compile, str_get(&mine));
	}
	return true;
}

bool deliver_link_flags(const struct build_plan *p, struct str *link)
{
	for (size_t i = 0; i < p->n_drivers; i++) {
		const struct build_flags *f = &p->drivers[i].flags;
		AUTO_STR struct str mine = { 0 };

		join(f->link, f->n_link, &mine);
		if (link->len && mine.len && strcmp(str_get(link), str_get(&mine)) != 0)
			return false;
		if (!link->len)
			str_adds(link, str_get(&mine));
	}
	return true;
}

/* ---- the script ---- */

static void outputs_line(const struct build_deliver_opts *o, struct str *out)
{
	size_t n = 0;

	for (size_t i = 0; i < o->kept->n_steps; i++) {
		const struct build_step *s = &o->kept->steps[i];

		if (s->kind == BUILD_PROBE || s->kind == BUILD_OTHER)
			continue;
		for (size_t f = 0; f < s->n_outputs; f++) {
			if (s->outputs[f][0] == '/')
				continue;
			str_adds(out, n++ ? " \\\n\t" : "rm -f -- ");
			str_add_shquote(out, s->outputs[f]);
		}
	}
	if (n)
		str_addc(out, '\n');
}

static char *script_text(const struct build_deliver_opts *o, const char *build_lines)
{
	AUTO_STR struct str s = { 0 };

	str_adds(&s, "#!/bin/sh\n# Builds the program as it was delivered, and runs it; --build "
		     "builds only.\nset -e\ncd \"$(dirname \"$0\")/..\"\n");
	if (build_lines) {
		outputs_line(o, &s);
		str_adds(&s, build_lines);
	} else {
		str_addf(&s, "%s\n", o->build->command);
	}
	str_adds(&s, "[ \"${1:-}\" = --build ] && exit 0\n");
	for (const char *const *e = o->run_env; e && *e; e++) {
		const char *eq = strchr(*e, '=');

		if (!eq)
			continue;
		str_addf(&s, "export %.*s=", (int)(eq - *e), *e);
		str_add_shquote(&s, eq + 1);
		str_addc(&s, '\n');
	}
	if (o->run_command)
		str_addf(&s, "%s\n", o->run_command);
	return str_take(&s);
}

static int write_script(const struct build_deliver_opts *o, const char *text, struct err *err)
{
	AUTO_FREE char *dir = file_join(o->base->dir, ".rocbudai");
	AUTO_FREE char *path = file_join(o->base->dir, SCRIPT);
	int r = file_mkdirs(dir, 0755, err);

	return r < 0 ? r : file_write_atomic(AT_FDCWD, path, text, strlen(text), 0755, err);
}

/* ---- proof ---- */

static bool same_code(const struct build_record *kept, const struct build_record *now)
{
	for (size_t i = 0; i < kept->n_programs; i++) {
		const struct build_program *p = build_record_program(now, kept->programs[i].path);

		if (!p || strcmp(p->code_sha256, kept->programs[i].code_sha256) != 0)
			return false;
	}
	return kept->n_programs > 0;
}

/* Whether no later option of the same kind undoes the flag. */
static bool effective(const struct build_step *s, const char *flag)
{
	static const char *const kinds[] = {
		"-O", "-march=", "-mtune=", "-ffp-contract=", "-Xcompiler=-O", "-Xcompiler=-march=",
		NULL
	};
	const char *last = NULL;
	size_t n = strlen(flag);

	for (const char *const *k = kinds; *k; k++) {
		if (strncmp(flag, *k, strlen(*k)) == 0)
			n = strlen(*k);
	}
	for (size_t i = 1; i < s->n_argv; i++) {
		if (strncmp(s->argv[i], flag, n) == 0)
			last = s->argv[i];
	}
	return last && strcmp(last, flag) == 0;
}

static const struct build_step *same_step(const struct build_record *r,
					  const struct build_step *base)
{
	uint64_t exact = build_step_key(base, true);

	for (size_t i = 0; i < r->n_steps; i++) {
		if (build_step_counts(&r->steps[i]) && build_step_key(&r->steps[i], true) == exact)
			return &r->steps[i];
	}
	return NULL;
}

/* What lacks in again; NULL: nothing.  What the builds before gave must be there as well, unless it
 * differed between them (a date): a default that a new value hid would make another program. */
static const char *lacking(const struct build_step *again, const struct build_step *base,
			   const struct build_step *kept, const char *const *want, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!effective(again, want[i]))
			return want[i];
	}
	for (size_t i = 1; i < base->n_argv; i++) {
		const char *a = base->argv[i];

		if (a[0] == '-' && kept && build_strv_has(kept->argv, kept->n_argv, a) &&
		    !build_strv_has(again->argv, again->n_argv, a))
			return a;
	}
	return NULL;
}

/* why: the first step that lacks something. */
static bool flags_seen(const struct build_deliver_opts *o, const struct build_record *now,
		       struct str *why)
{
	for (size_t i = 0; i < o->base->n_steps; i++) {
		const struct build_step *s = &o->base->steps[i], *again;
		AUTO_FREE const char **want = NULL;
		const char *lacks;
		size_t n = 0;

		if (!build_step_counts(s))
			continue;
		again = same_step(now, s);
		want = build_plan_for_step(o->plan, s, &n);
		lacks = again ? lacking(again, s, same_step(o->kept, s), want, n) : NULL;
		if (again && !lacks)
			continue;
		str_addf(why, "%s is %s%s",
			 s->n_sources ? s->sources[0]
			 : s->output  ? s->output
				      : s->driver,
			 again ? "made without " : "not made again", again ? lacks : "");
		return false;
	}
	return true;
}

/* One clean build of what is in the tree. */
static int clean_build(struct proc_keeper *k, const struct build_deliver_opts *o,
		       const char *command, bool recorded, struct build_record **out,
		       struct err *err)
{
	struct build_opts b = *o->build;
	int r = build_remove_outputs(o->kept, err);

	if (r < 0)
		return r;
	b.command = command;
	b.plan = NULL;
	b.no_recorder = !recorded;
	b.hint = o->kept;
	return build_run(k, &b, out, err);
}

/* 1: proven; 0: not, why says it. */
static int prove(struct proc_keeper *k, const struct build_deliver_opts *o, const char *command,
		 struct build_delivery *d, struct str *why, struct err *err)
{
	struct build_record *now = NULL;
	int r = clean_build(k, o, command, false, &now, err);

	if (r < 0)
		return r;
	d->same_code = build_record_ok(now) && same_code(o->kept, now);
	if (!build_record_ok(now)) {
		AUTO_FREE char *cause = build_cause(now->tail);

		str_addf(why, "the build %s: %s", now->status, cause);
	}
	build_record_free(now);
	if (d->same_code || why->len)
		return d->same_code;
	/* dates in the program, say: then the flags themselves must be seen */
	r = clean_build(k, o, command, true, &now, err);
	if (r < 0)
		return r;
	d->flags_seen = build_record_ok(now) && !now->truncated && flags_seen(o, now, why);
	build_record_free(now);
	if (!d->flags_seen)
		return 0;
	r = clean_build(k, o, command, false, &now, err); /* what stays is built without us */
	if (r == 0)
		build_record_free(now);
	return r < 0 ? r : 1;
}

/* ---- strategies ---- */

typedef int (*strategy)(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
			struct err *err);

static void say_not(struct build_delivery *d, const char *what, const char *why)
{
	char *all = xasprintf("%s%s%s: %s", d->not_proven ? d->not_proven : "",
			      d->not_proven ? "; " : "", what, why);

	free(d->not_proven);
	d->not_proven = all;
}

/* A makefile that a configure script wrote is written again by the next one. */
static void say_generated(const struct edit_set *s, struct str *how)
{
	for (size_t i = 0; i < s->n_files; i++) {
		const struct edit_file *f = &s->files[i];

		for (size_t l = 1; edit_changed(f) && l <= f->n_lines && l <= 5; l++) {
			if (strcasestr(f->lines[l].text, "generated ")) {
				str_addf(
					how,
					" (%s is generated: give the flags to what writes it, too)",
					f->path);
				break;
			}
		}
	}
}

static void take_patch(const struct build_deliver_opts *o, const struct edit_set *s,
		       struct str *how, struct build_delivery *d)
{
	AUTO_STR struct str diff = { 0 };
	AUTO_STR struct str lines = { 0 };

	edit_diff(s, &diff);
	d->kind = BUILD_DELIVER_PATCH;
	d->patch = str_take(&diff);
	say_generated(s, how);
	d->how = str_take(how);
	d->undo = xstrdup("patch -R -p1 < .rocbudai/delivered.patch");
	for (size_t i = 0; i < s->n_files; i++) {
		if (edit_changed(&s->files[i]))
			build_strv_add(&d->files, &d->n_files, xstrdup(s->files[i].path));
	}
	str_addf(&lines, "# the flags are in the build files: %s\n%s\n", d->how, o->build->command);
	d->script = script_text(o, str_get(&lines));
}

/* 1: this one holds; 0: the next. */
static int try_patch(struct proc_keeper *k, const struct build_deliver_opts *o, strategy fn,
		     struct build_delivery *d, struct err *err)
{
	struct edit_set s = { 0 };
	AUTO_STR struct str how = { 0 };
	AUTO_STR struct str why = { 0 };
	int r = fn(o, &s, &how, NULL);

	if (r < 0) {
		edit_done(&s);
		return 0;
	}
	r = edit_apply(&s, err);
	if (r == 0)
		r = prove(k, o, o->build->command, d, &why, err);
	if (r == 1) {
		take_patch(o, &s, &how, d);
	} else {
		int back = edit_undo(&s, r < 0 ? NULL : err);

		if (r == 0)
			say_not(d, str_get(&how), why.len ? str_get(&why) : "other code");
		r = r < 0 ? r : back;
	}
	edit_done(&s);
	return r;
}

static int try_script(struct proc_keeper *k, const struct build_deliver_opts *o,
		      void (*fn)(const struct build_deliver_opts *o, struct str *out),
		      const char *how, struct build_delivery *d, struct err *err)
{
	AUTO_STR struct str lines = { 0 };
	AUTO_STR struct str why = { 0 };
	AUTO_FREE char *text = NULL;
	int r;

	fn(o, &lines);
	r = str_check(&lines, "the script of a build", err);
	if (r < 0)
		return r;
	text = script_text(o, str_get(&lines));
	r = write_script(o, text, err);
	if (r == 0)
		r = prove(k, o, "sh " SCRIPT " --build", d, &why, err);
	if (r == 0)
		say_not(d, how, why.len ? str_get(&why) : "other code");
	if (r == 1) {
		d->kind = BUILD_DELIVER_SCRIPT;
		d->script = TAKE_PTR(text);
		d->how = xstrdup(how);
		d->undo = xstrdup("build as before; only " SCRIPT " was added");
	}
	return r;
}

static int deliver(struct proc_keeper *k, const struct build_deliver_opts *o,
		   struct build_delivery *d, struct err *err)
{
	static const strategy patches[] = { deliver_cmake, deliver_make, deliver_lines };
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(patches) / sizeof(*patches); i++)
		r = try_patch(k, o, patches[i], d, err);
	if (r == 0)
		r = try_script(k, o, deliver_env_lines, "flags in the environment of the build", d,
			       err);
	if (r == 0)
		r = try_script(k, o, deliver_command_lines, "the recorded compiler calls", d, err);
	if (r == 0)
		return err_set(err, ERR_REFUSED, "no way to deliver the flags could be proven: %s",
			       d->not_proven ? d->not_proven : "nothing to try");
	if (r == 1 && d->kind == BUILD_DELIVER_PATCH) {
		AUTO_FREE char *path = file_join(o->base->dir, ".rocbudai/delivered.patch");

		r = write_script(o, d->script, err);
		if (r == 0)
			r = file_write_atomic(AT_FDCWD, path, d->patch, strlen(d->patch), 0644,
					      err);
	}
	return r < 0 ? r : 0;
}

static bool has_flags(const struct build_plan *p)
{
	for (size_t i = 0; p && i < p->n_drivers; i++) {
		if (p->drivers[i].flags.n_compile || p->drivers[i].flags.n_link)
			return true;
	}
	return false;
}

int build_deliver(struct proc_keeper *k, const struct build_deliver_opts *opts,
		  struct build_delivery **out, struct err *err)
{
	struct build_delivery *d = xcalloc(1, sizeof(*d));
	int r;

	if (has_flags(opts->plan)) {
		r = deliver(k, opts, d, err);
	} else {
		d->kind = BUILD_DELIVER_NOTHING;
		d->how = xstrdup("the build stays as it is");
		d->undo = xstrdup("nothing to undo but " SCRIPT);
		d->script = script_text(opts, NULL);
		r = write_script(opts, d->script, err);
	}
	if (r < 0)
		build_delivery_free(d);
	else
		*out = d;
	return r;
}
