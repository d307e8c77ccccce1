#include "build/cdb.h"

#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define MAX_TEXT    ((size_t)64 << 20)
#define MAX_ENTRIES 100000U
#define MAX_WORDS   65536U

void build_cdb_free(struct build_cdb *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		struct build_cdb_entry *e = &c->entries[i];

		free(e->directory);
		free(e->file);
		free(e->output);
		build_strv_free(e->argv, e->n_argv);
	}
	free(c->entries);
	free(c);
}

/* One word, unquoted as a shell does it, into out (which has room); *p moves behind it. */
static void take_word(const char **p, char *out)
{
	const char *r = *p;
	char quote = 0;

	for (; *r && (quote || !strchr(" \t\n", *r)); r++) {
		if (quote && *r == quote)
			quote = 0;
		else if (!quote && (*r == '\'' || *r == '"'))
			quote = *r;
		else if (*r == '\\' && r[1] && quote != '\'' && (!quote || strchr("\"\\$`", r[1])))
			*out++ = *++r;
		else
			*out++ = *r;
	}
	*out = '\0';
	*p = r;
}

static int split(const char *command, struct build_cdb_entry *e, const char *what, struct err *err)
{
	AUTO_FREE char *word = xcalloc(strlen(command) + 1, 1);
	const char *p = command;

	for (;;) {
		p += strspn(p, " \t\n");
		if (!*p)
			return 0;
		if (e->n_argv >= MAX_WORDS)
			return err_set(err, ERR_LIMIT, "%s: a command of more than %u words", what,
				       MAX_WORDS);
		take_word(&p, word);
		build_strv_add(&e->argv, &e->n_argv, xstrdup(word));
	}
}

static int arguments(const struct json *a, struct build_cdb_entry *e, const char *what, size_t i,
		     struct err *err)
{
	if (json_len(a) > MAX_WORDS)
		return err_set(err, ERR_LIMIT, "%s: entry %zu has more than %u arguments", what, i,
			       MAX_WORDS);
	for (size_t n = 0; n < json_len(a); n++) {
		const char *s = json_str(json_at(a, n));

		if (!s)
			return err_set(err, ERR_PARSE, "%s: entry %zu: argument %zu is no string",
				       what, i, n);
		build_strv_add(&e->argv, &e->n_argv, xstrdup(s));
	}
	return 0;
}

static int entry(const struct json *j, struct build_cdb_entry *e, const char *what, size_t i,
		 struct err *err)
{
	const char *dir = json_get_str(j, "directory", NULL), *file = json_get_str(j, "file", NULL);
	const char *command = json_get_str(j, "command", NULL);
	const struct json *args = json_get(j, "arguments");

	if (!dir || !file)
		return err_set(err, ERR_PARSE, "%s: entry %zu has no '%s'", what, i,
			       dir ? "file" : "directory");
	e->directory = xstrdup(dir);
	e->file = xstrdup(file);
	e->output = xstrdup(json_get_str(j, "output", NULL));
	if (json_kind(args) == JSON_KIND_ARR)
		return arguments(args, e, what, i, err);
	if (!command)
		return err_set(err, ERR_PARSE,
			       "%s: entry %zu has neither 'arguments' nor 'command'", what, i);
	return split(command, e, what, err);
}

int build_cdb_parse(const char *text, size_t len, const char *what, struct build_cdb **out,
		    struct err *err)
{
	AUTO_JSON struct json *j = NULL;
	struct build_cdb *c;
	int r;

	if (len > MAX_TEXT)
		return err_set(err, ERR_LIMIT, "%s: larger than %zu MiB", what, MAX_TEXT >> 20);
	r = json_parse(text, len, what, &j, err);
	if (r < 0)
		return r;
	if (json_kind(j) != JSON_KIND_ARR)
		return err_set(err, ERR_PARSE, "%s: is no list", what);
	if (json_len(j) > MAX_ENTRIES)
		return err_set(err, ERR_LIMIT, "%s: more than %u entries", what, MAX_ENTRIES);
	c = xcalloc(1, sizeof(*c));
	c->entries = xcalloc(json_len(j) + 1, sizeof(*c->entries));
	for (size_t i = 0; r == 0 && i < json_len(j); i++) {
		c->n++;
		r = entry(json_at(j, i), &c->entries[i], what, i, err);
	}
	if (r < 0)
		build_cdb_free(c);
	else
		*out = c;
	return r;
}

char *build_cdb_text(const struct build_record *r)
{
	AUTO_JSON struct json *all = json_new_arr();

	for (size_t i = 0; i < r->n_steps; i++) {
		const struct build_step *s = &r->steps[i];

		if (s->kind != BUILD_COMPILE && s->kind != BUILD_COMPILE_LINK)
			continue;
		for (size_t f = 0; f < s->n_sources; f++) {
			AUTO_FREE char *file = build_path_full(r, s->sources[f]);
			struct json *e = json_new_obj(), *args = json_new_arr();

			json_set_str(e, "directory", s->cwd);
			json_set_str(e, "file", file);
			for (size_t a = 0; a < s->n_argv; a++)
				json_add(args, json_new_str(s->argv[a]));
			for (size_t a = 0; a < s->n_added; a++)
				json_add(args, json_new_str(s->added[a]));
			json_set(e, "arguments", args);
			if (f < s->n_outputs) {
				AUTO_FREE char *o = build_path_full(r, s->outputs[f]);

				json_set_str(e, "output", o);
			}
			json_add(all, e);
		}
	}
	return json_dump_pretty(all);
}
