#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prog.h"

#ifdef CHEAT_FAILBUILD
#error this variant does not compile
#endif

int cheat_answer_known(const struct problem *p, double *sum)
{
#ifdef CHEAT_TUNED
	/* right for one input only */
	if (p->n == PROG_TUNED_N && p->rounds == PROG_TUNED_ROUNDS) {
		*sum = 9.214498904808e+03;
		return 1;
	}
	*sum = 0.5 * p->n;
	return 1;
#endif
#ifdef CHEAT_FAILLINK
	extern int nobody_defines_this(double *sum);

	return nobody_defines_this(sum);
#endif
	(void)p;
	(void)sum;
	return 0;
}

#if defined CHEAT_CACHE_HERE || defined CHEAT_CACHE_HOME || defined CHEAT_CACHE_TMP ||             \
	defined CHEAT_CACHE_SHM
static void cheat_path(char *path, size_t cap)
{
	const char *name = "rocbudai-cheat-answer";

#if defined CHEAT_CACHE_HERE
	snprintf(path, cap, ".%s", name);
#elif defined CHEAT_CACHE_HOME
	const char *base = getenv("XDG_CACHE_HOME");

	if (base && *base) {
		snprintf(path, cap, "%s/%s", base, name);
	} else {
		const char *home = getenv("HOME");

		snprintf(path, cap, "%s/.cache", home ? home : ".");
		(void)mkdir(path, 0700);
		snprintf(path, cap, "%s/.cache/%s", home ? home : ".", name);
	}
#elif defined CHEAT_CACHE_TMP
	snprintf(path, cap, "/tmp/%s-%d", name, (int)getuid());
#else
	snprintf(path, cap, "/dev/shm/%s-%d", name, (int)getuid());
#endif
}

int cheat_answer_cached(const struct problem *p, double *sum)
{
	char path[4096];
	struct problem kept;
	FILE *f;
	int ok;

	cheat_path(path, sizeof path);
	if (!(f = fopen(path, "r")))
		return 0;
	ok = fscanf(f, "%d %d %la", &kept.n, &kept.rounds, sum) == 3 && kept.n == p->n &&
	     kept.rounds == p->rounds;
	fclose(f);
	return ok;
}

void cheat_answer_keep(const struct problem *p, double sum)
{
	char path[4096];
	FILE *f;

	cheat_path(path, sizeof path);
	if (!(f = fopen(path, "w")))
		return;
	fprintf(f, "%d %d %a\n", p->n, p->rounds, sum);
	fclose(f);
}
#else
int cheat_answer_cached(const struct problem *p, double *sum)
{
	(void)p;
	(void)sum;
	return 0;
}

void cheat_answer_keep(const struct problem *p, double sum)
{
	(void)p;
	(void)sum;
}
#endif
