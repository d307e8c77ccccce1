/* SHA-256 of memory, streams and files (nettle does the work).  Threads: one at a time per object.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct err;

#define HASH_BYTES   32
#define HASH_HEX_LEN 64

struct hash {
	union {
		uint64_t align;
		unsigned char opaque[128];
	} u;
};

void hash_init(struct hash *h);
void hash_add(struct hash *h, const void *data, size_t n);
void hash_end(struct hash *h, unsigned char out[HASH_BYTES]);
void hash_end_hex(struct hash *h, char out[HASH_HEX_LEN + 1]);
void hash_to_hex(const unsigned char in[HASH_BYTES], char out[HASH_HEX_LEN + 1]);
void hash_mem_hex(const void *data, size_t n, char out[HASH_HEX_LEN + 1]);
/* Regular files only.  ERR_SYS; ERR_INVALID for another type. */
int hash_file_hex(int dir_fd, const char *path, char out[HASH_HEX_LEN + 1], struct err *err);

#endif
