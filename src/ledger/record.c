#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "ledger/ledger_priv.h"

static const char *const ledger_kinds[LEDGER_N_KINDS] = {
	[LEDGER_BUILD] = "build",	[LEDGER_CHECK] = "check",
	[LEDGER_BENCH] = "bench",	[LEDGER_COMPARE] = "compare",
	[LEDGER_PROFILE] = "profile",	[LEDGER_COUNTER] = "counter",
	[LEDGER_RESOURCE] = "resource", [LEDGER_ROOFLINE] = "roofline",
	[LEDGER_SPEC] = "spec",		[LEDGER_USER] = "user",
	[LEDGER_DECISION] = "decision", [LEDGER_NOTE] = "note",
};

const char *ledger_kind_name(enum ledger_kind kind)
{
	return ledger_kinds[kind];
}

int ledger_kind_from(const char *name, enum ledger_kind *out)
{
	for (int i = 0; i < LEDGER_N_KINDS; i++) {
		if (strcmp(ledger_kinds[i], name) == 0) {
			*out = (enum ledger_kind)i;
			return ERR_OK;
		}
	}
	return ERR_NOT_FOUND;
}

static bool ledger_shard_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

void ledger_host(char out[64])
{
	char name[256] = "";
	size_t n = 0;

	if (gethostname(name, sizeof(name) - 1) < 0 || !name[0])
		(void)snprintf(name, sizeof(name), "unknown");
	for (const char *s = name; *s && n < 48; s++) {
		out[n] = '_';
		if (ledger_shard_char(*s))
			out[n] = *s;
		n++;
	}
	out[n] = '\0';
	if (out[0] == '.')
		out[0] = '_'; /* shard files must not be hidden ones */
}

bool ledger_id_split(const char *id, char shard[LEDGER_SHARD_CAP], uint64_t *num)
{
	const char *colon = strchr(id, ':');
	size_t n = colon ? (size_t)(colon - id) : 0;
	const char *e = colon ? colon + 1 : id;
	size_t digits;

	if (n >= LEDGER_SHARD_CAP || (colon && n == 0) || (colon && id[0] == '.'))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!ledger_shard_char(id[i]))
			return false;
	}
	if (e[0] != 'E')
		return false;
	digits = strspn(e + 1, "0123456789");
	/* four digits at least, and no more zeros than they need: one spelling a number */
	if (digits < 4 || digits > 12 || e[1 + digits] != '\0' || (digits > 4 && e[1] == '0'))
		return false;
	if (num_u64(e + 1 + strspn(e + 1, "0"), num, NULL) < 0 || *num == 0)
		return false;
	memcpy(shard, id, n);
	shard[n] = '\0';
	return true;
}

void ledger_id_make(const char *shard, uint64_t num, char id[LEDGER_ID_CAP])
{
	(void)snprintf(id, LEDGER_ID_CAP, "%s%sE%04llu", shard, *shard ? ":" : "",
		       (unsigned long long)num);
}

bool ledger_is_hash(const char *s)
{
	return s && strlen(s) == HASH_HEX_LEN && strspn(s, "0123456789abcdef") == HASH_HEX_LEN;
}

/* ---- making ---- */

static struct json *ledger_value_json(const struct ledger_value *v)
{
	struct json *o = json_new_obj();

	json_set_str(o, "name", v->name);
	json_set_real(o, "value", v->value);
	json_set_str(o, "unit", v->unit);
	json_set_int(o, "n", v->n);
	if (v->has_range) {
		json_set_real(o, "min", v->min);
		json_set_real(o, "max", v->max);
		json_set_real(o, "median", v->median);
	}
	if (v->has_range || v->has_ci) {
		json_set(o, "ci95_low", v->has_ci ? json_new_real(v->ci95_low) : json_new_null());
		json_set(o, "ci95_high", v->has_ci ? json_new_real(v->ci95_high) : json_new_null());
	}
	return o;
}

static struct json *ledger_obj_or_empty(const struct json *j)
{
	return j ? json_dup(j) : json_new_obj();
}

struct json *ledger_rec_json(const struct ledger_rec *rec, const char *id)
{
	struct json *o = json_new_obj(), *values = json_new_arr(), *files = json_new_arr(),
		    *parents = json_new_arr();
	char now[32], host[64];

	clock_iso_now(now);
	ledger_host(host);
	json_set_str(o, "id", id);
	json_set_str(o, "kind", ledger_kind_name(rec->kind));
	json_set_str(o, "time", now);
	json_set_str(o, "host", host);
	json_set_str(o, "gpu", rec->gpu);
	json_set_str(o, "command", rec->command);
	json_set(o, "env", ledger_obj_or_empty(rec->env));
	for (size_t i = 0; i < rec->n_values; i++)
		json_add(values, ledger_value_json(&rec->values[i]));
	json_set(o, "values", values);
	for (size_t i = 0; i < rec->n_files; i++) {
		struct json *f = json_new_obj();

		json_set_str(f, "path", rec->files[i].path);
		json_set_str(f, "sha256", rec->files[i].sha256);
		json_add(files, f);
	}
	json_set(o, "files", files);
	for (size_t i = 0; i < rec->n_parents; i++)
		json_add(parents, json_new_str(rec->parents[i]));
	json_set(o, "parents", parents);
	json_set(o, "detail", ledger_obj_or_empty(rec->detail));
	return o;
}

/* ---- checking ---- */

/* A key that must be there as text of at least one byte. */
static int ledger_need_text(const struct json *o, const char *key, const char *of, struct err *err)
{
	const char *s = json_get_str(o, key, NULL);

	if (!s || !*s)
		return err_set(err, ERR_PARSE, "%s has no %s", of, key);
	return ERR_OK;
}

static int ledger_check_time(const char *t, struct err *err)
{
	static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ";
	bool ok = t && strlen(t) == sizeof(form) - 1;

	for (size_t i = 0; ok && i < sizeof(form) - 1; i++)
		ok = form[i] == 'd' ? isdigit((unsigned char)t[i]) != 0 : form[i] == t[i];
	return ok ? ERR_OK : err_set(err, ERR_PARSE, "time is not YYYY-MM-DDThh:mm:ss.mmmZ");
}

/* One number of a value: absent and null are the same.  1: there, 0: not there. */
static int ledger_get_real(const struct json *v, const char *key, double *out, struct err *err)
{
	struct json *j = json_get(v, key);

	if (json_kind(j) == JSON_KIND_NULL)
		return 0;
	if (!json_num(j, out) || !isfinite(*out))
		return err_set(err, ERR_PARSE, "value '%s': %s is not a finite number",
			       json_get_str(v, "name", "?"), key);
	return 1;
}

static int ledger_check_range(const struct json *v, struct err *err)
{
	double min = 0, max = 0, median = 0;
	const char *name = json_get_str(v, "name", "?");
	int a = ledger_get_real(v, "min", &min, err), b, c;

	if (a < 0 || (b = ledger_get_real(v, "max", &max, err)) < 0 ||
	    (c = ledger_get_real(v, "median", &median, err)) < 0)
		return ERR_PARSE;
	if (a != b || b != c)
		return err_set(err, ERR_PARSE, "value '%s' has only some of min, max and median",
			       name);
	if (a && !(min <= median && median <= max))
		return err_set(err, ERR_PARSE, "value '%s': not min <= median <= max", name);
	return ERR_OK;
}

static int ledger_check_ci(const struct json *v, int64_t n, struct err *err)
{
	double low = 0, high = 0;
	const char *name = json_get_str(v, "name", "?");
	int a = ledger_get_real(v, "ci95_low", &low, err), b;

	if (a < 0 || (b = ledger_get_real(v, "ci95_high", &high, err)) < 0)
		return ERR_PARSE;
	if (a != b)
		return err_set(err, ERR_PARSE, "value '%s' has only one of ci95_low and ci95_high",
			       name);
	if (a && n < 6)
		return err_set(err, ERR_PARSE,
			       "value '%s' has a 95 %% interval from %lld repetitions (6 at least)",
			       name, (long long)n);
	if (a && low > high)
		return err_set(err, ERR_PARSE, "value '%s': ci95_low is over ci95_high", name);
	return ERR_OK;
}

static int ledger_check_value(const struct json *v, struct err *err)
{
	AUTO_FREE char *of = xasprintf("value '%s'", json_get_str(v, "name", ""));
	int64_t n = json_get_int(v, "n", 0);
	double x;
	int r = ledger_need_text(v, "name", "a value", err);

	if (r == ERR_OK)
		r = ledger_need_text(v, "unit", of, err);
	if (r < 0)
		return r;
	r = ledger_get_real(v, "value", &x, err);
	if (r <= 0)
		return r < 0 ? r : err_set(err, ERR_PARSE, "%s has no number", of);
	if (n < 1 || n > UINT32_MAX)
		return err_set(err, ERR_PARSE, "%s: n is not a whole number of at least 1", of);
	if ((r = ledger_check_range(v, err)) < 0)
		return r;
	return ledger_check_ci(v, n, err);
}

static int ledger_check_lists(const struct json *rec, struct err *err)
{
	const struct json *files = json_get(rec, "files"), *parents = json_get(rec, "parents");
	char shard[LEDGER_SHARD_CAP];
	uint64_t num;

	if (json_kind(files) != JSON_KIND_ARR || json_kind(parents) != JSON_KIND_ARR)
		return err_set(err, ERR_PARSE, "files or parents is not a list");
	for (size_t i = 0; i < json_len(files); i++) {
		const struct json *f = json_at(files, i);

		if (ledger_need_text(f, "path", "a file", err) < 0)
			return ERR_PARSE;
		if (!ledger_is_hash(json_get_str(f, "sha256", NULL)))
			return err_set(err, ERR_PARSE, "file '%s' has no sha256",
				       json_get_str(f, "path", ""));
	}
	for (size_t i = 0; i < json_len(parents); i++) {
		const char *p = json_str(json_at(parents, i));

		if (!p || !ledger_id_split(p, shard, &num))
			return err_set(err, ERR_PARSE, "parent '%s' is not an id", p ? p : "?");
	}
	return ERR_OK;
}

static bool ledger_text_or_null(const struct json *rec, const char *key)
{
	const struct json *j = json_get(rec, key);

	return j && (json_str(j) || json_kind(j) == JSON_KIND_NULL);
}

int ledger_check(const struct json *rec, struct err *err)
{
	const struct json *values = json_get(rec, "values");
	const char *id = json_get_str(rec, "id", NULL), *kind = json_get_str(rec, "kind", NULL);
	char shard[LEDGER_SHARD_CAP];
	enum ledger_kind k;
	uint64_t num;
	int r;

	if (json_kind(rec) != JSON_KIND_OBJ)
		return err_set(err, ERR_PARSE, "not an object");
	if (!id || !ledger_id_split(id, shard, &num))
		return err_set(err, ERR_PARSE, "id '%s' is not of the form E0001", id ? id : "?");
	if (!kind || ledger_kind_from(kind, &k) < 0)
		return err_set(err, ERR_PARSE, "no kind of record is called '%s'",
			       kind ? kind : "?");
	if ((r = ledger_check_time(json_get_str(rec, "time", NULL), err)) < 0 ||
	    (r = ledger_need_text(rec, "host", "the record", err)) < 0)
		return r;
	if (!ledger_text_or_null(rec, "gpu") || !ledger_text_or_null(rec, "command"))
		return err_set(err, ERR_PARSE, "gpu or command is neither text nor null");
	if (json_kind(json_get(rec, "env")) != JSON_KIND_OBJ ||
	    json_kind(json_get(rec, "detail")) != JSON_KIND_OBJ)
		return err_set(err, ERR_PARSE, "env or detail is not an object");
	if (json_kind(values) != JSON_KIND_ARR)
		return err_set(err, ERR_PARSE, "values is not a list");
	for (size_t i = 0; i < json_len(values); i++) {
		if ((r = ledger_check_value(json_at(values, i), err)) < 0)
			return r;
	}
	return ledger_check_lists(rec, err);
}

int ledger_parse_line(const char *line, size_t len, const char *what, size_t line_no,
		      struct json **out, struct err *err)
{
	AUTO_JSON struct json *j = NULL;
	struct err why = { 0 };
	int r;

	if (len > LEDGER_LINE_MAX)
		return err_set(err, ERR_LIMIT, "%s:%zu: longer than %zu bytes", what, line_no,
			       LEDGER_LINE_MAX);
	/* the parser's own position counts from this line, so only its text is of use */
	if (json_parse(line, len, "record", &j, &why) < 0) {
		const char *text = strstr(why.msg, "not valid JSON");

		return err_set(err, ERR_PARSE, "%s:%zu: %s", what, line_no, text ? text : why.msg);
	}
	r = ledger_check(j, &why);
	if (r == ERR_OK && !ledger_is_hash(json_get_str(j, "prev", NULL)))
		r = err_set(&why, ERR_PARSE, "prev is not a sha256");
	if (r < 0)
		return err_set(err, ERR_PARSE, "%s:%zu: %s", what, line_no, why.msg);
	*out = TAKE_PTR(j);
	return ERR_OK;
}

/* ---- reading ---- */

int ledger_find_value(const struct json *rec, const char *name, struct ledger_value *out)
{
	const struct json *values = json_get(rec, "values");

	for (size_t i = 0; i < json_len(values); i++) {
		const struct json *v = json_at(values, i);
		const char *s = json_get_str(v, "name", NULL);
		struct ledger_value r = { 0 };

		if (!s || strcmp(s, name) != 0)
			continue;
		r.name = s;
		r.value = json_get_num(v, "value", 0);
		r.unit = json_get_str(v, "unit", "");
		r.n = (unsigned)json_get_int(v, "n", 1);
		r.has_range = json_num(json_get(v, "min"), &r.min) &&
			      json_num(json_get(v, "max"), &r.max) &&
			      json_num(json_get(v, "median"), &r.median);
		r.has_ci = json_num(json_get(v, "ci95_low"), &r.ci95_low) &&
			   json_num(json_get(v, "ci95_high"), &r.ci95_high);
		*out = r;
		return ERR_OK;
	}
	return ERR_NOT_FOUND;
}

const char *ledger_tag_bench(unsigned n_effective)
{
	return n_effective >= 3 ? "FACT" : "OPINION";
}
