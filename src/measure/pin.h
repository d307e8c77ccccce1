/* Where a measurement runs: the CPUs and the GPU it is pinned to.  Threads: any. */
#ifndef MEASURE_PIN_H
#define MEASURE_PIN_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

#define PIN_LIST_MAX 4096 /* bytes of a CPU list */

/*
 * "0-3,8" and "0-15:2" (every second), as taskset takes them; a trailing newline is fine.
 * ERR_PARSE: not such a list, or a range that goes down (message quotes the place); ERR_LIMIT:
 * too long, or a CPU of CPU_SETSIZE or above.  *out untouched on failure.
 */
int pin_parse_cpus(const char *text, cpu_set_t *out, struct err *err);
/* The shortest such list; cut with "..." where cap is too small (untouched below 5). */
void pin_format_cpus(const cpu_set_t *set, char *buf, size_t cap);

struct pin_opts {
	int root_fd;	  /* "/" or a snapshot of another machine */
	const char *cpus; /* --cpus; NULL: ROCBUDAI_BENCH_CPUS, then the GPU's NUMA-local cores */
	const char *gpu;  /* --gpu; NULL: ROCBUDAI_BENCH_GPU */
};

struct pin {
	bool has_cpus;
	cpu_set_t cpus;
	bool has_gpu;
	unsigned gpu;	     /* its ordinal among all GPUs, as ROCR counts them */
	bool has_minor;	     /* the GPU was found in sysfs */
	unsigned minor;	     /* N of renderD<N> */
	char text[320];	     /* for people: "CPUs 0-3 (near GPU 1); GPU 1", or "not pinned" */
	char env_buf[2][64]; /* what env points to */
	const char
		*env[3]; /* for measure_cmd.env: ROCR_ and HIP_VISIBLE_DEVICES; NULL-terminated */
};

/*
 * Decides where to run.  HIP ordinals count within the ROCR choice, so that one GPU is HIP 0.
 * *out must not be copied afterwards (env points into it).
 * ERR_INVALID: a list or number that is not one (message names the option or variable), a CPU that
 * this process may not use, or a GPU outside an ambient ROCR_VISIBLE_DEVICES.
 */
int pin_resolve(const struct pin_opts *opts, struct pin *out, struct err *err);
/*
 * The render minor of the GPU with this ordinal: KFD nodes that have a GPU, in order; without KFD
 * the DRM cards of AMD in order.  ERR_NOT_FOUND.
 */
int pin_gpu_minor(int root_fd, unsigned gpu, unsigned *minor, struct err *err);

#endif
