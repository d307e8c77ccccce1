#include "cmd/cmd_slurm.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "proc/proc.h"

#define SLURM_TIMEOUT_NS (10 * NS_PER_SEC)

static bool slurm_configured(void)
{
	return env_get(ENV_SLURM_CONF) || file_exists(AT_FDCWD, "/etc/slurm/slurm.conf") ||
	       file_exists(AT_FDCWD, "/etc/slurm-llnl/slurm.conf");
}

/* Asks squeue for running jobs of the user's on this node; the answer's first word into id. */
static int slurm_ask(const char *node, const char *user, char *id, size_t cap, struct err *err)
{
	const char *argv[] = {
		"squeue", "-h", "-w", node, "-u", user, "-t", "R", "-o", "%i", NULL
	};
	struct proc_spec spec = { .argv = argv,
				  .out = PROC_IO_CAPTURE,
				  .err = PROC_IO_CAPTURE,
				  .timeout_ns = SLURM_TIMEOUT_NS };
	struct proc_keeper *k = NULL;
	struct proc_result res;
	int r = proc_keeper_open(&k, err);

	if (r < 0)
		return r;
	id[0] = '\0';
	r = proc_run(k, &spec, &res, err);
	if (r == ERR_OK) {
		if (res.exit_code == 0 && res.out.head)
			(void)snprintf(id, cap, "%.*s", (int)strcspn(res.out.head, "\n "),
				       res.out.head);
		proc_result_done(&res);
	}
	proc_keeper_close(k);
	return r;
}

/* A job's number is no proof: salloc leaves the shell on the login node. */
static bool slurm_here(enum env_id id, const char *node)
{
	const char *v = env_get(id);
	size_t n = strlen(node);

	return v && n && strncmp(v, node, n) == 0 && (v[n] == '\0' || v[n] == '.');
}

int cmd_slurm_check(struct err *err)
{
	char node[256] = "", id[64];
	const struct passwd *pw = getpwuid(getuid());
	struct err ignored = { 0 };

	if (!slurm_configured())
		return ERR_OK;
	if (gethostname(node, sizeof(node) - 1) < 0)
		node[0] = '\0';
	node[strcspn(node, ".")] = '\0';
	if (slurm_here(ENV_SLURMD_NODENAME, node) || slurm_here(ENV_SLURM_JOB_NODELIST, node))
		return ERR_OK;
	if (slurm_ask(node, pw ? pw->pw_name : "", id, sizeof(id), &ignored) == ERR_OK && id[0])
		return ERR_OK;
	return err_set(err, ERR_REFUSED,
		       "Slurm shares out this cluster and no job of yours runs on %s, so a "
		       "measurement here would mean little and disturb others; get a node with\n"
		       "  salloc -N 1 --exclusive\n"
		       "and run this there, or say --here to run it anyway",
		       node[0] ? node : "this node");
}
