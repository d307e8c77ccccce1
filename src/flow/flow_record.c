/* Evidence of builds, and the one way into the ledger. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build.h"
#include "build/flags.h"
#include "core/cleanup.h"
#include "core/str.h"
#include "flow/flow_priv.h"
#include "session/session.h"

#define FLOW_FILES_MAX 32

int flow_appended(struct flow *f, const char *id, struct err *err)
{
	AUTO_JSON struct json *ev = json_new_obj();
	struct json *told = json_new_obj();

	flow_boundary("after-evidence");
	json_set_str(told, "event", "evidence");
	json_set(told, "record", json_dup(ledger_get(f->l, id)));
	flow_tell(f, told);
	json_set_str(ev, "id", id);
	return session_append(f->s, SESSION_EVIDENCE, ev, err);
}

int flow_append(struct flow *f, const struct ledger_rec *rec, char id[LEDGER_ID_CAP],
		struct err *err)
{
	int r;

	flow_boundary("before-evidence");
	r = ledger_append(f->l, rec, id, err);
	return r < 0 ? r : flow_appended(f, id, err);
}

static void flow_count_steps(const struct build_record *rec, int64_t *compiles, int64_t *links)
{
	*compiles = *links = 0;
	for (size_t i = 0; i < rec->n_steps; i++) {
		enum build_kind k = rec->steps[i].kind;

		*compiles += k == BUILD_COMPILE || k == BUILD_COMPILE_LINK;
		*links += k == BUILD_LINK || k == BUILD_COMPILE_LINK;
	}
}

int flow_record_build(struct flow *f, const char *role, const struct build_record *rec,
		      const struct build_plan *plan, const char *why, char id[LEDGER_ID_CAP],
		      struct err *err)
{
	struct ledger_value wall = {
		.name = "wall", .value = (double)rec->wall_ns / 1e9, .unit = "s", .n = 1
	};
	struct ledger_file files[FLOW_FILES_MAX];
	struct ledger_rec out = {
		.kind = LEDGER_BUILD,
		.command = rec->command,
		.values = &wall,
		.n_values = 1,
		.files = files,
	};
	AUTO_JSON struct json *detail = json_new_obj();
	AUTO_STR struct str flags = { 0 };
	int64_t compiles, links;

	for (size_t i = 0; i < rec->n_programs && i < FLOW_FILES_MAX; i++)
		files[out.n_files++] = (struct ledger_file){ .path = rec->programs[i].path,
							     .sha256 = rec->programs[i].sha256 };
	flow_count_steps(rec, &compiles, &links);
	if (plan)
		build_plan_text(plan, &flags);
	json_set_str(detail, "role", role);
	json_set(detail, "iteration", f->iteration ? json_new_int(f->iteration) : json_new_null());
	json_set_int(detail, "n_compiles", compiles);
	json_set_int(detail, "n_links", links);
	json_set_str(detail, "flags", str_get(&flags));
	json_set_bool(detail, "ok", build_record_ok(rec));
	json_set_str(detail, "why", why && *why ? why : build_record_ok(rec) ? "" : rec->tail);
	out.detail = detail;
	return flow_append(f, &out, id, err);
}
