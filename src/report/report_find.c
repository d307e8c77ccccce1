#include "report/report_find.h"

#include <string.h>

#include "base/json.h"
#include "ledger/ledger.h"

static const char *find_what(const struct json *rec)
{
	return json_get_str(json_get(rec, "detail"), "what", "");
}

size_t report_start(const struct ledger *l)
{
	for (size_t i = ledger_count(l); i > 0; i--) {
		const struct json *rec = ledger_at(l, i - 1);

		if (strcmp(json_get_str(rec, "kind", ""), "user") == 0 &&
		    strcmp(find_what(rec), "session") == 0)
			return i - 1;
	}
	return 0;
}

const struct json *report_last(const struct ledger *l, size_t start, const char *what)
{
	for (size_t i = ledger_count(l); i > start; i--) {
		if (strcmp(find_what(ledger_at(l, i - 1)), what) == 0)
			return ledger_at(l, i - 1);
	}
	return NULL;
}

const struct json *report_role(const struct ledger *l, size_t start, const char *kind,
			       const char *role)
{
	for (size_t i = ledger_count(l); i > start; i--) {
		const struct json *rec = ledger_at(l, i - 1);

		if (strcmp(json_get_str(rec, "kind", ""), kind) == 0 &&
		    strcmp(json_get_str(json_get(rec, "detail"), "role", ""), role) == 0)
			return rec;
	}
	return NULL;
}

int report_is_iteration(const struct json *rec)
{
	return strcmp(json_get_str(rec, "kind", ""), "decision") == 0 &&
	       strcmp(find_what(rec), "iteration") == 0;
}

const char *report_id(const struct json *rec)
{
	return json_get_str(rec, "id", "");
}
