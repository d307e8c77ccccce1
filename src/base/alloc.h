/* Allocation for small sizes that do not come from outside: aborts when memory is out.  Threads:
 * any. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

void *xcalloc(size_t n, size_t size);
/* Room for n objects of the size; like reallocarray. */
void *xrealloc_n(void *p, size_t n, size_t size);
char *xstrdup(const char *s); /* NULL stays NULL */
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
