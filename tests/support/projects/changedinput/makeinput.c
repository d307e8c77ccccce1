/* Writes the input: 50 different numbers, over and over. */
#include <stdio.h>

int main(void)
{
#ifdef CHEAT_INPUT
	/* a fifth of them has the same largest and mean value */
	int n = 4000;
#else
	int n = 20000;
#endif

	for (int i = 0; i < n; i++)
		printf("%d\n", (i % 50) * 7 + 3);
	return 0;
}
