/*
 * The least that running a program costs here: fork (or vfork), exec and wait4 in a loop, timed as
 * bench times them.  Prints median and smallest in seconds.
 * usage: bare_loop fork|vfork REPETITIONS PROGRAM [ARGUMENTS...]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double once(int quick, char **argv)
{
	double start = now();
	struct rusage ru;
	int status;
	pid_t pid = quick ? vfork() : fork();

	if (pid == 0) {
		(void)execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &ru) != pid || status != 0)
		return -1;
	return now() - start;
}

int main(int argc, char **argv)
{
	long n = argc > 3 ? strtol(argv[2], NULL, 10) : 0;
	double *x = n > 0 && n < 1000000 ? calloc((size_t)n, sizeof(*x)) : NULL;

	if (!x)
		return 2;
	for (long i = 0; i < n; i++) {
		if ((x[i] = once(strcmp(argv[1], "vfork") == 0, argv + 3)) < 0)
			return 1;
	}
	qsort(x, (size_t)n, sizeof(*x), compare);
	(void)printf("%.9f %.9f\n", n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2, x[0]);
	free(x);
	return 0;
}
