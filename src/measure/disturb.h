/*
 * What disturbs a measurement: read before and after, never during it; and the wait for a quiet
 * GPU.  Everything comes from /proc and /sys below a movable root.  Threads: any.
 */
#ifndef MEASURE_DISTURB_H
#define MEASURE_DISTURB_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;

#define DISTURB_NOTES	 10
#define DISTURB_NOTE_CAP 160
#define DISTURB_CPUS	 16

/* One reading.  What the kernel does not give has its has_ bit off. */
struct disturb_snap {
	uint64_t mono_ns;
	bool has_load, has_cpu, has_freq, has_throttle, has_quota, has_swap, has_pressure;
	bool has_gpu_busy;
	double load1;			   /* load average of the last minute */
	unsigned n_cpus;		   /* online */
	double busy_s, steal_s;		   /* CPU seconds since boot, over all CPUs */
	double freq_min_mhz, freq_max_mhz; /* over the CPUs that were asked */
	uint64_t throttle_events;	   /* summed over the CPUs that were asked */
	double quota_s;			   /* time that our cgroup was held back by its CPU quota */
	uint64_t swap_pages;		   /* in and out, since boot */
	double pressure_cpu_s; /* /proc/pressure/cpu: time that somebody waited for a CPU */
	double gpu_busy_pct;
	char governor[32]; /* "" unknown, "mixed" */
	double own_s;	   /* CPU seconds of this process so far */
};

struct disturb_report {
	struct disturb_snap before, after;
	bool has_foreign;
	double foreign_cpus; /* CPUs that others kept busy, on average over the interval */
	double steal_pct;    /* of the time of all CPUs */
	/* One sentence each, such as "other programs kept 1.3 of 2 CPUs busy". */
	char notes[DISTURB_NOTES][DISTURB_NOTE_CAP];
	size_t n_notes;
};

/* Where the measured program runs, as pin_resolve() decided. */
struct disturb_where {
	const cpu_set_t
		*cpus; /* whose clocks are read (the first DISTURB_CPUS of them); NULL: all */
	bool has_minor;
	unsigned minor; /* renderD<minor> */
};

/* Cannot fail: a file that is absent or odd leaves its has_ bit off. */
void disturb_read(int root_fd, const struct disturb_where *where, struct disturb_snap *out);
/* own_cpu_s: CPU seconds of the programs that were measured in between, by getrusage. */
void disturb_compare(const struct disturb_snap *before, const struct disturb_snap *after,
		     double own_cpu_s, struct disturb_report *out);
/* New reference: the notes and the readings that exist, units in the keys. */
struct json *disturb_json(const struct disturb_report *r);

struct quiet_opts {
	int root_fd;
	struct disturb_where where;
	double threshold_pct; /* busy at most so much counts as quiet */
	uint64_t max_wait_ns;
	uint64_t poll_ns;
	unsigned n_samples; /* so many in a row */
	int stop_fd;	    /* <= 0: none; readable: ERR_CANCELLED */
	/* Called after each sample; may be NULL. */
	void (*on_sample)(void *arg, double busy_pct, uint64_t waited_ns);
	void *arg;
};

#define QUIET_DEFAULTS                                                                             \
	.threshold_pct = 5, .max_wait_ns = UINT64_C(30000000000), .poll_ns = UINT64_C(1000000000), \
	.n_samples = 3

struct quiet_report {
	bool quiet; /* false: the wait ended while the GPU was still busy */
	unsigned n_read;
	double last_busy_pct;
	uint64_t waited_ns;
};

/*
 * Waits until the GPU is quiet or max_wait_ns passed.  ERR_NOT_FOUND: no way to see how busy the
 * GPU is (message names the file); ERR_CANCELLED.
 */
int quiet_wait(const struct quiet_opts *opts, struct quiet_report *out, struct err *err);

#endif
