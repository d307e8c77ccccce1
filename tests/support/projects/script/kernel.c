#include "kernel.h"

void kernel(double *v, int n, int rounds)
{
	int i, r;

	for (r = 0; r < rounds; r++) {
		for (i = 0; i < n; i++)
			v[i] += 1e-5 * ((double)(i + 1) - v[i] * v[i]);
	}
}
