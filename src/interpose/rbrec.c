/*
 * The recorder: preloaded into every process of a build, it does nothing but in compiler drivers.
 * There its constructor, which runs before main, appends the command line to a log and, where the
 * plan has flags for it, starts the same driver again with them.
 *
 * Only the outermost driver counts: what ccache, mpicc or gcc start themselves inherits the mark in
 * the environment and is left alone.  So flags are part of what ccache hashes.
 *
 * It works from inside the process that was started, not by wrapping exec calls, and so sees what a
 * static shell, vfork or posix_spawn starts.  It must never harm a build: on any trouble it
 * returns and the driver runs as it was called.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/argclass.h"
#include "interpose/reclog.h"

#define MAX_ARGS     65536
#define MAX_RESPONSE (4U << 20)
#define MAX_NESTING  8

extern char **environ;

struct args {
	const char **v;
	size_t n;
};

struct buf {
	char *s;
	size_t n, cap;
	int failed;
};

struct call {
	enum argclass_tool tool;
	size_t first;	   /* index in argv of the driver */
	const char *file;  /* what the kernel was asked to run; absolute */
	const char *inner; /* launcher's driver, or NULL */
	struct args args;  /* from the driver on, response files expanded */
	char cwd[4096];
	char file_buf[4096 * 2];
};

static void buf_add(struct buf *b, const void *data, size_t n)
{
	if (b->failed)
		return;
	if (b->n + n > b->cap) {
		size_t cap = (b->n + n) * 2 + 4096;
		char *s = cap <= 2 * (size_t)RECLOG_MAX_RECORD + 8192 ? realloc(b->s, cap) : NULL;

		if (!s) {
			b->failed = 1;
			return;
		}
		b->s = s;
		b->cap = cap;
	}
	memcpy(b->s + b->n, data, n);
	b->n += n;
}

static void buf_field(struct buf *b, char tag, const char *value)
{
	buf_add(b, &tag, 1);
	buf_add(b, value, strlen(value) + 1);
}

/* Reads a regular file whole; NUL-terminated; NULL on any trouble. */
static char *read_all(const char *path, size_t max, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	char *s = NULL;
	size_t n = 0;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size <= max &&
	    (s = malloc((size_t)st.st_size + 1))) {
		while (n < (size_t)st.st_size) {
			ssize_t r = read(fd, s + n, (size_t)st.st_size - n);

			if (r <= 0)
				break;
			n += (size_t)r;
		}
		s[n] = '\0';
		*len = n;
	}
	(void)close(fd);
	return s;
}

/* ---- response files ---- */

static int args_add(struct args *a, const char *s)
{
	if (a->n + 1 >= MAX_ARGS)
		return -1;
	if ((a->n & (a->n - 1)) == 0) { /* room is always the next power of two */
		const char **v = realloc(a->v, (a->n ? a->n * 2 : 1) * sizeof(*v) + sizeof(*v));

		if (!v)
			return -1;
		a->v = v;
	}
	a->v[a->n++] = s;
	a->v[a->n] = NULL;
	return 0;
}

/* One word of a response file, unquoted in place; *p moves behind it.  NULL: no more. */
static char *next_word(char **p)
{
	char *r = *p, *w, *start;
	char quote = 0;

	while (*r && strchr(" \t\n\r\f\v", *r))
		r++;
	if (!*r)
		return NULL;
	start = w = r;
	for (; *r && (quote || !strchr(" \t\n\r\f\v", *r)); r++) {
		if (*r == '\\' && r[1])
			*w++ = *++r;
		else if (quote && *r == quote)
			quote = 0;
		else if (!quote && (*r == '\'' || *r == '"'))
			quote = *r;
		else
			*w++ = *r;
	}
	*p = *r ? r + 1 : r;
	*w = '\0';
	return start;
}

static int expand(struct args *out, const char *arg, int depth)
{
	size_t len;
	char *text, *w;

	if (arg[0] != '@' || !arg[1] || depth > MAX_NESTING ||
	    !(text = read_all(arg + 1, MAX_RESPONSE, &len)))
		return args_add(out, arg);
	while ((w = next_word(&text))) { /* the text lives as long as the process */
		if (expand(out, w, depth + 1) < 0)
			return -1;
	}
	return 0;
}

/* ---- which call this is ---- */

/* For a script the kernel puts the interpreter first; the file that was run names the driver. */
static size_t driver_index(const char *execfn, int argc, char *const *argv)
{
	for (int i = 1; i < argc && i < 4; i++) { /* "#!/usr/bin/env -S perl" puts it third */
		if (strcmp(argv[i], execfn) == 0)
			return (size_t)i;
	}
	return 0;
}

static int find_driver(struct call *c, int argc, char *const *argv)
{
	const char *execfn = (const char *)getauxval(AT_EXECFN); /* NOLINT: that is its type */
	enum argclass_tool t;

	if (!execfn || argc < 1)
		return -1;
	c->first = driver_index(execfn, argc, argv);
	/* a compiler is known by the name it is called by: ccache and mpicc are one file each */
	t = argclass_tool_of(argv[c->first]);
	if (t == ARGCLASS_NONE && c->first == 0)
		t = argclass_tool_of(execfn);
	if (t == ARGCLASS_LAUNCHER) {
		size_t i = c->first + 1;

		while (i < (size_t)argc && strchr(argv[i], '=') && argv[i][0] != '-')
			i++; /* ccache KEY=value compiler */
		if (i >= (size_t)argc || !argclass_compiles(argclass_tool_of(argv[i])))
			return -1;
		c->first = i;
		c->inner = argv[i];
		t = argclass_tool_of(argv[i]);
	}
	if (t == ARGCLASS_NONE)
		return -1;
	c->tool = t;
	c->file = execfn;
	return 0;
}

/* Makes c->file absolute; a name that is no path was found by the caller (fexecve). */
static int absolute(struct call *c)
{
	ssize_t n;

	if (!getcwd(c->cwd, sizeof(c->cwd)))
		return -1;
	if (c->file[0] == '/' && strncmp(c->file, "/dev/fd/", 8) != 0 &&
	    strncmp(c->file, "/proc/", 6) != 0)
		return 0;
	if (c->file[0] != '/' && strchr(c->file, '/')) {
		(void)snprintf(c->file_buf, sizeof(c->file_buf), "%s/%s", c->cwd, c->file);
		c->file = c->file_buf;
		return 0;
	}
	n = readlink("/proc/self/exe", c->file_buf, sizeof(c->file_buf) - 1);
	if (n <= 0)
		return -1;
	c->file_buf[n] = '\0';
	c->file = c->file_buf;
	return 0;
}

/* A launcher that the loader cannot preload us into (linked statically) does not carry our mark:
 * flags added below it would be missing in its hash. */
static int below_hidden_launcher(void)
{
	char link[64], exe[4096];
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/%ld/exe", (long)getppid());
	n = readlink(link, exe, sizeof(exe) - 1);
	if (n <= 0)
		return 0;
	exe[n] = '\0';
	return argclass_tool_of(exe) == ARGCLASS_LAUNCHER;
}

/* ---- mark ---- */

/* 0: outermost, and the mark is set now; -1: nested, or started again by us. */
static int take_mark(void)
{
	char *mark = getenv(RECLOG_ENV_MARK);
	char pid[16];

	if (mark && strcmp(mark, RECLOG_MARK_NONE) != 0)
		return -1;
	(void)snprintf(pid, sizeof(pid), "%010ld", (long)getpid());
	if (mark && strlen(mark) == strlen(pid)) {
		/* in place, so that main's third argument and environ see the same */
		memcpy(mark, pid, strlen(pid));
		return 0;
	}
	return setenv(RECLOG_ENV_MARK, pid, 1);
}

/* ---- plan ---- */

struct plan {
	char *text;
	size_t len;
};

static const char *field_next(const struct plan *p, size_t *at, char *tag)
{
	const char *v;

	if (*at + 1 >= p->len)
		return NULL;
	*tag = p->text[*at];
	v = p->text + *at + 1;
	*at += strlen(v) + 2;
	return v;
}

static int plan_has_key(const struct plan *p, uint64_t key)
{
	char hex[24], tag;
	const char *v;

	if (!key)
		return 0;
	(void)snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)key);
	for (size_t at = 0; (v = field_next(p, &at, &tag));) {
		if (tag == (char)RECLOG_PLAN_KEY && strcmp(v, hex) == 0)
			return 1;
	}
	return 0;
}

static int args_has(const struct args *a, const char *s)
{
	for (size_t i = 0; i < a->n; i++) {
		if (strcmp(a->v[i], s) == 0)
			return 1;
	}
	return 0;
}

static int driver_is(const struct call *c, const char *key)
{
	size_t n = strlen(c->file);

	if (!c->inner)
		return strcmp(key, c->file) == 0;
	return strncmp(key, c->file, n) == 0 && key[n] == ' ' && strcmp(key + n + 1, c->inner) == 0;
}

/* The flags that the plan has for this call, in *out. */
static void plan_flags(const struct plan *p, const struct call *c, enum argclass_kind kind,
		       struct args *out)
{
	const char *v;
	char tag;
	int mine = 0, compile = kind != ARGCLASS_LINK, link = kind != ARGCLASS_COMPILE;

	for (size_t at = 0; (v = field_next(p, &at, &tag));) {
		if (tag == (char)RECLOG_PLAN_DRIVER) {
			mine = driver_is(c, v);
		} else if (mine && ((tag == (char)RECLOG_PLAN_COMPILE && compile) ||
				    (tag == (char)RECLOG_PLAN_LINK && link &&
				     !(compile && args_has(out, v))))) {
			(void)args_add(out, v);
		}
	}
}

static const char *plan_tool(const struct plan *p, enum argclass_tool tool)
{
	enum reclog_tag want = RECLOG_PLAN_NM;
	const char *v;
	char tag;

	if (tool == ARGCLASS_AR)
		want = RECLOG_PLAN_AR;
	else if (tool == ARGCLASS_RANLIB)
		want = RECLOG_PLAN_RANLIB;
	for (size_t at = 0; (v = field_next(p, &at, &tag));) {
		if (tag == (char)want)
			return v;
	}
	return NULL;
}

/* What the plan does to this call: *flags or the returned program to run instead. */
static const char *plan_apply(const struct plan *p, const struct call *c, struct args *flags)
{
	struct argclass k;
	const char *base = strrchr(c->args.v[0], '/');

	base = base ? base + 1 : c->args.v[0];
	if (c->tool == ARGCLASS_AR || c->tool == ARGCLASS_RANLIB || c->tool == ARGCLASS_NM) {
		if (strncmp(base, "gcc-", 4) == 0 || strncmp(base, "llvm-", 5) == 0)
			return NULL;
		return plan_tool(p, c->tool);
	}
	argclass_parse(c->tool, c->args.n, c->args.v, c->cwd, NULL, NULL, &k);
	if ((k.kind != ARGCLASS_COMPILE && k.kind != ARGCLASS_LINK &&
	     k.kind != ARGCLASS_COMPILE_LINK) ||
	    k.langs == ARGCLASS_LANG_ASM)
		return NULL;
	/* a step that the first build did not have is a test of some configure script */
	if (plan_has_key(p, argclass_key(c->tool, c->args.n, c->args.v, c->cwd, true)) ||
	    plan_has_key(p, argclass_key(c->tool, c->args.n, c->args.v, c->cwd, false)))
		plan_flags(p, c, k.kind, flags);
	return NULL;
}

/* ---- log ---- */

static void log_record(const char *log, struct buf *b)
{
	unsigned char frame[RECLOG_FRAME];
	uint32_t n;
	int fd;

	if (b->failed)
		return;
	n = (uint32_t)(b->n - RECLOG_FRAME);
	for (int i = 0; i < 4; i++)
		frame[i] = (unsigned char)RECLOG_MAGIC[i];
	for (int i = 0; i < 4; i++)
		frame[4 + i] = (unsigned char)(n >> (8 * i));
	memcpy(b->s, frame, sizeof(frame));
	fd = open(log, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	while (write(fd, b->s, b->n) < 0 && errno == EINTR)
		;
	(void)close(fd);
}

static void buf_start(struct buf *b)
{
	static const char frame[RECLOG_FRAME];
	char pid[24];

	buf_add(b, frame, sizeof(frame));
	(void)snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	buf_field(b, (char)RECLOG_PID, pid);
}

static void log_env(struct buf *b)
{
	static const char *const names[] = {
		"PATH",
		"CPATH",
		"C_INCLUDE_PATH",
		"CPLUS_INCLUDE_PATH",
		"LIBRARY_PATH",
		"LD_LIBRARY_PATH",
		"COMPILER_PATH",
		"GCC_EXEC_PREFIX",
		"LD_RUN_PATH",
		"SOURCE_DATE_EPOCH",
		"NVCC_PREPEND_FLAGS",
		"NVCC_CCBIN",
		"NVCC_APPEND_FLAGS",
		"CCC_OVERRIDE_OPTIONS",
		"OMPI_CC",
		"OMPI_CXX",
		"OMPI_FC",
		"OMPI_CFLAGS",
		"OMPI_LDFLAGS",
		"MPICH_CC",
		"MPICH_CXX",
		"MPICH_FC",
		"I_MPI_CC",
		"HIP_PATH",
		"HIP_PLATFORM",
		"HIP_CLANG_PATH",
		"HIPCC_COMPILE_FLAGS_APPEND",
		"ROCM_PATH",
		"CUDA_PATH",
		"CUDA_HOME",
		"CC",
		"CXX",
		"FC",
		"CCACHE_DIR",
		"CCACHE_PREFIX",
	};

	for (char **e = environ; e && *e; e++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
			size_t n = strlen(names[i]);

			if (strncmp(*e, names[i], n) == 0 && (*e)[n] == '=')
				buf_field(b, (char)RECLOG_ENV, *e);
		}
	}
}

static void log_call(const char *log, const struct call *c, const struct args *added,
		     const char *swap, int hidden)
{
	struct buf b = { 0 };

	buf_start(&b);
	buf_field(&b, (char)RECLOG_DIR, c->cwd);
	buf_field(&b, (char)RECLOG_FILE, c->file);
	if (c->inner)
		buf_field(&b, (char)RECLOG_INNER, c->inner);
	if (hidden)
		buf_field(&b, (char)RECLOG_HIDDEN, "1");
	log_env(&b);
	for (size_t i = 0; i < c->args.n; i++)
		buf_field(&b, (char)RECLOG_ARG, c->args.v[i]);
	for (size_t i = 0; i < added->n; i++)
		buf_field(&b, (char)RECLOG_ADDED, added->v[i]);
	if (swap)
		buf_field(&b, (char)RECLOG_SWAP, swap);
	if (b.n > RECLOG_MAX_RECORD) {
		b.n = 0;
		buf_start(&b);
		buf_field(&b, (char)RECLOG_DIR, c->cwd);
		buf_field(&b, (char)RECLOG_FILE, c->file);
		buf_field(&b, (char)RECLOG_CUT, "1");
	}
	log_record(log, &b);
	free(b.s);
}

/* ---- running it again ---- */

static void run_again(const char *log, const struct call *c, int argc, char *const *argv,
		      const struct args *added, const char *swap)
{
	struct args v = { 0 };
	struct buf b = { 0 };
	/* a script is started by its own name: the kernel puts the interpreter before it again */
	size_t from = c->inner ? 0 : c->first, dashes = (size_t)argc;
	int bad = 0;

	for (size_t i = from + 1; i < (size_t)argc && dashes == (size_t)argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			dashes = i;
	}
	for (size_t i = from; i < dashes; i++)
		bad |= args_add(&v, argv[i]);
	for (size_t i = 0; i < added->n; i++)
		bad |= args_add(&v, added->v[i]);
	for (size_t i = dashes; i < (size_t)argc; i++)
		bad |= args_add(&v, argv[i]);
	if (!bad && swap && v.v)
		v.v[0] = swap;
	if (!bad && v.v)
		(void)execv(swap ? swap : c->file, (char *const *)(uintptr_t)v.v);
	buf_start(&b);
	buf_field(&b, (char)RECLOG_CANCEL, "1");
	log_record(log, &b);
	free(b.s);
	free(v.v);
}

__attribute__((constructor)) static void rbrec_start(int argc, char **argv)
{
	const char *log = getenv(RECLOG_ENV_LOG), *swap = NULL;
	struct call c = { 0 };
	struct args added = { 0 };
	struct plan p = { 0 };
	int saved = errno, hidden;

	if (!log || argc < 1 || !argv || find_driver(&c, argc, argv) < 0 || absolute(&c) < 0 ||
	    take_mark() < 0)
		goto out;
	for (size_t i = c.first; i < (size_t)argc; i++) {
		if (expand(&c.args, argv[i], 0) < 0)
			goto out;
	}
	hidden = below_hidden_launcher();
	if (!hidden) {
		char path[4096 + 8];

		(void)snprintf(path, sizeof(path), "%s.plan", log);
		p.text = read_all(path, RECLOG_MAX_PLAN, &p.len);
		if (p.text)
			swap = plan_apply(&p, &c, &added);
	}
	log_call(log, &c, &added, swap, hidden);
	if (added.n || swap)
		run_again(log, &c, argc, argv, &added, swap);
out:
	free(c.args.v);
	free(added.v);
	free(p.text);
	errno = saved;
}
