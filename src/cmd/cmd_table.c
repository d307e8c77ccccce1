#include <string.h>

#include "cmd/cmd.h"

#define CMD_LIST(X) X(bench) X(compare) X(demo) X(help) X(optimize) X(report)

#define X(n) extern const struct cmd cmd_##n;
CMD_LIST(X)
#undef X

#define X(n) &cmd_##n,
const struct cmd *const cmd_table[] = { CMD_LIST(X) NULL };
#undef X

const struct cmd *cmd_find(const char *name)
{
	for (const struct cmd *const *c = cmd_table; *c; c++) {
		if (strcmp((*c)->name, name) == 0)
			return *c;
	}
	return NULL;
}
