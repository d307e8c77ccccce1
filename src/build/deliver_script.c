/* The lines of apply.sh that build, for builds whose files take no flags. */
#include <string.h>

#include "base/alloc.h"
#include "build/deliver_priv.h"
#include "core/cleanup.h"
#include "core/str.h"

extern char **environ;

static const char *old_value(const struct build_deliver_opts *o, const char *name)
{
	const char *const *e = o->build->envp ? o->build->envp : (const char *const *)environ;
	size_t n = strlen(name);

	for (; *e; e++) {
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return *e + n + 1;
	}
	return NULL;
}

/* What a configure script would have put there by itself: the level and debugging options that the
 * first compile of the language had. */
static void default_flags(const struct build_deliver_opts *o, unsigned lang, struct str *out)
{
	for (size_t i = 0; i < o->base->n_steps; i++) {
		const struct build_step *s = &o->base->steps[i];

		if (!build_step_counts(s) || !(s->langs & lang))
			continue;
		for (size_t a = 1; a < s->n_argv; a++) {
			if (strncmp(s->argv[a], "-O", 2) == 0 || strncmp(s->argv[a], "-g", 2) == 0)
				str_addf(out, "%s ", s->argv[a]);
		}
		return;
	}
}

static void export_line(const struct build_deliver_opts *o, const char *name, unsigned lang,
			const char *flags, struct str *out)
{
	const char *old = old_value(o, name);
	AUTO_STR struct str value = { 0 };

	if (!*flags)
		return;
	if (old)
		str_addf(&value, "%s ", old);
	else
		default_flags(o, lang, &value);
	str_adds(&value, flags);
	str_addf(out, "export %s=", name);
	str_add_shquote(out, str_get(&value));
	str_addc(out, '\n');
}

void deliver_env_lines(const struct build_deliver_opts *o, struct str *out)
{
	static const struct {
		unsigned lang;
		const char *names[4];
	} vars[] = { { BUILD_LANG_C, { "CFLAGS", NULL } },
		     { BUILD_LANG_CXX, { "CXXFLAGS", NULL } },
		     { BUILD_LANG_FORTRAN, { "FFLAGS", "FCFLAGS", NULL } },
		     { BUILD_LANG_GPU, { "CUDAFLAGS", "HIPFLAGS", NULL } } };
	AUTO_STR struct str link = { 0 };

	for (size_t i = 0; i < sizeof(vars) / sizeof(*vars); i++) {
		AUTO_STR struct str flags = { 0 };

		(void)deliver_flags(o->plan, vars[i].lang, &flags);
		for (const char *const *n = vars[i].names; *n; n++)
			export_line(o, *n, vars[i].lang, str_get(&flags), out);
	}
	(void)deliver_link_flags(o->plan, &link);
	export_line(o, "LDFLAGS", 0, str_get(&link), out);
	str_adds(out, o->build->command);
	str_addc(out, '\n');
}

/* ---- the recorded commands ---- */

static void quoted_words(char *const *v, size_t from, size_t n, struct str *out)
{
	for (size_t i = from; i < n; i++) {
		str_addc(out, ' ');
		str_add_shquote(out, v[i]);
	}
}

static void command_line(const struct build_deliver_opts *o, const struct build_step *s,
			 struct str *out)
{
	AUTO_FREE char *cwd = build_path_show(o->base->dir, s->cwd);

	str_adds(out, "(cd ");
	str_add_shquote(out, strcmp(s->cwd, o->base->dir) == 0 ? "." : cwd);
	str_adds(out, " &&");
	/* a launcher's driver is the first word of argv, otherwise the file stands for it */
	if (s->swapped) {
		str_addc(out, ' ');
		str_add_shquote(out, s->swapped);
	} else {
		size_t n = strlen(s->driver), m = strlen(s->argv[0]);
		bool launched = n > m + 1 && s->driver[n - m - 1] == ' ' &&
				strcmp(s->driver + n - m, s->argv[0]) == 0;
		AUTO_FREE char *file = xstrndup(s->driver, launched ? n - m - 1 : n);

		str_addc(out, ' ');
		str_add_shquote(out, file);
		if (launched)
			quoted_words(s->argv, 0, 1, out);
	}
	quoted_words(s->argv, 1, s->n_argv, out);
	quoted_words(s->added, 0, s->n_added, out);
	str_adds(out, ")\n");
}

void deliver_command_lines(const struct build_deliver_opts *o, struct str *out)
{
	str_addf(out,
		 "# the build itself, which makes what is generated ...\n%s\n"
		 "# ... and its compiler calls again, with the flags\n",
		 o->build->command);
	for (size_t i = 0; i < o->kept->n_steps; i++) {
		const struct build_step *s = &o->kept->steps[i];

		if (s->kind != BUILD_PROBE && s->kind != BUILD_OTHER)
			command_line(o, s, out);
	}
	for (size_t i = 0; i < o->kept->n_programs; i++) {
		const struct build_program *p = &o->kept->programs[i];

		for (size_t c = 0; c < p->n_copies; c++) {
			str_adds(out, "cp ");
			str_add_shquote(out, p->path);
			str_addc(out, ' ');
			str_add_shquote(out, p->copies[c]);
			str_addc(out, '\n');
		}
	}
}
