/*
 * Tells compiler drivers by their names and command lines by what they make.  Shared by the
 * recorder library, which runs inside the build's processes, and by the reader of its log, so that
 * both judge alike.  Uses nothing but libc's string functions, never allocates.  Threads: any.
 */
#ifndef INTERPOSE_ARGCLASS_H
#define INTERPOSE_ARGCLASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum argclass_tool {
	ARGCLASS_NONE,
	ARGCLASS_GCC,	  /* C, C++, Fortran and others: gcc, g++, gfortran */
	ARGCLASS_CLANG,	  /* clang, clang++, flang */
	ARGCLASS_CC,	  /* a name that says nothing: cc, c++, c99, f77, ftn */
	ARGCLASS_MPI,	  /* mpicc, mpicxx, mpifort, ... */
	ARGCLASS_FOREIGN, /* other vendors' drivers (icx, nvc): recorded, no flags known */
	ARGCLASS_NVCC,
	ARGCLASS_HIPCC, /* hipcc, amdclang */
	ARGCLASS_AR,
	ARGCLASS_RANLIB,
	ARGCLASS_NM,
	ARGCLASS_LD, /* called directly */
	ARGCLASS_AS,
	ARGCLASS_LAUNCHER, /* ccache and its like: the next argument is the driver */
};

/* By the last component of a path; version suffixes (gcc-12) and target prefixes
 * (x86_64-linux-gnu-gcc) are seen through. */
enum argclass_tool argclass_tool_of(const char *path);
static inline bool argclass_compiles(enum argclass_tool t)
{
	return t >= ARGCLASS_GCC && t <= ARGCLASS_HIPCC;
}

enum argclass_kind {
	ARGCLASS_COMPILE,
	ARGCLASS_LINK,
	ARGCLASS_COMPILE_LINK,
	ARGCLASS_ARCHIVE,
	ARGCLASS_PROBE,
	ARGCLASS_OTHER,
};

#define ARGCLASS_LANG_C	      1U
#define ARGCLASS_LANG_CXX     2U
#define ARGCLASS_LANG_FORTRAN 4U
#define ARGCLASS_LANG_GPU     8U
#define ARGCLASS_LANG_ASM     16U

struct argclass {
	enum argclass_kind kind;
	unsigned langs;	    /* of the sources */
	const char *output; /* of -o, or the archive; borrowed; NULL: by the driver's default */
	size_t n_sources;
	size_t n_objects;
	char default_ext; /* with -c and no -o: 'o', with -S: 's'; 0: not such a command */
};

/* Called for each input in order, index being its place in argv. */
typedef void (*argclass_cb)(void *arg, bool is_source, size_t index, const char *path);

/* argv[0] is the driver (not the launcher); cwd is where it runs.  cb may be NULL. */
void argclass_parse(enum argclass_tool tool, size_t argc, const char *const *argv, const char *cwd,
		    argclass_cb cb, void *arg, struct argclass *out);

/*
 * Names a step across builds: where it ran, what kind, its sources and (with_output) its output.
 * 0 for a step that has neither sources nor output.
 */
uint64_t argclass_key(enum argclass_tool tool, size_t argc, const char *const *argv,
		      const char *cwd, bool with_output);

#endif
