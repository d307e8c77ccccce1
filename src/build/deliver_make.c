/* Delivery by the variables of makefiles. */
#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/deliver_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define MAX_MAKEFILES 64U

/* ---- the makefiles of a build ---- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Opens what "include a b" names, where the names are plain. */
static void follow_includes(const struct build_record *base, struct edit_set *s, size_t index)
{
	AUTO_FREE char *dir = xstrdup(s->files[index].full);
	size_t n = s->files[index].n_lines;

	*strrchr(dir, '/') = '\0';
	for (size_t i = 1; i <= n && s->n_files < MAX_MAKEFILES; i++) {
		/* the set may move as files are added to it */
		const char *p = s->files[index].lines[i].text;

		p += strspn(p, " -s"); /* "-include", "sinclude" */
		if (strncmp(p, "include", 7) != 0 || !isblank((unsigned char)p[7]))
			continue;
		for (p += 7; *p && *p != '#';) {
			AUTO_FREE char *name = NULL, *full = NULL;
			size_t l;

			p += strspn(p, " \t\r");
			l = strcspn(p, " \t\r#");
			name = xstrndup(p, l);
			full = build_path_abs(dir, name);
			if (l && !strchr(name, '$'))
				(void)edit_open(s, base->dir, full);
			p += l;
		}
	}
}

static bool open_makefile(const struct build_record *base, struct edit_set *s, const char *dir)
{
	static const char *const names[] = { "GNUmakefile", "makefile", "Makefile", NULL };

	for (const char *const *n = names; *n; n++) {
		AUTO_FREE char *full = file_join(dir, *n);

		if (edit_open(s, base->dir, full))
			return true;
	}
	return false;
}

/* The name behind -f in the build command, as make -f other.mk. */
static void open_named(const struct build_deliver_opts *o, struct edit_set *s)
{
	const char *p = o->build->command;

	while ((p = strstr(p, "-f"))) {
		AUTO_FREE char *name = NULL, *full = NULL;

		p += 2;
		p += strspn(p, " \t");
		name = xstrndup(p, strcspn(p, " \t;&|'\""));
		full = build_path_abs(o->base->dir, name);
		if (*name && strstr(o->build->command, "make"))
			(void)edit_open(s, o->base->dir, full);
	}
}

void deliver_makefiles(const struct build_deliver_opts *o, struct edit_set *s)
{
	open_named(o, s);
	for (size_t i = 0; i < o->base->n_steps && s->n_files < MAX_MAKEFILES; i++) {
		const struct build_step *st = &o->base->steps[i];
		AUTO_FREE char *dir = xstrdup(st->cwd);

		if (!build_step_counts(st))
			continue;
		/* where it has none, it was called from above */
		while (strlen(dir) >= strlen(o->base->dir) && !open_makefile(o->base, s, dir) &&
		       strrchr(dir, '/'))
			*strrchr(dir, '/') = '\0';
	}
	for (size_t i = 0; i < s->n_files; i++)
		follow_includes(o->base, s, i);
}

/* ---- variables ---- */

/* Whether the line assigns the variable; sets *override. */
static bool assigns(const char *line, const char *var, bool *override)
{
	const char *p = line + strspn(line, " ");
	size_t n = strlen(var);

	*override = strncmp(p, "override ", 9) == 0;
	if (*override)
		p += 9 + strspn(p + 9, " ");
	if (strncmp(p, "export ", 7) == 0)
		p += 7 + strspn(p + 7, " ");
	if (strncmp(p, var, n) != 0 || is_word(p[n]))
		return false;
	p += n;
	p += strspn(p, " \t");
	p += strspn(p, ":?+!");
	return *p == '=';
}

static bool starts_word(const char *p, const char *word)
{
	size_t n = strlen(word);

	return strncmp(p, word, n) == 0 && !is_word(p[n]);
}

/* Where a line may be put behind the assignment at i: after its continuation lines and outside of
 * every conditional. */
static size_t behind(const struct edit_file *f, size_t i)
{
	int depth = 0;
	size_t end = i;

	for (size_t l = 1; l <= f->n_lines; l++) {
		const char *p = f->lines[l].text + strspn(f->lines[l].text, " ");
		size_t n = strlen(p);

		if (starts_word(p, "ifeq") || starts_word(p, "ifneq") || starts_word(p, "ifdef") ||
		    starts_word(p, "ifndef"))
			depth++;
		else if (starts_word(p, "endif") && depth > 0)
			depth--;
		end = l;
		if (l >= i && depth == 0 && !(n && p[n - 1] == '\\'))
			break;
	}
	return end;
}

/* Whether a file of the set uses the variable or, for the usual ones, rules that are built in. */
static bool used(const struct edit_set *s, const char *var)
{
	AUTO_FREE char *round = xasprintf("$(%s)", var), *curly = xasprintf("${%s}", var);

	for (size_t i = 0; i < s->n_files; i++) {
		if (strstr(s->files[i].old, round) || strstr(s->files[i].old, curly))
			return true;
	}
	return false;
}

/* Adds "VAR += flags" behind the last assignment in each file that has one. */
static bool add_to_var(const struct build_deliver_opts *o, struct edit_set *s, const char *var,
		       const char *flags, struct str *how)
{
	AUTO_FREE char *given = xasprintf("%s=", var);
	/* a value on make's command line hides those in the file */
	bool on_line = strstr(o->build->command, given) != NULL, any = false;

	for (size_t i = 0; i < s->n_files; i++) {
		struct edit_file *f = &s->files[i];
		AUTO_FREE char *line = NULL;
		bool override = false, over;
		size_t last = 0;

		for (size_t l = 1; l <= f->n_lines; l++) {
			if (assigns(f->lines[l].text, var, &over)) {
				last = l;
				override |= over;
			}
		}
		if (!last)
			continue;
		line = xasprintf("%s%s += %s", override || on_line ? "override " : "", var, flags);
		edit_insert(f, behind(f, last), line);
		str_addf(how, "%s%s: %s", how->len ? ", " : "", f->path, var);
		any = true;
	}
	if (!any && used(s, var)) { /* used and set nowhere: from the environment, or empty */
		AUTO_FREE char *line = xasprintf("%s += %s", var, flags);

		edit_insert(&s->files[0], 0, line);
		str_addf(how, "%s%s: %s", how->len ? ", " : "", s->files[0].path, var);
		any = true;
	}
	return any;
}

struct lang_vars {
	unsigned lang;
	const char *vars[8]; /* the first that exists takes the flags */
};

static const struct lang_vars compile_vars[] = {
	{ BUILD_LANG_C, { "CFLAGS", "CCFLAGS", "COPTFLAGS", "OPTFLAGS", "OPT", NULL } },
	{ BUILD_LANG_CXX,
	  { "CXXFLAGS", "CPPFLAGS", "CCFLAGS", "CFLAGS", "OPTFLAGS", "OPT", NULL } },
	{ BUILD_LANG_FORTRAN,
	  { "FFLAGS", "FCFLAGS", "F90FLAGS", "FORTFLAGS", "OPTFLAGS", "OPT", NULL } },
	{ BUILD_LANG_GPU,
	  { "NVCCFLAGS", "NVCC_FLAGS", "HIPCCFLAGS", "HIPFLAGS", "CUFLAGS", "CXXFLAGS", NULL } },
};

static bool add_compile(const struct build_deliver_opts *o, struct edit_set *s,
			const struct lang_vars *v, struct str *how, bool *any)
{
	AUTO_STR struct str flags = { 0 };

	if (!deliver_flags(o->plan, v->lang, &flags))
		return false;
	for (const char *const *var = v->vars; flags.len && *var; var++) {
		if (add_to_var(o, s, *var, str_get(&flags), how)) {
			*any = true;
			return true;
		}
	}
	return !flags.len;
}

static bool add_link(const struct build_deliver_opts *o, struct edit_set *s, struct str *how)
{
	static const char *const vars[] = { "LDFLAGS", "LFLAGS",     "LINKFLAGS", "LDLIBS",
					    "LIBS",    "LINK_FLAGS", NULL };
	AUTO_STR struct str flags = { 0 };
	size_t n = 0;

	if (!deliver_link_flags(o->plan, &flags))
		return false;
	if (!flags.len)
		return true;
	for (const char *const *var = vars; *var; var++) {
		if (used(s, *var) && add_to_var(o, s, *var, str_get(&flags), how))
			return true;
	}
	for (size_t i = 0; i < s->n_files; i++)
		n += deliver_edit_calls(o, &s->files[i], true, true);
	if (n)
		str_addf(how, ", %zu link line%s", n, n == 1 ? "" : "s");
	return true; /* with one command for all, CFLAGS may have been enough: the proof tells */
}

/* Archives of objects for link-time optimisation. */
static void add_archiver(const struct build_deliver_opts *o, struct edit_set *s)
{
	for (size_t i = 0; i < o->plan->n_drivers; i++) {
		const struct build_flags *f = &o->plan->drivers[i].flags;
		AUTO_FREE char *ar = f->ar ? xasprintf("AR = %s", f->ar) : NULL;
		AUTO_FREE char *ranlib = f->ranlib ? xasprintf("RANLIB = %s", f->ranlib) : NULL;

		if (!ar)
			continue;
		for (size_t m = 0; m < s->n_files; m++) {
			if (strstr(s->files[m].old, "$(AR)"))
				edit_insert(&s->files[m], s->files[m].n_lines, ar);
			if (ranlib && strstr(s->files[m].old, "$(RANLIB)"))
				edit_insert(&s->files[m], s->files[m].n_lines, ranlib);
		}
		return;
	}
}

int deliver_make(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
		 struct err *err)
{
	bool any = false;

	deliver_makefiles(o, s);
	if (!s->n_files)
		return err_set(err, ERR_NOT_FOUND, "no makefile");
	for (size_t i = 0; i < sizeof(compile_vars) / sizeof(*compile_vars); i++) {
		if (!add_compile(o, s, &compile_vars[i], how, &any))
			return err_set(err, ERR_NOT_FOUND, "no make variable takes the flags");
	}
	if (!add_link(o, s, how) || !how->len)
		return err_set(err, ERR_NOT_FOUND, "no make variable takes the flags");
	add_archiver(o, s);
	return 0;
}
