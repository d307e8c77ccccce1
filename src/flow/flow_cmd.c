/* Commands of the user's with a configuration applied. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build.h"
#include "core/cleanup.h"
#include "flow/flow_priv.h"
#include "proc/proc.h"

#define CMD_BUILD_SLOWER 20
#define CMD_BUILD_MIN_NS (60 * UINT64_C(1000000000))

/* NAME=value texts of the configuration: its environment, and tunables that stand in no command. */
static char **flow_cmd_changes(const struct flow_config *cfg, const char *command, size_t *n)
{
	bool used[FLOW_MAX_TUNABLES] = { false };
	char *text = flow_expand(command, cfg->tunables, used);
	char **v = xcalloc(json_len(cfg->env) + json_len(cfg->tunables) + 1, sizeof(*v));
	size_t i = 0;

	free(text); /* which ones it used is all that matters here */
	*n = 0;
	for (void *it = json_iter(cfg->env); it; it = json_next(cfg->env, it))
		v[(*n)++] = xasprintf("%s=%s", json_iter_key(it), json_str(json_iter_value(it)));
	for (void *it = json_iter(cfg->tunables); it; it = json_next(cfg->tunables, it), i++) {
		if (i < FLOW_MAX_TUNABLES && !used[i])
			v[(*n)++] = xasprintf("%s=%s", json_iter_key(it),
					      json_str(json_iter_value(it)));
	}
	return v;
}

static void flow_strings_free(char **v)
{
	for (char **p = v; p && *p; p++)
		free(*p);
	free(v);
}

static void flow_cmd_output(void *arg, bool is_err, const char *data, size_t n)
{
	struct flow *f = arg;

	if (!is_err)
		output_rest_add(&f->rest, data, n);
}

static void flow_cmd_tick(void *arg)
{
	struct flow *f = arg;

	/* a lost lease is told by the next record that is written */
	(void)ledger_heartbeat(f->l, NULL);
}

void flow_cmd_again(struct flow *f)
{
	output_rest_init(&f->rest, OUTPUT_HEAD_MAX);
}

void flow_cmd_make(struct flow *f, const struct flow_config *cfg, const char *command,
		   struct flow_cmd *out)
{
	uint64_t left = flow_remaining_ns(f);
	size_t n, k = 0;

	*out = (struct flow_cmd){ .shell = flow_expand(command, cfg->tunables, NULL) };
	out->owned = flow_cmd_changes(cfg, command, &n);
	out->env = xcalloc(n + 4, sizeof(*out->env));
	for (size_t i = 0; i < n; i++)
		out->env[k++] = out->owned[i];
	for (size_t i = 0; f->pin.has_gpu && f->pin.env[i]; i++)
		out->env[k++] = f->pin.env[i];
	out->m = (struct measure_cmd){
		.shell = out->shell,
		.base_env = f->envp,
		.env = out->env,
		.cwd = f->dir,
		.cpus = f->pin.has_cpus ? &f->pin.cpus : NULL,
		.timeout_ns = left < f->run_timeout_ns ? left : f->run_timeout_ns,
		.stop_fd = f->stop_fd,
		.capture_max = OUTPUT_HEAD_MAX,
		.on_output = flow_cmd_output,
		.on_tick = flow_cmd_tick,
		.arg = f,
	};
	flow_cmd_again(f);
}

void flow_cmd_done(struct flow_cmd *c)
{
	flow_strings_free(c->owned);
	free(c->env);
	free(c->shell);
	*c = (struct flow_cmd){ 0 };
}

const char **flow_build_env(struct flow *f, const struct flow_config *cfg)
{
	struct flow_config only = { .env = json_new_obj(), .tunables = cfg->tunables };
	size_t n;
	char **changes = flow_cmd_changes(&only, f->a.build, &n);
	const char **env = proc_env(f->envp, (const char *const *)changes);

	flow_strings_free(changes);
	json_unref(only.env);
	return env;
}

void flow_build_opts(struct flow *f, const char *command, const char *const *envp,
		     struct build_opts *out)
{
	uint64_t left = flow_remaining_ns(f);
	/* once it is known how long a build takes, a much longer one hangs */
	uint64_t longest =
		f->rec_orig ? f->rec_orig->wall_ns * CMD_BUILD_SLOWER + CMD_BUILD_MIN_NS : 0;

	if (!longest)
		longest = left == UINT64_MAX ? 0 : left;
	*out = (struct build_opts){
		.command = command,
		.dir = f->dir,
		.envp = envp,
		.timeout_ns = left < longest ? left : longest,
		.stop_fd = f->stop_fd,
		.on_tick = flow_cmd_tick,
		.arg = f,
	};
}

struct disturb_where flow_where(const struct flow *f)
{
	return (struct disturb_where){
		.cpus = f->pin.has_cpus ? &f->pin.cpus : NULL,
		.has_minor = f->pin.has_minor,
		.minor = f->pin.minor,
	};
}
