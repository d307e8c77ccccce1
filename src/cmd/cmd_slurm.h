/* Whether measurements may be taken on this machine where Slurm shares it out.  Main thread. */
#ifndef CMD_CMD_SLURM_H
#define CMD_CMD_SLURM_H

struct err;

/*
 * 0 where no Slurm is configured, or a job of the user's runs on this node.  ERR_REFUSED with the
 * salloc line otherwise.
 */
int cmd_slurm_check(struct err *err);

#endif
