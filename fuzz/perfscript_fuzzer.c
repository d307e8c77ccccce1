/* deps: core base proc profile */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "profile/lines.h"
#include "profile/script.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the pieces in which it arrives, the same text gives the same sums. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile_script *whole = profile_script_new(), *parts = profile_script_new();
	struct lines_answer answer = { 0 };
	size_t n, m;

	profile_script_add(whole, (const char *)data, size);
	profile_script_end(whole);
	for (size_t i = 0; i < size; i += 5)
		profile_script_add(parts, (const char *)data + i, size - i < 5 ? size - i : 5);
	profile_script_end(parts);
	(void)profile_script_funcs(whole, &n);
	(void)profile_script_funcs(parts, &m);
	if (n != m || profile_script_samples(whole) != profile_script_samples(parts) ||
	    profile_script_bad(whole) != profile_script_bad(parts))
		abort();
	(void)profile_script_addrs(whole, &n);
	(void)profile_script_addrs(parts, &m);
	if (n != m)
		abort();
	profile_script_free(whole);
	profile_script_free(parts);
	if (lines_parse((const char *)data, size, &answer))
		free(answer.file);
	return 0;
}
