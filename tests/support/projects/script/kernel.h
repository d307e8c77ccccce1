#ifndef KERNEL_H
#define KERNEL_H

/* v[i] moves 'rounds' small steps towards the root of i + 1. */
void kernel(double *v, int n, int rounds);

#endif
