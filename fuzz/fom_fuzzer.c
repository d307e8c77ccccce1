/* deps: core base proc measure */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "measure/fom.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first line is the pattern, and the word to propose for; the rest is what a program printed.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size);
	size_t n = nl ? (size_t)(nl - data) : size;
	char *first = strndup((const char *)data, n);
	const char *text = nl ? (const char *)nl + 1 : "";
	size_t len = nl ? size - n - 1 : 0;
	struct fom_spec spec = { .pattern = first };
	struct fom_guess g;
	struct fom *f, *again;
	double v;

	if (!first)
		return 0;
	if (fom_new(&spec, &f, NULL) == 0) {
		(void)fom_read(f, text, len, &v, NULL);
		fom_free(f);
	}
	if (fom_propose(first, text, len, &g, NULL) == 0) {
		/* what is proposed compiles and finds the value that it promised */
		spec.pattern = g.pattern;
		if (fom_new(&spec, &again, NULL) < 0 || fom_read(again, text, len, &v, NULL) < 0 ||
		    v != g.value)
			abort();
		fom_free(again);
	}
	free(first);
	return 0;
}
