/*
 * What the tests of proc share: a keeper, the path of the test program, and runs that have to work
 * or to fail.
 */
#ifndef SUPPORT_PROCTEST_H
#define SUPPORT_PROCTEST_H

#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/err.h"
#include "proc/proc.h"

#define SEC UINT64_C(1000000000)
#define MS  UINT64_C(1000000)

static struct proc_keeper *keeper;
static char self[4096]; /* this program, which is also the programs it runs */

static inline void pause_ms(long ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
		continue;
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &ts) == 0);
	return (uint64_t)ts.tv_sec * SEC + (uint64_t)ts.tv_nsec;
}

static inline void find_self(void)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = '\0';
}

static const struct proc_spec capture = { .out = PROC_IO_CAPTURE, .err = PROC_IO_CAPTURE };

static inline void run_spec(struct proc_spec spec, struct proc_result *res)
{
	struct err err = { 0 };

	CHECK_OK(proc_run(keeper, &spec, res, &err), &err);
}

static inline void run_sh(const char *script, struct proc_spec spec, struct proc_result *res)
{
	const char *argv[] = { "sh", "-c", script, NULL };

	spec.argv = argv;
	run_spec(spec, res);
}

static inline void run_self(const char *word, struct proc_spec spec, struct proc_result *res)
{
	const char *argv[] = { self, word, NULL };

	spec.argv = argv;
	run_spec(spec, res);
}

/* One captured run of a script whose stdout has to be want. */
static inline void expect_sh(const char *script, struct proc_spec spec, const char *want)
{
	struct proc_result res;

	run_sh(script, spec, &res);
	CHECK_STR(res.err.head, "");
	CHECK_STR(res.out.head, want);
	CHECK_INT(res.exit_code, 0);
	proc_result_done(&res);
}

static inline void expect_fail(struct proc_spec spec, int code, int errnum, const char *part)
{
	struct proc_result res = { .exit_code = 77 };
	struct err err = { 0 };

	CHECK_INT(proc_run(keeper, &spec, &res, &err), code);
	CHECK_INT(err.sys_errno, errnum);
	CHECK_HAS(err.msg, part);
	CHECK_INT(res.exit_code, 77);
}

#endif
