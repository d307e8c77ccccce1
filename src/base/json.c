#include "base/json.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

static json_t *json_in(const struct json *j)
{
	return (json_t *)(uintptr_t)j;
}

static struct json *json_out(json_t *j)
{
	return (struct json *)j;
}

static struct json *json_made(json_t *j)
{
	if (!j)
		abort();
	return json_out(j);
}

int json_parse(const char *text, size_t len, const char *what, struct json **out, struct err *err)
{
	json_error_t je;
	json_t *j = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
			       &je);

	if (!j)
		return err_set(err, ERR_PARSE, "%s:%d:%d: not valid JSON: %s", what, je.line,
			       je.column, je.text);
	*out = json_out(j);
	return ERR_OK;
}

struct json *json_ref(struct json *j)
{
	return json_out(json_incref(json_in(j)));
}

void json_unref(struct json *j)
{
	json_decref(json_in(j));
}

enum json_kind json_kind(const struct json *j)
{
	const json_t *v = json_in(j);

	if (!v)
		return JSON_KIND_NULL;
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return JSON_KIND_OBJ;
	case JSON_ARRAY:
		return JSON_KIND_ARR;
	case JSON_STRING:
		return JSON_KIND_STR;
	case JSON_INTEGER:
		return JSON_KIND_INT;
	case JSON_REAL:
		return JSON_KIND_REAL;
	case JSON_TRUE:
	case JSON_FALSE:
		return JSON_KIND_BOOL;
	case JSON_NULL:
	default:
		return JSON_KIND_NULL;
	}
}

struct json *json_new_obj(void)
{
	return json_made(json_object());
}

struct json *json_new_arr(void)
{
	return json_made(json_array());
}

/* Length of the well-formed UTF-8 sequence at p, or 0. */
static size_t json_utf8_len(const unsigned char *p, size_t n)
{
	size_t want = *p < 0x80			? 1
		      : *p >= 0xc2 && *p < 0xe0 ? 2
		      : (*p & 0xf0) == 0xe0	? 3
		      : *p >= 0xf0 && *p < 0xf5 ? 4
						: 0;

	if (want == 0 || want > n)
		return 0;
	for (size_t i = 1; i < want; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return want;
}

struct json *json_new_strn(const char *s, size_t n)
{
	json_t *j = json_stringn(s, n);
	AUTO_STR struct str out = { 0 };

	if (j)
		return json_out(j);
	for (size_t i = 0; i < n;) {
		const unsigned char *p = (const unsigned char *)s + i;
		size_t k = json_utf8_len(p, n - i);

		if (k)
			str_add(&out, p, k);
		else
			str_addf(&out, "\\x%02x", *p);
		i += k ? k : 1;
	}
	return json_made(json_stringn(str_get(&out), out.len));
}

struct json *json_new_str(const char *s)
{
	return s ? json_new_strn(s, strlen(s)) : json_new_null();
}

struct json *json_new_int(int64_t v)
{
	return json_made(json_integer(v));
}

struct json *json_new_real(double v)
{
	return isfinite(v) ? json_made(json_real(v)) : json_new_null();
}

struct json *json_new_bool(bool v)
{
	return json_out(json_boolean(v));
}

struct json *json_new_null(void)
{
	return json_out(json_null());
}

struct json *json_dup(const struct json *j)
{
	return json_made(json_deep_copy(json_in(j)));
}

void json_set(struct json *obj, const char *key, struct json *take)
{
	if (json_object_set_new(json_in(obj), key, json_in(take)) < 0)
		abort(); /* not an object, or a key of ours that is not UTF-8: our bug */
}

void json_set_str(struct json *obj, const char *key, const char *s)
{
	json_set(obj, key, json_new_str(s));
}

void json_set_int(struct json *obj, const char *key, int64_t v)
{
	json_set(obj, key, json_new_int(v));
}

void json_set_real(struct json *obj, const char *key, double v)
{
	json_set(obj, key, json_new_real(v));
}

void json_set_bool(struct json *obj, const char *key, bool v)
{
	json_set(obj, key, json_new_bool(v));
}

void json_del(struct json *obj, const char *key)
{
	(void)json_object_del(json_in(obj), key);
}

void json_add(struct json *arr, struct json *take)
{
	if (json_array_append_new(json_in(arr), json_in(take)) < 0)
		abort();
}

struct json *json_get(const struct json *obj, const char *key)
{
	return json_out(json_object_get(json_in(obj), key));
}

struct json *json_at(const struct json *arr, size_t i)
{
	return json_out(json_array_get(json_in(arr), i));
}

size_t json_len(const struct json *j)
{
	const json_t *v = json_in(j);

	return json_is_object(v) ? json_object_size(v) : json_array_size(v);
}

const char *json_str(const struct json *j)
{
	return json_string_value(json_in(j));
}

const char *json_get_str(const struct json *obj, const char *key, const char *fallback)
{
	const char *s = json_str(json_get(obj, key));

	return s ? s : fallback;
}

int64_t json_get_int(const struct json *obj, const char *key, int64_t fallback)
{
	const json_t *v = json_in(json_get(obj, key));

	return json_is_integer(v) ? (int64_t)json_integer_value(v) : fallback;
}

bool json_num(const struct json *j, double *out)
{
	const json_t *v = json_in(j);

	if (!json_is_number(v))
		return false;
	*out = json_number_value(v);
	return true;
}

double json_get_num(const struct json *obj, const char *key, double fallback)
{
	double v;

	return json_num(json_get(obj, key), &v) ? v : fallback;
}

bool json_get_bool(const struct json *obj, const char *key, bool fallback)
{
	const json_t *v = json_in(json_get(obj, key));

	return json_is_boolean(v) ? json_is_true(v) : fallback;
}

bool json_truth(const struct json *j)
{
	return json_is_true(json_in(j));
}

bool json_same(const struct json *a, const struct json *b)
{
	return json_equal(json_in(a), json_in(b));
}

void *json_iter(const struct json *obj)
{
	return json_object_iter(json_in(obj));
}

void *json_next(const struct json *obj, void *it)
{
	return json_object_iter_next(json_in(obj), it);
}

const char *json_iter_key(void *it)
{
	return json_object_iter_key(it);
}

struct json *json_iter_value(void *it)
{
	return json_out(json_object_iter_value(it));
}

static char *json_dump_with(const struct json *j, size_t flags)
{
	char *s = json_dumps(json_in(j), flags | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

	if (!s)
		abort();
	return s;
}

char *json_dump(const struct json *j)
{
	return json_dump_with(j, JSON_COMPACT);
}

char *json_dump_canonical(const struct json *j)
{
	return json_dump_with(j, JSON_COMPACT | JSON_SORT_KEYS);
}

char *json_dump_pretty(const struct json *j)
{
	return json_dump_with(j, JSON_INDENT(2));
}
