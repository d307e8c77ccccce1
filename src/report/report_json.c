#include <string.h>

#include "base/json.h"
#include "core/err.h"
#include "ledger/ledger.h"
#include "report/report.h"
#include "report/report_find.h"

static void json_ci(struct json *o, const char *low, const char *high, const struct ledger_value *v)
{
	json_set(o, low, v && v->has_ci ? json_new_real(v->ci95_low) : json_new_null());
	json_set(o, high, v && v->has_ci ? json_new_real(v->ci95_high) : json_new_null());
}

static struct json *json_figure(const struct json *rec, const char *name)
{
	struct ledger_value v;
	struct json *o;

	if (!rec || ledger_find_value(rec, name, &v) < 0)
		return json_new_null();
	o = json_new_obj();
	json_set_real(o, "value", v.value);
	json_set_str(o, "unit", v.unit);
	json_ci(o, "ci95_low", "ci95_high", &v);
	json_set_str(o, "evidence", report_id(rec));
	return o;
}

static struct json *json_iteration(const struct json *rec)
{
	const struct json *d = json_get(rec, "detail");
	struct json *o = json_new_obj();
	struct ledger_value v;
	bool has = ledger_find_value(rec, "ratio", &v) == ERR_OK;

	json_set_str(o, "id", report_id(rec));
	json_set_str(o, "play", json_get_str(d, "play", ""));
	json_set_str(o, "change", json_get_str(d, "change", ""));
	json_set_str(o, "decision", json_get_str(d, "decision", ""));
	json_set_str(o, "reason", json_get_str(d, "reason", ""));
	json_set(o, "ratio", has ? json_new_real(v.value) : json_new_null());
	json_ci(o, "ci95_low", "ci95_high", has ? &v : NULL);
	json_set(o, "evidence", json_dup(json_get(rec, "parents")));
	return o;
}

struct json *report_json(const struct ledger *l)
{
	size_t start = report_start(l);
	const struct json *base = report_role(l, start, "bench", "baseline");
	const struct json *delivery = report_last(l, start, "delivery");
	const struct json *cmp =
		ledger_get(l, json_get_str(json_get(delivery, "detail"), "compare", ""));
	struct json *o = json_new_obj(), *arr = json_new_arr(), *figure;
	struct ledger_value v;
	bool has = delivery && ledger_find_value(delivery, "gain", &v) == ERR_OK;

	json_set(o, "gain", has ? json_new_real(v.value) : json_new_null());
	json_ci(o, "gain_ci95_low", "gain_ci95_high", has ? &v : NULL);
	figure = json_figure(base, "fom");
	if (json_kind(figure) == JSON_KIND_NULL) {
		json_unref(figure);
		figure = json_figure(base, "wall");
	}
	json_set(o, "baseline", figure);
	json_set(o, "best", json_figure(cmp, "b"));
	for (size_t i = start; i < ledger_count(l); i++) {
		if (report_is_iteration(ledger_at(l, i)))
			json_add(arr, json_iteration(ledger_at(l, i)));
	}
	json_set(o, "iterations", arr);
	json_set_str(o, "head", ledger_head(l));
	json_set_int(o, "records", (int64_t)ledger_count(l));
	return o;
}
