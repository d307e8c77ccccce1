/* Delivery by CMakeLists.txt: options of the folder, behind project(), so that they come after the
 * build type's. */
#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/deliver_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

#define MAX_CACHE ((size_t)16 << 20)

/* The source folder of the CMake build folder at or above dir; NULL: none. */
static char *source_of(const char *project, const char *dir)
{
	AUTO_FREE char *at = xstrdup(dir);

	while (strlen(at) >= strlen(project)) {
		AUTO_FREE char *cache = file_join(at, "CMakeCache.txt"), *text = NULL;
		const char *home;
		size_t len;

		if (file_read(AT_FDCWD, cache, MAX_CACHE, &text, &len, NULL) == 0) {
			home = strstr(text, "\nCMAKE_HOME_DIRECTORY:INTERNAL=");
			home = home ? strchr(home, '=') + 1 : NULL;
			return home ? xstrndup(home, strcspn(home, "\n")) : NULL;
		}
		if (!strrchr(at, '/'))
			break;
		*strrchr(at, '/') = '\0';
	}
	return NULL;
}

/* All counted steps must be of one CMake tree. */
static char *cmake_source(const struct build_record *base)
{
	AUTO_FREE char *found = NULL;

	for (size_t i = 0; i < base->n_steps; i++) {
		AUTO_FREE char *src = NULL;

		if (!build_step_counts(&base->steps[i]))
			continue;
		src = source_of(base->dir, base->steps[i].cwd);
		if (!src || (found && strcmp(found, src) != 0))
			return NULL;
		if (!found)
			found = TAKE_PTR(src);
	}
	return TAKE_PTR(found);
}

/* The line in which the project(...) command ends; 0: none. */
static size_t project_end(const struct edit_file *f)
{
	for (size_t i = 1; i <= f->n_lines; i++) {
		const char *p = f->lines[i].text + strspn(f->lines[i].text, " \t");

		if (strncasecmp(p, "project", 7) != 0)
			continue;
		p += 7;
		p += strspn(p, " \t");
		if (*p != '(')
			continue;
		for (; i <= f->n_lines; i++) {
			if (strchr(f->lines[i].text, ')'))
				return i;
		}
	}
	return 0;
}

/* Options that belong together are kept so: CMake drops repeated ones. */
static void add_options(struct edit_file *f, size_t at, const char *lang, const char *flags)
{
	for (const char *p = flags; *p;) {
		AUTO_FREE char *line = NULL;
		size_t n = strcspn(p, " ");
		bool pair = strncmp(p, "-Xarch_host ", 12) == 0;

		if (pair)
			n += 1 + strcspn(p + n + 1, " ");
		line = xasprintf("add_compile_options(\"$<$<COMPILE_LANGUAGE:%s>:%s%.*s>\")", lang,
				 pair ? "SHELL:" : "", (int)n, p);
		edit_insert(f, at, line);
		p += n;
		p += strspn(p, " ");
	}
}

static void add_tool(struct edit_file *f, size_t at, const char *var, const char *path)
{
	AUTO_FREE char *line = xasprintf("set(%s \"%s\")", var, path);

	edit_insert(f, at, line);
}

static int add_all(const struct build_deliver_opts *o, struct edit_file *f, size_t at,
		   struct err *err)
{
	static const struct {
		unsigned lang;
		const char *name;
	} langs[] = { { BUILD_LANG_C, "C" },
		      { BUILD_LANG_CXX, "CXX" },
		      { BUILD_LANG_FORTRAN, "Fortran" },
		      { BUILD_LANG_GPU, "CUDA" } };
	AUTO_STR struct str link = { 0 };

	for (size_t i = 0; i < sizeof(langs) / sizeof(*langs); i++) {
		AUTO_STR struct str flags = { 0 };

		if (!deliver_flags(o->plan, langs[i].lang, &flags))
			return err_set(err, ERR_NOT_FOUND, "two compilers of %s with other flags",
				       langs[i].name);
		add_options(f, at, langs[i].name, str_get(&flags));
		if (langs[i].lang == BUILD_LANG_GPU)
			add_options(f, at, "HIP", str_get(&flags));
	}
	if (!deliver_link_flags(o->plan, &link))
		return err_set(err, ERR_NOT_FOUND, "two compilers that link with other flags");
	for (const char *const *k = (const char *const[]){ "EXE", "SHARED", NULL }; link.len && *k;
	     k++) {
		AUTO_FREE char *line = xasprintf("string(APPEND CMAKE_%s_LINKER_FLAGS \" %s\")", *k,
						 str_get(&link));

		edit_insert(f, at, line);
	}
	for (size_t i = 0; i < o->plan->n_drivers; i++) {
		const struct build_flags *fl = &o->plan->drivers[i].flags;

		if (!fl->ar || !fl->ranlib)
			continue;
		add_tool(f, at, "CMAKE_AR", fl->ar);
		add_tool(f, at, "CMAKE_RANLIB", fl->ranlib);
		break;
	}
	return 0;
}

int deliver_cmake(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
		  struct err *err)
{
	AUTO_FREE char *src = cmake_source(o->base), *path = NULL;
	struct edit_file *f;
	size_t at;
	int r;

	if (!src)
		return err_set(err, ERR_NOT_FOUND, "no CMake tree");
	path = file_join(src, "CMakeLists.txt");
	f = edit_open(s, o->base->dir, path);
	at = f ? project_end(f) : 0;
	if (!at)
		return err_set(err, ERR_NOT_FOUND, "no project() in '%s'", path);
	edit_insert(f, at, "# flags that were measured to be faster:");
	r = add_all(o, f, at, err);
	if (r == 0)
		str_addf(how, "%s: options behind project()", f->path);
	return r;
}
