#include "flow/flow_tunable.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

static bool flow_is_name(const char *s, size_t n)
{
	if (n == 0 || n > 64 || isdigit((unsigned char)s[0]))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '_')
			return false;
	}
	return true;
}

int flow_tunable_add(struct flow_tunables *t, const char *text, struct err *err)
{
	size_t n = strcspn(text, "=");
	AUTO_FREE char *name = xstrndup(text, n);
	struct flow_tunable *u;

	if (text[n] != '=' || !flow_is_name(text, n))
		return err_set(
			err, ERR_INVALID,
			"tunable '%.80s': write NAME=v1,v2 with a name of letters, digits and _",
			text);
	if (flow_tunable_find(t, name))
		return err_set(err, ERR_INVALID, "tunable %s is declared twice", name);
	if (t->n == FLOW_MAX_TUNABLES)
		return err_set(err, ERR_LIMIT, "more than %d tunables", FLOW_MAX_TUNABLES);
	u = &t->v[t->n];
	*u = (struct flow_tunable){ 0 };
	for (const char *p = text + n + 1;;) {
		size_t len = strcspn(p, ",");

		if (len == 0 || u->n_values == FLOW_MAX_VALUES) {
			for (size_t i = 0; i < u->n_values; i++)
				free(u->values[i]);
			free(u->values);
			return err_set(err, ERR_INVALID,
				       "tunable '%.80s': 1 to %d values that are not empty, with "
				       "commas between",
				       text, FLOW_MAX_VALUES);
		}
		u->values = xrealloc_n(u->values, u->n_values + 1, sizeof(*u->values));
		u->values[u->n_values++] = xstrndup(p, len);
		if (!p[len])
			break;
		p += len + 1;
	}
	u->name = TAKE_PTR(name);
	t->n++;
	return ERR_OK;
}

void flow_tunables_done(struct flow_tunables *t)
{
	for (size_t i = 0; i < t->n; i++) {
		for (size_t k = 0; k < t->v[i].n_values; k++)
			free(t->v[i].values[k]);
		free(t->v[i].values);
		free(t->v[i].name);
	}
	t->n = 0;
}

const struct flow_tunable *flow_tunable_find(const struct flow_tunables *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++) {
		if (strcmp(t->v[i].name, name) == 0)
			return &t->v[i];
	}
	return NULL;
}

char *flow_expand(const char *command, const struct json *values, bool *used)
{
	AUTO_STR struct str out = { 0 };

	for (size_t i = 0; used && i < json_len(values); i++)
		used[i] = false;
	for (const char *p = command; *p;) {
		size_t n = *p == '{' ? strcspn(p + 1, "}") : 0, i = 0;
		bool hit = false;

		if (n && p[1 + n] == '}' && flow_is_name(p + 1, n)) {
			for (void *it = json_iter(values); it; it = json_next(values, it), i++) {
				const char *key = json_iter_key(it);

				if (strlen(key) != n || memcmp(key, p + 1, n) != 0)
					continue;
				str_add_shquote(&out, json_str(json_iter_value(it)));
				if (used)
					used[i] = true;
				hit = true;
			}
		}
		if (hit)
			p += n + 2;
		else
			str_addc(&out, *p++);
	}
	return out.len ? str_take(&out) : xstrdup("");
}
