/* Heat spreading in a plate: a five-point stencil, stepped in time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "grid.h"
#include "stencil.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int number(const char *text, int largest)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 1 || n > largest) {
		fprintf(stderr, "stencil2d: '%s' is not a number from 1 to %d\n", text, largest);
		exit(2);
	}
	return (int)n;
}

int main(int argc, char **argv)
{
	int nx = 800, ny = 800, steps = 320;
	struct grid a, b;
	double start, seconds;
	int i;

	if (argc != 1 && argc != 4) {
		fprintf(stderr, "usage: stencil2d [ROWS COLUMNS STEPS]\n");
		return 2;
	}
	if (argc == 4) {
		nx = number(argv[1], 20000);
		ny = number(argv[2], 20000);
		steps = number(argv[3], 1000000);
	}
	if (grid_init(&a, nx, ny) || grid_init(&b, nx, ny)) {
		fprintf(stderr, "stencil2d: not enough memory for %d x %d points\n", nx, ny);
		return 1;
	}
	grid_fill(&a);
	grid_fill(&b);

	start = now();
	for (i = 0; i < steps; i++) {
		struct grid t;

		stencil_step(&a, &b);
		t = a;
		a = b;
		b = t;
	}
	seconds = now() - start;

	printf("grid: %d x %d, %d steps\n", nx, ny, steps);
	printf("residual: %.12e\n", stencil_residual(&a, &b));
	printf("checksum: %.12e\n", grid_checksum(&a));
	printf("time: %.3f s\n", seconds);
	printf("GLUPS: %.3f\n", 1e-9 * nx * ny * steps / seconds);
	grid_done(&a);
	grid_done(&b);
	return 0;
}
