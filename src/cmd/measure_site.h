/*
 * What `bench` and `compare` share: their common options, and the surroundings in which they
 * measure (keeper, interruption, pinning, quiet wait, disturbances, project).  Threads: main only.
 */
#ifndef CMD_MEASURE_SITE_H
#define CMD_MEASURE_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/opt.h"
#include "ledger/ledger.h"
#include "measure/disturb.h"
#include "measure/pin.h"

struct err;
struct fom;
struct json;
struct measure_cmd;
struct proc_keeper;

/* Exit code: a GPU was asked for and there is no way to see how busy it is. */
enum { MEASURE_EXIT_BLIND = 3 };

struct measure_args {
	const char *fom, *unit;
	bool higher, lower;
	const char *cpus, *gpu;
	uint64_t budget_ns, timeout_ns;
	double threshold_pct;
	uint64_t max_wait_ns, poll_ns;
	bool no_wait, json, record;
	const char *label;
};

#define MEASURE_ARGS_DEFAULT                                                                       \
	{                                                                                          \
		.threshold_pct = 5, .max_wait_ns = UINT64_C(30000000000),                          \
		.poll_ns = UINT64_C(1000000000)                                                    \
	}

/* Rows of an option table whose arguments begin with a `struct measure_args`. */
/* clang-format off */
#define MEASURE_OPTS \
	{ OPT_STR, "fom", 0, offsetof(struct measure_args, fom), "REGEX", \
	  "figure of merit: its last match in the output, or just a word or unit" }, \
	{ OPT_STR, "unit", 0, offsetof(struct measure_args, unit), "U", "unit of the figure of merit" }, \
	{ OPT_FLAG, "higher", 0, offsetof(struct measure_args, higher), NULL, \
	  "a higher figure of merit is better" }, \
	{ OPT_FLAG, "lower", 0, offsetof(struct measure_args, lower), NULL, \
	  "a lower figure of merit is better" }, \
	{ OPT_DURATION, "budget", 0, offsetof(struct measure_args, budget_ns), "T", \
	  "begin nothing that would end after T, such as 90s or 5m" }, \
	{ OPT_DURATION, "timeout", 0, offsetof(struct measure_args, timeout_ns), "T", \
	  "end a run after T, as failed" }, \
	{ OPT_STR, "cpus", 0, offsetof(struct measure_args, cpus), "LIST", \
	  "pin to these CPUs, such as 0-3,8" }, \
	{ OPT_STR, "gpu", 0, offsetof(struct measure_args, gpu), "N", \
	  "pin to this GPU and, without --cpus, to the cores near it" }, \
	{ OPT_DOUBLE, "threshold", 't', offsetof(struct measure_args, threshold_pct), "PCT", \
	  "the GPU is quiet when at most so busy (5)" }, \
	{ OPT_DURATION, "max-wait", 'T', offsetof(struct measure_args, max_wait_ns), "T", \
	  "wait at most so long for a quiet GPU (30s)" }, \
	{ OPT_DURATION, "poll", 'd', offsetof(struct measure_args, poll_ns), "T", \
	  "time between two looks at the GPU (1s)" }, \
	{ OPT_FLAG, "no-wait", 0, offsetof(struct measure_args, no_wait), NULL, \
	  "do not wait for a quiet GPU" }, \
	{ OPT_STR, "tag", 0, offsetof(struct measure_args, label), "TEXT", \
	  "a label of your own, kept with the result" }, \
	{ OPT_FLAG, "record", 0, offsetof(struct measure_args, record), NULL, \
	  "keep it as evidence (done without asking in a project)" }, \
	{ OPT_FLAG, "json", 0, offsetof(struct measure_args, json), NULL, "print JSON" }
/* clang-format on */

struct measure_site {
	const struct measure_args *args;
	int root_fd, stop_fd;
	struct proc_keeper *keeper;
	struct pin pin;
	struct disturb_where where;
	bool waited; /* quiet holds */
	struct quiet_report quiet;
	struct disturb_snap before;
	struct fom *fom; /* NULL: wall time */
	char *project;	 /* folder to record in; NULL: not recorded */
};

/*
 * Gets everything ready, waits for a quiet GPU and takes the first reading.  trial is a command
 * whose output is searched where --fom is a word; it is run once for that.
 * Returns 0, an exit code above 0 (the reason was printed), or ERR_*.  The caller owes
 * measure_site_close() in every case.
 */
int measure_site_open(struct measure_site *s, const struct measure_args *args,
		      const struct measure_cmd *trial, struct err *err);
void measure_site_close(struct measure_site *s);
/* Puts pinning, interruption and time limit of the site into a command. */
void measure_site_apply(const struct measure_site *s, struct measure_cmd *cmd);
/* The second reading. */
void measure_site_disturbed(const struct measure_site *s, double own_cpu_s,
			    struct disturb_report *out);
/* pinned, quiet wait, disturbances and label, into an object. */
void measure_site_json(const struct measure_site *s, const struct disturb_report *d,
		       struct json *o);
/* Opens the project's ledger to record in; NULL (said on stderr) when it is in use and recording
 * was not asked for.  ERR_* when it was. */
int measure_site_ledger(const struct measure_site *s, struct ledger **out, struct err *err);
/* True where progress may be drawn on stderr. */
bool measure_site_progress(const struct measure_site *s);

/* The project that the current folder lies in, below $HOME or anywhere else; caller frees.  NULL:
 * none. */
char *measure_project(void);

#endif
