/*
 * Runs programs below a keeper process.
 *
 * A keeper is the parent of the programs it runs, one at a time, and the sub-reaper of whatever
 * they leave behind.  When the program that opened it dies, however it dies, the keeper kills the
 * whole tree and ends.  A second small process, the guard, is the keeper's parent: when the keeper
 * is killed, the guard kills what that orphaned, and proc_run() reports an error.  So any one of
 * the three may be killed, and the opener together with either; killing keeper and guard together
 * is the one case that leaves processes (and there the program itself still dies).
 *
 * Open a keeper early, while this program is small and has one thread: the keeper is as large as
 * its opener was then, and that size is a lower limit of maxrss_bytes.  From the opener at that
 * moment programs inherit umask, nice value and resource limits.
 *
 * Threads: a keeper is used by one thread at a time.  This module never aborts and never prints.
 * It uses Linux 5.3+ features (pidfd) where they exist and does without them elsewhere.
 */
#ifndef PROC_PROC_H
#define PROC_PROC_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct proc_keeper;

/* Owns: caller closes with proc_keeper_close().  Needs a /proc of our PID namespace.  ERR_SYS. */
int proc_keeper_open(struct proc_keeper **out, struct err *err);
/* Kills whatever hangs below, waits for it (at most a minute), frees.  NULL is fine. */
void proc_keeper_close(struct proc_keeper *k);
/* The keeper's pid, for tests. */
pid_t proc_keeper_pid(const struct proc_keeper *k);

enum proc_io {
	PROC_IO_NULL,	 /* /dev/null */
	PROC_IO_INHERIT, /* ours; /dev/null where we have none */
	PROC_IO_CAPTURE, /* through a pipe to on_output and the result's buffers */
};

/* A change of the file system view of the child alone (its own mount namespace). */
struct proc_mount {
	const char *src; /* NULL: an empty tmpfs; else this folder or file is bound there */
	const char *dst; /* not /; both are full paths; at most 64 mounts.  Exists, or lies in the
			    tmpfs of an earlier mount, where it is made: so a folder can be kept
			    while what is around it is hidden */
};

struct proc_limit {
	int resource;	/* RLIMIT_* */
	uint64_t value; /* of the soft and the hard limit */
};

struct proc_spec {
	const char *const *argv; /* NULL-terminated; argv[0] is looked up in envp's PATH; a script
				    without #! goes to /bin/sh, as from a shell */
	const char *const *envp; /* NULL: ours */
	const char *cwd;	 /* NULL: ours */
	enum proc_io out, err;	 /* stdin is always /dev/null */
	bool merge_err;		 /* stderr goes where stdout goes, in order */
	uint64_t timeout_ns;	 /* 0: none.  Then TERM to the whole tree, grace_ns, KILL */
	uint64_t grace_ns;	 /* 0: 2 s */
	size_t capture_max;	 /* bytes kept of each captured stream's beginning; 0: 16 MiB.
				    What comes after is drained, counted, and its tail kept */
	const cpu_set_t *cpus;	 /* NULL: ours; else the child's affinity */
	const struct proc_mount *mounts; /* n_mounts of them; needs root or user namespaces */
	size_t n_mounts;
	const struct proc_limit *limits; /* n_limits of them */
	size_t n_limits;
	int stop_fd; /* <= 0: none; becomes readable: the tree is stopped as by a timeout */
	/* Called in the caller's thread as output arrives; may be NULL. */
	void (*on_output)(void *arg, bool is_err, const char *data, size_t n);
	/* Called about every 100 ms while it runs; may be NULL. */
	void (*on_tick)(void *arg);
	void *arg;
};

struct proc_capture {
	char *head; /* NUL-terminated; at most capture_max bytes */
	size_t head_len;
	char *tail; /* what came last, at most 64 KiB, where total > head_len and memory was
		       there; else NULL */
	size_t tail_len;
	uint64_t total; /* bytes that came */
};

struct proc_result {
	uint64_t wall_ns; /* CLOCK_MONOTONIC, from just before the fork to just after the wait */
	uint64_t user_ns; /* of the program and the children it waited for (getrusage) */
	uint64_t sys_ns;
	uint64_t maxrss_bytes; /* peak resident memory of the largest single process */
	uint64_t minflt, majflt, nvcsw, nivcsw;
	int exit_code;	 /* 0..255, or -1 when a signal ended it */
	int term_signal; /* 0 when it exited */
	bool timed_out;
	bool stopped;	       /* by stop_fd */
	unsigned n_leftover;   /* processes it left behind, which were killed afterwards */
	unsigned n_unkillable; /* of those, the ones that live on: not ours to kill (set-user-id),
				  or stuck in the kernel */
	struct proc_capture out, err; /* of captured streams; freed by proc_result_done() */
};

/*
 * Runs one program to its end, drains its captured streams and kills what it left behind.
 * *res is filled on success, and then the caller owes it proc_result_done(); a program that fails
 * or is killed is a success of this call.  ERR_SYS: not started, with the errno of exec, chdir or
 * the namespace (message says which, and on what); EPERM too where a program that was to be stopped
 * cannot be killed and runs on; or the keeper died, ERR_SYS with ECHILD
 * (close it and open another).  ERR_INVALID: no argv[0], a relative mount.  ERR_LIMIT, ERR_NOMEM.
 */
int proc_run(struct proc_keeper *k, const struct proc_spec *spec, struct proc_result *res,
	     struct err *err);
void proc_result_done(struct proc_result *res);

/* "exited with status 3", "killed by signal 11 (Segmentation fault)", "timed out after 60 s", ...
 */
void proc_result_text(const struct proc_result *res, char *buf, size_t cap);

/* True where a child can have its own mount namespace here (tried once, remembered). */
bool proc_can_mount(void);

/* A copy of base (NULL: environ) with changes (NULL: none): NAME=value sets, NAME without '='
 * removes; of several changes of one name the last holds.  One block, strings included: free().
 * NULL when memory is out. */
const char **proc_env(const char *const *base, const char *const *changes);

#endif
