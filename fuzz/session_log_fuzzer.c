/* deps: core base session */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "session/session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *end = p + size;

	for (size_t no = 1; p < end; no++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		struct json *event = NULL;

		if (session_parse_line(p, (size_t)((nl ? nl : end) - p), "fuzz", no, &event,
				       NULL) == 0) {
			if (session_event_kind(event) > SESSION_N_KINDS || !json_get(event, "t"))
				abort();
			json_unref(event);
		}
		p = nl ? nl + 1 : end;
	}
	return 0;
}
