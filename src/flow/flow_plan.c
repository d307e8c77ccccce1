#include "flow/flow_plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build.h"
#include "build/flags.h"
#include "core/cleanup.h"
#include "flow/flow_priv.h"

static enum build_family plan_family(const char *name)
{
	for (int i = 0; name && i < BUILD_N_FAMILIES; i++) {
		if (strcmp(build_family_name((enum build_family)i), name) == 0)
			return (enum build_family)i;
	}
	return BUILD_FAM_UNKNOWN;
}

int flow_plan_make(struct flow *f, const struct flow_config *cfg, struct build_plan **out,
		   struct err *err)
{
	size_t n = json_len(cfg->actions);
	AUTO_FREE struct build_action *v = xcalloc(n, sizeof(*v));

	*out = NULL;
	if (n == 0)
		return ERR_OK;
	for (size_t i = 0; i < n; i++) {
		const struct json *a = json_at(cfg->actions, i);
		int r = build_action_parse(json_get_str(a, "name", ""),
					   json_get_str(a, "value", NULL), &v[i], err);

		if (r < 0)
			return r;
		v[i].family = plan_family(json_get_str(a, "family", NULL));
	}
	return build_plan_make(f->k, f->rec_orig, v, n, f->o->allow_fp, out, err);
}
