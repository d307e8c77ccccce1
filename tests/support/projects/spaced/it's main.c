/* An honest program that any optimisation makes faster: my prog [N [ROUNDS]] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kernel.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
	int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 12000;
	double *v, start, seconds, sum = 0.0;
	int i;

	if (n < 1 || n > 1000000 || rounds < 1 || !(v = calloc((size_t)n, sizeof *v))) {
		fprintf(stderr, "usage: my prog [N [ROUNDS]]\n");
		return 2;
	}
	start = now();
	kernel(v, n, rounds);
	seconds = now() - start;
	for (i = 0; i < n; i++)
		sum += v[i];
	printf("n: %d\nchecksum: %.12e\nMUPS: %.2f\n", n, sum, 1e-6 * n * rounds / seconds);
	free(v);
	return 0;
}
