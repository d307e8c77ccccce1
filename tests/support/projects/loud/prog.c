/* Prints megabytes of binary data (default 100), the same in each run: prog [MEGABYTES] */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	static unsigned char block[1 << 20];
	long megabytes = argc > 1 ? strtol(argv[1], NULL, 10) : 100;
	unsigned x = 1;

	for (long m = 0; m < megabytes; m++) {
		for (size_t i = 0; i < sizeof block; i++) {
			x = x * 1664525U + 1013904223U;
			block[i] = (unsigned char)(x >> 24);
		}
		if (fwrite(block, 1, sizeof block, stdout) != sizeof block)
			return 1;
	}
	printf("\nchecksum: %u\n", x);
	return 0;
}
