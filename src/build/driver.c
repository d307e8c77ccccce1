/* Compilers as a build used them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "proc/proc.h"

#define ASK_TIMEOUT (60 * NS_PER_SEC)

void build_driver_done(struct build_driver *d)
{
	free(d->key);
	free(d->file);
	free(d->inner);
	free(d->compiler);
	free(d->cwd);
	free(d->base_march);
	build_strv_free(d->env, d->n_env);
	*d = (struct build_driver){ 0 };
}

int build_driver_ask(struct proc_keeper *k, const struct build_driver *d, const char *const *args,
		     char **text, struct err *err)
{
	AUTO_FREE const char **argv = NULL, **envp = NULL, **changes = NULL;
	AUTO_FREE char *said = NULL;
	struct proc_result res = { 0 };
	size_t n = 0, m = 0;
	int r;

	while (args[m])
		m++;
	argv = xcalloc(m + 3, sizeof(*argv));
	argv[n++] = d->file;
	if (d->inner)
		argv[n++] = d->inner;
	for (size_t i = 0; i < m; i++)
		argv[n++] = args[i];
	changes = xcalloc(d->n_env + 2, sizeof(*changes));
	for (size_t i = 0; i < d->n_env; i++)
		changes[i] = d->env[i];
	changes[d->n_env] = "LC_ALL=C"; /* its answers are read by us */
	envp = proc_env(NULL, changes);
	if (!envp)
		return err_set(err, ERR_NOMEM, "out of memory");
	r = build_exec(k, argv, d->cwd, envp, ASK_TIMEOUT, &res, err);
	if (r < 0)
		return err_wrap(err, r, "'%s'", d->key);
	said = res.out.head ? xstrdup(res.out.head) : xstrdup("");
	if (res.exit_code != 0) {
		AUTO_FREE char *tail = build_tail(&res, 20), *cause = build_cause(tail);

		r = err_set(err, ERR_REFUSED, "'%s %s': %s", d->key, args[0] ? args[0] : "", cause);
	} else if (text) {
		*text = TAKE_PTR(said);
	}
	proc_result_done(&res);
	return r;
}

/* ---- which compiler ---- */

static char *line_with(const char *text, const char *part)
{
	const char *at = part ? strstr(text, part) : text;

	if (!at)
		at = text;
	while (at > text && at[-1] != '\n')
		at--;
	return xstrndup(at, strcspn(at, "\n"));
}

static enum build_family family_by_version(const char *text, enum argclass_tool tool)
{
	if (strstr(text, "nvcc: NVIDIA"))
		return BUILD_FAM_NVCC;
	if (strstr(text, "HIP version") || strstr(text, "AMD clang version"))
		return BUILD_FAM_HIPCC;
	if (strstr(text, "clang version") || strstr(text, "flang-new version"))
		return tool == ARGCLASS_HIPCC ? BUILD_FAM_HIPCC : BUILD_FAM_CLANG;
	if (strstr(text, "Free Software Foundation"))
		return BUILD_FAM_GCC;
	return BUILD_FAM_UNKNOWN;
}

/* ---- what its steps had ---- */

static int opt_rank(const char *a)
{
	switch (a[2]) {
	case '\0':
	case '1':
	case 's':
	case 'g':
	case 'z':
		return 1;
	case '0':
		return 0;
	case '2':
		return 2;
	case 'f':
		return 4;
	default:
		return 3;
	}
}

struct seen {
	int opt;
	const char *march;
	bool lto, openmp;
};

/* Later options win, as in the drivers. */
static void look_at(const char *a, struct seen *s)
{
	if (a[0] == '-' && a[1] == 'O')
		s->opt = opt_rank(a);
	else if (strncmp(a, "-march=", 7) == 0)
		s->march = a + 7;
	else if (strncmp(a, "-flto", 5) == 0)
		s->lto = true;
	else if (strcmp(a, "-fno-lto") == 0)
		s->lto = false;
	else if (strcmp(a, "-fopenmp") == 0 || strcmp(a, "-fopenmp=libomp") == 0)
		s->openmp = true;
}

static void look_at_step(const struct build_step *st, struct seen *s)
{
	for (size_t i = 1; i < st->n_argv; i++) {
		const char *a = st->argv[i];

		if (strncmp(a, "-Xcompiler=", 11) == 0)
			a += 11;
		look_at(a, s);
	}
}

/* Whether the step's machine options give it fused multiply-add. */
static bool step_has_fma(struct proc_keeper *k, const struct build_driver *d,
			 const struct build_step *st)
{
	AUTO_FREE const char **args = xcalloc(st->n_argv + 8, sizeof(*args));
	AUTO_FREE char *text = NULL;
	size_t n = 0;

	for (size_t i = 1; i < st->n_argv; i++) {
		const char *a = st->argv[i];

		if (strncmp(a, "-Xcompiler=", 11) == 0)
			a += 11;
		if (a[0] == '-' && a[1] == 'm' && strcmp(a, "-mllvm") != 0)
			args[n++] = a;
	}
	if (!n || d->family == BUILD_FAM_NVCC)
		return n > 0; /* host options of nvcc: take the careful answer */
	for (const char *const *p =
		     (const char *const[]){ "-dM", "-E", "-x", "c", "/dev/null", NULL };
	     *p; p++)
		args[n++] = *p;
	return build_driver_ask(k, d, args, &text, NULL) == 0 && strstr(text, "__FMA__ 1");
}

static void look_at_steps(struct proc_keeper *k, const struct build_record *base,
			  struct build_driver *d)
{
	const char *march = NULL;
	bool first = true, same = true;

	d->base_opt = -1;
	d->base_lto = d->base_openmp = true;
	for (size_t i = 0; i < base->n_steps; i++) {
		const struct build_step *st = &base->steps[i];
		struct seen s = { .opt = d->family == BUILD_FAM_HIPCC ? 3 : 0 };

		if (strcmp(st->driver, d->key) != 0 || !build_step_counts(st) ||
		    st->kind == BUILD_LINK)
			continue;
		look_at_step(st, &s);
		d->langs |= st->langs;
		if (d->base_opt < 0 || s.opt < d->base_opt)
			d->base_opt = s.opt;
		same = same && (first || (march && s.march && strcmp(march, s.march) == 0));
		march = s.march;
		d->base_lto &= s.lto;
		d->base_openmp &= s.openmp;
		/* steps mostly have the same options: one answer is enough */
		if (!d->base_fma && (first || !same))
			d->base_fma = step_has_fma(k, d, st);
		first = false;
	}
	if (first)
		d->base_lto = d->base_openmp = false;
	else if (same && march)
		d->base_march = xstrdup(march);
}

int build_driver_probe(struct proc_keeper *k, const struct build_record *base,
		       const struct build_step *step, struct build_driver *out, struct err *err)
{
	struct build_driver d = { 0 };
	enum argclass_tool tool = build_step_tool(step);
	AUTO_FREE char *text = NULL;
	size_t n = strlen(step->driver), m = strlen(step->argv[0]);
	int r;

	d.key = xstrdup(step->driver);
	d.file = xstrdup(step->driver);
	d.cwd = xstrdup(step->cwd);
	for (size_t i = 0; i < step->n_env; i++)
		build_strv_add(&d.env, &d.n_env, xstrdup(step->env[i]));
	if (n > m && step->driver[n - m - 1] == ' ' &&
	    strcmp(step->driver + n - m, step->argv[0]) == 0) {
		d.file[n - m - 1] = '\0';
		d.inner = xstrdup(step->argv[0]);
		if (argclass_tool_of(d.file) != ARGCLASS_LAUNCHER) { /* a blank in its path */
			d.file[n - m - 1] = ' ';
			free(TAKE_PTR(d.inner));
		}
	}
	d.wrapper = tool == ARGCLASS_MPI || d.inner;
	if (!file_exists(AT_FDCWD, d.cwd)) { /* a temporary folder of the build */
		free(d.cwd);
		d.cwd = xstrdup(base->dir);
	}
	r = build_driver_ask(k, &d, (const char *const[]){ "--version", NULL }, &text, err);
	if (r < 0) {
		build_driver_done(&d);
		return r;
	}
	d.family = family_by_version(text, tool);
	d.compiler = line_with(text, d.family == BUILD_FAM_NVCC ? "release" : NULL);
	look_at_steps(k, base, &d);
	*out = d;
	return 0;
}

/* ---- does it take this ---- */

/* A tiny program for what the driver compiles. */
static const char *tiny_source(const struct build_driver *d, const char **name)
{
	if (d->langs & BUILD_LANG_GPU)
		*name = d->family == BUILD_FAM_NVCC ? "t.cu" : "t.hip";
	else if (d->langs & BUILD_LANG_CXX)
		*name = "t.cc";
	else if (d->langs & BUILD_LANG_FORTRAN)
		*name = "t.f90";
	else
		*name = "t.c";
	return strcmp(*name, "t.f90") == 0 ? "program t\nend program\n"
					   : "int main(void)\n{\n\treturn 0;\n}\n";
}

int build_driver_try(struct proc_keeper *k, const struct build_driver *d, char *const *flags,
		     size_t n_flags, bool link, struct err *err)
{
	AUTO_FREE char *dir = xasprintf("%s/rb-try.XXXXXX", build_tmp_dir(NULL)), *src = NULL,
		       *out = NULL;
	AUTO_FREE const char **args = xcalloc(n_flags + 8, sizeof(*args));
	const char *name, *text = tiny_source(d, &name);
	size_t n = 0;
	int r;

	if (!mkdtemp(dir))
		return err_sys(err, errno, "cannot make a folder '%s'", dir);
	src = file_join(dir, name);
	out = file_join(dir, "t.out");
	r = file_write_atomic(AT_FDCWD, src, text, strlen(text), 0600, err);
	if (!link)
		args[n++] = "-c";
	args[n++] = src;
	args[n++] = "-o";
	args[n++] = out;
	for (size_t i = 0; i < n_flags; i++)
		args[n++] = flags[i];
	if (r == 0)
		r = build_driver_ask(k, d, args, NULL, err);
	(void)file_remove_tree(AT_FDCWD, dir, NULL);
	return r;
}
