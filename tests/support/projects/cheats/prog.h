/*
 * One honest program with ways to look faster that it should not be believed for, each switched on
 * by a macro: see plays/.  Without any of them it takes n numbers 'rounds' small steps towards
 * their square roots and prints the sum.
 */
#ifndef PROG_H
#define PROG_H

struct problem {
	int n, rounds;
};

enum { PROG_TUNED_N = 1000, PROG_TUNED_ROUNDS = 20000 };

double kernel(const struct problem *p);

/* Each returns 1 when it took the place of the work. */
int cheat_answer_known(const struct problem *p, double *sum);
int cheat_answer_cached(const struct problem *p, double *sum);
void cheat_answer_keep(const struct problem *p, double sum);

#endif
