#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define FORMAT "rocbudai-build-1"

static const char *const kind_names[BUILD_N_KINDS] = {
	[BUILD_COMPILE] = "compile", [BUILD_LINK] = "link",   [BUILD_COMPILE_LINK] = "compile+link",
	[BUILD_ARCHIVE] = "archive", [BUILD_PROBE] = "probe", [BUILD_OTHER] = "other",
};

static const char *const family_names[BUILD_N_FAMILIES] = {
	[BUILD_FAM_UNKNOWN] = "unknown", [BUILD_FAM_GCC] = "gcc",
	[BUILD_FAM_CLANG] = "clang",	 [BUILD_FAM_NVCC] = "nvcc",
	[BUILD_FAM_HIPCC] = "hipcc",	 [BUILD_FAM_BINUTILS] = "binutils",
};

const char *build_kind_name(enum build_kind kind)
{
	return kind < BUILD_N_KINDS ? kind_names[kind] : "?";
}

const char *build_family_name(enum build_family family)
{
	return family < BUILD_N_FAMILIES ? family_names[family] : "?";
}

void build_program_done(struct build_program *p)
{
	free(p->path);
	build_strv_free(p->copies, p->n_copies);
	*p = (struct build_program){ 0 };
}

void build_record_free(struct build_record *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->n_steps; i++)
		build_step_done(&r->steps[i]);
	for (size_t i = 0; i < r->n_programs; i++)
		build_program_done(&r->programs[i]);
	free(r->steps);
	free(r->programs);
	free(r->command);
	free(r->dir);
	free(r->status);
	free(r->tail);
	free(r);
}

bool build_record_ok(const struct build_record *r)
{
	return r->exit_code == 0 && !r->timed_out && !r->stopped;
}

size_t build_record_made(const struct build_record *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_steps; i++) {
		enum build_kind k = r->steps[i].kind;

		n += k == BUILD_COMPILE || k == BUILD_LINK || k == BUILD_COMPILE_LINK;
	}
	return n;
}

const struct build_program *build_record_program(const struct build_record *r, const char *path)
{
	AUTO_FREE char *full = build_path_full(r, path);
	char real[PATH_MAX];

	if (!realpath(full, real)) /* a run command may name a link to the program */
		(void)snprintf(real, sizeof(real), "%s", full);
	for (size_t i = 0; i < r->n_programs; i++) {
		const struct build_program *p = &r->programs[i];
		AUTO_FREE char *mine = build_path_full(r, p->path);

		if (strcmp(mine, full) == 0 || strcmp(mine, real) == 0)
			return p;
		for (size_t c = 0; c < p->n_copies; c++) {
			AUTO_FREE char *copy = build_path_full(r, p->copies[c]);

			if (strcmp(copy, full) == 0 || strcmp(copy, real) == 0)
				return p;
		}
	}
	return NULL;
}

/* ---- to JSON ---- */

/* JSON strings are UTF-8, paths are bytes: what is not UTF-8 becomes {"hex": ...}. */
static struct json *bytes_to_json(const char *s)
{
	struct json *j = json_new_str(s), *o;
	AUTO_STR struct str hex = { 0 };

	if (!s || strcmp(json_str(j), s) == 0)
		return j;
	json_unref(j);
	for (; *s; s++)
		str_addf(&hex, "%02x", (unsigned char)*s);
	o = json_new_obj();
	json_set_str(o, "hex", str_get(&hex));
	return o;
}

static struct json *list_to_json(char *const *v, size_t n)
{
	struct json *a = json_new_arr();

	for (size_t i = 0; i < n; i++)
		json_add(a, bytes_to_json(v[i]));
	return a;
}

/* Steps of a build share their environment mostly: each distinct one is written once. */
static int64_t env_index(struct json *envs, const struct build_step *s)
{
	struct json *mine = list_to_json(s->env, s->n_env);
	size_t n = json_len(envs);

	for (size_t i = n; i > 0 && i + 64 > n; i--) { /* the latest will do */
		if (json_same(json_at(envs, i - 1), mine)) {
			json_unref(mine);
			return (int64_t)i - 1;
		}
	}
	json_add(envs, mine);
	return (int64_t)n;
}

static struct json *step_to_json(const struct build_step *s, struct json *envs)
{
	struct json *o = json_new_obj();

	json_set_str(o, "kind", build_kind_name(s->kind));
	json_set_str(o, "family", build_family_name(s->family));
	json_set(o, "driver", bytes_to_json(s->driver));
	json_set(o, "cwd", bytes_to_json(s->cwd));
	json_set(o, "argv", list_to_json(s->argv, s->n_argv));
	json_set(o, "added", list_to_json(s->added, s->n_added));
	json_set(o, "sources", list_to_json(s->sources, s->n_sources));
	json_set(o, "output", bytes_to_json(s->output));
	json_set_int(o, "env", env_index(envs, s));
	if (s->swapped)
		json_set(o, "swapped", bytes_to_json(s->swapped));
	if (s->hidden)
		json_set_bool(o, "hidden", true);
	return o;
}

static struct json *program_to_json(const struct build_program *p)
{
	struct json *o = json_new_obj();

	json_set(o, "path", bytes_to_json(p->path));
	json_set_str(o, "sha256", p->sha256);
	json_set_str(o, "code_sha256", p->code_sha256);
	json_set_int(o, "step", (int64_t)p->step);
	json_set(o, "copies", list_to_json(p->copies, p->n_copies));
	return o;
}

struct json *build_record_to_json(const struct build_record *r)
{
	struct json *o = json_new_obj(), *steps = json_new_arr(), *programs = json_new_arr();
	struct json *envs = json_new_arr();

	json_set_str(o, "format", FORMAT);
	json_set(o, "command", bytes_to_json(r->command));
	json_set(o, "dir", bytes_to_json(r->dir));
	json_set_int(o, "exit_code", r->exit_code);
	json_set_int(o, "term_signal", r->term_signal);
	json_set_bool(o, "timed_out", r->timed_out);
	json_set_bool(o, "stopped", r->stopped);
	json_set(o, "status", bytes_to_json(r->status));
	json_set_int(o, "wall_ns", (int64_t)r->wall_ns);
	json_set(o, "tail", bytes_to_json(r->tail));
	json_set_bool(o, "truncated", r->truncated);
	for (size_t i = 0; i < r->n_steps; i++)
		json_add(steps, step_to_json(&r->steps[i], envs));
	for (size_t i = 0; i < r->n_programs; i++)
		json_add(programs, program_to_json(&r->programs[i]));
	json_set(o, "steps", steps);
	json_set(o, "envs", envs);
	json_set(o, "programs", programs);
	return o;
}

/* ---- from JSON ---- */

static int bad(struct err *err, const char *what)
{
	return err_set(err, ERR_PARSE, "build record: '%s' is absent or not what it should be",
		       what);
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* NULL where j holds no string. */
static char *bytes_from_json(const struct json *j)
{
	const char *s = json_str(j);
	AUTO_FREE char *out = NULL;
	size_t n;

	if (s)
		return xstrdup(s);
	s = json_get_str(j, "hex", NULL);
	if (!s || strlen(s) % 2)
		return NULL;
	n = strlen(s) / 2;
	out = xcalloc(n + 1, 1);
	for (size_t i = 0; i < n; i++) {
		int hi = hex_digit(s[2 * i]), lo = hex_digit(s[2 * i + 1]);

		if (hi < 0 || lo < 0 || !(hi || lo))
			return NULL;
		out[i] = (char)(hi * 16 + lo);
	}
	return TAKE_PTR(out);
}

static int list_from_json(const struct json *j, char ***v, size_t *n, const char *what,
			  struct err *err)
{
	if (json_kind(j) != JSON_KIND_ARR)
		return bad(err, what);
	if (json_len(j) > BUILD_MAX_STRINGS)
		return err_set(err, ERR_LIMIT, "build record: '%s' has %zu entries; at most %u",
			       what, json_len(j), BUILD_MAX_STRINGS);
	for (size_t i = 0; i < json_len(j); i++) {
		char *s = bytes_from_json(json_at(j, i));

		if (!s)
			return bad(err, what);
		build_strv_add(v, n, s);
	}
	return 0;
}

static int name_index(const char *const *names, int n, const char *name)
{
	for (int i = 0; name && i < n; i++) {
		if (strcmp(names[i], name) == 0)
			return i;
	}
	return -1;
}

static int step_from_json(const struct json *j, const struct json *envs, const char *dir,
			  struct build_step *s, struct err *err)
{
	int kind = name_index(kind_names, BUILD_N_KINDS, json_get_str(j, "kind", NULL));
	int family = name_index(family_names, BUILD_N_FAMILIES, json_get_str(j, "family", NULL));
	int64_t env = json_get_int(j, "env", -1);
	int r;

	if (kind < 0)
		return bad(err, "kind");
	if (family < 0)
		return bad(err, "family");
	if (env < 0 || (uint64_t)env >= json_len(envs))
		return bad(err, "env");
	s->driver = bytes_from_json(json_get(j, "driver"));
	s->cwd = bytes_from_json(json_get(j, "cwd"));
	s->swapped = bytes_from_json(json_get(j, "swapped"));
	s->hidden = json_get_bool(j, "hidden", false);
	if (!s->driver || s->driver[0] != '/')
		return bad(err, "driver");
	if (!s->cwd || s->cwd[0] != '/')
		return bad(err, "cwd");
	r = list_from_json(json_get(j, "argv"), &s->argv, &s->n_argv, "argv", err);
	if (r == 0)
		r = list_from_json(json_get(j, "added"), &s->added, &s->n_added, "added", err);
	if (r == 0)
		r = list_from_json(json_at(envs, (size_t)env), &s->env, &s->n_env, "envs", err);
	if (r < 0)
		return r;
	build_step_classify(s, dir);
	s->kind = (enum build_kind)kind;
	s->family = (enum build_family)family;
	return 0;
}

static int hash_from_json(const struct json *j, const char *key, char out[HASH_HEX_LEN + 1],
			  struct err *err)
{
	const char *s = json_get_str(j, key, "");

	if (strlen(s) != HASH_HEX_LEN || strspn(s, "0123456789abcdef") != HASH_HEX_LEN)
		return bad(err, key);
	memcpy(out, s, HASH_HEX_LEN + 1);
	return 0;
}

static int program_from_json(const struct json *j, size_t n_steps, struct build_program *p,
			     struct err *err)
{
	int64_t step = json_get_int(j, "step", -1);
	int r;

	p->path = bytes_from_json(json_get(j, "path"));
	if (!p->path)
		return bad(err, "path");
	if (step < 0 || (uint64_t)step >= n_steps)
		return bad(err, "step");
	p->step = (size_t)step;
	r = hash_from_json(j, "sha256", p->sha256, err);
	if (r == 0)
		r = hash_from_json(j, "code_sha256", p->code_sha256, err);
	if (r < 0)
		return r;
	return list_from_json(json_get(j, "copies"), &p->copies, &p->n_copies, "copies", err);
}

static int parts_from_json(const struct json *j, struct build_record *r, struct err *err)
{
	const struct json *steps = json_get(j, "steps"), *programs = json_get(j, "programs");
	int rc = 0;

	if (json_kind(steps) != JSON_KIND_ARR || json_len(steps) > BUILD_MAX_STEPS)
		return bad(err, "steps");
	if (json_kind(programs) != JSON_KIND_ARR || json_len(programs) > BUILD_MAX_STEPS)
		return bad(err, "programs");
	r->steps = xcalloc(json_len(steps) + 1, sizeof(*r->steps));
	for (size_t i = 0; rc == 0 && i < json_len(steps); i++) {
		r->n_steps++;
		rc = step_from_json(json_at(steps, i), json_get(j, "envs"), r->dir, &r->steps[i],
				    err);
	}
	r->programs = xcalloc(json_len(programs) + 1, sizeof(*r->programs));
	for (size_t i = 0; rc == 0 && i < json_len(programs); i++) {
		r->n_programs++;
		rc = program_from_json(json_at(programs, i), r->n_steps, &r->programs[i], err);
	}
	return rc;
}

int build_record_from_json(const struct json *j, struct build_record **out, struct err *err)
{
	struct build_record *r;
	int rc;

	if (strcmp(json_get_str(j, "format", ""), FORMAT) != 0)
		return err_set(err, ERR_PARSE, "build record: 'format' is not " FORMAT);
	r = xcalloc(1, sizeof(*r));
	r->command = bytes_from_json(json_get(j, "command"));
	r->dir = bytes_from_json(json_get(j, "dir"));
	r->status = bytes_from_json(json_get(j, "status"));
	r->tail = bytes_from_json(json_get(j, "tail"));
	r->exit_code = (int)json_get_int(j, "exit_code", -1);
	r->term_signal = (int)json_get_int(j, "term_signal", 0);
	r->timed_out = json_get_bool(j, "timed_out", false);
	r->stopped = json_get_bool(j, "stopped", false);
	r->truncated = json_get_bool(j, "truncated", false);
	r->wall_ns = (uint64_t)json_get_int(j, "wall_ns", 0);
	if (!r->command || !r->status || !r->tail)
		rc = bad(err, !r->command ? "command" : !r->status ? "status" : "tail");
	else if (!r->dir || r->dir[0] != '/')
		rc = bad(err, "dir");
	else
		rc = parts_from_json(j, r, err);
	if (rc < 0)
		build_record_free(r);
	else
		*out = r;
	return rc;
}

int build_record_save(const struct build_record *r, const char *path, struct err *err)
{
	AUTO_JSON struct json *j = build_record_to_json(r);
	AUTO_FREE char *text = json_dump(j);

	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, err);
}

int build_record_load(const char *path, struct build_record **out, struct err *err)
{
	AUTO_JSON struct json *j = NULL;
	AUTO_FREE char *text = NULL;
	size_t len = 0;
	int r = file_read(AT_FDCWD, path, BUILD_MAX_JSON, &text, &len, err);

	if (r == 0)
		r = json_parse(text, len, path, &j, err);
	if (r == 0)
		r = build_record_from_json(j, out, err);
	return r;
}
