/* Largest and mean root of the numbers in input.dat, none of which tells how many there are. */
#include <stdio.h>

int main(void)
{
	FILE *f = fopen("input.dat", "r");
	double largest = 0.0, sum = 0.0;
	int n = 0, value;

	if (!f) {
		fprintf(stderr, "prog: input.dat cannot be opened\n");
		return 1;
	}
	while (fscanf(f, "%d", &value) == 1) {
		double x = 0.0;

		for (int r = 0; r < 1000; r++)
			x += 1e-3 * ((double)value - x * x);
		if (x > largest)
			largest = x;
		sum += x;
		n++;
	}
	fclose(f);
	printf("largest: %.9f\nmean: %.9f\n", largest, sum / n);
	return 0;
}
