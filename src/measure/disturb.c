#include "measure/disturb.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "core/str.h"
#include "measure/pin.h"

#define DISTURB_TEXT 16384
/* The kernel counts CPU time in ticks of 10 ms, so that less over an interval is no finding. */
#define DISTURB_FOREIGN_S    0.05
#define DISTURB_FOREIGN_CPUS 0.2
#define DISTURB_STEAL_PCT    0.5
#define DISTURB_CLOCK_FALL   0.9
#define DISTURB_GPU_BUSY_PCT 5.0

/* ---- reading ---- */

static bool disturb_text(int root_fd, const char *path, char *buf, size_t cap)
{
	return rootfs_read(root_fd, path, buf, cap, NULL) >= 0;
}

static void disturb_load(int root_fd, struct disturb_snap *s)
{
	char text[128];

	if (!disturb_text(root_fd, "proc/loadavg", text, sizeof(text)))
		return;
	text[strcspn(text, " ")] = '\0';
	s->has_load = num_double(text, &s->load1, NULL) == 0;
}

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal ..., in ticks. */
static void disturb_cpu(int root_fd, struct disturb_snap *s)
{
	char text[DISTURB_TEXT], *p;
	uint64_t v[8];
	double hz = (double)sysconf(_SC_CLK_TCK);

	if (!disturb_text(root_fd, "proc/stat", text, sizeof(text)) ||
	    strncmp(text, "cpu ", 4) != 0)
		return;
	p = text + 4;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		char *end;

		errno = 0;
		v[i] = strtoull(p, &end, 10);
		if (end == p || errno)
			return;
		p = end;
	}
	s->busy_s = (double)(v[0] + v[1] + v[2] + v[5] + v[6]) / hz;
	s->steal_s = (double)v[7] / hz;
	s->has_cpu = true;
}

/* "name VALUE" at the start of a line. */
static bool disturb_counter(const char *text, const char *name, uint64_t *out)
{
	size_t n = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		char *end;

		line += *line == '\n';
		if (strncmp(line, name, n) != 0 || line[n] != ' ')
			continue;
		errno = 0;
		*out = strtoull(line + n + 1, &end, 10);
		return end != line + n + 1 && errno == 0;
	}
	return false;
}

static void disturb_swap(int root_fd, struct disturb_snap *s)
{
	char text[DISTURB_TEXT];
	uint64_t in, out;

	if (disturb_text(root_fd, "proc/vmstat", text, sizeof(text)) &&
	    disturb_counter(text, "pswpin", &in) && disturb_counter(text, "pswpout", &out)) {
		s->swap_pages = in + out;
		s->has_swap = true;
	}
}

static void disturb_pressure(int root_fd, struct disturb_snap *s)
{
	char text[512], *total;
	double us;

	if (!disturb_text(root_fd, "proc/pressure/cpu", text, sizeof(text)) ||
	    !(total = strstr(text, "total=")))
		return;
	total += 6;
	total[strcspn(total, " \n")] = '\0';
	if (num_double(total, &us, NULL) == 0) {
		s->pressure_cpu_s = us / 1e6;
		s->has_pressure = true;
	}
}

/* cgroup v2 only: the quota that Slurm and containers set. */
static void disturb_quota(int root_fd, struct disturb_snap *s)
{
	char text[4096], path[4200], *group;
	uint64_t us;

	if (!disturb_text(root_fd, "proc/self/cgroup", text, sizeof(text)) ||
	    !(group = strstr(text, "0::/")))
		return;
	group += 4;
	group[strcspn(group, "\n")] = '\0';
	(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s%scpu.stat", group, *group ? "/" : "");
	if (disturb_text(root_fd, path, text, sizeof(text)) &&
	    disturb_counter(text, "throttled_usec", &us)) {
		s->quota_s = (double)us / 1e6;
		s->has_quota = true;
	}
}

static void disturb_governor(const char *text, struct disturb_snap *s)
{
	if (!s->governor[0])
		(void)snprintf(s->governor, sizeof(s->governor), "%.31s", text);
	else if (strncmp(s->governor, text, sizeof(s->governor) - 1) != 0)
		(void)snprintf(s->governor, sizeof(s->governor), "mixed");
}

static void disturb_one_cpu(int root_fd, int cpu, struct disturb_snap *s)
{
	static const char *const throttles[] = { "core", "package" };
	char path[128], text[64];
	uint64_t v;

	(void)snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor",
		       cpu);
	if (disturb_text(root_fd, path, text, sizeof(text)))
		disturb_governor(text, s);
	(void)snprintf(path, sizeof(path), "sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
		       cpu);
	if (rootfs_read_u64(root_fd, path, &v, NULL) == 0) {
		double mhz = (double)v / 1e3;

		s->freq_min_mhz = s->has_freq ? fmin(s->freq_min_mhz, mhz) : mhz;
		s->freq_max_mhz = s->has_freq ? fmax(s->freq_max_mhz, mhz) : mhz;
		s->has_freq = true;
	}
	for (size_t i = 0; i < sizeof(throttles) / sizeof(throttles[0]); i++) {
		(void)snprintf(path, sizeof(path),
			       "sys/devices/system/cpu/cpu%d/thermal_throttle/%s_throttle_count",
			       cpu, throttles[i]);
		if (rootfs_read_u64(root_fd, path, &v, NULL) == 0) {
			s->throttle_events += v;
			s->has_throttle = true;
		}
	}
}

static void disturb_cpus(int root_fd, const cpu_set_t *cpus, struct disturb_snap *s)
{
	char text[PIN_LIST_MAX];
	cpu_set_t online;
	int n = 0;

	if (!disturb_text(root_fd, "sys/devices/system/cpu/online", text, sizeof(text)) ||
	    pin_parse_cpus(text, &online, NULL) < 0)
		return;
	s->n_cpus = (unsigned)CPU_COUNT(&online);
	if (cpus)
		CPU_AND(&online, &online, cpus);
	for (int c = 0; c < CPU_SETSIZE && n < DISTURB_CPUS; c++) {
		if (!CPU_ISSET(c, &online))
			continue;
		disturb_one_cpu(root_fd, c, s);
		n++;
	}
}

static bool disturb_gpu_busy(int root_fd, unsigned minor, double *pct, struct err *err)
{
	char path[96];
	uint64_t v;

	(void)snprintf(path, sizeof(path), "sys/class/drm/renderD%u/device/gpu_busy_percent",
		       minor);
	if (rootfs_read_u64(root_fd, path, &v, err) < 0)
		return false;
	*pct = v > 100 ? 100 : (double)v;
	return true;
}

void disturb_read(int root_fd, const struct disturb_where *where, struct disturb_snap *out)
{
	struct disturb_snap s = { .mono_ns = clock_mono_ns() };
	struct rusage ru;

	disturb_load(root_fd, &s);
	disturb_cpu(root_fd, &s);
	disturb_swap(root_fd, &s);
	disturb_pressure(root_fd, &s);
	disturb_quota(root_fd, &s);
	disturb_cpus(root_fd, where ? where->cpus : NULL, &s);
	if (where && where->has_minor)
		s.has_gpu_busy = disturb_gpu_busy(root_fd, where->minor, &s.gpu_busy_pct, NULL);
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		s.own_s = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
			  (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	*out = s;
}

/* ---- comparing ---- */

__attribute__((format(printf, 2, 3))) static void disturb_note(struct disturb_report *r,
							       const char *fmt, ...)
{
	va_list ap;

	if (r->n_notes == DISTURB_NOTES)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(r->notes[r->n_notes++], DISTURB_NOTE_CAP, fmt, ap);
	va_end(ap);
}

static void disturb_note_cpu(struct disturb_report *r, double seconds)
{
	const struct disturb_snap *b = &r->before, *a = &r->after;

	if (r->has_foreign && r->foreign_cpus >= DISTURB_FOREIGN_CPUS &&
	    r->foreign_cpus * seconds >= DISTURB_FOREIGN_S)
		disturb_note(r, "other programs kept %.1f of %u CPUs busy", r->foreign_cpus,
			     a->n_cpus);
	if (!r->has_foreign && b->has_load && b->n_cpus && b->load1 > b->n_cpus)
		disturb_note(r, "the load average was %.1f on %u CPUs", b->load1, b->n_cpus);
	if (r->steal_pct >= DISTURB_STEAL_PCT)
		disturb_note(r, "the hypervisor took away %.1f %% of the CPU time", r->steal_pct);
	if (b->has_quota && a->has_quota && a->quota_s > b->quota_s)
		disturb_note(r, "the CPU quota of this cgroup held programs back for %.2f s",
			     a->quota_s - b->quota_s);
}

static void disturb_note_clocks(struct disturb_report *r)
{
	const struct disturb_snap *b = &r->before, *a = &r->after;

	if (b->has_throttle && a->has_throttle && a->throttle_events > b->throttle_events)
		disturb_note(r, "the CPUs were throttled %llu times because of heat",
			     (unsigned long long)(a->throttle_events - b->throttle_events));
	if (b->governor[0] && strcmp(b->governor, "performance") != 0)
		disturb_note(r, "the frequency governor is '%s', not 'performance'", b->governor);
	if (strcmp(a->governor, b->governor) != 0)
		disturb_note(r, "the frequency governor changed from '%s' to '%s'", b->governor,
			     a->governor);
	if (b->has_freq && a->has_freq && a->freq_max_mhz < b->freq_max_mhz * DISTURB_CLOCK_FALL)
		disturb_note(r, "the fastest CPU's clock fell from %.0f to %.0f MHz",
			     b->freq_max_mhz, a->freq_max_mhz);
}

void disturb_compare(const struct disturb_snap *before, const struct disturb_snap *after,
		     double own_cpu_s, struct disturb_report *out)
{
	struct disturb_report r = { .before = *before, .after = *after };
	double seconds = (double)(after->mono_ns - before->mono_ns) / 1e9;

	if (before->has_cpu && after->has_cpu && seconds > 0) {
		double foreign =
			after->busy_s - before->busy_s - own_cpu_s - (after->own_s - before->own_s);

		r.has_foreign = true;
		r.foreign_cpus = fmax(foreign, 0) / seconds;
		if (after->n_cpus)
			r.steal_pct = fmax(after->steal_s - before->steal_s, 0) / seconds /
				      after->n_cpus * 100;
	}
	disturb_note_cpu(&r, seconds);
	disturb_note_clocks(&r);
	if (before->has_swap && after->has_swap && after->swap_pages > before->swap_pages)
		disturb_note(&r, "%llu pages went to or came from swap",
			     (unsigned long long)(after->swap_pages - before->swap_pages));
	if (before->has_gpu_busy && before->gpu_busy_pct > DISTURB_GPU_BUSY_PCT)
		disturb_note(&r, "the GPU was already %.0f %% busy", before->gpu_busy_pct);
	*out = r;
}

static void disturb_set(struct json *o, const char *key, bool has, double v)
{
	if (has)
		json_set_real(o, key, v);
}

static struct json *disturb_snap_json(const struct disturb_snap *s)
{
	struct json *o = json_new_obj();

	disturb_set(o, "load_1min", s->has_load, s->load1);
	disturb_set(o, "cpu_clock_min_mhz", s->has_freq, s->freq_min_mhz);
	disturb_set(o, "cpu_clock_max_mhz", s->has_freq, s->freq_max_mhz);
	disturb_set(o, "gpu_busy_pct", s->has_gpu_busy, s->gpu_busy_pct);
	if (s->governor[0])
		json_set_str(o, "governor", s->governor);
	return o;
}

struct json *disturb_json(const struct disturb_report *r)
{
	const struct disturb_snap *b = &r->before, *a = &r->after;
	struct json *o = json_new_obj(), *notes = json_new_arr();

	for (size_t i = 0; i < r->n_notes; i++)
		json_add(notes, json_new_str(r->notes[i]));
	json_set(o, "notes", notes);
	if (b->n_cpus)
		json_set_int(o, "cpus_online", b->n_cpus);
	disturb_set(o, "foreign_cpus", r->has_foreign, r->foreign_cpus);
	disturb_set(o, "steal_pct", r->has_foreign, r->steal_pct);
	if (b->has_throttle && a->has_throttle)
		json_set_int(o, "throttle_events",
			     (int64_t)(a->throttle_events - b->throttle_events));
	if (b->has_swap && a->has_swap)
		json_set_int(o, "swap_pages", (int64_t)(a->swap_pages - b->swap_pages));
	disturb_set(o, "quota_held_back_s", b->has_quota && a->has_quota, a->quota_s - b->quota_s);
	disturb_set(o, "cpu_pressure_s", b->has_pressure && a->has_pressure,
		    a->pressure_cpu_s - b->pressure_cpu_s);
	json_set(o, "before", disturb_snap_json(b));
	json_set(o, "after", disturb_snap_json(a));
	return o;
}

/* ---- the quiet wait ---- */

/* Waits that long, or until stop_fd is readable. */
static int quiet_pause(const struct quiet_opts *o, uint64_t ns, struct err *err)
{
	uint64_t end = clock_mono_ns() + ns;

	for (uint64_t now; (now = clock_mono_ns()) < end;) {
		struct pollfd p = { .fd = o->stop_fd > 0 ? o->stop_fd : -1, .events = POLLIN };
		uint64_t ms = (end - now + NS_PER_MS - 1) / NS_PER_MS;
		int r = poll(&p, 1, ms > 1000000 ? 1000000 : (int)ms);

		if (r > 0)
			return err_set(err, ERR_CANCELLED, "the wait for a quiet GPU was ended");
		if (r < 0 && errno != EINTR)
			return err_sys(err, errno, "wait for a quiet GPU");
	}
	return ERR_OK;
}

int quiet_wait(const struct quiet_opts *opts, struct quiet_report *out, struct err *err)
{
	struct quiet_report q = { 0 };
	uint64_t start = clock_mono_ns();
	unsigned in_a_row = 0;

	for (;;) {
		struct err why = { 0 };
		int r;

		if (!disturb_gpu_busy(opts->root_fd, opts->where.minor, &q.last_busy_pct, &why))
			return err_set(err, ERR_NOT_FOUND,
				       "there is no way to see how busy the GPU is: "
				       "/sys/class/drm/renderD%u/device/gpu_busy_percent: %.200s "
				       "(--no-wait measures all the same)",
				       opts->where.minor, why.msg);
		q.n_read++;
		q.waited_ns = clock_mono_ns() - start;
		if (opts->on_sample)
			opts->on_sample(opts->arg, q.last_busy_pct, q.waited_ns);
		in_a_row = q.last_busy_pct <= opts->threshold_pct ? in_a_row + 1 : 0;
		if (in_a_row >= opts->n_samples) {
			q.quiet = true;
			break;
		}
		if (q.waited_ns + opts->poll_ns > opts->max_wait_ns)
			break;
		if ((r = quiet_pause(opts, opts->poll_ns, err)) < 0)
			return r;
	}
	*out = q;
	return ERR_OK;
}
