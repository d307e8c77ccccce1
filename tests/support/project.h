/* Small projects in temporary folders, for tests that build things. */
#ifndef SUPPORT_PROJECT_H
#define SUPPORT_PROJECT_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* A fresh folder, whose name needs quoting; project_end() removes it. */
static inline char *project_new(void)
{
	const char *tmp = getenv("TMPDIR");
	char *dir = NULL, real[4096];

	CHECK(asprintf(&dir, "%s/rb's test.XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp") > 0);
	CHECK(mkdtemp(dir));
	CHECK(realpath(dir, real));
	free(dir);
	dir = strdup(real);
	CHECK(dir);
	return dir;
}

/* sh -c in dir with a clean PATH order as ours; returns the exit status. */
__attribute__((format(printf, 2, 3))) static inline int project_sh(const char *dir, const char *fmt,
								   ...)
{
	char cmd[4096];
	va_list ap;
	pid_t pid;
	int st;

	va_start(ap, fmt);
	CHECK(vsnprintf(cmd, sizeof(cmd), fmt, ap) < (int)sizeof(cmd));
	va_end(ap);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (chdir(dir) == 0)
			(void)execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128;
}

static inline void project_end(char *dir)
{
	CHECK_INT(project_sh("/", "rm -rf \"%s\"", dir), 0);
	free(dir);
}

static inline void project_write(const char *dir, const char *name, const char *text)
{
	char path[4096];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "we");
	CHECK(f);
	CHECK(fwrite(text, 1, strlen(text), f) == strlen(text));
	CHECK_INT(fclose(f), 0);
}

/* The whole file, NUL-terminated; free(). */
static inline char *project_read(const char *dir, const char *name)
{
	char path[4096];
	char *s = calloc(1, 1 << 20);
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	CHECK(s && f);
	CHECK(fread(s, 1, (1 << 20) - 1, f) < (1 << 20) - 1);
	(void)fclose(f);
	return s;
}

static inline bool project_has_tool(const char *tool)
{
	return project_sh("/", "command -v %s >/dev/null 2>&1", tool) == 0;
}

/* A program whose code depends on the optimisation level: prints a sum. */
#define PROJECT_MAIN                                                                                \
	"#include <stdio.h>\n#include \"part.h\"\n"                                                 \
	"int main(void)\n{\n\tdouble a[64];\n\tfor (int i = 0; i < 64; i++)\n\t\ta[i] = i * 0.5;\n" \
	"\tprintf(\"sum: %.3f\\n\", part(a, 64));\n\treturn 0;\n}\n"
#define PROJECT_PART                                                                               \
	"#include \"part.h\"\n"                                                                    \
	"double part(const double *a, int n)\n{\n\tdouble s = 0;\n"                                \
	"\tfor (int i = 0; i < n; i++)\n\t\ts += a[i] * a[i] + 1;\n\treturn s;\n}\n"
#define PROJECT_PART_H "double part(const double *a, int n);\n"

static inline void project_sources(const char *dir)
{
	project_write(dir, "main.c", PROJECT_MAIN);
	project_write(dir, "part.c", PROJECT_PART);
	project_write(dir, "part.h", PROJECT_PART_H);
}

#endif
