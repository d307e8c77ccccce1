/*
 * Times checkpoints of a folder: bench_ckpt make DIR N writes N source-like files there;
 * bench_ckpt run DIR STATE times plan, first, next, after one change, restore and switch.
 */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "core/err.h"
#include "core/str.h"

#define FILES_A_FOLDER 100
#define FLIPS	       100

static uint64_t bench_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Sizes like those of source files: most of some kilobytes, a few of hundreds. */
static size_t bench_size(uint64_t *state)
{
	size_t n = 200 + bench_random(state) % 4000;

	while (bench_random(state) % 3 == 0 && n < 200000)
		n *= 2;
	return n;
}

static int bench_make(const char *dir, uint64_t n, struct err *err)
{
	static char text[1 << 20];
	uint64_t state = 88172645463325252, total = 0;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(' ' + bench_random(&state) % 90);
	for (uint64_t i = 0; i < n; i++) {
		char path[4096];
		size_t size = bench_size(&state);
		int fd, r;

		(void)snprintf(path, sizeof(path), "%s/d%llu/s%llu", dir,
			       (unsigned long long)(i / 5000),
			       (unsigned long long)(i / FILES_A_FOLDER));
		if (i % FILES_A_FOLDER == 0 && file_mkdirs(path, 0755, err) < 0)
			return err->code;
		(void)snprintf(path + strlen(path), 32, "/file%llu.c", (unsigned long long)i);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
		if (fd < 0)
			return err_sys(err, errno, "create %s", path);
		r = file_write_all(fd, text + bench_random(&state) % (sizeof(text) - size), size,
				   path, err);
		(void)close(fd);
		if (r < 0)
			return r;
		total += size;
	}
	(void)printf("%llu files, %.1f MB\n", (unsigned long long)n, (double)total / 1e6);
	return ERR_OK;
}

/* User and system time of ourselves: on a busy machine it says more than the wall clock. */
static double bench_cpu(void)
{
	struct rusage ru;

	(void)getrusage(RUSAGE_SELF, &ru);
	return (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
	       (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
}

static uint64_t bench_since(const char *what, uint64_t start)
{
	static double cpu_before;
	double cpu = bench_cpu();

	(void)printf("%-40s %8.3f s, %7.3f s of processor\n", what,
		     (double)(clock_mono_ns() - start) / 1e9, cpu - cpu_before);
	(void)fflush(stdout);
	cpu_before = bench_cpu();
	return clock_mono_ns();
}

static int bench_touch(const char *dir, const char *name, const char *text, struct err *err)
{
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return file_write_atomic(AT_FDCWD, path, text, strlen(text), 0644, err);
}

static int bench_switch(struct ckpt *c, const char *a, const char *b, struct err *err)
{
	uint64_t t = clock_mono_ns();
	struct ckpt_switch *sw;
	int side, r = ckpt_switch_open(c, a, b, &sw, &side, err);

	if (r < 0)
		return r;
	t = bench_since("open a switch", t);
	for (int i = 0; r == ERR_OK && i < FLIPS; i++)
		r = ckpt_switch_to(sw, i % 2, err);
	(void)printf("%-40s %8.1f us (%zu paths differ)\n", "one flip",
		     (double)(clock_mono_ns() - t) / 1e3 / FLIPS, ckpt_switch_count(sw));
	t = clock_mono_ns();
	if (r == ERR_OK)
		r = ckpt_switch_close(sw, 1, err);
	(void)bench_since("close it", t);
	return r;
}

static int bench_run(const char *dir, const char *state, struct err *err)
{
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP], id[CKPT_ID_CAP], name[64];
	struct ckpt_summary sum;
	struct rusage ru;
	struct ckpt *c;
	uint64_t t = clock_mono_ns();
	int r = ckpt_open(state, dir, NULL, &c, err);

	if (r < 0)
		return r;
	t = bench_since("open", t);
	r = ckpt_plan(c, NULL, NULL, &sum, err);
	t = bench_since("plan", t);
	if (r == ERR_OK)
		r = ckpt_create(c, "first", a, err);
	t = bench_since("first checkpoint", t);
	if (r == ERR_OK)
		r = ckpt_create(c, "next", id, err);
	(void)bench_since("next checkpoint, nothing changed", t);
	for (int i = 0; r == ERR_OK && i < 20; i++) {
		(void)snprintf(name, sizeof(name), "d0/s0/file%d.c", i);
		r = bench_touch(dir, name, name, err);
	}
	t = clock_mono_ns();
	if (r == ERR_OK)
		r = ckpt_create(c, "20 files changed", b, err);
	(void)bench_since("next checkpoint, 20 files changed", t);
	if (r == ERR_OK)
		r = bench_switch(c, a, b, err);
	t = clock_mono_ns();
	if (r == ERR_OK)
		r = ckpt_restore(c, a, NULL, NULL, NULL, NULL, err);
	t = bench_since("restore 20 files", t);
	if (r == ERR_OK)
		r = ckpt_verify(c, err);
	(void)bench_since("verify all", t);
	ckpt_close(c);
	t = clock_mono_ns();
	if (r == ERR_OK)
		r = ckpt_open(state, dir, NULL, &c, err);
	t = bench_since("open again", t);
	if (r == ERR_OK)
		r = ckpt_create(c, "by another program", id, err);
	(void)bench_since("next checkpoint, index read from disk", t);
	if (r == ERR_OK)
		ckpt_close(c);
	(void)getrusage(RUSAGE_SELF, &ru);
	(void)printf("%-40s %8ld MB\n", "peak memory", ru.ru_maxrss / 1024);
	return r;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	uint64_t n;
	int r;

	if (argc == 4 && strcmp(argv[1], "make") == 0 && num_u64(argv[3], &n, &err) == ERR_OK)
		r = bench_make(argv[2], n, &err);
	else if (argc == 4 && strcmp(argv[1], "run") == 0)
		r = bench_run(argv[2], argv[3], &err);
	else {
		(void)fprintf(stderr, "usage: bench_ckpt make DIR N | run DIR STATE\n");
		return 2;
	}
	if (r < 0)
		(void)fprintf(stderr, "bench_ckpt: %s\n", err.msg);
	return r < 0;
}
