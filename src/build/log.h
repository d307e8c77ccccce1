/* The recorder's log as steps (interpose/reclog.h has its form).  Threads: any. */
#ifndef BUILD_LOG_H
#define BUILD_LOG_H

#include <stddef.h>

#include "build/build.h"

struct err;

/*
 * Appends the log's steps to r, whose dir must be set.  A torn end sets r->truncated.
 * ERR_PARSE where it is no log of ours; the steps before the damage are kept in r.
 */
int build_log_parse(const char *data, size_t len, struct build_record *r, struct err *err);

#endif
