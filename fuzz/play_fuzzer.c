/* deps: core base diagnose */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "diagnose/diagnose.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct diagnose_play p;
	unsigned n, first;

	if (diagnose_play_parse((const char *)data, size, "fuzz", &p, NULL) == 0)
		diagnose_play_done(&p);
	diagnose_scan_omp_text((const char *)data, size, size % 2, &n, &first);
	return 0;
}
