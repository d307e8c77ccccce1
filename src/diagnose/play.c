/* One play file: its front matter checked key by key. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/yaml.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "diagnose/diagnose_priv.h"

#define PLAY_ORDER_DEFAULT 500
#define PLAY_ORDER_MAX	   1000

static const char *const play_keys[] = { "id",	 "title", "order", "applies", "action",
					 "risk", "check", "label", "source",  NULL };
static const char *const risks[] = { "low", "medium", "high" };

const char *diagnose_risk_name(enum diagnose_risk r)
{
	return risks[r];
}

static int play_line(const struct json *lines, const char *key)
{
	return (int)json_get_int(lines, key, 1);
}

static int play_known_keys(const struct json *fm, const struct json *lines, const char *what,
			   struct err *err)
{
	for (void *it = json_iter(fm); it; it = json_next(fm, it)) {
		const char *key = json_iter_key(it);
		const char *const *k = play_keys;

		while (*k && strcmp(*k, key) != 0)
			k++;
		if (!*k)
			return err_set(err, ERR_INVALID,
				       "%s:%d: unknown key '%.60s'; known are id, title, order, "
				       "applies, action, risk, check, label and source",
				       what, play_line(lines, key), key);
	}
	return ERR_OK;
}

static int play_text(const struct json *fm, const struct json *lines, const char *key,
		     const char *what, char **out, struct err *err)
{
	const char *s = json_get_str(fm, key, NULL);

	if (!s || !*s)
		return err_set(err, ERR_INVALID, "%s:%d: '%s' is missing or is not text", what,
			       play_line(lines, key), key);
	*out = xstrdup(s);
	return ERR_OK;
}

static int play_id(const struct json *fm, const struct json *lines, const char *what, char **out,
		   struct err *err)
{
	const char *id = json_get_str(fm, "id", "");
	size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");
	int r = play_text(fm, lines, "id", what, out, err);

	if (r < 0)
		return r;
	if (n > DIAGNOSE_ID_MAX || id[n])
		return err_set(err, ERR_INVALID,
			       "%s:%d: id '%.60s': at most %d characters of a-z, 0-9 and '-'", what,
			       play_line(lines, "id"), id, DIAGNOSE_ID_MAX);
	return ERR_OK;
}

/* One of the names; their index. */
static int play_choice(const struct json *fm, const struct json *lines, const char *key,
		       const char *const *names, size_t n, const char *what, struct err *err)
{
	const char *s = json_get_str(fm, key, "");

	for (size_t i = 0; i < n; i++) {
		if (strcmp(s, names[i]) == 0)
			return (int)i;
	}
	return err_set(err, ERR_INVALID, "%s:%d: %s is '%.40s'; it must be %s%s%s%s%s", what,
		       play_line(lines, key), key, s, names[0], n > 2 ? ", " : " or ", names[1],
		       n > 2 ? " or " : "", n > 2 ? names[2] : "");
}

static int play_fill(struct diagnose_play *p, const struct json *fm, const struct json *lines,
		     const char *what, struct err *err)
{
	static const char *const exactness[] = { "exact", "tolerance" };
	int64_t order = json_get_int(fm, "order", PLAY_ORDER_DEFAULT);
	int r;

	if ((r = play_known_keys(fm, lines, what, err)) < 0 ||
	    (r = play_id(fm, lines, what, &p->id, err)) < 0 ||
	    (r = play_text(fm, lines, "source", what, &p->source, err)) < 0 ||
	    (r = play_choice(fm, lines, "risk", risks, 3, what, err)) < 0)
		return r;
	p->risk = (enum diagnose_risk)r;
	if ((r = play_choice(fm, lines, "check", exactness, 2, what, err)) < 0)
		return r;
	p->check = (enum diagnose_exactness)r;
	if (order < 0 || order > PLAY_ORDER_MAX ||
	    (json_get(fm, "order") && json_kind(json_get(fm, "order")) != JSON_KIND_INT))
		return err_set(err, ERR_INVALID, "%s:%d: order must be a whole number up to %d",
			       what, play_line(lines, "order"), PLAY_ORDER_MAX);
	p->order = (int)order;
	p->title = xstrdup(json_get_str(fm, "title", p->id));
	p->label = xstrdup(json_get_str(fm, "label", NULL));
	if ((r = diagnose_applies_check(json_get(fm, "applies"), lines, what, err)) < 0 ||
	    (r = diagnose_action_check(json_get(fm, "action"), lines, what, err)) < 0)
		return r;
	p->applies = json_dup(json_get(fm, "applies"));
	p->action = json_dup(json_get(fm, "action"));
	return ERR_OK;
}

int diagnose_play_parse(const char *text, size_t len, const char *what, struct diagnose_play *out,
			struct err *err)
{
	AUTO_JSON struct json *fm = NULL;
	AUTO_JSON struct json *lines = NULL;
	struct diagnose_play p = { 0 };
	const char *body = NULL;
	int body_line = 0, r;

	if (len > DIAGNOSE_PLAY_MAX)
		return err_set(err, ERR_INVALID, "%s:1: larger than %d bytes", what,
			       DIAGNOSE_PLAY_MAX);
	if (memchr(text, '\0', len))
		return err_set(err, ERR_INVALID, "%s:1: holds a NUL byte, so it is no text", what);
	r = yaml_front_matter(text, len, what, &fm, &lines, &body, &body_line, err);
	if (r < 0)
		return r;
	r = play_fill(&p, fm, lines, what, err);
	while (r == ERR_OK && body < text + len && isspace((unsigned char)*body))
		body++;
	if (r == ERR_OK && body >= text + len)
		r = err_set(err, ERR_INVALID, "%s:%d: there is no text that says why it may help",
			    what, body_line);
	if (r < 0) {
		diagnose_play_done(&p);
		return r;
	}
	p.path = xstrdup(what);
	p.body = xstrndup(body, (size_t)(text + len - body));
	*out = p;
	return ERR_OK;
}

void diagnose_play_done(struct diagnose_play *p)
{
	free(p->id);
	free(p->path);
	free(p->title);
	free(p->label);
	json_unref(p->applies);
	json_unref(p->action);
	free(p->source);
	free(p->body);
	*p = (struct diagnose_play){ 0 };
}
