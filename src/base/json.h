/*
 * JSON values over jansson, whose types stay in json.c.  A value is reference counted; `struct
 * json` is never defined.  Threads: a value belongs to one thread at a time. Input is bounded:
 * nesting and duplicate keys are refused, numbers must be finite.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct str;
struct json;

enum json_kind {
	JSON_KIND_NULL,
	JSON_KIND_BOOL,
	JSON_KIND_INT,
	JSON_KIND_REAL,
	JSON_KIND_STR,
	JSON_KIND_ARR,
	JSON_KIND_OBJ
};

/* One document and nothing after it.  what names it in errors.  ERR_PARSE with line and column. */
int json_parse(const char *text, size_t len, const char *what, struct json **out, struct err *err);
struct json *json_ref(struct json *j); /* NULL stays NULL */
void json_unref(struct json *j);       /* NULL is fine */
#define AUTO_JSON AUTO(json_unrefp)
static inline void json_unrefp(struct json **j)
{
	json_unref(*j);
}

enum json_kind json_kind(const struct json *j); /* NULL is JSON_KIND_NULL */

/* Makers: a new reference; abort when memory is out.  Strings that are not UTF-8 are kept readable
 * by turning each offending byte into "\xNN" text. */
struct json *json_new_obj(void);
struct json *json_new_arr(void);
struct json *json_new_str(const char *s); /* NULL gives null */
struct json *json_new_strn(const char *s, size_t n);
struct json *json_new_int(int64_t v);
struct json *json_new_real(double v); /* null when not finite */
struct json *json_new_bool(bool v);
struct json *json_new_null(void);
struct json *json_dup(const struct json *j); /* deep copy */

/* Setters take over the value's reference, also on failure. */
void json_set(struct json *obj, const char *key, struct json *take);
void json_set_str(struct json *obj, const char *key, const char *s);
void json_set_int(struct json *obj, const char *key, int64_t v);
void json_set_real(struct json *obj, const char *key, double v);
void json_set_bool(struct json *obj, const char *key, bool v);
void json_del(struct json *obj, const char *key);
void json_add(struct json *arr, struct json *take);

/* Getters: borrowed; NULL or the fallback when absent or of another kind. */
struct json *json_get(const struct json *obj, const char *key);
struct json *json_at(const struct json *arr, size_t i);
size_t json_len(const struct json *arr_or_obj); /* 0 for anything else */
const char *json_str(const struct json *j);	/* NULL unless a string */
const char *json_get_str(const struct json *obj, const char *key, const char *fallback);
int64_t json_get_int(const struct json *obj, const char *key, int64_t fallback);
double json_get_num(const struct json *obj, const char *key, double fallback); /* int or real */
bool json_get_bool(const struct json *obj, const char *key, bool fallback);
bool json_num(const struct json *j, double *out); /* int or real */
bool json_truth(const struct json *j);		  /* the boolean true */
bool json_same(const struct json *a, const struct json *b);

/* Walks an object in insertion order: for (void *it = json_iter(o); it; it = json_next(o, it)) */
void *json_iter(const struct json *obj);
void *json_next(const struct json *obj, void *it);
const char *json_iter_key(void *it);
struct json *json_iter_value(void *it);

/* One line, keys in insertion order, reals with 15 significant digits.  Caller frees. */
char *json_dump(const struct json *j);
/* The same with sorted keys: the form that hashes are taken of. */
char *json_dump_canonical(const struct json *j);
/* Indented, for people. */
char *json_dump_pretty(const struct json *j);

#endif
