/*
 * What the files of proc share: the messages between opener and keeper, the child's side of a
 * start, process trees and captured streams.  Never included from outside.
 *
 * Three processes: the opener (our program) forks the guard, the guard forks the keeper, the keeper
 * starts programs.  Guard and keeper are both sub-reapers, so whatever a program leaves behind is a
 * descendant of the keeper, and of the guard once the keeper is gone.
 */
#ifndef PROC_PROC_PRIV_H
#define PROC_PROC_PRIV_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "core/str.h"
#include "proc/proc.h"

/* ---- wire.c: the control socket (a stream; both ends are the same program) ---- */

#define WIRE_MAGIC    UINT32_C(0x72624b31)
#define WIRE_BODY_MAX ((size_t)32 << 20) /* the kernel takes 6 MiB of arguments at most */
#define WIRE_N_MAX    ((size_t)4 << 20)	 /* arguments, and environment entries */
#define WIRE_LIST_MAX 64		 /* mounts, limits */

enum wire_type {
	WIRE_RUN = 1,
	WIRE_STOP, /* ignored when nothing runs: it may cross the reply */
};

enum wire_flag {
	WIRE_FD_OUT = 1,    /* descriptors follow in this order */
	WIRE_FD_ERR = 2,    /* absent: /dev/null */
	WIRE_FD_CWD = 4,    /* always there */
	WIRE_MERGE = 8,	    /* descriptor 2 is a copy of 1 */
	WIRE_CPUS = 16,	    /* cpus holds */
	WIRE_CWD_TEXT = 32, /* the working directory by name, after the mounts */
};

struct wire_head {
	uint32_t magic;
	uint32_t type;
	uint32_t flags;
	uint32_t n_argv, n_envp, n_mounts, n_limits;
	uint64_t body_bytes;
	uint64_t timeout_ns, grace_ns;
	cpu_set_t cpus;
};

/* Where a start failed. */
enum wire_stage {
	STAGE_NONE,
	STAGE_MESSAGE, /* memory in the keeper, or a message that is none */
	STAGE_FORK,
	STAGE_STREAMS,
	STAGE_NAMESPACE,
	STAGE_PRIVATE,
	STAGE_MOUNT, /* index says which */
	STAGE_CHDIR,
	STAGE_LIMIT, /* index says which */
	STAGE_AFFINITY,
	STAGE_EXEC,
	STAGE_STUCK, /* it runs on: neither TERM nor KILL ended it */
};

struct wire_fail {
	int32_t stage; /* enum wire_stage */
	int32_t errnum;
	uint32_t index;
};

struct wire_reply {
	struct wire_fail fail;
	int32_t status; /* of wait4 */
	uint32_t n_leftover, n_unkillable;
	bool timed_out, stopped;
	uint64_t wall_ns;
	struct rusage ru;
};

/* What the guard says once. */
struct wire_hello {
	pid_t keeper;
	int32_t errnum; /* not 0: it did not start */
};

/* The whole of data; false with errno.  fds travel with the first byte; no SIGPIPE. */
bool wire_send(int sock, const void *data, size_t n, const int *fds, size_t n_fds);
/* Exactly n bytes; false at the end of the stream or an error.  *n_fds: room in, received out. */
bool wire_recv(int sock, void *data, size_t n, int *fds, size_t *n_fds);
/* fd, or a copy of it at 3 or above (then fd is closed): 0 to 2 may be closed in our program, and
 * a control socket must not become a program's stdout.  -1 with errno; CLOEXEC. */
int wire_fd_high(int fd);
uint64_t wire_now_ns(void);
int wire_pidfd_open(pid_t pid); /* -1 where the kernel has none */

/* ---- spawn.c: what happens in the keeper's child ---- */

struct spawn {
	const struct wire_head *head;
	char **argv; /* argv[-1] is a spare slot, for a script without #! */
	char **envp;
	const char *cwd; /* NULL: cwd_fd */
	struct proc_mount *mounts;
	struct proc_limit *limits;
	int out_fd, err_fd, cwd_fd, status_fd;
	pid_t keeper;
	void *block; /* what the pointers above were allocated as; free() */
};

/* Reads body (NUL-terminated strings, changed by nobody) as head says.  0 or an errno. */
int spawn_parse(struct spawn *s, const struct wire_head *head, char *body, size_t n);
/* The pid, or -1 with errno.  A failure in the child comes as struct wire_fail on status_fd's other
 * end, which is at its end once the program runs. */
pid_t spawn_start(const struct spawn *s);
/* Gives the calling process a mount namespace of its own.  Fills f on failure. */
bool spawn_mount_ns(const struct proc_mount *mounts, size_t n, struct wire_fail *f);

/* ---- tree.c ---- */

#define TREE_STUCK_MAX 64

/* Processes that outlived a kill: not counted twice, not waited for again. */
struct tree_stuck {
	pid_t pid[TREE_STUCK_MAX];
	size_t n;
};

struct tree_job {
	pid_t root;		 /* us: everything below is meant */
	pid_t program;		 /* not counted as left over; 0: none */
	int sigchld_fd;		 /* signalfd, to wait on */
	bool (*reap)(void *arg); /* waits for what ended; true: no child is left */
	void *arg;
	struct tree_stuck *stuck;
};

struct tree_count {
	unsigned n_leftover, n_unkillable;
};

/* Sends SIGTERM to all descendants of root, and SIGCONT. */
void tree_term(pid_t root);
/* Kills all descendants of root; returns when none is left, or the rest cannot be killed. */
void tree_kill(const struct tree_job *job, struct tree_count *out);

/* ---- keeper.c ---- */

/* The guard's life, from after the fork on; takes the descriptors.  Does not return. */
_Noreturn void keeper_guard_main(int ctl, int life, int opener_pidfd);

/* ---- capture.c ---- */

struct capture {
	struct str head;
	size_t max;
	char *ring;    /* of CAPTURE_TAIL bytes, from the first byte on that did not fit head */
	uint64_t over; /* bytes that went to the ring, or would have */
	uint64_t total;
	bool full; /* head takes no more */
};

#define CAPTURE_TAIL ((size_t)64 << 10)

bool capture_init(struct capture *c, size_t max); /* false: no memory */
void capture_add(struct capture *c, const char *data, size_t n);
/* Moves into *out. */
void capture_take(struct capture *c, struct proc_capture *out);
void capture_done(struct capture *c);

/* ---- text.c ---- */

struct err;
/* The error of a start that failed at f; returns ERR_SYS. */
int text_fail(const struct proc_spec *spec, const struct wire_fail *f, size_t body_bytes,
	      struct err *err);

#endif
