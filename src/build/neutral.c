#include "build/neutral.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "proc/proc.h"

#define LINK_TIMEOUT (600 * NS_PER_SEC)

/* Bytes of padding of each variant; 0: objects reversed.  Functions mostly start at multiples of 16
 * within lines of 64 bytes, so 16, 32 and 48 reach every other place; 8 matters without alignment.
 */
static const unsigned padding[BUILD_N_NEUTRAL] = { 16, 32, 48, 8, 0, 24, 40, 56 };

/* ---- the command line ---- */

struct inputs {
	size_t *objects, *all;
	size_t n_objects, n_all;
	const char *const *argv;
};

static void on_input(void *arg, bool is_source, size_t index, const char *path)
{
	struct inputs *in = arg;
	const char *dot = strrchr(path, '.');

	in->all[in->n_all++] = index;
	if (!is_source && dot && strcmp(dot, ".o") == 0)
		in->objects[in->n_objects++] = index;
}

/* argv of the link step with its flags, its output replaced and the pad first or the objects
 * reversed.  ERR_NOT_FOUND where there is nothing to reverse. */
static int make_argv(const struct build_step *s, const char *pad, const char *made,
		     const char ***out, struct err *err)
{
	AUTO_FREE size_t *a = xcalloc(s->n_argv + 1, sizeof(*a)),
			 *b = xcalloc(s->n_argv + 1, sizeof(*b));
	AUTO_FREE const char **args = xcalloc(s->n_argv + 1, sizeof(*args));
	struct inputs in = { .objects = a, .all = b, .argv = (const char *const *)s->argv };
	struct argclass c;
	const char **v;
	size_t n = 0;

	argclass_parse(build_step_tool(s), s->n_argv, (const char *const *)s->argv, s->cwd,
		       on_input, &in, &c);
	if (!pad && in.n_objects < 2)
		return err_set(
			err, ERR_NOT_FOUND,
			"it has %zu object file%s of its own, whose order cannot be reversed",
			in.n_objects, in.n_objects == 1 ? "" : "s");
	for (size_t i = 0; i < s->n_argv; i++)
		args[i] = s->argv[i];
	for (size_t i = 0; !pad && i < in.n_objects; i++)
		args[in.objects[i]] = s->argv[in.objects[in.n_objects - 1 - i]];
	v = xcalloc(s->n_argv + s->n_added + 8, sizeof(*v));
	for (size_t i = 1; i < s->n_argv; i++) {
		if (pad && in.n_all && i == in.all[0])
			v[n++] = pad;
		if (c.output && c.output == args[i] + 2) /* "-oNAME" */
			v[n++] = "-o";
		v[n++] = c.output && (c.output == args[i] || c.output == args[i] + 2) ? made
										      : args[i];
	}
	for (size_t i = 0; i < s->n_added; i++)
		v[n++] = s->added[i];
	if (!c.output) {
		v[n++] = "-o";
		v[n++] = made;
	}
	*out = v;
	return 0;
}

static int run_driver(struct proc_keeper *k, const struct build_opts *o, const struct build_step *s,
		      const char *const *args, struct err *err)
{
	AUTO_FREE const char **argv = NULL, **changes = NULL, **envp = NULL;
	AUTO_FREE char *file = xstrdup(s->driver);
	struct proc_result res = { 0 };
	size_t n = 0, m = 0, d = strlen(s->driver), a = strlen(s->argv[0]);
	int r;

	while (args[m])
		m++;
	argv = xcalloc(m + 3, sizeof(*argv));
	argv[n++] = file;
	if (d > a && s->driver[d - a - 1] == ' ' && strcmp(s->driver + d - a, s->argv[0]) == 0) {
		file[d - a - 1] = '\0';
		argv[n++] = s->argv[0];
	}
	for (size_t i = 0; i < m; i++)
		argv[n++] = args[i];
	changes = xcalloc(s->n_env + 1, sizeof(*changes));
	for (size_t i = 0; i < s->n_env; i++)
		changes[i] = s->env[i];
	envp = proc_env(o->envp, changes);
	if (!envp)
		return err_set(err, ERR_NOMEM, "out of memory");
	r = build_exec(k, argv, s->cwd, envp, o->timeout_ns ? o->timeout_ns : LINK_TIMEOUT, &res,
		       err);
	if (r < 0)
		return r;
	if (res.exit_code != 0) {
		AUTO_FREE char *tail = build_tail(&res, 20), *cause = build_cause(tail);

		r = err_set(err, ERR_REFUSED, "%s", cause);
	}
	proc_result_done(&res);
	return r;
}

/* ---- padding ---- */

/* Bytes that are never run, in the section that linkers put before all other code; kept by
 * --gc-sections. */
static char *pad_source(unsigned bytes)
{
#if defined(__x86_64__)
	const char *fill = "\t.skip %u, 0x90\n";
	unsigned n = bytes;
#else
	const char *fill = "\t.rept %u\n\tnop\n\t.endr\n";
	unsigned n = (bytes + 3) / 4;
#endif
	AUTO_STR struct str s = { 0 };

	str_adds(&s, "\t.section .note.GNU-stack,\"\",@progbits\n"
		     "\t.section .text.unlikely,\"axR\",@progbits\n");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	str_addf(&s, fill, n);
#pragma GCC diagnostic pop
	return str_take(&s);
}

/* By the step's own driver; a GPU compiler may not assemble, then by the system's. */
static int make_pad(struct proc_keeper *k, const struct build_opts *o, const struct build_step *s,
		    const char *dir, unsigned bytes, char **out, struct err *err)
{
	AUTO_FREE char *src = file_join(dir, "pad.s"), *obj = file_join(dir, "pad.o");
	AUTO_FREE char *text = pad_source(bytes);
	const char *const args[] = { "-c", src, "-o", obj, NULL };
	const char *const as[] = { "as", src, "-o", obj, NULL };
	struct proc_result res = { 0 };
	int r = file_write_atomic(AT_FDCWD, src, text, strlen(text), 0600, err);

	if (r < 0)
		return r;
	if (run_driver(k, o, s, args, NULL) < 0) {
		r = build_exec(k, as, dir, o->envp, LINK_TIMEOUT, &res, err);
		if (r == 0 && res.exit_code != 0)
			r = err_set(err, ERR_REFUSED, "neither '%s' nor 'as' assembles padding",
				    s->driver);
		proc_result_done(&res);
	}
	if (r == 0)
		*out = TAKE_PTR(obj);
	return r;
}

/* ---- install ---- */

static int copy_bytes(int from, int to, const char *what, struct err *err)
{
	char buf[65536];

	for (;;) {
		ssize_t n = read(from, buf, sizeof(buf));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, errno, "cannot read '%s'", what);
		if (n == 0)
			return 0;
		r = file_write_all(to, buf, (size_t)n, what, err);
		if (r < 0)
			return r;
	}
}

int build_install(const char *from, const char *to, struct err *err)
{
	AUTO_CLOSE int in = open(from, O_RDONLY | O_CLOEXEC);
	AUTO_CLOSE int out = -1;
	AUTO_FREE char *tmp = xasprintf("%s.rb-new", to);
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return err_sys(err, errno, "cannot read '%s'", from);
	(void)unlink(tmp);
	out = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(err, errno, "cannot make '%s'", tmp);
	r = copy_bytes(in, out, from, err);
	if (r == 0 && (fchmod(out, st.st_mode & 07777) < 0 || fsync(out) < 0))
		r = err_sys(err, errno, "cannot write '%s'", tmp);
	if (r == 0 && rename(tmp, to) < 0)
		r = err_sys(err, errno, "cannot replace '%s'", to);
	if (r < 0)
		(void)unlink(tmp);
	return r;
}

static int put_in_place(const struct build_record *rec, const struct build_program *p,
			const char *made, const char *out_path, struct err *err)
{
	AUTO_FREE char *full = build_path_full(rec, p->path);
	int r = build_install(made, out_path ? out_path : full, err);

	for (size_t i = 0; r == 0 && !out_path && i < p->n_copies; i++) {
		AUTO_FREE char *copy = build_path_full(rec, p->copies[i]);

		r = build_install(made, copy, err);
	}
	return r;
}

/* ---- the whole ---- */

static int relink(struct proc_keeper *k, const struct build_opts *o, const struct build_record *rec,
		  const struct build_program *p, unsigned bytes, const char *dir, struct err *err)
{
	const struct build_step *s = &rec->steps[p->step];
	AUTO_FREE char *pad = NULL, *made = file_join(dir, "program");
	AUTO_FREE const char **args = NULL;
	char code[HASH_HEX_LEN + 1];
	int r = 0;

	if (bytes)
		r = make_pad(k, o, s, dir, bytes, &pad, err);
	if (r == 0)
		r = make_argv(s, pad, made, &args, err);
	if (r == 0 && args)
		r = run_driver(k, o, s, args, err);
	if (r == 0)
		r = build_code_hash(made, code, err);
	if (r == 0 && strcmp(code, p->code_sha256) == 0)
		r = err_set(err, ERR_REFUSED, "the linker put everything where it was");
	return r;
}

int build_neutral(struct proc_keeper *k, const struct build_opts *opts,
		  const struct build_record *rec, const char *program, unsigned variant,
		  const char *out_path, char text[64], struct err *err)
{
	const struct build_program *p = build_record_program(rec, program);
	const char *tmp = build_tmp_dir(opts->tmp_dir);
	AUTO_FREE char *dir = NULL, *made = NULL;
	int r;

	if (!p)
		return err_set(err, ERR_NOT_FOUND, "the build made no program '%s'", program);
	if (variant >= BUILD_N_NEUTRAL)
		return err_set(err, ERR_NOT_FOUND, "there are %d ways to lay out a program, not %u",
			       BUILD_N_NEUTRAL, variant + 1);
	dir = xasprintf("%s/rb-link.XXXXXX", tmp);
	if (!mkdtemp(dir))
		return err_sys(err, errno, "cannot make a folder in '%s'", tmp);
	r = relink(k, opts, rec, p, padding[variant], dir, err);
	made = file_join(dir, "program");
	if (r == 0)
		r = put_in_place(rec, p, made, out_path, err);
	(void)file_remove_tree(AT_FDCWD, dir, NULL);
	if (r < 0)
		return err_wrap(err, r, "another layout of '%s'", program);
	if (padding[variant])
		(void)snprintf(text, 64, "%u bytes of padding first", padding[variant]);
	else
		(void)snprintf(text, 64, "objects linked in reverse order");
	return 0;
}
