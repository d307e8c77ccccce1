#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *alloc_or_die(void *p)
{
	static const char msg[] = "rocbudai: out of memory\n";

	if (!p) {
		(void)!write(STDERR_FILENO, msg, sizeof(msg) - 1);
		abort();
	}
	return p;
}

void *xcalloc(size_t n, size_t size)
{
	return alloc_or_die(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc_n(void *p, size_t n, size_t size)
{
	return alloc_or_die(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *xstrdup(const char *s)
{
	return s ? alloc_or_die(strdup(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
	return alloc_or_die(strndup(s, n));
}

char *xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *out;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&out, fmt, ap);
	va_end(ap);
	return alloc_or_die(n < 0 ? NULL : out);
}
