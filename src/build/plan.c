/* The flags of a set of actions for all drivers of a build. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "interpose/reclog.h"

#define MAX_DRIVERS 64U

void build_plan_free(struct build_plan *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_drivers; i++) {
		build_driver_done(&p->drivers[i].driver);
		build_flags_done(&p->drivers[i].flags);
	}
	for (size_t i = 0; i < p->n_actions; i++)
		free((void *)(uintptr_t)p->actions[i].value);
	free(p->drivers);
	free(p->actions);
	free(p->keys);
	free(p);
}

static const struct build_plan_driver *driver_of(const struct build_plan *p, const char *key)
{
	for (size_t i = 0; i < p->n_drivers; i++) {
		if (strcmp(p->drivers[i].driver.key, key) == 0)
			return &p->drivers[i];
	}
	return NULL;
}

static int add_drivers(struct proc_keeper *k, const struct build_record *base, struct build_plan *p,
		       struct err *err)
{
	for (size_t i = 0; i < base->n_steps; i++) {
		const struct build_step *s = &base->steps[i];
		struct build_plan_driver d = { 0 };
		int r;

		if (!build_step_counts(s) || driver_of(p, s->driver))
			continue;
		if (p->n_drivers >= MAX_DRIVERS)
			return err_set(err, ERR_LIMIT, "the build used more than %u compilers",
				       MAX_DRIVERS);
		r = build_driver_probe(k, base, s, &d.driver, err);
		if (r < 0)
			return r;
		p->drivers = xrealloc_n(p->drivers, p->n_drivers + 1, sizeof(*p->drivers));
		p->drivers[p->n_drivers++] = d;
	}
	return p->n_drivers ? 0
			    : err_set(err, ERR_REFUSED, "the build compiled nothing that was seen");
}

/* ---- refusals that concern the build as a whole ---- */

/* The version word at the end of "gcc (Debian 12.2.0-14) 12.2.0". */
static const char *version_of(const struct build_driver *d)
{
	const char *v = strrchr(d->compiler, ' ');

	return v ? v + 1 : d->compiler;
}

static int check_lto(const struct build_plan *p, struct err *err)
{
	const struct build_driver *first = &p->drivers[0].driver;

	for (size_t i = 1; i < p->n_drivers; i++) {
		const struct build_driver *d = &p->drivers[i].driver;

		if (d->family != first->family)
			return err_set(
				err, ERR_REFUSED,
				"link-time optimisation needs one compiler; this build mixes "
				"%s (%s) and %s (%s)",
				first->key, build_family_name(first->family), d->key,
				build_family_name(d->family));
		if (d->family == BUILD_FAM_GCC && strcmp(version_of(d), version_of(first)) != 0)
			return err_set(
				err, ERR_REFUSED,
				"link-time optimisation needs one compiler; this build mixes "
				"'%s' and '%s'",
				first->compiler, d->compiler);
	}
	return 0;
}

static int check_action(const struct build_plan *p, const struct build_record *base,
			const struct build_action *a, struct err *err)
{
	if (a->kind == BUILD_ACT_LTO)
		return check_lto(p, err);
	if (a->kind == BUILD_ACT_OPENMP && !build_has_omp(base))
		return err_set(err, ERR_REFUSED, "no compiled source has OpenMP pragmas");
	return 0;
}

/* ---- merging ---- */

static void merge_list(char ***to, size_t *n, char **from, size_t n_from)
{
	for (size_t i = 0; i < n_from; i++)
		build_strv_add(to, n, xstrdup(from[i]));
}

static void merge_tool(char **to, const char *from)
{
	if (from && !*to)
		*to = xstrdup(from);
}

static void merge(struct build_flags *to, const struct build_flags *f)
{
	merge_list(&to->compile, &to->n_compile, f->compile, f->n_compile);
	merge_list(&to->link, &to->n_link, f->link, f->n_link);
	merge_tool(&to->ar, f->ar);
	merge_tool(&to->ranlib, f->ranlib);
	merge_tool(&to->nm, f->nm);
}

static int add_action(struct proc_keeper *k, struct build_plan *p, const struct build_action *a,
		      bool allow_fp, struct err *err)
{
	size_t used = 0;
	struct err why = { .code = ERR_OK };

	for (size_t i = 0; i < p->n_drivers; i++) {
		struct build_plan_driver *d = &p->drivers[i];
		struct build_flags f = { 0 };
		char has[96];
		int r = build_flags_for(k, a, allow_fp, &d->driver, &f, &why);

		if (r == 0) {
			merge(&d->flags, &f);
			build_flags_done(&f);
			used++;
			continue;
		}
		/* a part of the build that has it already, or that it is not meant for */
		if (r == ERR_REFUSED &&
		    (build_flags_already(&d->driver, a, has) ||
		     (a->family != BUILD_FAM_UNKNOWN && a->family != d->driver.family)))
			continue;
		return err_set(err, why.code, "%s", why.msg);
	}
	return used ? 0 : err_set(err, why.code ? why.code : ERR_REFUSED, "%s", why.msg);
}

/* With link-time optimisation the code is made at the link, whose own -O0 (a CFLAGS on the link
 * line) would win over what the objects were compiled with.  Not -ffast-math: at a link it changes
 * how the whole process rounds. */
static void level_for_links(struct build_plan *p)
{
	static const char *const kinds[] = { "-O", "-march=", "-mtune=", "-ffp-contract=", NULL };

	for (size_t i = 0; i < p->n_drivers; i++) {
		struct build_flags *f = &p->drivers[i].flags;

		if (!p->drivers[i].driver.base_lto &&
		    !build_strv_has(f->link, f->n_link, "-flto") &&
		    !build_strv_has(f->link, f->n_link, "-flto=auto"))
			continue;
		for (size_t c = 0; c < f->n_compile; c++) {
			for (const char *const *k = kinds; *k; k++) {
				if (strncmp(f->compile[c], *k, strlen(*k)) == 0)
					build_strv_add(&f->link, &f->n_link,
						       xstrdup(f->compile[c]));
			}
		}
	}
}

static void add_keys(struct build_plan *p, const struct build_record *base)
{
	p->keys = xcalloc(base->n_steps * 2 + 1, sizeof(*p->keys));
	for (size_t i = 0; i < base->n_steps; i++) {
		const struct build_step *s = &base->steps[i];

		p->disable_cache |= s->hidden;
		if (!build_step_counts(s))
			continue;
		for (int with = 0; with < 2; with++) {
			uint64_t key = build_step_key(s, with);

			if (key)
				p->keys[p->n_keys++] = key;
		}
	}
}

static int fill(struct proc_keeper *k, const struct build_record *base,
		const struct build_action *actions, size_t n_actions, bool allow_fp,
		struct build_plan *p, struct err *err)
{
	int r = add_drivers(k, base, p, err);

	p->actions = xcalloc(n_actions + 1, sizeof(*p->actions));
	for (size_t i = 0; r == 0 && i < n_actions; i++) {
		p->actions[i] = actions[i];
		p->actions[i].value = xstrdup(actions[i].value);
		p->n_actions++;
		r = check_action(p, base, &actions[i], err);
		if (r == 0)
			r = add_action(k, p, &actions[i], allow_fp, err);
	}
	if (r == 0) {
		level_for_links(p);
		add_keys(p, base);
	}
	return r;
}

int build_plan_make(struct proc_keeper *k, const struct build_record *base,
		    const struct build_action *actions, size_t n_actions, bool allow_fp,
		    struct build_plan **out, struct err *err)
{
	struct build_plan *p = xcalloc(1, sizeof(*p));
	int r = fill(k, base, actions, n_actions, allow_fp, p, err);

	if (r < 0)
		build_plan_free(p);
	else
		*out = p;
	return r;
}

/* ---- what a step gets; must agree with the recorder's plan_flags() ---- */

static bool has(const char *const *v, size_t n, const char *s)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i], s) == 0)
			return true;
	}
	return false;
}

const char **build_plan_for_step(const struct build_plan *p, const struct build_step *step,
				 size_t *n)
{
	const struct build_plan_driver *d = driver_of(p, step->driver);
	const char **v;

	*n = 0;
	if (!d || !build_step_counts(step))
		return NULL;
	v = xcalloc(d->flags.n_compile + d->flags.n_link + 1, sizeof(*v));
	for (size_t i = 0; step->kind != BUILD_LINK && i < d->flags.n_compile; i++)
		v[(*n)++] = d->flags.compile[i];
	for (size_t i = 0; step->kind != BUILD_COMPILE && i < d->flags.n_link; i++) {
		if (step->kind == BUILD_LINK || !has(v, *n, d->flags.link[i]))
			v[(*n)++] = d->flags.link[i];
	}
	return v;
}

/* ---- forms ---- */

static void field(struct str *out, char tag, const char *value)
{
	str_addc(out, tag);
	str_add(out, value, strlen(value) + 1);
}

void build_plan_write(const struct build_plan *p, struct str *out)
{
	const char *ar = NULL, *ranlib = NULL, *nm = NULL;

	for (size_t i = 0; i < p->n_drivers; i++) {
		const struct build_flags *f = &p->drivers[i].flags;

		field(out, (char)RECLOG_PLAN_DRIVER, p->drivers[i].driver.key);
		for (size_t c = 0; c < f->n_compile; c++)
			field(out, (char)RECLOG_PLAN_COMPILE, f->compile[c]);
		for (size_t c = 0; c < f->n_link; c++)
			field(out, (char)RECLOG_PLAN_LINK, f->link[c]);
		ar = ar ? ar : f->ar;
		ranlib = ranlib ? ranlib : f->ranlib;
		nm = nm ? nm : f->nm;
	}
	if (ar)
		field(out, (char)RECLOG_PLAN_AR, ar);
	if (ranlib)
		field(out, (char)RECLOG_PLAN_RANLIB, ranlib);
	if (nm)
		field(out, (char)RECLOG_PLAN_NM, nm);
	for (size_t i = 0; i < p->n_keys; i++) {
		char hex[24];

		(void)snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)p->keys[i]);
		field(out, (char)RECLOG_PLAN_KEY, hex);
	}
}

static void text_of_driver(const struct build_flags *f, struct str *out)
{
	const char *sep = "";

	for (size_t i = 0; i < f->n_compile; i++) {
		str_addf(out, "%s%s", sep, f->compile[i]);
		sep = " ";
	}
	for (size_t i = 0; i < f->n_link; i++) {
		if (build_strv_has(f->compile, f->n_compile, f->link[i]))
			continue;
		str_addf(out, "%s%s", sep, f->link[i]);
		sep = " ";
	}
}

void build_plan_text(const struct build_plan *p, struct str *out)
{
	AUTO_STR struct str first = { 0 };
	bool same = true;

	for (size_t i = 0; i < p->n_drivers; i++) {
		AUTO_STR struct str mine = { 0 };

		text_of_driver(&p->drivers[i].flags, &mine);
		if (!first.len)
			str_adds(&first, str_get(&mine));
		else if (mine.len && strcmp(str_get(&mine), str_get(&first)) != 0)
			same = false;
	}
	if (same) {
		str_adds(out, str_get(&first));
		return;
	}
	for (size_t i = 0; i < p->n_drivers; i++) {
		str_addf(out, "%s%s: ", i ? "; " : "", build_path_base(p->drivers[i].driver.key));
		text_of_driver(&p->drivers[i].flags, out);
	}
}

static struct json *list(char *const *v, size_t n)
{
	struct json *a = json_new_arr();

	for (size_t i = 0; i < n; i++)
		json_add(a, json_new_str(v[i]));
	return a;
}

struct json *build_plan_to_json(const struct build_plan *p)
{
	struct json *o = json_new_obj(), *actions = json_new_arr(), *drivers = json_new_arr();

	for (size_t i = 0; i < p->n_actions; i++) {
		struct json *a = json_new_obj();

		json_set_str(a, "action", build_action_name(p->actions[i].kind));
		json_set_str(a, "value", p->actions[i].value);
		json_add(actions, a);
	}
	for (size_t i = 0; i < p->n_drivers; i++) {
		const struct build_plan_driver *d = &p->drivers[i];
		struct json *j = json_new_obj();

		json_set_str(j, "driver", d->driver.key);
		json_set_str(j, "family", build_family_name(d->driver.family));
		json_set_str(j, "compiler", d->driver.compiler);
		json_set(j, "compile", list(d->flags.compile, d->flags.n_compile));
		json_set(j, "link", list(d->flags.link, d->flags.n_link));
		if (d->flags.ar)
			json_set_str(j, "ar", d->flags.ar);
		json_add(drivers, j);
	}
	json_set(o, "actions", actions);
	json_set(o, "drivers", drivers);
	return o;
}
