/* Actions of plays to the flags of one driver. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

static const char *const action_names[BUILD_N_ACTIONS] = {
	[BUILD_ACT_OPT_LEVEL] = "opt-level",
	[BUILD_ACT_ARCH] = "arch",
	[BUILD_ACT_LTO] = "lto",
	[BUILD_ACT_OPENMP] = "openmp",
	[BUILD_ACT_FAST_MATH] = "fast-math",
	[BUILD_ACT_FLAG] = "flag",
	[BUILD_ACT_LINK_FLAG] = "link-flag",
};

const char *build_action_name(enum build_action_kind kind)
{
	return kind < BUILD_N_ACTIONS ? action_names[kind] : "?";
}

static bool plain_word(const char *v)
{
	if (!v || !*v || strlen(v) > 256)
		return false;
	for (; *v; v++) {
		if ((unsigned char)*v <= ' ' || *v == '\177')
			return false;
	}
	return true;
}

static int check_value(enum build_action_kind kind, const char *v, struct err *err)
{
	switch (kind) {
	case BUILD_ACT_OPT_LEVEL:
		if (v && (strcmp(v, "2") == 0 || strcmp(v, "3") == 0))
			return 0;
		return err_set(err, ERR_INVALID, "opt-level is '%s'; it must be 2 or 3",
			       v ? v : "");
	case BUILD_ACT_ARCH:
		if (plain_word(v) &&
		    strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			      "0123456789-_.+") == strlen(v))
			return 0;
		return err_set(err, ERR_INVALID,
			       "arch is '%s'; it must be native or a name such as x86-64-v3",
			       v ? v : "");
	case BUILD_ACT_FLAG:
	case BUILD_ACT_LINK_FLAG:
		if (plain_word(v) && v[0] == '-')
			return 0;
		return err_set(err, ERR_INVALID,
			       "%s is '%s'; it must be one flag, starting with '-'",
			       build_action_name(kind), v ? v : "");
	case BUILD_ACT_LTO:
	case BUILD_ACT_OPENMP:
	case BUILD_ACT_FAST_MATH:
	case BUILD_N_ACTIONS:
		break;
	}
	return v ? err_set(err, ERR_INVALID, "%s takes no value, not '%s'", build_action_name(kind),
			   v)
		 : 0;
}

int build_action_parse(const char *name, const char *value, struct build_action *out,
		       struct err *err)
{
	for (int i = 0; i < BUILD_N_ACTIONS; i++) {
		int r;

		if (strcmp(action_names[i], name) != 0)
			continue;
		r = check_value((enum build_action_kind)i, value, err);
		if (r == 0)
			*out = (struct build_action){ .kind = (enum build_action_kind)i,
						      .value = value };
		return r;
	}
	return err_set(err, ERR_INVALID,
		       "no build action '%s'; there are opt-level, arch, lto, openmp, fast-math, "
		       "flag, link-flag",
		       name);
}

void build_flags_done(struct build_flags *f)
{
	build_strv_free(f->compile, f->n_compile);
	build_strv_free(f->link, f->n_link);
	free(f->ar);
	free(f->ranlib);
	free(f->nm);
	*f = (struct build_flags){ 0 };
}

/* ---- one flag, as the driver wants it ---- */

static void add_compile(struct build_flags *f, const char *flag)
{
	build_strv_add(&f->compile, &f->n_compile, xstrdup(flag));
}

static void add_link(struct build_flags *f, const char *flag)
{
	build_strv_add(&f->link, &f->n_link, xstrdup(flag));
}

/* A flag for the host's code: a GPU compiler would apply it to both, or not know it. */
static char **host_form(const struct build_driver *d, const char *flag, size_t *n)
{
	char **v = NULL;

	*n = 0;
	if (d->family == BUILD_FAM_NVCC) {
		build_strv_add(&v, n, xasprintf("-Xcompiler=%s", flag));
	} else if (d->family == BUILD_FAM_HIPCC && (d->langs & BUILD_LANG_GPU)) {
		build_strv_add(&v, n, xstrdup("-Xarch_host"));
		build_strv_add(&v, n, xstrdup(flag));
	} else {
		build_strv_add(&v, n, xstrdup(flag));
	}
	return v;
}

static void add_host(const struct build_driver *d, struct build_flags *f, const char *flag)
{
	size_t n;
	char **v = host_form(d, flag, &n);

	for (size_t i = 0; i < n; i++)
		add_compile(f, v[i]);
	build_strv_free(v, n);
}

/* ---- actions ---- */

bool build_flags_already(const struct build_driver *d, const struct build_action *a, char why[96])
{
	switch (a->kind) {
	case BUILD_ACT_OPT_LEVEL:
		(void)snprintf(why, 96, "-O%s or more", a->value);
		return d->base_opt >= a->value[0] - '0';
	case BUILD_ACT_ARCH:
		(void)snprintf(why, 96, "-march=%s", d->base_march ? d->base_march : "");
		return d->base_march && (strcmp(d->base_march, "native") == 0 ||
					 strcmp(d->base_march, a->value) == 0);
	case BUILD_ACT_LTO:
		(void)snprintf(why, 96, "-flto");
		return d->base_lto;
	case BUILD_ACT_OPENMP:
		(void)snprintf(why, 96, "-fopenmp");
		return d->base_openmp;
	case BUILD_ACT_FAST_MATH:
	case BUILD_ACT_FLAG:
	case BUILD_ACT_LINK_FLAG:
	case BUILD_N_ACTIONS:
		break;
	}
	return false;
}

static int opt_level(const struct build_driver *d, const char *value, struct build_flags *f)
{
	AUTO_FREE char *flag = xasprintf("-O%s", value);

	add_host(d, f, flag);
	return 0;
}

static int arch(struct proc_keeper *k, const struct build_driver *d, const char *value,
		bool allow_fp, struct build_flags *f, struct err *err)
{
	struct build_flags plain = { 0 };
	int r = 0;

	if (strcmp(value, "native") == 0)
		r = build_arch_native(k, d, &plain, err);
	else
		build_strv_add(&plain.compile, &plain.n_compile, xasprintf("-march=%s", value));
	for (size_t i = 0; r == 0 && i < plain.n_compile; i++)
		add_host(d, f, plain.compile[i]);
	/* results change where multiplications and additions become fused; where they were fused
	 * before, this flag itself would change them */
	if (r == 0 && !allow_fp && !d->base_fma)
		add_host(d, f, "-ffp-contract=off");
	build_flags_done(&plain);
	return r;
}

/* The program beside the compiler whose name ends alike: gcc-12 has gcc-ar-12.  NULL: none. */
static char *sibling(const struct build_driver *d, const char *tool)
{
	const char *base = build_path_base(d->file), *v = strrchr(base, '-');
	AUTO_FREE char *dir = xstrndup(d->file, (size_t)(base - d->file));
	AUTO_FREE char *with =
		xasprintf("%sgcc-%s%s", dir, tool, v && v[1] >= '0' && v[1] <= '9' ? v : "");
	AUTO_FREE char *bare = xasprintf("%sgcc-%s", dir, tool);
	AUTO_FREE char *usual = xasprintf("/usr/bin/gcc-%s", tool);

	if (file_exists(AT_FDCWD, with))
		return TAKE_PTR(with);
	if (file_exists(AT_FDCWD, bare))
		return TAKE_PTR(bare);
	return file_exists(AT_FDCWD, usual) ? TAKE_PTR(usual) : NULL;
}

/* What the compiler itself would run for the name; NULL where that is no file. */
static char *own_program(struct proc_keeper *k, const struct build_driver *d, const char *name)
{
	AUTO_FREE char *arg = xasprintf("-print-prog-name=%s", name), *text = NULL;

	if (build_driver_ask(k, d, (const char *const[]){ arg, NULL }, &text, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text[0] == '/' && file_exists(AT_FDCWD, text) ? TAKE_PTR(text) : NULL;
}

static int lto_gcc(struct proc_keeper *k, const struct build_driver *d, struct build_flags *f,
		   struct err *err)
{
	char *flags[] = { (char[]){ "-flto=auto" } };
	const char *flag = flags[0];

	if (build_driver_try(k, d, flags, 1, true, NULL) < 0) {
		flag = "-flto"; /* before gcc 10 */
		flags[0] = (char[]){ "-flto" };
		if (build_driver_try(k, d, flags, 1, true, err) < 0)
			return err_wrap(err, ERR_REFUSED, "no link-time optimisation");
	}
	add_compile(f, flag);
	add_link(f, flag);
	f->ar = sibling(d, "ar");
	f->ranlib = sibling(d, "ranlib");
	f->nm = sibling(d, "nm");
	if (!f->ar || !f->ranlib) /* archives then keep plain objects beside */
		add_compile(f, "-ffat-lto-objects");
	return 0;
}

static int lto_clang(struct proc_keeper *k, const struct build_driver *d, struct build_flags *f,
		     struct err *err)
{
	char *flags[] = { (char[]){ "-flto" }, (char[]){ "-fuse-ld=lld" } };
	bool lld = build_driver_try(k, d, flags, 1, true, NULL) < 0;

	if (lld && build_driver_try(k, d, flags, 2, true, err) < 0)
		return err_wrap(err, ERR_REFUSED,
				"no link-time optimisation, neither with its linker nor with lld");
	f->ar = own_program(k, d, "llvm-ar");
	f->ranlib = own_program(k, d, "llvm-ranlib");
	f->nm = own_program(k, d, "llvm-nm");
	if (!f->ar)
		return err_set(err, ERR_REFUSED,
			       "%s: link-time optimisation needs llvm-ar, which is absent", d->key);
	add_compile(f, "-flto");
	add_link(f, "-flto");
	if (lld)
		add_link(f, "-fuse-ld=lld");
	return 0;
}

static int lto(struct proc_keeper *k, const struct build_driver *d, struct build_flags *f,
	       struct err *err)
{
	if (d->family == BUILD_FAM_GCC)
		return lto_gcc(k, d, f, err);
	if (d->family == BUILD_FAM_CLANG)
		return lto_clang(k, d, f, err);
	return err_set(err, ERR_REFUSED, "link-time optimisation is not for %s (%s)",
		       build_family_name(d->family), d->key);
}

static int openmp(struct proc_keeper *k, const struct build_driver *d, struct build_flags *f,
		  struct err *err)
{
	size_t n = 0;
	char **v = NULL;
	int r = 0;

	/* hipcc links the library for the plain flag alone */
	if (d->family == BUILD_FAM_HIPCC)
		build_strv_add(&v, &n, xstrdup("-fopenmp"));
	else
		v = host_form(d, "-fopenmp", &n);
	if (build_driver_try(k, d, v, n, true, err) < 0)
		r = err_wrap(err, ERR_REFUSED, "OpenMP cannot be used");
	for (size_t i = 0; r == 0 && i < n; i++) {
		add_compile(f, v[i]);
		add_link(f, v[i]);
	}
	build_strv_free(v, n);
	return r;
}

static int fast_math(struct build_flags *f, const struct build_driver *d, bool allow_fp,
		     struct err *err)
{
	if (!allow_fp)
		return err_set(err, ERR_REFUSED,
			       "fast-math changes results; it is tried with --allow-fp alone");
	add_host(d, f, "-ffast-math");
	return 0;
}

static int raw(struct proc_keeper *k, const struct build_driver *d, const struct build_action *a,
	       struct build_flags *f, struct err *err)
{
	bool link = a->kind == BUILD_ACT_LINK_FLAG;
	size_t n = 0;
	char **v = NULL;
	char *strict[3] = { NULL };
	size_t n_strict = 0;
	int r;

	/* said to nvcc by name, or meant for everybody and so for its host compiler */
	if (d->family == BUILD_FAM_NVCC && a->family != BUILD_FAM_NVCC && link)
		build_strv_add(&v, &n, xasprintf("-Xcompiler=%s", a->value));
	else if (a->family == d->family || link)
		build_strv_add(&v, &n, xstrdup(a->value));
	else
		v = host_form(d, a->value, &n);
	for (size_t i = 0; i < n; i++)
		strict[n_strict++] = v[i];
	/* clang only warns about flags that it ignores */
	strict[n_strict++] = (char[]){ "-Werror" };
	if (d->family == BUILD_FAM_NVCC)
		n_strict--;
	r = build_driver_try(k, d, strict, n_strict, link, err);
	if (r < 0)
		r = err_wrap(err, ERR_REFUSED, "'%s' is not for this compiler", a->value);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (link)
			add_link(f, v[i]);
		else
			add_compile(f, v[i]);
	}
	build_strv_free(v, n);
	return r;
}

static int translate(struct proc_keeper *k, const struct build_action *a, bool allow_fp,
		     const struct build_driver *d, struct build_flags *f, struct err *err)
{
	switch (a->kind) {
	case BUILD_ACT_OPT_LEVEL:
		return opt_level(d, a->value, f);
	case BUILD_ACT_ARCH:
		return arch(k, d, a->value, allow_fp, f, err);
	case BUILD_ACT_LTO:
		return lto(k, d, f, err);
	case BUILD_ACT_OPENMP:
		return openmp(k, d, f, err);
	case BUILD_ACT_FAST_MATH:
		return fast_math(f, d, allow_fp, err);
	case BUILD_ACT_FLAG:
	case BUILD_ACT_LINK_FLAG:
		return raw(k, d, a, f, err);
	case BUILD_N_ACTIONS:
		break;
	}
	return err_set(err, ERR_INVALID, "no build action %d", (int)a->kind);
}

int build_flags_for(struct proc_keeper *k, const struct build_action *a, bool allow_fp,
		    const struct build_driver *d, struct build_flags *out, struct err *err)
{
	struct build_flags f = { 0 };
	int r = check_value(a->kind, a->value, err);
	char why[96];

	if (r < 0)
		return r;
	if (d->family == BUILD_FAM_UNKNOWN || d->family == BUILD_FAM_BINUTILS)
		return err_set(err, ERR_REFUSED, "%s: no flags are known for this compiler (%s)",
			       d->key, d->compiler ? d->compiler : "no version");
	if (a->family != BUILD_FAM_UNKNOWN && a->family != d->family)
		return err_set(err, ERR_REFUSED, "%s is for %s, and %s is %s",
			       build_action_name(a->kind), build_family_name(a->family), d->key,
			       build_family_name(d->family));
	if (build_flags_already(d, a, why))
		return err_set(err, ERR_REFUSED, "%s: everything is compiled with %s already",
			       d->key, why);
	r = translate(k, a, allow_fp, d, &f, err);
	if (r < 0)
		build_flags_done(&f);
	else
		*out = f;
	return r;
}
