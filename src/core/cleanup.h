/* Scope-exit helpers for locals.  Threads: any. */
#ifndef CORE_CLEANUP_H
#define CORE_CLEANUP_H

#include <stdlib.h>
#include <unistd.h>

static inline void core_freep(void *p)
{
	free(*(void **)p);
}

static inline void core_closep(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
}

#define AUTO(fn)   __attribute__((cleanup(fn)))
#define AUTO_FREE  AUTO(core_freep)
#define AUTO_CLOSE AUTO(core_closep)
/* Hand the value to the caller and disarm the cleanup. */
#define TAKE_PTR(p)                                                                                \
	__extension__({                                                                            \
		__typeof__(p) take_tmp_ = (p);                                                     \
		(p) = NULL;                                                                        \
		take_tmp_;                                                                         \
	})
#define TAKE_FD(fd)                                                                                \
	__extension__({                                                                            \
		int take_tmp_ = (fd);                                                              \
		(fd) = -1;                                                                         \
		take_tmp_;                                                                         \
	})

#endif
