#include "measure/cmd.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

int measure_cmd_check(const struct measure_cmd *cmd, struct err *err)
{
	if (cmd->argv ? !cmd->argv[0] || !cmd->argv[0][0]
		      : !cmd->shell || !cmd->shell[strspn(cmd->shell, " \t\n")])
		return err_set(err, ERR_INVALID, "no command to run was given");
	return ERR_OK;
}

char *measure_cmd_text(const struct measure_cmd *cmd)
{
	AUTO_STR struct str s = { 0 };

	if (!cmd->argv)
		return xstrdup(cmd->shell ? cmd->shell : "");
	for (const char *const *a = cmd->argv; *a; a++) {
		if (a != cmd->argv)
			str_addc(&s, ' ');
		str_add_shquote(&s, *a);
	}
	return xstrdup(str_get(&s));
}

struct json *measure_cmd_env_json(const struct measure_cmd *cmd)
{
	struct json *o = json_new_obj();

	for (const char *const *e = cmd->env; e && *e; e++) {
		const char *eq = strchr(*e, '=');
		AUTO_FREE char *name = eq ? xstrndup(*e, (size_t)(eq - *e)) : xstrdup(*e);

		json_set(o, name, eq ? json_new_str(eq + 1) : json_new_null());
	}
	return o;
}
