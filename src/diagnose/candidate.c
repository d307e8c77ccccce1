/* Plays held against facts: actions checked beforehand, filled in for what was found. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "diagnose/diagnose_priv.h"

#define CANDIDATE_ENV_MAX 16

/* The names that build_action_parse() knows, and whether each takes a value. */
static const struct {
	const char *name;
	bool value;
} build_actions[] = {
	{ "opt-level", true },	{ "arch", true }, { "lto", false },	 { "openmp", false },
	{ "fast-math", false }, { "flag", true }, { "link-flag", true },
};

static int action_fail(const char *what, int line, const char *msg, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s:%d: %s", what, line, msg);
}

/* "lto", or {"opt-level": 3}; name and value (NULL: none) are borrowed or owned by *text. */
static bool action_build_entry(const struct json *e, const char **name, char **text)
{
	const char *s = json_str(e);
	const struct json *v = NULL;
	double num;

	*text = NULL;
	if (s) {
		*name = s;
	} else if (json_kind(e) == JSON_KIND_OBJ && json_len(e) == 1) {
		void *it = json_iter(e);

		*name = json_iter_key(it);
		v = json_iter_value(it);
		if (json_str(v))
			*text = xstrdup(json_str(v));
		else if (json_num(v, &num))
			*text = xasprintf("%.0f", num);
		else if (json_kind(v) != JSON_KIND_NULL)
			return false;
	} else {
		return false;
	}
	for (size_t i = 0; i < sizeof(build_actions) / sizeof(build_actions[0]); i++) {
		if (strcmp(build_actions[i].name, *name) == 0)
			return build_actions[i].value == (*text != NULL);
	}
	return false;
}

/* Line of a list's entry, which may be "lto" or a map. */
static int action_entry_line(const struct json *lines, size_t i, int fallback)
{
	AUTO_FREE char *path = xasprintf("action.build.%zu", i);

	return (int)json_get_int(lines, path, fallback);
}

static int action_check_build(const struct json *list, const struct json *lines, int line,
			      const char *what, struct err *err)
{
	if (json_kind(list) != JSON_KIND_ARR || !json_len(list))
		return action_fail(what, line, "action.build must be a list of actions", err);
	for (size_t i = 0; i < json_len(list); i++) {
		AUTO_FREE char *text = NULL;
		const char *name = "";
		int at = action_entry_line(lines, i, line);

		if (!action_build_entry(json_at(list, i), &name, &text))
			return err_set(
				err, ERR_INVALID,
				"%s:%d: build action %zu ('%.40s') is not one of opt-level: N, "
				"arch: NAME, lto, openmp, fast-math, flag: TEXT, link-flag: TEXT",
				what, at, i + 1, name);
		if (strcmp(name, "opt-level") == 0 && strcmp(text, "2") != 0 &&
		    strcmp(text, "3") != 0)
			return err_set(err, ERR_INVALID, "%s:%d: opt-level is 2 or 3, not '%.40s'",
				       what, at, text);
		if (text && !*text)
			return err_set(err, ERR_INVALID, "%s:%d: %s needs a value", what, at, name);
	}
	return ERR_OK;
}

/* {word} is a placeholder; OMP_PLACES={0,1} has none. */
static bool action_placeholders_known(const char *value)
{
	for (const char *p = strchr(value, '{'); p; p = strchr(p + 1, '{')) {
		if (isalpha((unsigned char)p[1]) && strncmp(p, "{cpus}", 6) != 0 &&
		    strncmp(p, "{cores}", 7) != 0)
			return false;
	}
	return true;
}

static bool action_is_variable(const char *name)
{
	static const char chars[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

	return *name && !isdigit((unsigned char)*name) && strspn(name, chars) == strlen(name);
}

static int action_check_env(const struct json *env, int line, const char *what, struct err *err)
{
	if (json_kind(env) != JSON_KIND_OBJ || !json_len(env) || json_len(env) > CANDIDATE_ENV_MAX)
		return action_fail(what, line, "action.env must be a map of 1 to 16 variables",
				   err);
	for (void *it = json_iter(env); it; it = json_next(env, it)) {
		const char *name = json_iter_key(it);
		const struct json *v = json_iter_value(it);

		if (!action_is_variable(name))
			return err_set(err, ERR_INVALID, "%s:%d: '%.60s' is no name of a variable",
				       what, line, name);
		if (!json_str(v) && json_kind(v) != JSON_KIND_INT)
			return err_set(err, ERR_INVALID,
				       "%s:%d: the variable '%.60s' needs a text or whole number",
				       what, line, name);
		if (json_str(v) && !action_placeholders_known(json_str(v)))
			return err_set(err, ERR_INVALID,
				       "%s:%d: the variable '%.60s': only {cpus} and {cores} are "
				       "filled in",
				       what, line, name);
	}
	return ERR_OK;
}

int diagnose_action_check(const struct json *action, const struct json *lines, const char *what,
			  struct err *err)
{
	int line = (int)json_get_int(lines, "action", 1);
	const struct json *v;

	if (json_kind(action) != JSON_KIND_OBJ || json_len(action) != 1)
		return action_fail(what, line,
				   "'action' must be a map with one of build, env or tunable", err);
	if ((v = json_get(action, "build")))
		return action_check_build(v, lines, (int)json_get_int(lines, "action.build", line),
					  what, err);
	if ((v = json_get(action, "env")))
		return action_check_env(v, (int)json_get_int(lines, "action.env", line), what, err);
	if (strcmp(json_get_str(action, "tunable", ""), "declared") == 0)
		return ERR_OK;
	return action_fail(what, line,
			   "'action' must be a map with one of build, env or tunable: declared",
			   err);
}

/* ---- filling in ---- */

static struct diagnose_candidate *list_add(struct diagnose_list *l)
{
	l->v = xrealloc_n(l->v, l->n + 1, sizeof(*l->v));
	l->v[l->n] = (struct diagnose_candidate){ 0 };
	return &l->v[l->n++];
}

static void list_skip(struct diagnose_list *l, const struct diagnose_play *p, char *take)
{
	l->skipped = xrealloc_n(l->skipped, l->n_skipped + 1, sizeof(*l->skipped));
	l->skipped[l->n_skipped++] = (struct diagnose_skip){ .play_id = p->id, .reason = take };
}

/* The first paragraph of the play, in one line, and what was seen. */
static char *fill_hypothesis(const struct diagnose_play *p, const char *seen)
{
	const char *end = strstr(p->body, "\n\n");
	size_t n = end ? (size_t)(end - p->body) : strlen(p->body);
	struct str s = { 0 };

	for (size_t i = 0; i < n; i++)
		if (p->body[i] == '\n')
			str_addc(&s, ' ');
		else
			str_addc(&s, p->body[i]);
	while (s.len && s.s[s.len - 1] == ' ')
		s.s[--s.len] = '\0';
	if (*seen)
		str_addf(&s, " Seen: %s.", seen);
	return str_take(&s);
}

/* text with each {name} replaced. */
static char *fill_text(const char *text, const char *name, const char *value)
{
	AUTO_FREE char *key = xasprintf("{%s}", name);
	struct str s = { 0 };
	const char *at;

	while ((at = strstr(text, key))) {
		str_add(&s, text, (size_t)(at - text));
		str_adds(&s, value);
		text = at + strlen(key);
	}
	str_adds(&s, text);
	return s.len ? str_take(&s) : xstrdup("");
}

static char *fill_label(const struct diagnose_facts *f, const struct diagnose_play *p)
{
	return p->label ? fill_text(p->label, "node",
				    f->node_type ? f->node_type : "this node's type")
			: NULL;
}

/* The flag as people know it; the compiler's own spelling comes from its family later. */
static void fill_flag_text(struct str *o, const char *name, const char *value)
{
	if (o->len)
		str_addc(o, ' ');
	if (strcmp(name, "opt-level") == 0)
		str_addf(o, "-O%s", value);
	else if (strcmp(name, "arch") == 0)
		str_addf(o, "-march=%s", value);
	else if (strcmp(name, "lto") == 0)
		str_adds(o, "-flto");
	else if (strcmp(name, "openmp") == 0)
		str_adds(o, "-fopenmp");
	else if (strcmp(name, "fast-math") == 0)
		str_adds(o, "-ffast-math");
	else
		str_adds(o, value);
}

static void fill_build(struct diagnose_candidate *c, const struct json *list)
{
	struct json *arr = json_new_arr();
	struct str text = { 0 };

	for (size_t i = 0; i < json_len(list); i++) {
		AUTO_FREE char *value = NULL;
		const char *name = "";
		struct json *a = json_new_obj();

		(void)action_build_entry(json_at(list, i), &name, &value);
		json_set_str(a, "name", name);
		json_set_str(a, "value", value);
		json_set(a, "family", json_new_null());
		json_add(arr, a);
		fill_flag_text(&text, name, value);
	}
	c->how = DIAGNOSE_BUILD;
	c->action = json_new_obj();
	json_set(c->action, "build", arr);
	c->change = str_take(&text);
}

static void fill_env(struct diagnose_candidate *c, const struct diagnose_facts *f,
		     const struct json *env)
{
	AUTO_FREE char *cpus = xasprintf("%u", f->cpus ? f->cpus : 1);
	AUTO_FREE char *cores = xasprintf("%u", f->cores ? f->cores : f->cpus ? f->cpus : 1);
	struct json *out = json_new_obj();
	struct str text = { 0 };

	for (void *it = json_iter(env); it; it = json_next(env, it)) {
		const struct json *v = json_iter_value(it);
		AUTO_FREE char *raw = json_str(v) ? xstrdup(json_str(v)) : json_dump(v);
		AUTO_FREE char *one = fill_text(raw, "cpus", cpus);
		AUTO_FREE char *two = fill_text(one, "cores", cores);

		json_set_str(out, json_iter_key(it), two);
		str_addf(&text, "%s%s=%s", text.len ? " " : "", json_iter_key(it), two);
	}
	c->how = DIAGNOSE_ENV;
	c->action = json_new_obj();
	json_set(c->action, "env", out);
	c->change = str_take(&text);
}

static void fill_tunable(struct diagnose_candidate *c, const char *name, const char *value)
{
	struct json *t = json_new_obj();

	json_set_str(t, "name", name);
	json_set_str(t, "value", value);
	c->how = DIAGNOSE_TUNABLE;
	c->action = json_new_obj();
	json_set(c->action, "tunable", t);
	c->change = xasprintf("%s=%s", name, value);
}

static void fill_common(struct diagnose_candidate *c, const struct diagnose_facts *f,
			const struct diagnose_play *p, const char *seen)
{
	c->play = p;
	c->hypothesis = fill_hypothesis(p, seen);
	c->label = fill_label(f, p);
	c->priority = 1000 - p->order;
}

static void fill_candidates(struct diagnose_list *l, const struct diagnose_facts *f,
			    const struct diagnose_play *p, const char *seen)
{
	const struct json *build = json_get(p->action, "build"), *env = json_get(p->action, "env");

	if (build || env) {
		struct diagnose_candidate *c = list_add(l);

		if (build)
			fill_build(c, build);
		else
			fill_env(c, f, env);
		fill_common(c, f, p, seen);
		return;
	}
	for (size_t i = 0; i < f->n_tunables; i++) {
		for (size_t k = 1; k < f->tunables[i].n_values; k++) {
			struct diagnose_candidate *c = list_add(l);
			AUTO_FREE char *now =
				xasprintf("it started with %s=%s", f->tunables[i].name,
					  f->tunables[i].values[0]);

			fill_tunable(c, f->tunables[i].name, f->tunables[i].values[k]);
			fill_common(c, f, p, now);
		}
	}
}

static int candidates_limits(const struct diagnose_facts *f, struct err *err)
{
	if (f->n_units > DIAGNOSE_UNITS_MAX)
		return err_set(err, ERR_LIMIT, "%zu compiles, more than %d", f->n_units,
			       DIAGNOSE_UNITS_MAX);
	if (f->n_tunables > DIAGNOSE_TUNABLES_MAX)
		return err_set(err, ERR_LIMIT, "%zu tunables, more than %d", f->n_tunables,
			       DIAGNOSE_TUNABLES_MAX);
	for (size_t i = 0; i < f->n_tunables; i++) {
		if (f->tunables[i].n_values > DIAGNOSE_VALUES_MAX)
			return err_set(err, ERR_LIMIT, "tunable %s has %zu values, more than %d",
				       f->tunables[i].name, f->tunables[i].n_values,
				       DIAGNOSE_VALUES_MAX);
	}
	return ERR_OK;
}

int diagnose_candidates(const struct diagnose_facts *f, const struct diagnose_plays *plays,
			struct diagnose_list **out, struct err *err)
{
	struct diagnose_list *l;
	int r = candidates_limits(f, err);

	if (r < 0)
		return r;
	l = xcalloc(1, sizeof(*l));
	for (size_t i = 0; i < plays->n; i++) {
		const struct diagnose_play *p = &plays->v[i];
		AUTO_STR struct str seen = { 0 };
		struct str reason = { 0 };

		if (p->check == DIAGNOSE_TOLERANCE && !f->allow_fp)
			str_adds(&reason,
				 "it may change floating-point results: only with --allow-fp");
		else if (diagnose_applies(f, p->applies, &seen, &reason))
			fill_candidates(l, f, p, str_get(&seen));
		if (reason.len)
			list_skip(l, p, str_take(&reason));
		else
			str_done(&reason);
	}
	/* plays come in their order already, so that the list is by priority */
	*out = l;
	return ERR_OK;
}

void diagnose_list_free(struct diagnose_list *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].hypothesis);
		free(l->v[i].change);
		free(l->v[i].label);
		json_unref(l->v[i].action);
	}
	for (size_t i = 0; i < l->n_skipped; i++)
		free(l->skipped[i].reason);
	free(l->v);
	free(l->skipped);
	free(l);
}
