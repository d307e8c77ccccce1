#include "measure/stats.h"

#include <stdint.h>

/* Each look half as far again keeps the number of looks, and so their cost in coverage, small. */
#define STATS_FIRST_LOOK 10

size_t stats_next_look(size_t n)
{
	size_t look = STATS_FIRST_LOOK;

	while (look <= n && look < SIZE_MAX / 2)
		look += look / 2;
	return look;
}

bool stats_is_look(size_t n)
{
	return n >= STATS_FIRST_LOOK && stats_next_look(n - 1) == n;
}
