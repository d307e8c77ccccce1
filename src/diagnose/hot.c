/* Which sources the profile says are hot. */
#include <string.h>

#include "diagnose/diagnose_priv.h"
#include "profile/profile.h"

bool diagnose_same_source(const char *compiled, const char *source)
{
	size_t nc = strlen(compiled), ns;

	while (strncmp(source, "./", 2) == 0 || strncmp(source, "../", 3) == 0)
		source += source[1] == '/' ? 2 : 3;
	ns = strlen(source);
	/* debug information has the whole path, the build's words often a part of it */
	return ns > 0 && nc >= ns && strcmp(compiled + nc - ns, source) == 0 &&
	       (nc == ns || compiled[nc - ns - 1] == '/');
}

const struct profile_func *diagnose_hottest(const struct diagnose_facts *f,
					    bool (*is)(const struct diagnose_unit *u, unsigned arg),
					    unsigned arg)
{
	if (!f->profile || !f->profile->ok)
		return NULL;
	for (size_t i = 0; i < f->profile->n_funcs; i++) {
		const struct profile_func *fn = &f->profile->funcs[i];

		for (size_t k = 0; fn->file && k < f->n_units; k++) {
			if (is(&f->units[k], arg) &&
			    diagnose_same_source(fn->file, f->units[k].source))
				return fn;
		}
	}
	return NULL;
}
