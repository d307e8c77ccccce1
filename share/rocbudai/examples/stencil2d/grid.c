#include "grid.h"

#include <stdlib.h>

int grid_init(struct grid *g, int nx, int ny)
{
	g->nx = nx;
	g->ny = ny;
	g->cell = calloc((size_t)(nx + 2) * (size_t)(ny + 2), sizeof *g->cell);
	return g->cell ? 0 : -1;
}

void grid_done(struct grid *g)
{
	free(g->cell);
	g->cell = NULL;
}

void grid_fill(struct grid *g)
{
	int width = g->ny + 2;
	int i, j;

	for (i = 0; i < g->nx + 2; i++) {
		for (j = 0; j < width; j++) {
			double x = (double)i / g->nx - 0.4;
			double y = (double)j / g->ny - 0.6;
			double t = 1.0 / (1.0 + 40.0 * (x * x + y * y));

			if (i == 0 || i == g->nx + 1 || j == width - 1)
				t = 0.0;
			else if (j == 0)
				t = 0.5;
			g->cell[i * width + j] = t;
		}
	}
}

double grid_checksum(const struct grid *g)
{
	int width = g->ny + 2;
	double sum = 0.0;
	int i, j;

	for (i = 1; i <= g->nx; i++) {
		for (j = 1; j <= g->ny; j++)
			sum += g->cell[i * width + j];
	}
	return sum;
}
