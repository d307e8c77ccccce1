#include "base/env.h"

#include <stdlib.h>

const struct env_var env_table[ENV_N] = {
	[ENV_BENCH_GPU] = { "ROCBUDAI_BENCH_GPU", "not pinned",
			    "GPU that measurements are pinned to (ROCR_VISIBLE_DEVICES)" },
	[ENV_BENCH_CPUS] = { "ROCBUDAI_BENCH_CPUS", "not pinned",
			     "CPU list that measurements are pinned to, such as 0-7,16" },
	[ENV_ROCR_VISIBLE_DEVICES] = { "ROCR_VISIBLE_DEVICES", "all",
				       "GPUs that this session may use; measurements never leave "
				       "them" },
	[ENV_HOME] = { "HOME", "none", "folder below which XDG_STATE_HOME has its default" },
	[ENV_STATE_HOME] = { "XDG_STATE_HOME", "~/.local/state",
			     "folder whose rocbudai/ holds master ledgers and checkpoints" },
	[ENV_TMPDIR] = { "TMPDIR", "/tmp", "folder for what is needed during one command only" },
	[ENV_PLAYS_DIR] = { "ROCBUDAI_PLAYS_DIR", "none",
			    "folder of further plays, read after the built-in ones" },
	[ENV_SYSROOT] = { "ROCBUDAI_SYSROOT", "/",
			  "folder whose sys/ and proc/ are read instead of the machine's, for tests" },
	[ENV_FAULT] = { "ROCBUDAI_FAULT", "none",
			"for tests: the program kills itself at this named step, such as enter-screen" },
	[ENV_SLURM_CONF] = { "SLURM_CONF", "/etc/slurm/slurm.conf",
			     "where it is set or the file is there, Slurm shares out this node" },
	[ENV_SLURMD_NODENAME] = { "SLURMD_NODENAME", "unset",
				  "where it is this node, measurements may be taken here" },
	[ENV_SLURM_JOB_NODELIST] = { "SLURM_JOB_NODELIST", "unset",
				     "where it is this node alone, as SLURMD_NODENAME" },
	[ENV_NO_COLOR] = { "NO_COLOR", "unset", "when set, terminal output has no colour" },
};

const char *env_get(enum env_id id)
{
	const char *v = getenv(env_table[id].name);

	return v && *v ? v : NULL;
}
