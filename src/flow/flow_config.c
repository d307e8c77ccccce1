#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "core/cleanup.h"
#include "flow/flow_priv.h"

void flow_config_init(struct flow_config *c)
{
	c->actions = json_new_arr();
	c->env = json_new_obj();
	c->tunables = json_new_obj();
}

void flow_config_done(struct flow_config *c)
{
	json_unref(c->actions);
	json_unref(c->env);
	json_unref(c->tunables);
	*c = (struct flow_config){ 0 };
}

void flow_config_copy(struct flow_config *to, const struct flow_config *from)
{
	struct flow_config copy = {
		.actions = json_dup(from->actions),
		.env = json_dup(from->env),
		.tunables = json_dup(from->tunables),
	};

	flow_config_done(to);
	*to = copy;
}

struct json *flow_config_json(const struct flow_config *c)
{
	struct json *o = json_new_obj();

	json_set(o, "actions", json_dup(c->actions));
	json_set(o, "env", json_dup(c->env));
	json_set(o, "tunables", json_dup(c->tunables));
	return o;
}

int flow_config_from_json(const struct json *j, struct flow_config *out, struct err *err)
{
	const struct json *a = json_get(j, "actions"), *e = json_get(j, "env");
	const struct json *t = json_get(j, "tunables");

	if (json_kind(a) != JSON_KIND_ARR || json_kind(e) != JSON_KIND_OBJ ||
	    json_kind(t) != JSON_KIND_OBJ)
		return err_set(err, ERR_PARSE, "the session's log holds no whole configuration");
	flow_config_done(out);
	out->actions = json_dup(a);
	out->env = json_dup(e);
	out->tunables = json_dup(t);
	return ERR_OK;
}

bool flow_config_same_command(const struct flow_config *a, const struct flow_config *b,
			      const char *build_command)
{
	AUTO_FREE char *ca = flow_expand(build_command, a->tunables, NULL);
	AUTO_FREE char *cb = flow_expand(build_command, b->tunables, NULL);

	return json_same(a->actions, b->actions) && strcmp(ca, cb) == 0;
}

bool flow_config_same_build(const struct flow_config *a, const struct flow_config *b,
			    const char *build_command, const char *run_command)
{
	bool in_build[FLOW_MAX_TUNABLES] = { false }, in_run[FLOW_MAX_TUNABLES] = { false };
	AUTO_FREE char *build = flow_expand(build_command, b->tunables, in_build);
	AUTO_FREE char *run = flow_expand(run_command, b->tunables, in_run);
	size_t i = 0;

	/* in no command, it is in the environment of both, and a build may well read it there */
	for (void *it = json_iter(b->tunables); it; it = json_next(b->tunables, it), i++) {
		const char *was = json_get_str(a->tunables, json_iter_key(it), "");

		if (i < FLOW_MAX_TUNABLES && !in_build[i] && !in_run[i] &&
		    strcmp(was, json_str(json_iter_value(it))) != 0)
			return false;
	}
	return flow_config_same_command(a, b, build_command);
}

bool flow_nothing_built(const struct flow *f)
{
	return strcmp(f->ck_cand, f->ck_best) == 0;
}
