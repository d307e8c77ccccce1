/* deps: core base build */
#include <stddef.h>
#include <stdint.h>

#include "build/cdb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct build_cdb *c;

	if (build_cdb_parse((const char *)data, size, "fuzz", &c, NULL) == 0)
		build_cdb_free(c);
	return 0;
}
