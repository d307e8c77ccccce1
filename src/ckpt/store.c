#include "ckpt/store.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"

/*
 * A pack: the magic, contents one behind the other, a table of records (sha256, offset and size as
 * little endian), then the trailer: number of records, sha256 of the table, the magic again.
 */
#define PACK_MAGIC_BYTES 8
#define PACK_REC_BYTES	 (HASH_BYTES + 16)
#define PACK_TAIL_BYTES	 (8 + HASH_BYTES + PACK_MAGIC_BYTES)
#define PACK_TMP	 "new.tmp"
#define PACK_RECS_MAX	 ((uint64_t)4 << 20)
#define PACK_BUF_BYTES	 ((size_t)1 << 20)
#define STORE_FDS	 8 /* packs held open at once */

static const unsigned char pack_magic[PACK_MAGIC_BYTES] = {
	'r', 'b', 'c', 'k', 'p', 'k', '1', '\n'
};

struct store_blob {
	unsigned char sha[HASH_BYTES];
	uint64_t off, size;
	uint32_t pack; /* index into packs */
};

struct store_pack {
	uint32_t number; /* in its file name */
	uint64_t bytes;
};

struct ckpt_store {
	int dir_fd;
	char *where;
	struct store_pack *packs;
	size_t n_packs, cap_packs;
	struct store_blob *blobs;
	size_t n_blobs, cap_blobs;
	uint32_t *slots; /* hash table of blob index + 1; a power of two of them */
	size_t n_slots;
	int fds[STORE_FDS]; /* of pack fd_pack[i], or -1 */
	uint32_t fd_pack[STORE_FDS];
	unsigned next_fd;
	/* The pack being written. */
	int out;	    /* -1: none */
	uint64_t out_off;   /* file offset of buf[0] */
	size_t n_buf;	    /* bytes in buf */
	unsigned char *buf; /* PACK_BUF_BYTES */
	size_t out_first;   /* its blobs begin here */
	uint64_t put_start; /* offset of the content being added */
	struct hash put_hash;
};

static void store_pack_name(uint32_t number, char out[32])
{
	(void)snprintf(out, 32, "P%06u.pack", number);
}

static size_t store_slot(const struct ckpt_store *s, const unsigned char sha[HASH_BYTES])
{
	uint64_t h;
	size_t i;

	memcpy(&h, sha, sizeof(h));
	for (i = (size_t)h & (s->n_slots - 1); s->slots[i]; i = (i + 1) & (s->n_slots - 1)) {
		if (memcmp(s->blobs[s->slots[i] - 1].sha, sha, HASH_BYTES) == 0)
			break;
	}
	return i;
}

static const struct store_blob *store_find(const struct ckpt_store *s,
					   const unsigned char sha[HASH_BYTES])
{
	size_t i;

	if (!s->n_slots)
		return NULL;
	i = store_slot(s, sha);
	return s->slots[i] ? &s->blobs[s->slots[i] - 1] : NULL;
}

bool ckpt_store_has(const struct ckpt_store *s, const unsigned char sha[HASH_BYTES])
{
	return store_find(s, sha) != NULL;
}

static void store_reindex(struct ckpt_store *s, size_t n_slots)
{
	free(s->slots);
	s->slots = xcalloc(n_slots, sizeof(*s->slots));
	s->n_slots = n_slots;
	for (size_t i = 0; i < s->n_blobs; i++)
		s->slots[store_slot(s, s->blobs[i].sha)] = (uint32_t)(i + 1);
}

static void store_add_blob(struct ckpt_store *s, const struct store_blob *b)
{
	if (s->n_blobs == s->cap_blobs) {
		s->cap_blobs = s->cap_blobs ? s->cap_blobs * 2 : 256;
		s->blobs = xrealloc_n(s->blobs, s->cap_blobs, sizeof(*s->blobs));
	}
	s->blobs[s->n_blobs++] = *b;
	if (s->n_blobs * 2 > s->n_slots)
		store_reindex(s, s->n_slots ? s->n_slots * 2 : 1024);
	else
		s->slots[store_slot(s, b->sha)] = (uint32_t)s->n_blobs;
}

static void store_add_pack(struct ckpt_store *s, uint32_t number, uint64_t bytes)
{
	if (s->n_packs == s->cap_packs) {
		s->cap_packs = s->cap_packs ? s->cap_packs * 2 : 16;
		s->packs = xrealloc_n(s->packs, s->cap_packs, sizeof(*s->packs));
	}
	s->packs[s->n_packs++] = (struct store_pack){ .number = number, .bytes = bytes };
}

static int store_pread(int fd, void *buf, size_t n, uint64_t off)
{
	char *p = buf;

	while (n) {
		ssize_t r = pread(fd, p, n, (off_t)off);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -EIO;
		p += r;
		off += (uint64_t)r;
		n -= (size_t)r;
	}
	return 0;
}

static void store_put_le64(unsigned char *p, uint64_t v)
{
	v = htole64(v);
	memcpy(p, &v, sizeof(v));
}

static uint64_t store_get_le64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* Reads the table at the end of a pack; *table is NULL and *n 0 when the pack is not whole. */
static int store_read_table(int fd, uint64_t bytes, unsigned char **table, uint64_t *n)
{
	unsigned char tail[PACK_TAIL_BYTES], sum[HASH_BYTES];
	AUTO_FREE unsigned char *t = NULL;
	uint64_t count, body;
	struct hash h;

	if (bytes < PACK_MAGIC_BYTES + PACK_TAIL_BYTES ||
	    store_pread(fd, tail, sizeof(tail), bytes - sizeof(tail)) < 0)
		return ERR_PARSE;
	count = store_get_le64(tail);
	body = bytes - PACK_MAGIC_BYTES - PACK_TAIL_BYTES;
	if (memcmp(tail + 8 + HASH_BYTES, pack_magic, PACK_MAGIC_BYTES) != 0 ||
	    count > PACK_RECS_MAX || count * PACK_REC_BYTES > body)
		return ERR_PARSE;
	t = malloc(count * PACK_REC_BYTES + 1);
	if (!t)
		return ERR_NOMEM;
	if (store_pread(fd, t, count * PACK_REC_BYTES,
			bytes - PACK_TAIL_BYTES - count * PACK_REC_BYTES) < 0)
		return ERR_PARSE;
	hash_init(&h);
	hash_add(&h, t, count * PACK_REC_BYTES);
	hash_end(&h, sum);
	if (memcmp(sum, tail + 8, HASH_BYTES) != 0)
		return ERR_PARSE;
	*table = TAKE_PTR(t);
	*n = count;
	return ERR_OK;
}

static int store_load_pack(struct ckpt_store *s, uint32_t number, struct err *err)
{
	AUTO_FREE unsigned char *table = NULL;
	char name[32];
	AUTO_CLOSE int fd = -1;
	struct stat st;
	uint64_t n = 0;
	int r;

	store_pack_name(number, name);
	fd = openat(s->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "open %s/%s", s->where, name);
	r = store_read_table(fd, (uint64_t)st.st_size, &table, &n);
	if (r < 0)
		return err_set(err, (enum err_code)r,
			       "%s/%s: damaged (its table cannot be read); remove the folder above "
			       "it to begin anew without the checkpoints made so far",
			       s->where, name);
	for (uint64_t i = 0; i < n; i++) {
		const unsigned char *p = table + i * PACK_REC_BYTES;
		struct store_blob b = { .off = store_get_le64(p + HASH_BYTES),
					.size = store_get_le64(p + HASH_BYTES + 8),
					.pack = (uint32_t)s->n_packs };

		memcpy(b.sha, p, HASH_BYTES);
		if (b.off > (uint64_t)st.st_size || b.size > (uint64_t)st.st_size - b.off)
			return err_set(err, ERR_PARSE, "%s/%s: damaged (record %llu lies outside)",
				       s->where, name, (unsigned long long)i);
		store_add_blob(s, &b);
	}
	store_add_pack(s, number, (uint64_t)st.st_size);
	return ERR_OK;
}

static int store_cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The numbers of the packs there are, sorted; what a killed program left is removed. */
static int store_list(struct ckpt_store *s, uint32_t **out, size_t *n_out, struct err *err)
{
	int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint32_t *v = NULL;
	size_t n = 0;

	if (!d) {
		int e = errno;

		if (fd >= 0)
			(void)close(fd);
		return err_sys(err, e, "read folder %s", s->where);
	}
	for (struct dirent *e; (e = readdir(d));) {
		uint32_t number;
		char name[32];

		if (strcmp(e->d_name, PACK_TMP) == 0)
			(void)unlinkat(s->dir_fd, PACK_TMP, 0);
		if (e->d_name[0] != 'P' || strlen(e->d_name) != 12)
			continue;
		number = (uint32_t)strtoul(e->d_name + 1, NULL, 10);
		store_pack_name(number, name);
		if (strcmp(name, e->d_name) != 0)
			continue;
		v = xrealloc_n(v, n + 1, sizeof(*v));
		v[n++] = number;
	}
	(void)closedir(d);
	if (n)
		qsort(v, n, sizeof(*v), store_cmp_u32);
	*out = v;
	*n_out = n;
	return ERR_OK;
}

static void store_close_fds(struct ckpt_store *s)
{
	for (int i = 0; i < STORE_FDS; i++) {
		if (s->fds[i] >= 0)
			(void)close(s->fds[i]);
		s->fds[i] = -1;
	}
}

/* Forgets all and reads the folder again. */
static int store_reload(struct ckpt_store *s, struct err *err)
{
	AUTO_FREE uint32_t *v = NULL;
	size_t n = 0;
	int r;

	store_close_fds(s);
	s->n_blobs = s->n_packs = 0;
	free(s->slots);
	s->slots = NULL;
	s->n_slots = 0;
	r = store_list(s, &v, &n, err);
	for (size_t i = 0; r == ERR_OK && i < n; i++)
		r = store_load_pack(s, v[i], err);
	return r;
}

int ckpt_store_open(int dir_fd, const char *where, struct ckpt_store **out, struct err *err)
{
	struct ckpt_store *s = xcalloc(1, sizeof(*s));
	int r;

	s->dir_fd = dir_fd;
	s->where = xstrdup(where);
	s->out = -1;
	for (int i = 0; i < STORE_FDS; i++)
		s->fds[i] = -1;
	r = store_reload(s, err);
	if (r < 0)
		ckpt_store_close(s);
	else
		*out = s;
	return r;
}

void ckpt_store_close(struct ckpt_store *s)
{
	if (!s)
		return;
	ckpt_store_abort(s);
	store_close_fds(s);
	free(s->where);
	free(s->packs);
	free(s->blobs);
	free(s->slots);
	free(s->buf);
	free(s);
}

int ckpt_store_begin(struct ckpt_store *s, struct err *err)
{
	(void)unlinkat(s->dir_fd, PACK_TMP, 0);
	s->out = openat(s->dir_fd, PACK_TMP, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			0600);
	if (s->out < 0)
		return err_sys(err, errno, "create %s/%s", s->where, PACK_TMP);
	if (!s->buf)
		s->buf = xcalloc(1, PACK_BUF_BYTES);
	memcpy(s->buf, pack_magic, PACK_MAGIC_BYTES);
	s->n_buf = PACK_MAGIC_BYTES;
	s->out_off = 0;
	s->out_first = s->n_blobs;
	return ERR_OK;
}

static int store_flush(struct ckpt_store *s, struct err *err)
{
	const unsigned char *p = s->buf;

	while (s->n_buf) {
		ssize_t r = pwrite(s->out, p, s->n_buf, (off_t)s->out_off);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(err, errno, "write checkpoint store %s", s->where);
		p += r;
		s->n_buf -= (size_t)r;
		s->out_off += (uint64_t)r;
	}
	return ERR_OK;
}

static int store_write(struct ckpt_store *s, const void *data, size_t n, struct err *err)
{
	const unsigned char *p = data;

	while (n) {
		size_t room = PACK_BUF_BYTES - s->n_buf;
		size_t k = n < room ? n : room;

		memcpy(s->buf + s->n_buf, p, k);
		s->n_buf += k;
		p += k;
		n -= k;
		if (s->n_buf == PACK_BUF_BYTES && store_flush(s, err) < 0)
			return ERR_SYS;
	}
	return ERR_OK;
}

void ckpt_store_put_begin(struct ckpt_store *s)
{
	s->put_start = s->out_off + s->n_buf;
	hash_init(&s->put_hash);
}

int ckpt_store_put(struct ckpt_store *s, const void *data, size_t n, struct err *err)
{
	hash_add(&s->put_hash, data, n);
	return store_write(s, data, n, err);
}

void ckpt_store_put_drop(struct ckpt_store *s)
{
	if (s->put_start >= s->out_off) {
		s->n_buf = (size_t)(s->put_start - s->out_off);
		return;
	}
	/* what was flushed beyond this is written over, or cut off by commit */
	s->n_buf = 0;
	s->out_off = s->put_start;
}

int ckpt_store_put_end(struct ckpt_store *s, unsigned char sha[HASH_BYTES], struct err *err)
{
	struct store_blob b = { .off = s->put_start, .pack = (uint32_t)s->n_packs };

	hash_end(&s->put_hash, sha);
	if (ckpt_store_has(s, sha)) {
		ckpt_store_put_drop(s);
		return ERR_OK;
	}
	if (s->n_blobs - s->out_first >= PACK_RECS_MAX)
		return err_set(err, ERR_LIMIT, "%s: more than %llu new files in one checkpoint",
			       s->where, (unsigned long long)PACK_RECS_MAX);
	b.size = s->out_off + s->n_buf - s->put_start;
	memcpy(b.sha, sha, HASH_BYTES);
	store_add_blob(s, &b);
	return ERR_OK;
}

static int store_write_table(struct ckpt_store *s, struct err *err)
{
	unsigned char rec[PACK_REC_BYTES], tail[PACK_TAIL_BYTES];
	struct hash h;
	int r = ERR_OK;

	hash_init(&h);
	for (size_t i = s->out_first; r == ERR_OK && i < s->n_blobs; i++) {
		memcpy(rec, s->blobs[i].sha, HASH_BYTES);
		store_put_le64(rec + HASH_BYTES, s->blobs[i].off);
		store_put_le64(rec + HASH_BYTES + 8, s->blobs[i].size);
		hash_add(&h, rec, sizeof(rec));
		r = store_write(s, rec, sizeof(rec), err);
	}
	store_put_le64(tail, s->n_blobs - s->out_first);
	hash_end(&h, tail + 8);
	memcpy(tail + 8 + HASH_BYTES, pack_magic, PACK_MAGIC_BYTES);
	if (r == ERR_OK)
		r = store_write(s, tail, sizeof(tail), err);
	return r == ERR_OK ? store_flush(s, err) : r;
}

int ckpt_store_commit(struct ckpt_store *s, struct err *err)
{
	uint32_t number = s->n_packs ? s->packs[s->n_packs - 1].number + 1 : 1;
	char name[32];
	int r;

	if (s->n_blobs == s->out_first) {
		ckpt_store_abort(s); /* nothing new: no pack */
		return ERR_OK;
	}
	store_pack_name(number, name);
	r = store_write_table(s, err);
	if (r == ERR_OK && (ftruncate(s->out, (off_t)s->out_off) < 0 || fsync(s->out) < 0))
		r = err_sys(err, errno, "save %s/%s", s->where, name);
	if (r == ERR_OK && renameat(s->dir_fd, PACK_TMP, s->dir_fd, name) < 0)
		r = err_sys(err, errno, "rename %s/%s to %s", s->where, PACK_TMP, name);
	if (r < 0) {
		ckpt_store_abort(s);
		return r;
	}
	(void)fsync(s->dir_fd); /* some network file systems refuse it on folders */
	(void)close(s->out);
	s->out = -1;
	store_add_pack(s, number, s->out_off);
	return ERR_OK;
}

void ckpt_store_abort(struct ckpt_store *s)
{
	if (s->out < 0)
		return;
	(void)close(s->out);
	s->out = -1;
	(void)unlinkat(s->dir_fd, PACK_TMP, 0);
	if (s->n_blobs != s->out_first) {
		size_t n_slots = s->n_slots;

		s->n_blobs = s->out_first;
		store_reindex(s, n_slots);
	}
}

/* The pack's descriptor, from a few that are kept open. */
static int store_fd(struct ckpt_store *s, uint32_t pack, struct err *err)
{
	char name[32];
	int fd, i;

	for (i = 0; i < STORE_FDS; i++) {
		if (s->fds[i] >= 0 && s->fd_pack[i] == pack)
			return s->fds[i];
	}
	store_pack_name(s->packs[pack].number, name);
	fd = openat(s->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_sys(err, errno, "open %s/%s", s->where, name);
	i = (int)(s->next_fd++ % STORE_FDS);
	if (s->fds[i] >= 0)
		(void)close(s->fds[i]);
	s->fds[i] = fd;
	s->fd_pack[i] = pack;
	return fd;
}

int ckpt_store_get(struct ckpt_store *s, const unsigned char sha[HASH_BYTES], uint64_t size_bytes,
		   ckpt_store_cb cb, void *arg, struct err *err)
{
	const struct store_blob *b = store_find(s, sha);
	unsigned char got[HASH_BYTES];
	char hex[HASH_HEX_LEN + 1], buf[65536];
	struct hash h;
	int fd;

	hash_to_hex(sha, hex);
	if (!b || b->size != size_bytes)
		return err_set(err, ERR_PARSE, "%s: content %.16s of %llu bytes is missing",
			       s->where, hex, (unsigned long long)size_bytes);
	fd = store_fd(s, b->pack, err);
	if (fd < 0)
		return fd;
	hash_init(&h);
	for (uint64_t done = 0; done < b->size;) {
		size_t n = b->size - done < sizeof(buf) ? (size_t)(b->size - done) : sizeof(buf);
		int r = store_pread(fd, buf, n, b->off + done);

		if (r < 0)
			return err_sys(err, -r, "read checkpoint store %s", s->where);
		hash_add(&h, buf, n);
		r = cb ? cb(arg, buf, n, err) : ERR_OK;
		if (r < 0)
			return r;
		done += n;
	}
	hash_end(&h, got);
	if (memcmp(got, sha, HASH_BYTES) != 0)
		return err_set(err, ERR_PARSE, "%s: content %.16s is damaged", s->where, hex);
	return ERR_OK;
}

static int store_copy_cb(void *arg, const void *data, size_t n, struct err *err)
{
	return ckpt_store_put(arg, data, n, err);
}

/* Copies into the open pack the needed contents of the packs that are to go. */
static int store_rewrite(struct ckpt_store *s, const bool *go, ckpt_store_need_cb need, void *arg,
			 struct err *err)
{
	size_t n = s->n_blobs, first;
	int r = ckpt_store_begin(s, err);

	if (r < 0)
		return r;
	first = s->out_first;
	for (size_t i = 0; r == ERR_OK && i < n; i++) {
		struct store_blob b = s->blobs[i];

		if (!go[b.pack] || !need(arg, b.sha) || store_find(s, b.sha) != &s->blobs[i])
			continue;
		ckpt_store_put_begin(s);
		r = ckpt_store_get(s, b.sha, b.size, store_copy_cb, s, err);
		if (r == ERR_OK && s->n_blobs - first >= PACK_RECS_MAX)
			r = err_set(err, ERR_LIMIT, "%s: more than %llu files in one pack",
				    s->where, (unsigned long long)PACK_RECS_MAX);
		if (r < 0)
			break;
		/* not by put_end, which would find the old one */
		b.off = s->put_start;
		b.pack = (uint32_t)s->n_packs;
		s->blobs = s->n_blobs == s->cap_blobs
				   ? xrealloc_n(s->blobs, s->cap_blobs *= 2, sizeof(b))
				   : s->blobs;
		s->blobs[s->n_blobs++] = b;
	}
	if (r < 0) {
		s->n_blobs = first;
		ckpt_store_abort(s);
		return r;
	}
	return ckpt_store_commit(s, err);
}

int ckpt_store_gc(struct ckpt_store *s, ckpt_store_need_cb need, void *arg, uint64_t *freed_bytes,
		  struct err *err)
{
	AUTO_FREE uint64_t *live = xcalloc(s->n_packs + 1, sizeof(*live));
	AUTO_FREE bool *go = xcalloc(s->n_packs + 1, sizeof(*go));
	size_t n_packs = s->n_packs;
	uint64_t before = 0, after = 0;
	bool rewrite = false;
	int r = ERR_OK;

	for (size_t i = 0; i < s->n_blobs; i++) {
		if (need(arg, s->blobs[i].sha))
			live[s->blobs[i].pack] += s->blobs[i].size + PACK_REC_BYTES;
	}
	for (size_t i = 0; i < n_packs; i++) {
		before += s->packs[i].bytes;
		go[i] = live[i] <= s->packs[i].bytes / 2;
		rewrite |= go[i] && live[i];
	}
	if (rewrite)
		r = store_rewrite(s, go, need, arg, err);
	for (size_t i = 0; r == ERR_OK && i < n_packs; i++) {
		char name[32];

		store_pack_name(s->packs[i].number, name);
		if (go[i] && unlinkat(s->dir_fd, name, 0) < 0 && errno != ENOENT)
			r = err_sys(err, errno, "remove %s/%s", s->where, name);
	}
	(void)fsync(s->dir_fd);
	if (r == ERR_OK)
		r = store_reload(s, err);
	for (size_t i = 0; i < s->n_packs; i++)
		after += s->packs[i].bytes;
	if (r == ERR_OK && freed_bytes)
		*freed_bytes = before > after ? before - after : 0;
	return r;
}

int ckpt_store_verify(struct ckpt_store *s,
		      void (*bad)(void *arg, const unsigned char sha[HASH_BYTES]), void *arg,
		      struct err *err)
{
	for (size_t i = 0; i < s->n_blobs; i++) {
		struct err e = { 0 };
		int r = ckpt_store_get(s, s->blobs[i].sha, s->blobs[i].size, NULL, NULL, &e);

		if (r == ERR_PARSE || (r == ERR_SYS && e.sys_errno == EIO)) {
			bad(arg, s->blobs[i].sha);
			continue;
		}
		if (r < 0) {
			if (err)
				*err = e;
			return r;
		}
	}
	return ERR_OK;
}
