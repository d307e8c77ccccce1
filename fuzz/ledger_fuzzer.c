/* deps: core base ledger */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "ledger/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every line by itself; what is accepted must hold what readers rely on. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *p = (const char *)data, *end = p + size;

	for (size_t no = 1; p < end; no++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);
		struct json *rec = NULL;

		if (ledger_parse_line(p, len, "fuzz", no, &rec, NULL) == 0) {
			const struct json *values = json_get(rec, "values");

			for (size_t i = 0; i < json_len(values); i++) {
				struct ledger_value v = { 0 };
				const char *name = json_get_str(json_at(values, i), "name", NULL);

				if (!name || ledger_find_value(rec, name, &v) < 0 || v.n < 1 ||
				    !v.unit[0])
					abort();
			}
			json_unref(rec);
		}
		p = nl ? nl + 1 : end;
	}
	return 0;
}
