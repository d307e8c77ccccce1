#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

#define MAX_SECTIONS 65536U
#define MAX_NAMES    (16U << 20)

/* ---- what is loaded to run ---- */

struct elf {
	int fd;
	const char *path;
	uint64_t size;
	Elf64_Ehdr h;
	Elf64_Shdr *sections;
	char *names;
	size_t names_len;
};

static int read_at(const struct elf *e, void *buf, size_t n, uint64_t at)
{
	size_t got = 0;

	if (at > e->size || n > e->size - at)
		return -1;
	while (got < n) {
		ssize_t r = pread(e->fd, (char *)buf + got, n - got, (off_t)(at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return -1;
		got += (size_t)r;
	}
	return 0;
}

/* Section headers and their names; -1: no ELF of this machine's form with sections. */
static int read_sections(struct elf *e)
{
	const Elf64_Shdr *s;

	if (read_at(e, &e->h, sizeof(e->h), 0) < 0 || memcmp(e->h.e_ident, ELFMAG, SELFMAG) != 0 ||
	    e->h.e_ident[EI_CLASS] != ELFCLASS64 || e->h.e_ident[EI_DATA] != ELFDATA2LSB ||
	    e->h.e_shentsize != sizeof(Elf64_Shdr) || !e->h.e_shnum ||
	    e->h.e_shstrndx >= e->h.e_shnum)
		return -1;
	e->sections = xcalloc(e->h.e_shnum, sizeof(*e->sections));
	if (read_at(e, e->sections, e->h.e_shnum * sizeof(*e->sections), e->h.e_shoff) < 0)
		return -1;
	s = &e->sections[e->h.e_shstrndx];
	if (s->sh_size > MAX_NAMES)
		return -1;
	e->names_len = (size_t)s->sh_size;
	e->names = xcalloc(e->names_len + 1, 1);
	return read_at(e, e->names, e->names_len, s->sh_offset);
}

static int hash_range(const struct elf *e, struct hash *h, uint64_t at, uint64_t n)
{
	char buf[65536];

	while (n) {
		size_t part = n < sizeof(buf) ? (size_t)n : sizeof(buf);

		if (read_at(e, buf, part, at) < 0)
			return -1;
		hash_add(h, buf, part);
		at += part;
		n -= part;
	}
	return 0;
}

static int hash_loaded(const struct elf *e, struct hash *h)
{
	unsigned n = 0;

	for (unsigned i = 0; i < e->h.e_shnum; i++) {
		const Elf64_Shdr *s = &e->sections[i];
		uint64_t place[3] = { s->sh_addr, s->sh_size, s->sh_type };

		if (!(s->sh_flags & SHF_ALLOC) ||
		    (s->sh_name < e->names_len &&
		     strcmp(e->names + s->sh_name, ".note.gnu.build-id") == 0))
			continue;
		hash_add(h, place, sizeof(place));
		if (s->sh_type != SHT_NOBITS && hash_range(e, h, s->sh_offset, s->sh_size) < 0)
			return -1;
		n++;
	}
	return n ? 0 : -1;
}

int build_code_hash(const char *path, char out[HASH_HEX_LEN + 1], struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct elf e = { .fd = fd, .path = path };
	struct hash h;
	struct stat st;
	int r = -1;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(err, errno, "cannot read '%s'", path);
	e.size = (uint64_t)st.st_size;
	hash_init(&h);
	if (S_ISREG(st.st_mode) && read_sections(&e) == 0)
		r = hash_loaded(&e, &h);
	free(e.sections);
	free(e.names);
	if (r < 0)
		return hash_file_hex(AT_FDCWD, path, out, err);
	hash_end_hex(&h, out);
	return 0;
}

/* ---- the programs of a build ---- */

static struct build_program *program_at(struct build_record *r, const char *path)
{
	struct build_program *p;

	for (size_t i = 0; i < r->n_programs; i++) {
		if (strcmp(r->programs[i].path, path) == 0)
			return &r->programs[i];
	}
	r->programs = xrealloc_n(r->programs, r->n_programs + 1, sizeof(*r->programs));
	p = &r->programs[r->n_programs++];
	*p = (struct build_program){ .path = xstrdup(path) };
	return p;
}

static void add_program(struct build_record *r, size_t step)
{
	const struct build_step *s = &r->steps[step];
	AUTO_FREE char *full = build_path_full(r, s->output);
	char sha[HASH_HEX_LEN + 1], code[HASH_HEX_LEN + 1];
	struct build_program *p;
	struct stat st;

	if (stat(full, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IXUSR) ||
	    hash_file_hex(AT_FDCWD, full, sha, NULL) < 0 || build_code_hash(full, code, NULL) < 0)
		return;
	p = program_at(r, s->output);
	memcpy(p->sha256, sha, sizeof(sha));
	memcpy(p->code_sha256, code, sizeof(code));
	p->step = step;
}

struct copies {
	struct build_record *r;
	struct stat *st; /* of each program */
};

static void on_file(void *arg, const char *path, const struct stat *st)
{
	struct copies *c = arg;
	char sha[HASH_HEX_LEN + 1] = "";

	for (size_t i = 0; i < c->r->n_programs && (st->st_mode & S_IXUSR); i++) {
		struct build_program *p = &c->r->programs[i];

		if (c->st[i].st_size != st->st_size ||
		    (c->st[i].st_ino == st->st_ino && c->st[i].st_dev == st->st_dev))
			continue;
		if (!*sha && hash_file_hex(AT_FDCWD, path, sha, NULL) < 0)
			return;
		if (strcmp(sha, p->sha256) == 0) {
			build_strv_add(&p->copies, &p->n_copies, build_path_show(c->r->dir, path));
			return;
		}
	}
}

void build_find_programs(struct build_record *r)
{
	struct copies c = { .r = r };

	for (size_t i = 0; i < r->n_steps; i++) {
		const struct build_step *s = &r->steps[i];

		if ((s->kind == BUILD_LINK || s->kind == BUILD_COMPILE_LINK) && s->output)
			add_program(r, i);
	}
	if (!r->n_programs)
		return;
	c.st = xcalloc(r->n_programs, sizeof(*c.st));
	for (size_t i = 0; i < r->n_programs; i++) {
		AUTO_FREE char *full = build_path_full(r, r->programs[i].path);

		if (stat(full, &c.st[i]) < 0)
			c.st[i].st_size = -1;
	}
	build_walk(r->dir, on_file, &c);
	free(c.st);
}
