/* The files behind a recorded command, and the way from a record back to a command. */
#include <ctype.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "measure/pin.h"
#include "measure/record.h"

#define RECORD_WORD_MAX	 4096
#define RECORD_WORDS_MAX 4096

/* ---- which files ---- */

static bool record_is_file(const char *cwd, const char *path, bool program)
{
	AUTO_FREE char *whole = path[0] == '/' ? xstrdup(path) : file_join(cwd ? cwd : "", path);
	struct stat st;

	return stat(whole, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= RECORD_FILE_BYTES &&
	       access(whole, program ? X_OK : R_OK) == 0;
}

/* Hashes one file into the list; one that is there already, or cannot be read, is left out. */
static int record_add_file(const char *cwd, const char *path, struct record_files *f,
			   struct err *err)
{
	AUTO_FREE char *whole = path[0] == '/' ? xstrdup(path) : file_join(cwd ? cwd : "", path);
	char hex[HASH_HEX_LEN + 1];

	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->v[i].path, path) == 0)
			return ERR_OK;
	}
	if (hash_file_hex(AT_FDCWD, whole, hex, NULL) < 0)
		return ERR_OK;
	if (f->n == RECORD_FILES_MAX)
		return err_set(err, ERR_LIMIT, "the command names more than %d files",
			       RECORD_FILES_MAX);
	f->v = xrealloc_n(f->v, f->n + 1, sizeof(*f->v));
	f->v[f->n].path = xstrdup(path);
	f->v[f->n].sha256 = xstrdup(hex);
	f->n++;
	return ERR_OK;
}

/* What the command will see as PATH. */
static const char *record_path_of(const struct measure_cmd *cmd)
{
	const char *const *base = cmd->base_env ? cmd->base_env : (const char *const *)environ;
	const char *found = NULL;

	for (; *base; base++) {
		if (strncmp(*base, "PATH=", 5) == 0)
			found = *base + 5;
	}
	for (const char *const *e = cmd->env; e && *e; e++) {
		if (strncmp(*e, "PATH=", 5) == 0)
			found = *e + 5;
		else if (strcmp(*e, "PATH") == 0)
			found = NULL;
	}
	return found ? found : "/usr/local/bin:/usr/bin:/bin";
}

static int record_add_program(const struct measure_cmd *cmd, const char *name,
			      struct record_files *f, struct err *err)
{
	const char *p = record_path_of(cmd);

	if (strchr(name, '/'))
		return record_is_file(cmd->cwd, name, true)
			       ? record_add_file(cmd->cwd, name, f, err)
			       : ERR_OK;
	for (;;) {
		size_t n = strcspn(p, ":");
		AUTO_FREE char *dir = xstrndup(p, n), *path = file_join(n ? dir : ".", name);

		if (record_is_file(cmd->cwd, path, true))
			return record_add_file(cmd->cwd, path, f, err);
		if (!p[n])
			return ERR_OK;
		p += n + 1;
	}
}

static int record_add_word(const struct measure_cmd *cmd, const char *word, bool program,
			   struct record_files *f, struct err *err)
{
	if (program)
		return record_add_program(cmd, word, f, err);
	/* "--input=mesh.dat" and "if=image" name a file as well */
	if (!record_is_file(cmd->cwd, word, false) && strchr(word, '='))
		word = strchr(word, '=') + 1;
	if (word[0] && record_is_file(cmd->cwd, word, false))
		return record_add_file(cmd->cwd, word, f, err);
	return ERR_OK;
}

/* The next word of a shell text, quotes taken off, into word; what follows decides *program. */
static const char *record_shell_word(const char *p, struct str *word, bool *program)
{
	static const char stops[] = ";|&<>()`{}$";
	char quote = '\0';

	str_reset(word);
	while (*p && (isspace((unsigned char)*p) || strchr(stops, *p))) {
		/* behind these stands a program, behind < and > a file */
		if (strchr(";|&(`{", *p) || *p == '\n')
			*program = true;
		p++;
	}
	for (; *p && word->len < RECORD_WORD_MAX; p++) {
		if (quote ? *p == quote : *p == '\'' || *p == '"') {
			quote = (char)(quote ? 0 : *p);
		} else if (!quote && (isspace((unsigned char)*p) || strchr(stops, *p))) {
			break;
		} else {
			if (*p == '\\' && quote != '\'' && p[1])
				p++;
			str_addc(word, *p);
		}
	}
	return p;
}

/* A name before "=" in front of a program is an assignment. */
static bool record_is_assignment(const char *word)
{
	size_t n = 0;

	while (isalnum((unsigned char)word[n]) || word[n] == '_')
		n++;
	return n > 0 && word[n] == '=';
}

static int record_shell_files(const struct measure_cmd *cmd, struct record_files *f,
			      struct err *err)
{
	AUTO_STR struct str word = { .max = (size_t)2 * RECORD_WORD_MAX };
	const char *p = cmd->shell;
	bool program = true;
	int r = ERR_OK;

	for (unsigned i = 0; *p && r == 0 && i < RECORD_WORDS_MAX; i++) {
		p = record_shell_word(p, &word, &program);
		if (word.len == 0 || (program && record_is_assignment(word.s)))
			continue;
		r = record_add_word(cmd, word.s, program, f, err);
		/* these run what follows them */
		program = program && (strcmp(word.s, "exec") == 0 || strcmp(word.s, "env") == 0 ||
				      strcmp(word.s, "time") == 0 || strcmp(word.s, "nice") == 0);
	}
	return r;
}

int record_files_of(const struct measure_cmd *cmd, struct record_files *out, struct err *err)
{
	struct record_files f = { 0 };
	int r = measure_cmd_check(cmd, err);

	if (r == 0 && cmd->argv) {
		for (const char *const *a = cmd->argv; *a && r == 0; a++)
			r = record_add_word(cmd, *a, a == cmd->argv, &f, err);
	} else if (r == 0) {
		r = record_shell_files(cmd, &f, err);
	}
	if (r < 0) {
		record_files_done(&f);
		return r;
	}
	*out = f;
	return ERR_OK;
}

/* The strings were made by record_add_file(); the ledger's type borrows them as const. */
static void record_free_text(const char *s)
{
	free((void *)(uintptr_t)s);
}

void record_files_done(struct record_files *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		record_free_text(f->v[i].path);
		record_free_text(f->v[i].sha256);
	}
	free(f->v);
	*f = (struct record_files){ 0 };
}

/* ---- a record as a command again ---- */

struct record_owned {
	struct json *rec;  /* what the strings are borrowed from */
	const char **argv; /* may be NULL */
	char **env;	   /* n_env + 1 */
	size_t n_env;
	cpu_set_t cpus;
};

static void record_owned_free(struct record_owned *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->n_env; i++)
		free(o->env[i]);
	free(o->env);
	free(o->argv);
	json_unref(o->rec);
	free(o);
}

static void record_owned_freep(struct record_owned **o)
{
	record_owned_free(*o);
}

static int record_bad(struct err *err, const char *id, const char *what)
{
	return err_set(err, ERR_INVALID, "%s cannot be run again: %s", id, what);
}

static int record_argv(const struct json *run, const char *id, struct record_owned *o,
		       struct measure_cmd *cmd, struct err *err)
{
	const struct json *argv = json_get(run, "argv");
	size_t n = json_len(argv);

	cmd->shell = json_get_str(run, "shell", NULL);
	if (json_kind(argv) == JSON_KIND_ARR && n > 0) {
		o->argv = xcalloc(n + 1, sizeof(*o->argv));
		for (size_t i = 0; i < n; i++) {
			if (!(o->argv[i] = json_str(json_at(argv, i))))
				return record_bad(err, id, "its command is not a list of words");
		}
		cmd->argv = o->argv;
	}
	if (measure_cmd_check(cmd, NULL) < 0)
		return record_bad(err, id, "it does not say what was run");
	return ERR_OK;
}

static int record_env(const struct json *env, const char *id, struct record_owned *o,
		      struct measure_cmd *cmd, struct err *err)
{
	o->env = xcalloc(json_len(env) + 1, sizeof(*o->env));
	for (void *it = json_iter(env); it; it = json_next(env, it)) {
		const struct json *v = json_iter_value(it);
		const char *name = json_iter_key(it);

		if (!name[0] || strchr(name, '=') ||
		    (json_kind(v) != JSON_KIND_NULL && !json_str(v)))
			return record_bad(err, id, "its environment is not a list of texts");
		o->env[o->n_env++] =
			json_str(v) ? xasprintf("%s=%s", name, json_str(v)) : xstrdup(name);
	}
	cmd->env = (const char *const *)o->env;
	return ERR_OK;
}

/* Nothing that the record was made of may have changed since. */
static int record_check_files(const struct json *files, const char *id, const char *cwd,
			      struct err *err)
{
	for (size_t i = 0; i < json_len(files); i++) {
		const char *path = json_get_str(json_at(files, i), "path", "");
		const char *sha256 = json_get_str(json_at(files, i), "sha256", "");
		AUTO_FREE char *whole =
			path[0] == '/' ? xstrdup(path) : file_join(cwd ? cwd : "", path);
		char hex[HASH_HEX_LEN + 1];
		struct err why = { 0 };

		if (hash_file_hex(AT_FDCWD, whole, hex, &why) < 0)
			return err_set(err, ERR_STALE,
				       "%s cannot be run again: %.200s, which it was measured "
				       "with, is gone or not readable: %.160s",
				       id, path, why.msg);
		if (strcmp(hex, sha256) != 0)
			return err_set(err, ERR_STALE,
				       "%s cannot be run again: %.200s has changed since (sha256 "
				       "%.12s then, %.12s now); restore it, or measure anew",
				       id, path, sha256, hex);
	}
	return ERR_OK;
}

static int record_place(const struct json *run, const char *id, struct record_owned *o,
			struct measure_cmd *cmd, struct err *err)
{
	const char *cpus = json_get_str(run, "cpus", NULL);
	double timeout_s = json_get_num(run, "timeout_s", 0);

	cmd->cwd = json_get_str(run, "cwd", NULL);
	if (timeout_s > 0 && timeout_s < 1e9)
		cmd->timeout_ns = (uint64_t)(timeout_s * 1e9);
	if (!cpus)
		return ERR_OK;
	if (pin_parse_cpus(cpus, &o->cpus, NULL) < 0)
		return record_bad(err, id, "its CPU list is not one");
	cmd->cpus = &o->cpus;
	return ERR_OK;
}

int record_rerun(const struct ledger *l, const char *id, struct record_rerun *out, struct err *err)
{
	const struct json *rec = ledger_get(l, id), *detail, *run, *fom;
	AUTO(record_owned_freep) struct record_owned *o = NULL;
	struct record_rerun rr = { 0 };
	int r;

	if (!rec)
		return err_set(err, ERR_NOT_FOUND, "the ledger holds no record %.40s", id);
	if (strcmp(json_get_str(rec, "kind", ""), ledger_kind_name(LEDGER_BENCH)) != 0)
		return err_set(err, ERR_INVALID, "%.40s is a %s record, not a bench record", id,
			       json_get_str(rec, "kind", "strange"));
	o = xcalloc(1, sizeof(*o));
	o->rec = json_dup(rec);
	detail = json_get(o->rec, "detail");
	run = json_get(detail, "run");
	fom = json_get(detail, "fom");
	if ((r = record_argv(run, id, o, &rr.cmd, err)) < 0 ||
	    (r = record_env(json_get(o->rec, "env"), id, o, &rr.cmd, err)) < 0 ||
	    (r = record_place(run, id, o, &rr.cmd, err)) < 0 ||
	    (r = record_check_files(json_get(o->rec, "files"), id, rr.cmd.cwd, err)) < 0)
		return r;
	if (json_kind(fom) == JSON_KIND_OBJ) {
		rr.has_fom = true;
		rr.fom = (struct fom_spec){ .pattern = json_get_str(fom, "pattern", NULL),
					    .unit = json_get_str(fom, "unit", NULL),
					    .higher = json_get_bool(fom, "higher", false) };
	}
	rr.owned = TAKE_PTR(o);
	*out = rr;
	return ERR_OK;
}

void record_rerun_done(struct record_rerun *r)
{
	if (!r)
		return;
	record_owned_free(r->owned);
	*r = (struct record_rerun){ 0 };
}
