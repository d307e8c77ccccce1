#include "session/answers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/yaml.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "session/session_priv.h"

#define ANSWERS_FILE	 "project.yaml"
#define ANSWERS_MAX	 ((size_t)1 << 20)
#define ANSWERS_NAME_MAX 200

/* One answer that is text; key as in the file, below "fom." where it has a dot. */
struct answers_text {
	const char *key;
	size_t off;
	size_t max;
	bool one_line;
};

static const struct answers_text answers_texts[] = {
	{ "name", offsetof(struct session_answers, name), ANSWERS_NAME_MAX, true },
	{ "type", offsetof(struct session_answers, type), ANSWERS_NAME_MAX, true },
	{ "rocm", offsetof(struct session_answers, rocm), ANSWERS_NAME_MAX, true },
	{ "build", offsetof(struct session_answers, build), SESSION_TEXT_MAX, false },
	{ "run", offsetof(struct session_answers, run), SESSION_TEXT_MAX, false },
	{ "check", offsetof(struct session_answers, check), SESSION_TEXT_MAX, false },
	{ "heldout", offsetof(struct session_answers, heldout), SESSION_TEXT_MAX, false },
	{ "fom.pattern", offsetof(struct session_answers, fom_pattern), SESSION_TEXT_MAX, true },
	{ "fom.unit", offsetof(struct session_answers, fom_unit), ANSWERS_NAME_MAX, true },
};

static const struct {
	const char *key;
	size_t off;
} answers_lists[] = {
	{ "modules", offsetof(struct session_answers, modules) },
	{ "tunables", offsetof(struct session_answers, tunables) },
};

#define ANSWERS_N_TEXTS (sizeof(answers_texts) / sizeof(answers_texts[0]))
#define ANSWERS_N_LISTS (sizeof(answers_lists) / sizeof(answers_lists[0]))

static char **answers_text_at(const struct session_answers *a, size_t off)
{
	return (char **)((uintptr_t)a + off);
}

static char ***answers_list_at(const struct session_answers *a, size_t off)
{
	return (char ***)((uintptr_t)a + off);
}

static void answers_list_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

void session_answers_done(struct session_answers *a)
{
	for (size_t i = 0; i < ANSWERS_N_TEXTS; i++)
		free(*answers_text_at(a, answers_texts[i].off));
	for (size_t i = 0; i < ANSWERS_N_LISTS; i++)
		answers_list_free(*answers_list_at(a, answers_lists[i].off));
	json_unref(a->extra);
	*a = (struct session_answers){ 0 };
}

/* ---- checking ---- */

static int answers_check_tunable(const char *value, struct err *err)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	static const char rest[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	size_t n = strspn(value, rest), len = strlen(value);

	if (n == 0 || !strchr(first, value[0]) || value[n] != '=')
		return err_set(err, ERR_INVALID,
			       "tunable '%.60s' is not of the form NAME=value,value,...", value);
	if (value[n + 1] == ',' || value[len - 1] == ',' || value[len - 1] == '=' ||
	    strstr(value + n, ",,"))
		return err_set(err, ERR_INVALID, "tunable '%.60s' has an empty value", value);
	return ERR_OK;
}

int session_answer_check(const char *key, const char *value, struct err *err)
{
	int r;

	for (size_t i = 0; i < ANSWERS_N_TEXTS; i++) {
		const struct answers_text *t = &answers_texts[i];

		if (strcmp(t->key, key) == 0)
			return session_text_check(key, value, t->max, t->one_line, err);
	}
	r = session_text_check(key, value, SESSION_TEXT_MAX, true, err);
	if (r < 0)
		return r;
	if (strcmp(key, "tunables") == 0)
		return answers_check_tunable(value, err);
	if (strcmp(key, "modules") == 0)
		return *value && !strpbrk(value, " \t")
			       ? ERR_OK
			       : err_set(err, ERR_INVALID, "module '%.60s' is not one word", value);
	return err_set(err, ERR_INVALID, "no answer is called '%.60s'", key);
}

/* Two lists of values for one name would leave open which one holds. */
static int answers_check_names(char *const *tunables, size_t *which, struct err *err)
{
	for (size_t i = 0; tunables && tunables[i]; i++) {
		size_t n = strcspn(tunables[i], "=");

		for (size_t k = 0; k < i; k++) {
			if (strncmp(tunables[k], tunables[i], n + 1) == 0) {
				*which = i;
				return err_set(err, ERR_INVALID, "tunable '%.*s' stands twice",
					       (int)(n < 60 ? n : 60), tunables[i]);
			}
		}
	}
	return ERR_OK;
}

/* ---- reading ---- */

struct answers_in {
	const char *what;
	const struct json *lines;
	struct session_answers *a;
};

static int answers_fail(const struct answers_in *in, const char *path, const char *msg,
			struct err *err)
{
	return err_set(err, ERR_PARSE, "%s:%d: %s", in->what, (int)json_get_int(in->lines, path, 1),
		       msg);
}

/* A scalar as the text that was written; numbers and truth values need no quotes.  NULL for null
 * and for what is no scalar. */
static char *answers_scalar(const struct json *v)
{
	if (json_str(v))
		return xstrdup(json_str(v));
	if (json_kind(v) == JSON_KIND_INT || json_kind(v) == JSON_KIND_BOOL)
		return json_dump(v);
	return NULL;
}

static int answers_take_text(const struct answers_in *in, const struct answers_text *t,
			     const struct json *v, struct err *err)
{
	struct err why = { 0 };
	char **to = answers_text_at(in->a, t->off);

	if (json_kind(v) == JSON_KIND_NULL)
		return ERR_OK;
	if (!(*to = answers_scalar(v)))
		return answers_fail(in, t->key, "this must be one text, not a list or a map", err);
	if (session_answer_check(t->key, *to, &why) < 0)
		return answers_fail(in, t->key, why.msg, err);
	return ERR_OK;
}

static int answers_take_list(const struct answers_in *in, size_t which, const struct json *v,
			     struct err *err)
{
	const char *key = answers_lists[which].key;
	char ***to = answers_list_at(in->a, answers_lists[which].off);
	size_t n = json_len(v), twice = 0;
	struct err why = { 0 };

	if (json_kind(v) == JSON_KIND_NULL)
		return ERR_OK;
	if (json_kind(v) != JSON_KIND_ARR)
		return answers_fail(in, key, "this must be a list ([] for none)", err);
	if (n > SESSION_LIST_MAX)
		return answers_fail(in, key, "more than 256 entries", err);
	*to = xcalloc(n + 1, sizeof(char *));
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *path = xasprintf("%s.%zu", key, i);

		if (!((*to)[i] = answers_scalar(json_at(v, i))))
			return answers_fail(in, path, "an entry must be one text", err);
		if (session_answer_check(key, (*to)[i], &why) < 0)
			return answers_fail(in, path, why.msg, err);
	}
	if (strcmp(key, "tunables") == 0 && answers_check_names(*to, &twice, &why) < 0) {
		AUTO_FREE char *path = xasprintf("%s.%zu", key, twice);

		return answers_fail(in, path, why.msg, err);
	}
	return ERR_OK;
}

/* What is none of ours is kept for the next save. */
static void answers_keep(const struct answers_in *in, bool in_fom, const char *key,
			 const struct json *v)
{
	struct json *to;

	if (!in->a->extra)
		in->a->extra = json_new_obj();
	to = in->a->extra;
	if (in_fom && !json_get(to, "fom"))
		json_set(to, "fom", json_new_obj());
	json_set(in_fom ? json_get(to, "fom") : to, key, json_dup(v));
}

/* key is a path: what is in the map fom begins with "fom." */
static int answers_take(const struct answers_in *in, const char *key, const struct json *v,
			struct err *err)
{
	AUTO_JSON struct json *yes = json_new_bool(true);

	for (size_t i = 0; i < ANSWERS_N_TEXTS; i++) {
		if (strcmp(answers_texts[i].key, key) == 0)
			return answers_take_text(in, &answers_texts[i], v, err);
	}
	for (size_t i = 0; i < ANSWERS_N_LISTS; i++) {
		if (strcmp(answers_lists[i].key, key) == 0)
			return answers_take_list(in, i, v, err);
	}
	if (strcmp(key, "fom.higher") != 0) {
		bool in_fom = strncmp(key, "fom.", 4) == 0;

		answers_keep(in, in_fom, key + (in_fom ? 4 : 0), v);
		return ERR_OK;
	}
	if (json_kind(v) == JSON_KIND_NULL)
		return ERR_OK;
	if (json_kind(v) != JSON_KIND_BOOL)
		return answers_fail(in, key, "this must be true or false", err);
	in->a->has_fom_higher = true;
	in->a->fom_higher = json_same(v, yes);
	return ERR_OK;
}

static int answers_take_map(const struct answers_in *in, const struct json *map, struct err *err)
{
	for (void *it = json_iter(map); it; it = json_next(map, it)) {
		const char *key = json_iter_key(it);
		const struct json *v = json_iter_value(it);
		bool fom = strcmp(key, "fom") == 0;
		int r = ERR_OK;

		if (!fom && !strchr(key, '.'))
			r = answers_take(in, key, v, err);
		else if (!fom)
			answers_keep(in, false, key, v);
		else if (json_kind(v) != JSON_KIND_OBJ && json_kind(v) != JSON_KIND_NULL)
			r = answers_fail(in, key, "this must be a map of pattern, unit and higher",
					 err);
		for (void *f = fom && r == ERR_OK ? json_iter(v) : NULL; f && r == ERR_OK;
		     f = json_next(v, f)) {
			AUTO_FREE char *path = xasprintf("fom.%s", json_iter_key(f));

			r = answers_take(in, path, json_iter_value(f), err);
		}
		if (r < 0)
			return r;
	}
	return ERR_OK;
}

int session_answers_parse(const char *text, size_t len, const char *what,
			  struct session_answers *out, struct err *err)
{
	AUTO_JSON struct json *map = NULL;
	AUTO_JSON struct json *lines = NULL;
	struct session_answers a = { 0 };
	struct answers_in in = { .what = what, .a = &a };
	int r;

	if (len > ANSWERS_MAX)
		return err_set(err, ERR_LIMIT, "%s: more than %zu bytes", what, ANSWERS_MAX);
	if ((r = yaml_parse(text, len, what, 1, &map, &lines, err)) < 0)
		return r;
	in.lines = lines;
	if (json_kind(map) != JSON_KIND_OBJ)
		r = answers_fail(&in, "", "this must be a map, such as 'build: make'", err);
	else
		r = answers_take_map(&in, map, err);
	if (r < 0)
		session_answers_done(&a);
	else
		*out = a;
	return r;
}

int session_answers_load(const char *dir, struct session_answers *out, struct err *err)
{
	AUTO_FREE char *dot = file_join(dir, SESSION_DOT);
	AUTO_FREE char *path = file_join(dot, ANSWERS_FILE);
	AUTO_FREE char *text = NULL;
	AUTO_CLOSE int fd = session_dot_open(dir, NULL, false, err);
	struct err e = { 0 };
	size_t len = 0;
	int r = fd;

	if (fd >= 0)
		r = file_read(fd, ANSWERS_FILE, ANSWERS_MAX, &text, &len, &e);
	if (fd >= 0 && r == ERR_SYS && e.sys_errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "%s is not there yet", path);
	if (fd >= 0 && r < 0) {
		if (err)
			*err = e;
		return err_wrap(err, r, "%s", dot);
	}
	return r < 0 ? r : session_answers_parse(text, len, path, out, err);
}

/* ---- writing ---- */

static struct json *answers_list_json(char *const *v)
{
	struct json *arr = json_new_arr();

	for (size_t i = 0; v[i]; i++)
		json_add(arr, json_new_str(v[i]));
	return arr;
}

/* With nulls for what was not answered, or without. */
static struct json *answers_json(const struct session_answers *a, bool nulls)
{
	struct json *o = json_new_obj(), *fom = json_new_obj();

	for (size_t i = 0; i < ANSWERS_N_TEXTS; i++) {
		const char *v = *answers_text_at(a, answers_texts[i].off);
		const char *dot = strchr(answers_texts[i].key, '.');

		if (v || nulls)
			json_set_str(dot ? fom : o, dot ? dot + 1 : answers_texts[i].key, v);
		if (strcmp(answers_texts[i].key, "rocm") == 0 && (a->modules || nulls))
			json_set(o, "modules",
				 a->modules ? answers_list_json(a->modules) : json_new_null());
	}
	if (a->has_fom_higher || nulls)
		json_set(fom, "higher",
			 a->has_fom_higher ? json_new_bool(a->fom_higher) : json_new_null());
	json_set(o, "fom", fom);
	if (a->tunables || nulls)
		json_set(o, "tunables",
			 a->tunables ? answers_list_json(a->tunables) : json_new_null());
	return o;
}

struct json *session_answers_json(const struct session_answers *a)
{
	return answers_json(a, true);
}

static void answers_add_extra(struct json *o, const struct json *extra)
{
	for (void *it = json_iter(extra); it; it = json_next(extra, it)) {
		const char *key = json_iter_key(it);
		const struct json *v = json_iter_value(it);

		if (strcmp(key, "fom") == 0) {
			for (void *f = json_iter(v); f; f = json_next(v, f)) {
				if (!json_get(json_get(o, key), json_iter_key(f)))
					json_set(json_get(o, key), json_iter_key(f),
						 json_dup(json_iter_value(f)));
			}
		} else if (!json_get(o, key)) {
			json_set(o, key, json_dup(v));
		}
	}
}

static int answers_check_all(const struct session_answers *a, struct err *err)
{
	size_t which;
	int r = ERR_OK;

	for (size_t i = 0; r == ERR_OK && i < ANSWERS_N_TEXTS; i++) {
		const char *v = *answers_text_at(a, answers_texts[i].off);

		if (v)
			r = session_answer_check(answers_texts[i].key, v, err);
	}
	for (size_t i = 0; r == ERR_OK && i < ANSWERS_N_LISTS; i++) {
		char *const *v = *answers_list_at(a, answers_lists[i].off);
		size_t n = 0;

		for (; r == ERR_OK && v && v[n]; n++)
			r = session_answer_check(answers_lists[i].key, v[n], err);
		if (r == ERR_OK && n > SESSION_LIST_MAX)
			r = err_set(err, ERR_INVALID, "%s: more than %d entries",
				    answers_lists[i].key, SESSION_LIST_MAX);
	}
	return r < 0 ? r : answers_check_names(a->tunables, &which, err);
}

/* Some characters that are text for JSON are line ends or worse for YAML: found by reading back. */
static int answers_check_back(const struct json *o, const char *text, struct err *err)
{
	struct session_answers back = { 0 };
	AUTO_JSON struct json *again = NULL;
	struct err why = { 0 };
	int r = session_answers_parse(text, strlen(text), ANSWERS_FILE, &back, &why);

	if (r == ERR_OK) {
		again = answers_json(&back, false);
		answers_add_extra(again, back.extra);
	}
	session_answers_done(&back);
	if (r < 0 || !json_same(o, again))
		return err_set(err, ERR_INVALID,
			       "the answers hold a character that %s cannot hold%s%s", ANSWERS_FILE,
			       r < 0 ? ": " : "", why.msg);
	return ERR_OK;
}

int session_answers_save(const char *dir, const struct session_answers *a, struct err *err)
{
	AUTO_JSON struct json *o = answers_json(a, false);
	AUTO_FREE char *dot = file_join(dir, SESSION_DOT);
	AUTO_FREE char *yaml = NULL;
	AUTO_FREE char *text = NULL;
	AUTO_CLOSE int fd = -1;
	int r = answers_check_all(a, err);

	if (r < 0)
		return r;
	answers_add_extra(o, a->extra);
	yaml = yaml_dump(o);
	text = xasprintf("# What rocbudai was told about this project; edit it as you like.\n%s",
			 yaml);
	if ((r = answers_check_back(o, text, err)) < 0)
		return r;
	fd = session_dot_open(dir, NULL, true, err);
	if (fd < 0)
		return fd;
	r = file_write_atomic(fd, ANSWERS_FILE, text, strlen(text), 0644, err);
	return r < 0 ? err_wrap(err, r, "%s", dot) : ERR_OK;
}
