/* deps: core base measure */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "measure/output.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A form feed stands between two runs; both are learnt from, and each is compared. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const ignore[] = { "^skip.*", "[0-9]+ ticks" };
	const uint8_t *cut = size ? memchr(data, '\f', size) : NULL;
	size_t first = cut ? (size_t)(cut - data) : size;
	struct output_run runs[2] = {
		{ .out = { .data = (const char *)data, .len = first } },
		{ .out = { .data = (const char *)data + first, .len = size - first } },
	};
	struct output_opts opts = { .fom = "score: ([0-9.]+)",
				    .ignore = ignore,
				    .n_ignore = 2,
				    .hostname = "node07.cluster",
				    .command = "./a 100 -x2.5" };

	for (size_t n = 1; n <= 2; n++) {
		struct output_model *m;
		struct output_verdict v;

		opts.rtol = n == 2 ? 1e-6 : 0;
		if (output_learn(runs, n, &opts, &m, NULL) < 0)
			abort();
		json_unref(output_model_json(m));
		output_check(m, &runs[n - 1], &v);
		json_unref(output_verdict_json(&v));
		/* a run that was learnt from agrees with what was learnt */
		if (v.ok != (output_model_mode(m) == OUTPUT_COMPARED))
			abort();
		output_model_free(m);
	}
	return 0;
}
