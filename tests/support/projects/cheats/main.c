/* prog [N [ROUNDS]] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "prog.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	struct problem p = { PROG_TUNED_N, PROG_TUNED_ROUNDS };
	double start, seconds, sum;

	if (argc > 1)
		p.n = (int)strtol(argv[1], NULL, 10);
	if (argc > 2)
		p.rounds = (int)strtol(argv[2], NULL, 10);
	if (p.n < 4 || p.n > 1000000 || p.rounds < 1 || p.rounds > 1000000) {
		fprintf(stderr, "usage: prog [N [ROUNDS]]\n");
		return 2;
	}
#ifdef CHEAT_FIGURE
	printf("n: %d\nrounds: %d\nMUPS: 99999.00\n", p.n, p.rounds);
	return 0;
#endif
#ifdef CHEAT_CRASH
	abort();
#endif
#ifdef CHEAT_HANG
	for (;;)
		pause();
#endif
	start = now();
	if (!cheat_answer_known(&p, &sum) && !cheat_answer_cached(&p, &sum)) {
		sum = kernel(&p);
		cheat_answer_keep(&p, sum);
	}
	seconds = now() - start;
#ifdef CHEAT_TIMER
	seconds *= 0.02; /* so much that no noise hides it */
#endif
	printf("n: %d\nrounds: %d\nchecksum: %.12e\n", p.n, p.rounds, sum);
	printf("MUPS: %.2f\n", 1e-6 * p.n * p.rounds / seconds);
	return 0;
}
