#include "stencil.h"

void stencil_step(const struct grid *from, struct grid *to)
{
	const double *u = from->cell;
	double *v = to->cell;
	int nx = from->nx, ny = from->ny;
	int width = ny + 2;
	int i, j;

#pragma omp parallel for private(j)
	for (i = 1; i <= nx; i++) {
		for (j = 1; j <= ny; j++) {
			int k = i * width + j;

			v[k] = u[k] + 0.2 * (u[k - width] + u[k + width] + u[k - 1] + u[k + 1] -
					     4.0 * u[k]);
		}
	}
}

double stencil_residual(const struct grid *a, const struct grid *b)
{
	int nx = a->nx, ny = a->ny;
	int width = ny + 2;
	double largest = 0.0;
	int i, j;

#pragma omp parallel for private(j) reduction(max : largest)
	for (i = 1; i <= nx; i++) {
		for (j = 1; j <= ny; j++) {
			double d = a->cell[i * width + j] - b->cell[i * width + j];

			if (d < 0.0)
				d = -d;
			if (d > largest)
				largest = d;
		}
	}
	return largest;
}
