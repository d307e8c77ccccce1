/* deps: core base */
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "base/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json *v, *lines;
	const char *body;
	int line;

	if (yaml_front_matter((const char *)data, size, "fuzz", &v, &lines, &body, &line, NULL) ==
	    0) {
		json_unref(v);
		json_unref(lines);
	}
	return 0;
}
