#include "interpose/argclass.h"

#include <string.h>

struct name {
	const char *name;
	enum argclass_tool tool;
};

static const struct name names[] = {
	{ "gcc", ARGCLASS_GCC },
	{ "g++", ARGCLASS_GCC },
	{ "gfortran", ARGCLASS_GCC },
	{ "c89-gcc", ARGCLASS_GCC },
	{ "c99-gcc", ARGCLASS_GCC },
	{ "gdc", ARGCLASS_GCC },
	{ "clang", ARGCLASS_CLANG },
	{ "clang++", ARGCLASS_CLANG },
	{ "flang", ARGCLASS_CLANG },
	{ "flang-new", ARGCLASS_CLANG },
	{ "cc", ARGCLASS_CC },
	{ "c++", ARGCLASS_CC },
	{ "CC", ARGCLASS_CC },
	{ "c89", ARGCLASS_CC },
	{ "c99", ARGCLASS_CC },
	{ "f77", ARGCLASS_CC },
	{ "f95", ARGCLASS_CC },
	{ "ftn", ARGCLASS_CC },
	{ "mpicc", ARGCLASS_MPI },
	{ "mpicxx", ARGCLASS_MPI },
	{ "mpic++", ARGCLASS_MPI },
	{ "mpiCC", ARGCLASS_MPI },
	{ "mpif77", ARGCLASS_MPI },
	{ "mpif90", ARGCLASS_MPI },
	{ "mpifort", ARGCLASS_MPI },
	{ "mpigcc", ARGCLASS_MPI },
	{ "mpigxx", ARGCLASS_MPI },
	{ "oshcc", ARGCLASS_MPI },
	{ "oshcxx", ARGCLASS_MPI },
	{ "oshfort", ARGCLASS_MPI },
	{ "icc", ARGCLASS_FOREIGN },
	{ "icpc", ARGCLASS_FOREIGN },
	{ "icx", ARGCLASS_FOREIGN },
	{ "icpx", ARGCLASS_FOREIGN },
	{ "ifort", ARGCLASS_FOREIGN },
	{ "ifx", ARGCLASS_FOREIGN },
	{ "nvc", ARGCLASS_FOREIGN },
	{ "nvc++", ARGCLASS_FOREIGN },
	{ "nvfortran", ARGCLASS_FOREIGN },
	{ "pgcc", ARGCLASS_FOREIGN },
	{ "pgc++", ARGCLASS_FOREIGN },
	{ "pgfortran", ARGCLASS_FOREIGN },
	{ "mpiicc", ARGCLASS_FOREIGN },
	{ "mpiifort", ARGCLASS_FOREIGN },
	{ "nvcc", ARGCLASS_NVCC },
	{ "hipcc", ARGCLASS_HIPCC },
	{ "amdclang", ARGCLASS_HIPCC },
	{ "amdclang++", ARGCLASS_HIPCC },
	{ "amdflang", ARGCLASS_HIPCC },
	{ "ar", ARGCLASS_AR },
	{ "gcc-ar", ARGCLASS_AR },
	{ "llvm-ar", ARGCLASS_AR },
	{ "ranlib", ARGCLASS_RANLIB },
	{ "gcc-ranlib", ARGCLASS_RANLIB },
	{ "llvm-ranlib", ARGCLASS_RANLIB },
	{ "nm", ARGCLASS_NM },
	{ "gcc-nm", ARGCLASS_NM },
	{ "llvm-nm", ARGCLASS_NM },
	{ "ld", ARGCLASS_LD },
	{ "ld.bfd", ARGCLASS_LD },
	{ "ld.gold", ARGCLASS_LD },
	{ "ld.lld", ARGCLASS_LD },
	{ "as", ARGCLASS_AS },
	{ "ccache", ARGCLASS_LAUNCHER },
	{ "sccache", ARGCLASS_LAUNCHER },
	{ "distcc", ARGCLASS_LAUNCHER },
	{ "icecc", ARGCLASS_LAUNCHER },
};

/* First parts of target prefixes: "my-cc" is somebody's own program, "aarch64-linux-gnu-gcc" not.
 */
static const char *const arches[] = { "x86_64",	 "i386",	"i486",	      "i586",	 "i686",
				      "aarch64", "arm",		"powerpc",    "riscv64", "s390x",
				      "ppc64le", "powerpc64le", "loongarch64" };

static enum argclass_tool by_name(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strlen(names[i].name) == n && memcmp(names[i].name, s, n) == 0)
			return names[i].tool;
	}
	return ARGCLASS_NONE;
}

static const char *base_of(const char *path)
{
	const char *b = strrchr(path, '/');

	return b ? b + 1 : path;
}

static bool has_arch(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof(arches) / sizeof(*arches); i++) {
		size_t l = strlen(arches[i]);

		if (n > l && memcmp(s, arches[i], l) == 0 && s[l] == '-')
			return true;
	}
	return false;
}

enum argclass_tool argclass_tool_of(const char *path)
{
	const char *s = base_of(path);
	size_t n = strlen(s), v = n;
	enum argclass_tool t = by_name(s, n);

	if (t != ARGCLASS_NONE)
		return t;
	while (v && (s[v - 1] == '.' || (s[v - 1] >= '0' && s[v - 1] <= '9')))
		v--;
	if (v && v < n && s[v - 1] == '-')
		n = v - 1;
	t = by_name(s, n);
	if (t != ARGCLASS_NONE || !has_arch(s, n))
		return t;
	for (size_t i = 0; i < n && t == ARGCLASS_NONE; i++) {
		if (s[i] == '-')
			t = by_name(s + i + 1, n - i - 1);
	}
	return t;
}

/* ---- options ---- */

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

static bool in(const char *s, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(s, *list) == 0)
			return true;
	}
	return false;
}

/* Options whose value is the next argument. */
static const char *const gnu_values[] = { "-o",
					  "-x",
					  "-I",
					  "-D",
					  "-U",
					  "-L",
					  "-l",
					  "-include",
					  "-imacros",
					  "-isystem",
					  "-idirafter",
					  "-iprefix",
					  "-iquote",
					  "-iwithprefix",
					  "-iwithprefixbefore",
					  "-isysroot",
					  "-imultilib",
					  "-MF",
					  "-MT",
					  "-MQ",
					  "-MJ",
					  "-Xlinker",
					  "-Xassembler",
					  "-Xpreprocessor",
					  "-Xclang",
					  "-Xarch_host",
					  "-Xarch_device",
					  "-mllvm",
					  "-arch",
					  "-T",
					  "-u",
					  "-z",
					  "-e",
					  "-target",
					  "-A",
					  "-B",
					  "-J",
					  "--param",
					  "-wrapper",
					  "-dumpbase",
					  "-dumpdir",
					  "-aux-info",
					  "-Xopenmp-target",
					  "-h",
					  "-rpath",
					  "-gcc-toolchain",
					  "--sysroot",
					  NULL };
static const char *const nvcc_values[] = { "-o",
					   "--output-file",
					   "-x",
					   "--x",
					   "-I",
					   "--include-path",
					   "-isystem",
					   "--system-include",
					   "-include",
					   "--pre-include",
					   "-D",
					   "--define-macro",
					   "-U",
					   "--undefine-macro",
					   "-L",
					   "--library-path",
					   "-l",
					   "--library",
					   "-gencode",
					   "--generate-code",
					   "-arch",
					   "--gpu-architecture",
					   "-code",
					   "--gpu-code",
					   "-ccbin",
					   "--compiler-bindir",
					   "-Xcompiler",
					   "--compiler-options",
					   "-Xptxas",
					   "--ptxas-options",
					   "-Xlinker",
					   "--linker-options",
					   "-Xnvlink",
					   "--nvlink-options",
					   "-Xarchive",
					   "-Xcudafe",
					   "-odir",
					   "--output-directory",
					   "-maxrregcount",
					   "--maxrregcount",
					   "-std",
					   "--std",
					   "-m",
					   "--machine",
					   "-MF",
					   "-MT",
					   "--threads",
					   "-t",
					   "-O",
					   "--optimize",
					   "-diag-suppress",
					   "-cudart",
					   "--cudart",
					   "-rdc",
					   "--relocatable-device-code",
					   "-allow-unsupported-compiler-path",
					   NULL };

static bool takes_value(enum argclass_tool tool, const char *a)
{
	return in(a, tool == ARGCLASS_NVCC ? nvcc_values : gnu_values);
}

static const char *const nvcc_compile[] = { "-dc", "--device-c", "--compile", "-dw", NULL };
static const char *const nvcc_device_only[] = { "-ptx",	   "--ptx",    "-cubin", "--cubin",
						"-fatbin", "--fatbin", NULL };

/* Options that make a command a question rather than a step. */
static const char *const questions[] = { "-E",
					 "-M",
					 "-MM",
					 "--version",
					 "-###",
					 "-dumpversion",
					 "-dumpfullversion",
					 "-dumpmachine",
					 "-dumpspecs",
					 "-fsyntax-only",
					 "--help",
					 "-V",
					 "-qversion",
					 "-show",
					 "-compile_info",
					 "-link_info",
					 "--dryrun",
					 "-dryrun",
					 "-compile-info",
					 "-link-info",
					 "--preprocess",
					 NULL };

static bool is_question(const char *a)
{
	return in(a, questions) || starts(a, "-print-") || starts(a, "--print-") ||
	       starts(a, "--help=") || starts(a, "--showme") || starts(a, "-showme");
}

static const char *ext_of(const char *path)
{
	const char *dot = strrchr(base_of(path), '.');

	return dot ? dot + 1 : "";
}

static unsigned lang_of_ext(const char *e)
{
	static const char *const c[] = { "c", "i", "m", "h", NULL };
	static const char *const cxx[] = { "cc", "cp",	"cxx", "cpp", "CPP", "c++",  "C",   "ii",
					   "mm", "hpp", "hh",  "hxx", "H",   "cppm", "ixx", NULL };
	static const char *const f[] = { "f",	"for", "ftn", "F",   "FOR", "fpp",
					 "FPP", "FTN", "f90", "f95", "f03", "f08",
					 "F90", "F95", "F03", "F08", NULL };
	static const char *const gpu[] = { "cu", "hip", NULL };
	static const char *const s[] = { "s", "S", "sx", "asm", NULL };

	if (in(e, c))
		return ARGCLASS_LANG_C;
	if (in(e, cxx))
		return ARGCLASS_LANG_CXX;
	if (in(e, f))
		return ARGCLASS_LANG_FORTRAN;
	if (in(e, gpu))
		return ARGCLASS_LANG_GPU;
	return in(e, s) ? ARGCLASS_LANG_ASM : 0;
}

static unsigned lang_of_x(const char *x)
{
	if (starts(x, "c++") || starts(x, "objective-c++"))
		return ARGCLASS_LANG_CXX;
	if (starts(x, "assembler"))
		return ARGCLASS_LANG_ASM;
	if (starts(x, "f77") || starts(x, "f95"))
		return ARGCLASS_LANG_FORTRAN;
	if (strcmp(x, "cu") == 0 || strcmp(x, "cuda") == 0 || strcmp(x, "hip") == 0)
		return ARGCLASS_LANG_GPU;
	return strcmp(x, "none") == 0 ? 0 : ARGCLASS_LANG_C;
}

/* ---- command lines ---- */

struct scan {
	enum argclass_tool tool;
	const char *cwd;
	argclass_cb cb;
	void *arg;
	struct argclass *out;
	unsigned forced; /* language of -x */
	char stop;	 /* 'c', 'S', or 0: goes on to link */
	bool question, device_only, header;
};

/* Sources that configuration tools write for their tests; see also in_probe_dir(). */
static bool probe_name(const char *path)
{
	const char *b = base_of(path);

	return starts(b, "conftest") || starts(b, "cmTC_") || starts(b, "CMakeCCompiler") ||
	       starts(b, "CMakeCXXCompiler") || starts(b, "CMakeFortranCompiler") ||
	       starts(b, "sanitycheckc") || strcmp(path, "-") == 0 ||
	       strcmp(path, "/dev/null") == 0 || strcmp(path, "/dev/stdin") == 0;
}

static bool probe_dir(const char *path)
{
	static const char *const dirs[] = { "CMakeFiles/CMakeTmp", "CMakeFiles/CMakeScratch",
					    "/CompilerId",	   "CMakeFiles/_CMakeLTOTest",
					    "meson-private/",	   "/cmTC_" };

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		if (strstr(path, dirs[i]))
			return true;
	}
	return false;
}

static void scan_input(struct scan *s, size_t i, const char *a)
{
	const char *e = ext_of(a);
	unsigned lang = s->forced ? s->forced : lang_of_ext(e);

	if (probe_name(a) || probe_dir(a))
		s->question = true;
	/* a preprocessed header without -c is a header to precompile */
	if (!s->forced && (*e == 'h' || *e == 'H'))
		s->header = true;
	s->out->langs |= lang;
	if (lang)
		s->out->n_sources++;
	else
		s->out->n_objects++;
	if (s->cb)
		s->cb(s->arg, lang != 0, i, a);
}

/* Returns how many arguments the option took. */
static size_t scan_option(struct scan *s, size_t i, size_t argc, const char *const *argv)
{
	const char *a = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
	bool nv = s->tool == ARGCLASS_NVCC;

	if (is_question(a))
		s->question = true;
	else if (strcmp(a, "-c") == 0 || (nv && in(a, nvcc_compile)))
		s->stop = 'c';
	else if (strcmp(a, "-S") == 0)
		s->stop = 'S';
	else if (starts(a, "--cuda-device-only") || (nv && in(a, nvcc_device_only)))
		s->device_only = true;
	else if ((strcmp(a, "-o") == 0 || (nv && strcmp(a, "--output-file") == 0)) && next)
		s->out->output = next;
	else if (starts(a, "-o") && a[2] && !nv && !starts(a, "-object"))
		s->out->output = a + 2;
	else if (strcmp(a, "-x") == 0 && next)
		s->forced = lang_of_x(next);
	else if (starts(a, "-x") && a[2] && !nv)
		s->forced = lang_of_x(a + 2);
	return takes_value(s->tool, a) && next ? 2 : 1;
}

static void scan_compiler(struct scan *s, size_t argc, const char *const *argv)
{
	bool only_inputs = false;

	for (size_t i = 1; i < argc;) {
		const char *a = argv[i];

		if (!only_inputs && strcmp(a, "--") == 0) {
			only_inputs = true;
			i++;
		} else if (!only_inputs && a[0] == '-' && a[1]) {
			i += scan_option(s, i, argc, argv);
		} else {
			scan_input(s, i, a);
			i++;
		}
	}
}

/* The kind of a compiler's command line that was scanned. */
static enum argclass_kind kind_of(const struct scan *s)
{
	const struct argclass *o = s->out;

	if (s->question || (!o->n_sources && !o->n_objects))
		return ARGCLASS_PROBE;
	if ((o->output && (probe_name(o->output) || probe_dir(o->output))) ||
	    (s->cwd && probe_dir(s->cwd)))
		return ARGCLASS_PROBE;
	if (s->device_only)
		return ARGCLASS_OTHER;
	if (s->stop || s->header)
		return o->n_sources ? ARGCLASS_COMPILE : ARGCLASS_OTHER;
	return o->n_sources ? ARGCLASS_COMPILE_LINK : ARGCLASS_LINK;
}

/* ar [-]KEYS [MOD] ARCHIVE FILES...; ranlib ARCHIVE.  The index of ARCHIVE; 0: none is written. */
static size_t archive_index(struct scan *s, size_t argc, const char *const *argv)
{
	size_t i = 1;
	bool writes = s->tool == ARGCLASS_RANLIB;

	while (i < argc && argv[i][0] == '-' && argv[i][1] == '-') {
		s->question |= in(argv[i], questions);
		i += strcmp(argv[i], "--plugin") == 0 ? 2 : 1;
	}
	if (s->tool == ARGCLASS_AR && i < argc) {
		const char *keys = argv[i++];

		s->question |= strcmp(keys, "-V") == 0;
		writes = strpbrk(keys, "rqd") != NULL;
		if (strpbrk(keys, "abi"))
			i++;
	} else {
		while (i < argc && argv[i][0] == '-')
			i++;
	}
	return writes && i < argc ? i : 0;
}

static void parse_archive(struct scan *s, size_t argc, const char *const *argv)
{
	size_t i = archive_index(s, argc, argv);

	s->out->kind = s->question ? ARGCLASS_PROBE : ARGCLASS_OTHER;
	if (s->question || !i)
		return;
	s->out->output = argv[i++];
	s->question = probe_name(s->out->output) || probe_dir(s->out->output) ||
		      (s->cwd && probe_dir(s->cwd));
	for (; i < argc; i++) {
		s->out->n_objects++;
		s->question |= probe_name(argv[i]);
		if (s->cb)
			s->cb(s->arg, false, i, argv[i]);
	}
	s->out->kind = s->question ? ARGCLASS_PROBE : ARGCLASS_ARCHIVE;
}

void argclass_parse(enum argclass_tool tool, size_t argc, const char *const *argv, const char *cwd,
		    argclass_cb cb, void *arg, struct argclass *out)
{
	struct scan s = { .tool = tool, .cwd = cwd, .cb = cb, .arg = arg, .out = out };

	*out = (struct argclass){ .kind = ARGCLASS_OTHER };
	if (tool == ARGCLASS_AR || tool == ARGCLASS_RANLIB) {
		parse_archive(&s, argc, argv);
		return;
	}
	if (tool == ARGCLASS_NONE || tool == ARGCLASS_NM || tool == ARGCLASS_LAUNCHER)
		return;
	scan_compiler(&s, argc, argv);
	out->kind = kind_of(&s);
	if (!argclass_compiles(tool) && out->kind != ARGCLASS_PROBE)
		out->kind = ARGCLASS_OTHER;
	if (s.stop && !out->output)
		out->default_ext = s.stop == 'S' ? 's' : 'o';
}

/* ---- keys ---- */

#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x100000001b3)

static void fnv(uint64_t *h, const char *s)
{
	size_t n = strlen(s) + 1; /* the NUL keeps "a","bc" and "ab","c" apart */

	for (size_t i = 0; i < n; i++)
		*h = (*h ^ (unsigned char)s[i]) * FNV_PRIME;
}

static void key_input(void *arg, bool is_source, size_t index, const char *path)
{
	(void)index;
	if (is_source)
		fnv(arg, path);
}

uint64_t argclass_key(enum argclass_tool tool, size_t argc, const char *const *argv,
		      const char *cwd, bool with_output)
{
	struct argclass c;
	char kind[2] = { 0, 0 };
	uint64_t h = FNV_BASIS;

	fnv(&h, cwd);
	argclass_parse(tool, argc, argv, cwd, key_input, &h, &c);
	if (!c.n_sources && (!with_output || !c.output))
		return 0;
	kind[0] = (char)('a' + (int)c.kind);
	fnv(&h, kind);
	fnv(&h, with_output ? "o" : "-");
	if (with_output && c.output)
		fnv(&h, c.output);
	return h ? h : 1;
}
