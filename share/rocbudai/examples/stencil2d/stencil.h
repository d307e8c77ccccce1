#ifndef STENCIL_H
#define STENCIL_H

#include "grid.h"

/* One step of the heat equation from 'from' to 'to'. */
void stencil_step(const struct grid *from, struct grid *to);
/* The largest change between two steps. */
double stencil_residual(const struct grid *a, const struct grid *b);

#endif
