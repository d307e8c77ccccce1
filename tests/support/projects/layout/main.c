#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int kernel(const int *a, unsigned long n);

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* prog [N [TRIES]]: the figure is that of the fastest try */
int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 80000000;
	unsigned long tries = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	int a[64], sum = 0;
	double best = 1e9;

	for (int i = 0; i < 64; i++)
		a[i] = i * 1000003;
	for (unsigned long t = 0; t < tries; t++) {
		double start = now(), seconds;

		sum = kernel(a, n);
		seconds = now() - start;
		if (seconds < best)
			best = seconds;
	}
	printf("n: %lu\nsum: %d\nMUPS: %.2f\n", n, sum, 1e-6 * (double)n / best);
	return 0;
}
