#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/cleanup.h"
#include "core/err.h"

_Static_assert(sizeof(struct sha256_ctx) <= sizeof(struct hash), "struct hash is too small");

static struct sha256_ctx *hash_ctx(struct hash *h)
{
	return (struct sha256_ctx *)(void *)h;
}

void hash_init(struct hash *h)
{
	sha256_init(hash_ctx(h));
}

void hash_add(struct hash *h, const void *data, size_t n)
{
	if (n)
		sha256_update(hash_ctx(h), n, data);
}

void hash_end(struct hash *h, unsigned char out[HASH_BYTES])
{
	sha256_digest(hash_ctx(h), HASH_BYTES, out);
}

void hash_to_hex(const unsigned char in[HASH_BYTES], char out[HASH_HEX_LEN + 1])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < HASH_BYTES; i++) {
		out[2 * i] = digits[in[i] >> 4];
		out[2 * i + 1] = digits[in[i] & 15];
	}
	out[HASH_HEX_LEN] = '\0';
}

void hash_end_hex(struct hash *h, char out[HASH_HEX_LEN + 1])
{
	unsigned char bytes[HASH_BYTES];

	hash_end(h, bytes);
	hash_to_hex(bytes, out);
}

void hash_mem_hex(const void *data, size_t n, char out[HASH_HEX_LEN + 1])
{
	struct hash h;

	hash_init(&h);
	hash_add(&h, data, n);
	hash_end_hex(&h, out);
}

int hash_file_hex(int dir_fd, const char *path, char out[HASH_HEX_LEN + 1], struct err *err)
{
	AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	struct hash h;
	char buf[65536];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "open %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s: not a regular file", path);
	hash_init(&h);
	while ((n = read(fd, buf, sizeof(buf))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(err, errno, "read %s", path);
		hash_add(&h, buf, (size_t)n);
	}
	hash_end_hex(&h, out);
	return ERR_OK;
}
