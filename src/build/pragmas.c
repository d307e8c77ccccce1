/* OpenMP pragmas in the sources of a build. */
#include <ctype.h>
#include <fcntl.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/build_priv.h"
#include "core/cleanup.h"

#define MAX_SOURCE  ((size_t)16 << 20)
#define MAX_INCLUDE 256U /* files followed from one source */

static const char *blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* "#  pragma omp", "_Pragma("omp", "!$omp", "c$omp" in the first column */
static bool line_has_omp(const char *line)
{
	const char *p = blanks(line);

	if (*p == '#') {
		p = blanks(p + 1);
		if (strncmp(p, "pragma", 6) != 0)
			return false;
		p = blanks(p + 6);
		return strncmp(p, "omp", 3) == 0 && isblank((unsigned char)p[3]);
	}
	if (strncasecmp(p, "!$omp", 5) == 0)
		return true;
	return strncasecmp(line, "c$omp", 5) == 0 || strncasecmp(line, "*$omp", 5) == 0;
}

/* The name in #include "name"; caller frees; NULL: none. */
static char *included(const char *line)
{
	const char *p = blanks(line);

	if (*p != '#')
		return NULL;
	p = blanks(p + 1);
	if (strncmp(p, "include", 7) != 0)
		return NULL;
	p = blanks(p + 7);
	return *p == '"' ? xstrndup(p + 1, strcspn(p + 1, "\"\n")) : NULL;
}

struct files {
	char **v;
	size_t n;
};

static bool file_has_omp(const char *path, struct files *todo)
{
	AUTO_FREE char *text = NULL, *dir = xstrndup(path, (size_t)(build_path_base(path) - path));
	size_t len;
	bool found = false;

	if (file_read(AT_FDCWD, path, MAX_SOURCE, &text, &len, NULL) < 0)
		return false;
	for (const char *p = text; p && *p && !found; p = strchr(p, '\n'), p = p ? p + 1 : p) {
		AUTO_FREE char *name = included(p);

		found = line_has_omp(p) || strncmp(blanks(p), "_Pragma(\"omp", 12) == 0;
		if (name && todo->n < MAX_INCLUDE) {
			AUTO_FREE char *full = build_path_abs(dir, name);

			if (!build_strv_has(todo->v, todo->n, full))
				build_strv_add(&todo->v, &todo->n, TAKE_PTR(full));
		}
	}
	return found;
}

bool build_has_omp(const struct build_record *base)
{
	bool found = false;

	for (size_t i = 0; i < base->n_steps && !found; i++) {
		const struct build_step *s = &base->steps[i];
		struct files todo = { 0 };

		if (!build_step_counts(s))
			continue;
		for (size_t f = 0; f < s->n_sources; f++)
			build_strv_add(&todo.v, &todo.n, build_path_full(base, s->sources[f]));
		for (size_t f = 0; f < todo.n && !found; f++) {
			AUTO_FREE char *path = xstrdup(todo.v[f]);

			found = file_has_omp(path, &todo);
		}
		build_strv_free(todo.v, todo.n);
	}
	return found;
}
