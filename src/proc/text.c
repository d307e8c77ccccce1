#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/err.h"
#include "proc/proc_priv.h"

static void text_duration(uint64_t ns, char *buf, size_t cap)
{
	if (ns < UINT64_C(1000000000))
		(void)snprintf(buf, cap, "%.3g ms", (double)ns / 1e6);
	else if (ns < UINT64_C(60000000000))
		(void)snprintf(buf, cap, "%.1f s", (double)ns / 1e9);
	else
		(void)snprintf(buf, cap, "%.0f s", (double)ns / 1e9);
}

void proc_result_text(const struct proc_result *res, char *buf, size_t cap)
{
	char how[96], after[32];

	if (res->term_signal) {
		const char *name = sigdescr_np(res->term_signal);

		(void)snprintf(how, sizeof(how), "killed by signal %d (%s)", res->term_signal,
			       name ? name : "real-time signal");
	} else {
		(void)snprintf(how, sizeof(how), "exited with status %d", res->exit_code);
	}
	text_duration(res->wall_ns, after, sizeof(after));
	if (res->timed_out)
		(void)snprintf(buf, cap, "timed out after %s, %s", after, how);
	else if (res->stopped)
		(void)snprintf(buf, cap, "stopped after %s, %s", after, how);
	else
		(void)snprintf(buf, cap, "%s", how);
}

static const char *text_env_path(const struct proc_spec *spec)
{
	const char *const *e = spec->envp ? spec->envp : (const char *const *)environ;

	for (; e && *e; e++) {
		if (strncmp(*e, "PATH=", 5) == 0)
			return *e + 5;
	}
	return "/bin:/usr/bin";
}

static int text_fail_exec(const struct proc_spec *spec, const struct wire_fail *f,
			  size_t body_bytes, struct err *err)
{
	const char *name = spec->argv[0];
	struct stat st;

	if (f->errnum == E2BIG)
		return err_sys(err, f->errnum,
			       "run %.200s: %zu bytes of arguments and environment, or one of them "
			       "over 128 KiB, are more than the kernel takes",
			       name, body_bytes);
	if (!strchr(name, '/'))
		return err_sys(err, f->errnum, "run '%.120s', looked up in PATH=%.200s", name,
			       text_env_path(spec));
	if (f->errnum == ENOENT && name[0] == '/' && stat(name, &st) == 0)
		return err_sys(err, f->errnum,
			       "run %.300s: the file is there, but not the interpreter that its "
			       "first line or header names",
			       name);
	return err_sys(err, f->errnum, "run %.380s", name);
}

static int text_fail_mount(const struct proc_spec *spec, const struct wire_fail *f, struct err *err)
{
	const struct proc_mount *m;

	if (f->index >= spec->n_mounts)
		return err_sys(err, f->errnum, "mount");
	m = &spec->mounts[f->index];
	if (m->src)
		return err_sys(err, f->errnum, "bind %.200s to %.200s for the program alone",
			       m->src, m->dst);
	return err_sys(err, f->errnum, "put an empty folder over %.300s for the program alone",
		       m->dst);
}

int text_fail(const struct proc_spec *spec, const struct wire_fail *f, size_t body_bytes,
	      struct err *err)
{
	const char *name = spec->argv[0];

	switch ((enum wire_stage)f->stage) {
	case STAGE_NONE:
		break;
	case STAGE_MESSAGE:
		return err_sys(err, f->errnum, "run %.300s: hand it to the keeper", name);
	case STAGE_FORK:
		return err_sys(err, f->errnum, "run %.300s: start a process", name);
	case STAGE_STREAMS:
		return err_sys(err, f->errnum, "run %.300s: connect its output", name);
	case STAGE_NAMESPACE:
		return err_sys(err, f->errnum,
			       "run %.200s: make a mount namespace (needs root or user namespaces)",
			       name);
	case STAGE_PRIVATE:
		return err_sys(err, f->errnum, "run %.300s: make its mounts private", name);
	case STAGE_MOUNT:
		return text_fail_mount(spec, f, err);
	case STAGE_CHDIR:
		return err_sys(err, f->errnum, "run %.150s: change to the folder %.250s", name,
			       spec->cwd ? spec->cwd : ".");
	case STAGE_LIMIT:
		if (f->index < spec->n_limits)
			return err_sys(err, f->errnum, "run %.200s: set resource limit %d to %llu",
				       name, spec->limits[f->index].resource,
				       (unsigned long long)spec->limits[f->index].value);
		break;
	case STAGE_AFFINITY:
		return err_sys(err, f->errnum, "run %.300s: bind it to the chosen CPUs", name);
	case STAGE_STUCK:
		return err_sys(err, f->errnum,
			       "run %.200s: it was to end but cannot be killed, and runs on as "
			       "process %u: it belongs to another user or hangs in the kernel",
			       name, (unsigned)f->index);
	case STAGE_EXEC:
		return text_fail_exec(spec, f, body_bytes, err);
	}
	return err_sys(err, f->errnum, "run %.300s", name);
}
