#include "base/yaml.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define YAML_MAX_DEPTH 8
#define YAML_MAX_NODES 10000

struct yaml_in {
	yaml_parser_t parser;
	const char *what;
	int line_off;
	struct json *lines;
	struct str path;
	unsigned n_nodes;
};

static int yaml_fail(struct yaml_in *in, const yaml_mark_t *at, const char *msg, struct err *err)
{
	return err_set(err, ERR_PARSE, "%s:%d: %s", in->what, (int)at->line + in->line_off, msg);
}

static int yaml_next(struct yaml_in *in, yaml_event_t *ev, struct err *err)
{
	if (yaml_parser_parse(&in->parser, ev))
		return ERR_OK;
	return yaml_fail(in, &in->parser.problem_mark,
			 in->parser.problem ? in->parser.problem : "not valid YAML", err);
}

static struct json *yaml_scalar(const yaml_event_t *ev)
{
	const char *s = (const char *)ev->data.scalar.value;
	size_t n = ev->data.scalar.length;
	size_t digits = strspn(s, "0123456789");

	if (ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
		return json_new_strn(s, n);
	if (n == 0 || strcmp(s, "~") == 0 || strcmp(s, "null") == 0)
		return json_new_null();
	if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
		return json_new_bool(s[0] == 't');
	if (digits == n && n <= 15 && (s[0] != '0' || n == 1))
		return json_new_int(strtoll(s, NULL, 10));
	return json_new_strn(s, n);
}

static int yaml_value(struct yaml_in *in, yaml_event_t *ev, int depth, struct json **out,
		      struct err *err);

static void yaml_note_line(struct yaml_in *in, const yaml_mark_t *at)
{
	if (in->lines && in->path.len)
		json_set_int(in->lines, str_get(&in->path), (int)at->line + in->line_off);
}

static void yaml_path_cut(struct yaml_in *in, size_t len)
{
	in->path.len = len;
	if (in->path.s)
		in->path.s[len] = '\0';
}

static void yaml_path_push(struct yaml_in *in, const char *name)
{
	if (in->path.len)
		str_addc(&in->path, '.');
	str_adds(&in->path, name);
}

static int yaml_map(struct yaml_in *in, int depth, struct json *obj, struct err *err)
{
	for (;;) {
		yaml_event_t key, val;
		struct json *v = NULL;
		size_t keep = in->path.len;
		int r = yaml_next(in, &key, err);

		if (r < 0)
			return r;
		if (key.type == YAML_MAPPING_END_EVENT) {
			yaml_event_delete(&key);
			return ERR_OK;
		}
		if (key.type != YAML_SCALAR_EVENT)
			r = yaml_fail(in, &key.start_mark, "a key must be plain text", err);
		else if (json_get(obj, (const char *)key.data.scalar.value))
			r = yaml_fail(in, &key.start_mark, "this key stands twice", err);
		if (r == ERR_OK) {
			yaml_path_push(in, (const char *)key.data.scalar.value);
			yaml_note_line(in, &key.start_mark);
			r = yaml_next(in, &val, err);
			if (r == ERR_OK) {
				r = yaml_value(in, &val, depth + 1, &v, err);
				yaml_event_delete(&val);
			}
			yaml_path_cut(in, keep);
		}
		if (r == ERR_OK)
			json_set(obj, (const char *)key.data.scalar.value, v);
		yaml_event_delete(&key);
		if (r < 0)
			return r;
	}
}

static int yaml_list(struct yaml_in *in, int depth, struct json *arr, struct err *err)
{
	for (;;) {
		AUTO_FREE char *idx = xasprintf("%zu", json_len(arr));
		yaml_event_t ev;
		struct json *v = NULL;
		size_t keep = in->path.len;
		int r = yaml_next(in, &ev, err);

		if (r < 0)
			return r;
		if (ev.type == YAML_SEQUENCE_END_EVENT) {
			yaml_event_delete(&ev);
			return ERR_OK;
		}
		yaml_path_push(in, idx);
		yaml_note_line(in, &ev.start_mark);
		r = yaml_value(in, &ev, depth + 1, &v, err);
		yaml_path_cut(in, keep);
		yaml_event_delete(&ev);
		if (r < 0)
			return r;
		json_add(arr, v);
	}
}

static int yaml_value(struct yaml_in *in, yaml_event_t *ev, int depth, struct json **out,
		      struct err *err)
{
	AUTO_JSON struct json *v = NULL;
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	int r;

	if (depth > YAML_MAX_DEPTH)
		return yaml_fail(in, &ev->start_mark, "nested too deep (at most 8 levels)", err);
	if (++in->n_nodes > YAML_MAX_NODES)
		return yaml_fail(in, &ev->start_mark, "more than 10000 values", err);
	if (ev->type == YAML_SCALAR_EVENT) {
		if (ev->data.scalar.anchor || ev->data.scalar.tag)
			return yaml_fail(in, &ev->start_mark, "anchors and tags are not taken",
					 err);
		*out = yaml_scalar(ev);
		return ERR_OK;
	}
	if (!map && ev->type != YAML_SEQUENCE_START_EVENT)
		return yaml_fail(in, &ev->start_mark, "aliases are not taken", err);
	if (map ? ev->data.mapping_start.anchor || ev->data.mapping_start.tag
		: ev->data.sequence_start.anchor || ev->data.sequence_start.tag)
		return yaml_fail(in, &ev->start_mark, "anchors and tags are not taken", err);
	v = map ? json_new_obj() : json_new_arr();
	r = map ? yaml_map(in, depth, v, err) : yaml_list(in, depth, v, err);
	if (r == ERR_OK)
		*out = TAKE_PTR(v);
	return r;
}

static int yaml_document(struct yaml_in *in, struct json **out, struct err *err)
{
	for (;;) {
		yaml_event_t ev;
		int r = yaml_next(in, &ev, err);
		yaml_event_type_t type;

		if (r < 0)
			return r;
		type = ev.type;
		if (type == YAML_DOCUMENT_START_EVENT && *out)
			r = yaml_fail(in, &ev.start_mark, "more than one document", err);
		else if (type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT &&
			 type != YAML_DOCUMENT_START_EVENT && type != YAML_DOCUMENT_END_EVENT)
			r = yaml_value(in, &ev, 0, out, err);
		yaml_event_delete(&ev);
		if (r < 0 || type == YAML_STREAM_END_EVENT)
			return r;
	}
}

int yaml_parse(const char *text, size_t len, const char *what, int first_line, struct json **out,
	       struct json **lines, struct err *err)
{
	struct yaml_in in = { .what = what, .line_off = first_line };
	struct json *v = NULL;
	int r;

	if (!yaml_parser_initialize(&in.parser))
		return err_set(err, ERR_NOMEM, "%s: no memory for the YAML parser", what);
	yaml_parser_set_encoding(&in.parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&in.parser, (const unsigned char *)text, len);
	if (lines)
		in.lines = json_new_obj();
	r = yaml_document(&in, &v, err);
	yaml_parser_delete(&in.parser);
	str_done(&in.path);
	if (r < 0) {
		json_unref(v);
		json_unref(in.lines);
		return r;
	}
	*out = v ? v : json_new_obj();
	if (lines)
		*lines = in.lines;
	return ERR_OK;
}

int yaml_front_matter(const char *text, size_t len, const char *what, struct json **out,
		      struct json **lines, const char **body, int *body_line, struct err *err)
{
	const char *end = text + len, *p = text, *start;
	int line = 1, r;

	if (len < 4 || memcmp(text, "---\n", 4) != 0)
		return err_set(err, ERR_PARSE, "%s:1: the first line must be ---", what);
	start = p = text + 4;
	for (line = 2; p < end; line++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((nl ? nl : end) - p);

		if (n == 3 && memcmp(p, "---", 3) == 0)
			break;
		p = nl ? nl + 1 : end;
	}
	if (p >= end)
		return err_set(err, ERR_PARSE, "%s:%d: the closing --- is missing", what, line);
	r = yaml_parse(start, (size_t)(p - start), what, 2, out, lines, err);
	if (r < 0)
		return r;
	p += 3;
	if (p < end && *p == '\n')
		p++;
	*body = p;
	*body_line = line + 1;
	return ERR_OK;
}

static void yaml_put_str(struct str *o, const char *s)
{
	AUTO_JSON struct json *j = json_new_str(s);
	AUTO_FREE char *quoted = json_dump(j); /* a JSON string is a YAML double-quoted one */
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./+ ";
	bool bare = isalpha((unsigned char)s[0]) && strspn(s, plain) == strlen(s) &&
		    s[strlen(s) - 1] != ' ' && strcmp(s, "true") != 0 && strcmp(s, "false") != 0 &&
		    strcmp(s, "null") != 0;

	str_adds(o, bare ? s : quoted);
}

static void yaml_put(struct str *o, const struct json *v, int depth)
{
	AUTO_FREE char *text = NULL;
	bool arr = json_kind(v) == JSON_KIND_ARR;

	if ((arr || json_kind(v) == JSON_KIND_OBJ) && json_len(v) == 0) {
		str_adds(o, arr ? " []\n" : " {}\n");
		return;
	}
	if (arr) {
		str_addc(o, '\n');
		for (size_t i = 0; i < json_len(v); i++) {
			str_addf(o, "%*s-", 2 * depth, "");
			yaml_put(o, json_at(v, i), depth + 1);
		}
		return;
	}
	if (json_kind(v) == JSON_KIND_OBJ) {
		if (depth)
			str_addc(o, '\n');
		for (void *it = json_iter(v); it; it = json_next(v, it)) {
			str_addf(o, "%*s", 2 * depth, "");
			yaml_put_str(o, json_iter_key(it));
			str_addc(o, ':');
			yaml_put(o, json_iter_value(it), depth + 1);
		}
		return;
	}
	str_addc(o, ' ');
	text = json_dump(v);
	if (json_str(v))
		yaml_put_str(o, json_str(v));
	else
		str_adds(o, text);
	str_addc(o, '\n');
}

char *yaml_dump(const struct json *map)
{
	struct str o = { 0 };

	yaml_put(&o, map, 0);
	return str_take(&o);
}
