/*
 * Small kernel text files (/sys, /proc) below a movable root, so that tests replay another machine.
 * Paths are relative to the root, without a leading slash; links cannot leave it.  Threads: any.
 */
#ifndef CORE_ROOTFS_H
#define CORE_ROOTFS_H

#include <stddef.h>
#include <stdint.h>

struct err;

/* Opens root ("/" in production, a snapshot in tests).  Returns fd (caller closes) or ERR_*. */
int rootfs_open(const char *root, struct err *err);
/*
 * Reads at most cap - 1 bytes, NUL-terminates, cuts one trailing newline.  Returns the length, or
 * ERR_SYS (sys_errno ENOENT: absent) with buf untouched.
 */
int rootfs_read(int root_fd, const char *path, char *buf, size_t cap, struct err *err);
/* A whole file that holds one unsigned decimal or 0x number; *out untouched on failure. */
int rootfs_read_u64(int root_fd, const char *path, uint64_t *out, struct err *err);

#endif
