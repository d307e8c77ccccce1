/* Steps the numbers of a file towards their roots: prog FILE */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	double v[1000], x[1000] = { 0.0 }, sum = 0.0;
	FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
	int n = 0;

	if (!f) {
		fprintf(stderr, "usage: prog FILE\n");
		return 2;
	}
	while (n < 1000 && fscanf(f, "%lf", &v[n]) == 1)
		n++;
	fclose(f);
	for (int r = 0; r < 400000; r++) {
		for (int i = 0; i < n; i++)
			x[i] += 1e-5 * (v[i] - x[i] * x[i]);
	}
	for (int i = 0; i < n; i++)
		sum += x[i];
	printf("numbers: %d\nchecksum: %.12e\n", n, sum);
	return 0;
}
