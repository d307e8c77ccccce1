/* A plate of nx by ny inner points with a rim of fixed temperature around it. */
#ifndef GRID_H
#define GRID_H

struct grid {
	int nx, ny;   /* inner points: rows, columns */
	double *cell; /* (nx + 2) rows of ny + 2 values */
};

/* Returns 0, or -1 when there is not enough memory. */
int grid_init(struct grid *g, int nx, int ny);
void grid_done(struct grid *g);
/* A hot spot in a cold plate; one edge of the rim is kept warm. */
void grid_fill(struct grid *g);
/* Sum of the inner values, row after row, so that it does not depend on threads. */
double grid_checksum(const struct grid *g);

#endif
