/* deps: core base session */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/json.h"
#include "session/answers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is read must pass the check that a question's answer passes. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_answers a = { 0 };

	if (session_answers_parse((const char *)data, size, "fuzz", &a, NULL) == 0) {
		if ((a.name && session_answer_check("name", a.name, NULL) < 0) ||
		    (a.build && session_answer_check("build", a.build, NULL) < 0))
			abort();
		for (size_t i = 0; a.tunables && a.tunables[i]; i++) {
			if (session_answer_check("tunables", a.tunables[i], NULL) < 0)
				abort();
		}
		json_unref(session_answers_json(&a));
		session_answers_done(&a);
	}
	return 0;
}
