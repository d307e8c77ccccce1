#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "proc/proc.h"

#define SEC UINT64_C(1000000000)

static struct proc_keeper *keeper;

/* Captures both streams of sh -c script. */
static void run_sh(const char *script, struct proc_spec spec, struct proc_result *res)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct err err = { 0 };

	spec.argv = argv;
	CHECK_OK(proc_run(keeper, &spec, res, &err), &err);
}

static const struct proc_spec capture = { .out = PROC_IO_CAPTURE, .err = PROC_IO_CAPTURE };

static void test_status(void)
{
	struct proc_result res;
	char text[128];

	run_sh("exit 3", capture, &res);
	CHECK_INT(res.exit_code, 3);
	CHECK_INT(res.term_signal, 0);
	CHECK_INT(res.n_leftover, 0);
	CHECK_INT(res.n_unkillable, 0);
	CHECK(!res.timed_out && !res.stopped);
	CHECK_INT(res.out.total, 0);
	CHECK_STR(res.out.head, "");
	proc_result_text(&res, text, sizeof(text));
	CHECK_STR(text, "exited with status 3");
	proc_result_done(&res);
	run_sh("kill -SEGV $$", capture, &res);
	CHECK_INT(res.exit_code, -1);
	CHECK_INT(res.term_signal, SIGSEGV);
	proc_result_text(&res, text, sizeof(text));
	CHECK_STR(text, "killed by signal 11 (Segmentation fault)");
	proc_result_done(&res);
	run_sh("exit 0", (struct proc_spec){ 0 }, &res);
	CHECK_INT(res.exit_code, 0);
	CHECK(!res.out.head && !res.err.head);
	proc_result_done(&res);
}

static void test_capture(void)
{
	struct proc_spec merged = capture;
	struct proc_result res;

	run_sh("echo out; echo err >&2; printf 'a\\0b'", capture, &res);
	CHECK_INT(res.out.head_len, 7);
	CHECK(memcmp(res.out.head, "out\na\0b", 8) == 0);
	CHECK_INT(res.out.total, 7);
	CHECK(!res.out.tail);
	CHECK_STR(res.err.head, "err\n");
	proc_result_done(&res);
	merged.merge_err = true;
	run_sh("for i in 1 2 3; do echo o$i; echo e$i >&2; done", merged, &res);
	CHECK_STR(res.out.head, "o1\ne1\no2\ne2\no3\ne3\n");
	CHECK(!res.err.head);
	proc_result_done(&res);
}

int main(void)
{
	struct err err = { 0 };

	CHECK_OK(proc_keeper_open(&keeper, &err), &err);
	test_status();
	test_capture();
	proc_keeper_close(keeper);
	return 0;
}
