/* deps: core base measure */
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "measure/pin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A list that is read survives being printed and read again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	char buf[2 * PIN_LIST_MAX];
	cpu_set_t a, b;

	if (text && pin_parse_cpus(text, &a, NULL) == 0) {
		pin_format_cpus(&a, buf, sizeof(buf));
		if (pin_parse_cpus(buf, &b, NULL) < 0 || !CPU_EQUAL(&a, &b))
			abort();
	}
	free(text);
	return 0;
}
