/* deps: core base build */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"
#include "build/build.h"
#include "build/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct build_record *r = xcalloc(1, sizeof(*r)), *back = NULL;

	r->dir = xstrdup("/p");
	r->command = xstrdup("make");
	r->status = xstrdup("exited with status 0");
	r->tail = xstrdup("");
	(void)build_log_parse((const char *)data, size, r, NULL);
	if (r->n_steps) { /* what was read can be saved and loaded */
		struct json *j = build_record_to_json(r);

		if (build_record_from_json(j, &back, NULL) == 0) {
			if (back->n_steps != r->n_steps)
				abort();
			build_record_free(back);
		}
		json_unref(j);
	}
	build_record_free(r);
	return 0;
}
