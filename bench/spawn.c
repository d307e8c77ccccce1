/*
 * What a run below the keeper costs beyond a bare fork, exec and wait4 of the same program:
 *     bench_spawn [ROUNDS [PROGRAM [ARGUMENT...]]]        (default: 2000 true)
 * The kinds take turns in every round, so that what disturbs the machine meets all of them.
 * Exits 1 when a median of proc_run is more than 0.3 ms above that of the faster bare kind.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/err.h"
#include "core/str.h"
#include "proc/proc.h"

#define SPAWN_LIMIT_US 300
#define SPAWN_N_MAX    1000000

enum spawn_kind {
	SPAWN_FORK,	/* the call: fork, exec, wait4 */
	SPAWN_POSIX,	/* the same with posix_spawn, which shares the memory */
	SPAWN_WALL,	/* what proc_run says that the program took */
	SPAWN_CALL,	/* the call of proc_run, output to /dev/null */
	SPAWN_CAP_WALL, /* both streams captured */
	SPAWN_CAP_CALL,
	SPAWN_N,
};

static const char *const spawn_names[SPAWN_N] = {
	[SPAWN_FORK] = "bare fork, exec, wait4",
	[SPAWN_POSIX] = "bare posix_spawn, wait4",
	[SPAWN_WALL] = "proc_run: wall_ns",
	[SPAWN_CALL] = "proc_run: the whole call",
	[SPAWN_CAP_WALL] = "proc_run, both streams captured: wall_ns",
	[SPAWN_CAP_CALL] = "proc_run, both streams captured: call",
};

static uint64_t spawn_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static pid_t spawn_start(char **argv, bool share)
{
	pid_t pid;

	if (share)
		return posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) == 0 ? pid : -1;
	pid = fork();
	if (pid == 0) {
		(void)execvp(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static bool spawn_bare(char **argv, bool share, uint64_t *ns)
{
	uint64_t t0 = spawn_now();
	pid_t pid = spawn_start(argv, share);
	struct rusage ru;
	int status;

	if (pid < 0 || wait4(pid, &status, 0, &ru) != pid)
		return false;
	*ns = spawn_now() - t0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool spawn_kept(struct proc_keeper *k, char **argv, enum proc_io io, uint64_t *wall,
		       uint64_t *call)
{
	struct proc_spec spec = { .argv = (const char *const *)argv, .out = io, .err = io };
	struct proc_result res;
	struct err err = { 0 };
	uint64_t t0 = spawn_now();

	if (proc_run(k, &spec, &res, &err) < 0) {
		(void)fprintf(stderr, "bench_spawn: %s\n", err.msg);
		return false;
	}
	*wall = res.wall_ns;
	proc_result_done(&res);
	*call = spawn_now() - t0;
	return true;
}

static int spawn_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static double spawn_us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static int spawn_report(uint64_t *t[SPAWN_N], size_t n)
{
	double bare;
	int over = 0;

	for (int k = 0; k < SPAWN_N; k++)
		qsort(t[k], n, sizeof(*t[k]), spawn_cmp);
	bare = spawn_us(t[SPAWN_FORK][n / 2] < t[SPAWN_POSIX][n / 2] ? t[SPAWN_FORK][n / 2]
								     : t[SPAWN_POSIX][n / 2]);

	(void)printf("%-42s %10s %10s %10s %12s\n", "microseconds", "p25", "median", "p75",
		     "over bare");
	for (int k = 0; k < SPAWN_N; k++) {
		double med = spawn_us(t[k][n / 2]);

		(void)printf("%-42s %10.1f %10.1f %10.1f %+12.1f\n", spawn_names[k],
			     spawn_us(t[k][n / 4]), med, spawn_us(t[k][n * 3 / 4]), med - bare);
		if (k >= SPAWN_WALL && med - bare > SPAWN_LIMIT_US)
			over = 1;
	}
	return over;
}

static bool spawn_round(struct proc_keeper *k, char **prog, uint64_t *t[SPAWN_N], size_t i)
{
	bool ok = true;

	/* each kind follows each other one equally often */
	for (size_t j = 0; j < 4 && ok; j++) {
		switch ((i % 2 ? 3 - j + i / 2 : j + i / 2) % 4) {
		case 0:
			ok = spawn_bare(prog, false, &t[SPAWN_FORK][i]);
			break;
		case 1:
			ok = spawn_bare(prog, true, &t[SPAWN_POSIX][i]);
			break;
		case 2:
			ok = spawn_kept(k, prog, PROC_IO_NULL, &t[SPAWN_WALL][i],
					&t[SPAWN_CALL][i]);
			break;
		default:
			ok = spawn_kept(k, prog, PROC_IO_CAPTURE, &t[SPAWN_CAP_WALL][i],
					&t[SPAWN_CAP_CALL][i]);
		}
	}
	return ok;
}

int main(int argc, char **argv)
{
	static char name[] = "true";
	static char *fallback[] = { name, NULL };
	char **prog = argc > 2 ? argv + 2 : fallback;
	uint64_t *t[SPAWN_N] = { NULL };
	struct proc_keeper *k = NULL;
	struct err err = { 0 };
	uint64_t n = 2000;
	int r = 0;

	if (argc > 1 && (num_u64(argv[1], &n, &err) < 0 || n < 4 || n > SPAWN_N_MAX)) {
		(void)fprintf(stderr, "usage: bench_spawn [ROUNDS [PROGRAM [ARGUMENT...]]]\n");
		return 2;
	}
	if (proc_keeper_open(&k, &err) < 0) {
		(void)fprintf(stderr, "bench_spawn: %s\n", err.msg);
		return 1;
	}
	for (int i = 0; i < SPAWN_N; i++) {
		t[i] = calloc(n, sizeof(**t));
		r |= !t[i];
	}
	for (size_t i = 0; i < n && !r; i++)
		r = !spawn_round(k, prog, t, i);
	if (!r)
		r = spawn_report(t, n);
	for (int i = 0; i < SPAWN_N; i++)
		free(t[i]);
	proc_keeper_close(k);
	return r;
}
