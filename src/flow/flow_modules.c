#include "flow/flow_modules.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "proc/proc.h"

#define MODULES_TIMEOUT_NS UINT64_C(60000000000)
/* Stands before the environment, so that what a login shell prints is told from it. */
#define MODULES_MARK "rocbudai-environment-follows"

/* Splits NUL-separated NAME=value texts into a list in one block. */
static const char **modules_split(const char *text, size_t len)
{
	size_t n = 0, used = 0;
	const char **list;
	char *copy;

	for (size_t i = 0; i < len; i++)
		n += text[i] == '\0';
	list = xcalloc(1, (n + 2) * sizeof(*list) + len + 1);
	copy = (char *)(list + n + 2);
	memcpy(copy, text, len);
	for (char *p = copy; p < copy + len; p += strlen(p) + 1) {
		if (strchr(p, '=') && strncmp(p, "_=", 2) != 0 && strncmp(p, "SHLVL=", 6) != 0)
			list[used++] = p;
	}
	return list;
}

static char *modules_script(const char *const *modules, size_t n)
{
	struct str s = { 0 };

	/* Lmod and Environment Modules print errors on stderr and set the status */
	str_adds(&s,
		 "if ! type module >/dev/null 2>&1; then "
		 "echo 'the command module does not exist in a login shell here' >&2; exit 97; fi; "
		 "module load");
	for (size_t i = 0; i < n; i++) {
		str_addc(&s, ' ');
		str_add_shquote(&s, modules[i]);
	}
	str_adds(&s, " || exit 98; printf '" MODULES_MARK "\\0'; exec env -0");
	return str_take(&s);
}

static const char *modules_last_line(char *text)
{
	size_t n = strlen(text);
	char *nl;

	while (n && (text[n - 1] == '\n' || text[n - 1] == ' '))
		text[--n] = '\0';
	nl = strrchr(text, '\n');
	return nl && strlen(text) > 300 ? nl + 1 : text;
}

int flow_modules_env(struct proc_keeper *k, const char *const *modules, size_t n_modules,
		     const char ***out, struct err *err)
{
	static const char mark[] = MODULES_MARK;
	AUTO_FREE char *script = NULL;
	const char *argv[] = { "bash", "-lc", NULL, NULL };
	struct proc_spec spec = {
		.argv = argv,
		.out = PROC_IO_CAPTURE,
		.err = PROC_IO_CAPTURE,
		.timeout_ns = MODULES_TIMEOUT_NS,
	};
	struct proc_result res;
	const char *start;
	int r;

	if (n_modules == 0) {
		*out = proc_env((const char *const *)environ, (const char *const[]){ NULL });
		return *out ? ERR_OK : err_set(err, ERR_NOMEM, "no memory for the environment");
	}
	script = modules_script(modules, n_modules);
	argv[2] = script;
	if ((r = proc_run(k, &spec, &res, err)) < 0)
		return err_wrap(err, r, "load modules");
	start = res.out.head ? memmem(res.out.head, res.out.head_len, mark, sizeof(mark)) : NULL;
	if (res.exit_code != 0 || !start) {
		char status[80];

		proc_result_text(&res, status, sizeof(status));
		r = err_set(err, ERR_NOT_FOUND, "loading the modules %s: %s", status,
			    res.err.head ? modules_last_line(res.err.head) : "");
	} else {
		start += sizeof(mark);
		*out = modules_split(start, res.out.head_len - (size_t)(start - res.out.head));
		r = ERR_OK;
	}
	proc_result_done(&res);
	return r;
}
