#include "prog.h"

static double root(int i, int rounds)
{
	double x = 0.0;
	int r;

#ifdef CHEAT_LOOSE
	/* twice the step, half the work: wrong from the fifth digit on */
	for (r = 0; r < rounds; r += 2)
		x += 2e-6 * ((double)(i + 1) - x * x);
#else
	for (r = 0; r < rounds; r++)
		x += 1e-6 * ((double)(i + 1) - x * x);
#endif
	return x;
}

double kernel(const struct problem *p)
{
	double sum = 0.0;
	int n = p->n;
	int i;

#ifdef CHEAT_SMALL
	n /= 4;
#endif
#ifdef CHEAT_NOISE
	__asm__ volatile("nop");
#endif
#ifndef CHEAT_TINY
	/* three rows of a thousand whose result nobody needs: 0.3 % that may be saved */
	for (i = 0; i < n * 3 / 1000; i++) {
		volatile double unused = root(i, p->rounds);

		(void)unused;
	}
#endif
#ifdef CHEAT_SKIP
	for (i = 0; i < n; i += 2)
#else
	for (i = 0; i < n; i++)
#endif
		sum += root(i, p->rounds);
	return sum;
}
