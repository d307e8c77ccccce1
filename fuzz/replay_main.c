/* Runs a fuzz target once per corpus file, so that any compiler can replay it. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
	static uint8_t buf[1 << 20];
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	unsigned n = 0;

	if (!d) {
		(void)fprintf(stderr, "usage: replay CORPUS-FOLDER (must exist)\n");
		return 2;
	}
	for (struct dirent *e; (e = readdir(d));) {
		char path[4096];
		FILE *f;

		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
		f = fopen(path, "re");
		if (!f)
			return 2;
		(void)LLVMFuzzerTestOneInput(buf, fread(buf, 1, sizeof(buf), f));
		(void)fclose(f);
		n++;
	}
	(void)closedir(d);
	(void)printf("%u inputs replayed\n", n);
	return n ? 0 : 2;
}
