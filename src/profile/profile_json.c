#include <stdlib.h>

#include "base/json.h"
#include "profile/profile.h"

void profile_result_done(struct profile_result *r)
{
	for (size_t i = 0; i < r->n_funcs; i++) {
		free(r->funcs[i].name);
		free(r->funcs[i].dso);
		free(r->funcs[i].file);
	}
	for (size_t i = 0; i < r->n_lines; i++) {
		free(r->lines[i].file);
		free(r->lines[i].func);
	}
	free(r->funcs);
	free(r->lines);
	free(r->data_path);
	*r = (struct profile_result){ 0 };
}

static struct json *profile_func_json(const struct profile_func *f)
{
	struct json *j = json_new_obj();

	json_set_str(j, "name", f->name);
	json_set_str(j, "dso", f->dso);
	json_set_str(j, "file", f->file);
	json_set(j, "line", f->file ? json_new_int((int64_t)f->line) : json_new_null());
	json_set_real(j, "share_pct", f->share_pct);
	json_set_int(j, "samples", (int64_t)f->samples);
	return j;
}

static struct json *profile_line_json(const struct profile_line *l)
{
	struct json *j = json_new_obj();

	json_set_str(j, "file", l->file);
	json_set_int(j, "line", (int64_t)l->line);
	json_set_str(j, "function", l->func);
	json_set_real(j, "share_pct", l->share_pct);
	return j;
}

static const char *profile_text(const char *s)
{
	return s[0] ? s : NULL;
}

struct json *profile_result_json(const struct profile_result *r)
{
	struct json *j = json_new_obj(), *funcs = json_new_arr(), *lines = json_new_arr();

	for (size_t i = 0; i < r->n_funcs; i++)
		json_add(funcs, profile_func_json(&r->funcs[i]));
	for (size_t i = 0; i < r->n_lines; i++)
		json_add(lines, profile_line_json(&r->lines[i]));
	json_set_str(j, "tool", profile_text(r->tool));
	json_set_str(j, "version", profile_text(r->version));
	json_set_bool(j, "ok", r->ok);
	json_set_str(j, "why", profile_text(r->why));
	json_set_int(j, "samples", (int64_t)r->samples);
	json_set_int(j, "lost", (int64_t)r->lost);
	json_set_bool(j, "counters", r->has_counters);
	json_set_bool(j, "user_only", r->user_only);
	json_set(j, "functions", funcs);
	json_set(j, "lines", lines);
	json_set_str(j, "lines_why", profile_text(r->lines_why));
	return j;
}
