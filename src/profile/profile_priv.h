/* Shared by the files of this module alone.  Threads: the keeper's thread. */
#ifndef PROFILE_PROFILE_PRIV_H
#define PROFILE_PROFILE_PRIV_H

#include <stdint.h>

struct err;
struct proc_keeper;
struct profile_opts;
struct profile_result;
struct profile_script;

/*
 * Fills lines of res, and file and line of its functions, from the addresses of s.  What cannot be
 * found out is said in lines_why.  ERR_CANCELLED, ERR_SYS (the keeper died).
 */
int profile_find_lines(struct proc_keeper *k, const struct profile_opts *opts, uint64_t timeout_ns,
		       const struct profile_script *s, struct profile_result *res, struct err *err);

#endif
