/* Whole files, safe replacement, folders and the program's own data.  Threads: any. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/*
 * Reads a regular file of at most max bytes.  *out is NUL-terminated, owned by the caller (free()).
 * ERR_SYS, ERR_LIMIT (larger), ERR_INVALID (not a regular file).  dir_fd may be AT_FDCWD.
 */
int file_read(int dir_fd, const char *path, size_t max, char **out, size_t *len, struct err *err);
/*
 * Replaces path whole: temporary file beside it, write, fsync, rename, fsync of the folder.
 * On failure the old content is untouched and the temporary file is gone.
 */
int file_write_atomic(int dir_fd, const char *path, const void *data, size_t len, mode_t mode,
		      struct err *err);
/* Writes all n bytes, retrying short writes and EINTR; ERR_SYS names what. */
int file_write_all(int fd, const void *data, size_t n, const char *what, struct err *err);
/* mkdir -p; existing folders are fine. */
int file_mkdirs(const char *path, mode_t mode, struct err *err);
/* Removes a file or folder with all that is in it; never follows links; absent is fine. */
int file_remove_tree(int dir_fd, const char *path, struct err *err);
bool file_exists(int dir_fd, const char *path);
/* "a/b" or "b" when dir is empty; caller frees. */
char *file_join(const char *dir, const char *name);
/*
 * Path of one of our own data files: below ../share/rocbudai of the running program, or, with lib,
 * ../lib/rocbudai.  Caller frees.  Does not check that it exists.
 */
char *file_data_path(const char *name);
char *file_lib_path(const char *name);

#endif
