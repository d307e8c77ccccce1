#include "flow/flow_discover.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "session/answers.h"

#define DISCOVER_MAX_ENTRIES 2000
#define DISCOVER_MAX_DEPTH   3
#define DISCOVER_MAX_SOURCE  ((size_t)1 << 20)

struct discover {
	int root;
	unsigned n_seen;
	bool c, cxx, fortran, hip, cuda, python, omp, mpi;
	char *program; /* the one executable; empty text when there are several */
};

static bool discover_ends(const char *name, const char *const *ends)
{
	size_t n = strlen(name);

	for (; *ends; ends++) {
		size_t k = strlen(*ends);

		if (n > k && strcmp(name + n - k, *ends) == 0)
			return true;
	}
	return false;
}

/* An ELF program (not an object or a shared library without an entry point). */
static bool discover_is_program(int dir, const char *name)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf64_Ehdr h;

	if (fd < 0 || read(fd, &h, sizeof(h)) != (ssize_t)sizeof(h) ||
	    memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	return h.e_type == ET_EXEC ||
	       (h.e_type == ET_DYN && h.e_entry != 0 && !strstr(name, ".so"));
}

static void discover_source(struct discover *d, int dir, const char *name)
{
	static const char *const c[] = { ".c", NULL },
				 *const cxx[] = { ".cc", ".cpp", ".cxx", NULL },
				 *const fortran[] = { ".f", ".f90", ".F90", ".F", NULL },
				 *const hip[] = { ".hip", NULL }, *const cuda[] = { ".cu", NULL },
				 *const py[] = { ".py", NULL };
	AUTO_FREE char *text = NULL;
	bool f = discover_ends(name, fortran);

	if (discover_ends(name, py))
		d->python = true;
	if (!discover_ends(name, c) && !discover_ends(name, cxx) && !f &&
	    !discover_ends(name, hip) && !discover_ends(name, cuda))
		return;
	d->c |= discover_ends(name, c);
	d->cxx |= discover_ends(name, cxx);
	d->fortran |= f;
	d->cuda |= discover_ends(name, cuda);
	d->hip |= discover_ends(name, hip);
	if (file_read(dir, name, DISCOVER_MAX_SOURCE, &text, NULL, NULL) < 0)
		return;
	d->omp |= strstr(text, "#pragma omp") != NULL || (f && strcasestr(text, "!$omp"));
	d->mpi |= strstr(text, "MPI_Init") != NULL || (f && strcasestr(text, "mpi_init"));
	d->hip |= strstr(text, "hip/hip_runtime.h") != NULL;
}

static void discover_program(struct discover *d, const char *path)
{
	if (d->program) {
		free(d->program);
		d->program = xstrdup("");
	} else {
		d->program = xstrdup(path);
	}
}

static void discover_walk(struct discover *d, int fd, const char *prefix, int depth)
{
	DIR *dir = fdopendir(fd);

	if (!dir) {
		(void)close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(dir)) && d->n_seen < DISCOVER_MAX_ENTRIES;) {
		AUTO_FREE char *path = NULL;
		struct stat st;
		int sub;

		if (e->d_name[0] == '.' || strcmp(e->d_name, "CMakeFiles") == 0)
			continue;
		d->n_seen++;
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		path = xasprintf("%s%s", prefix, e->d_name);
		if (S_ISREG(st.st_mode)) {
			if ((st.st_mode & 0111) && discover_is_program(dirfd(dir), e->d_name))
				discover_program(d, path);
			discover_source(d, dirfd(dir), e->d_name);
		} else if (S_ISDIR(st.st_mode) && depth < DISCOVER_MAX_DEPTH) {
			AUTO_FREE char *deeper = xasprintf("%s/", path);

			sub = openat(dirfd(dir), e->d_name,
				     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (sub >= 0)
				discover_walk(d, sub, deeper, depth + 1);
		}
	}
	(void)closedir(dir);
}

static const char *discover_language(const struct discover *d)
{
	return d->hip	    ? "HIP"
	       : d->cuda    ? "CUDA"
	       : d->cxx	    ? "C++"
	       : d->fortran ? "Fortran"
	       : d->c	    ? "C"
	       : d->python  ? "Python"
			    : "general";
}

static char *discover_type(const struct discover *d)
{
	return xasprintf("%s%s%s%s", discover_language(d), d->omp || d->mpi ? " with " : "",
			 d->omp ? "OpenMP" : "", d->mpi ? d->omp ? " and MPI" : "MPI" : "");
}

static void discover_build(int root, struct flow_found *f)
{
	static const struct {
		const char *file, *command;
	} ways[] = {
		{ "build/CMakeCache.txt", "cmake --build build" },
		{ "CMakeLists.txt", "cmake -S . -B build && cmake --build build" },
		{ "GNUmakefile", "make" },
		{ "Makefile", "make" },
		{ "makefile", "make" },
		{ "build.ninja", "ninja" },
		{ "configure", "./configure && make" },
		{ "meson.build", "meson setup build && ninja -C build" },
		{ "build.sh", "sh ./build.sh" },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!file_exists(root, ways[i].file))
			continue;
		f->build = xstrdup(ways[i].command);
		f->build_why = xasprintf("%s is there", ways[i].file);
		return;
	}
}

/* The word after "-o" in the makefile's link line, where it is plain text. */
static char *discover_make_output(const char *text)
{
	for (const char *p = text; (p = strstr(p, " -o ")); p += 4) {
		size_t n = strspn(p + 4, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789_-./");
		char end = p[4 + n];

		if (n && (end == ' ' || end == '\n' || end == '\0') &&
		    !(n > 2 && strncmp(p + 4 + n - 2, ".o", 2) == 0))
			return xstrndup(p + 4, n);
	}
	return NULL;
}

/* "NAME: …" of the first rule after variables, where "-o $@" makes it the program. */
static char *discover_make_target(const char *text)
{
	static const char word[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";

	for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
		size_t n = strspn(p, word);
		const char *eol = strchr(p, '\n');

		if (!n || p[n] != ':' || p[n + 1] == '=' || p[0] == '.')
			continue;
		if (eol && eol[1] == '\t' && strstr(eol, "-o $@") && !memchr(p, '%', n) &&
		    !(n > 2 && strncmp(p + n - 2, ".o", 2) == 0))
			return xstrndup(p, n);
	}
	return NULL;
}

static void discover_run(const struct discover *d, int root, struct flow_found *f)
{
	static const char *const makefiles[] = { "GNUmakefile", "Makefile", "makefile" };

	if (d->program && *d->program) {
		struct str s = { 0 };
		AUTO_FREE char *path = xasprintf("./%s", d->program);

		str_add_shquote(&s, path);
		f->run = str_take(&s);
		f->run_why = xstrdup("the one program that is there");
		return;
	}
	for (size_t i = 0; i < sizeof(makefiles) / sizeof(makefiles[0]); i++) {
		AUTO_FREE char *text = NULL;
		AUTO_FREE char *out = NULL;

		if (file_read(root, makefiles[i], DISCOVER_MAX_SOURCE, &text, NULL, NULL) < 0)
			continue;
		out = discover_make_output(text);
		if (!out)
			out = discover_make_target(text);
		if (out) {
			f->run = xasprintf("%s%s", out[0] == '/' || out[0] == '.' ? "" : "./", out);
			f->run_why = xasprintf("what %s links", makefiles[i]);
			return;
		}
	}
}

static char *discover_rocm(void)
{
	char version[64] = "";
	AUTO_CLOSE int fd = open("/opt/rocm/.info/version", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, version, sizeof(version) - 1);

	version[n > 0 ? n : 0] = '\0';
	version[strcspn(version, "-\n")] = '\0';
	return xstrdup(version[0] ? version : "none");
}

void flow_discover(const char *dir, struct flow_found *out)
{
	struct discover d = { .root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	struct flow_found f = { 0 };
	AUTO_FREE char *real = realpath(dir, NULL);
	const char *base = real ? strrchr(real, '/') : NULL;
	int walk = d.root < 0 ? -1 : fcntl(d.root, F_DUPFD_CLOEXEC, 3);

	/* a folder may have a name that no answer may be */
	f.name = xstrdup(base && base[1] && session_answer_check("name", base + 1, NULL) == ERR_OK
				 ? base + 1
				 : "project");
	f.rocm = discover_rocm();
	if (walk >= 0)
		discover_walk(&d, walk, "", 0);
	f.type = discover_type(&d);
	if (d.root >= 0) {
		discover_build(d.root, &f);
		discover_run(&d, d.root, &f);
		(void)close(d.root);
	}
	free(d.program);
	*out = f;
}

void flow_found_done(struct flow_found *f)
{
	free(f->name);
	free(f->type);
	free(f->rocm);
	free(f->build);
	free(f->build_why);
	free(f->run);
	free(f->run_why);
	*f = (struct flow_found){ 0 };
}
