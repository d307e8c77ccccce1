#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "measure/disturb.h"
#include "measure/pin.h"

static char dir[] = "/tmp/rb-disturb-XXXXXX";
static int root = -1;

static void put(const char *path, const char *text)
{
	AUTO_FREE char *whole = file_join(dir, path), *folder = strdup(whole);
	struct err err = { 0 };

	*strrchr(folder, '/') = '\0';
	CHECK_OK(file_mkdirs(folder, 0755, &err), &err);
	CHECK_OK(file_write_atomic(AT_FDCWD, whole, text, strlen(text), 0644, &err), &err);
}

static void drop(const char *path)
{
	struct err err = { 0 };

	CHECK_OK(file_remove_tree(root, path, &err), &err);
}

/* ---- CPU lists ---- */

static const struct {
	const char *text, *out; /* out NULL: refused */
	int code;
} lists[] = {
	{ "0", "0", 0 },
	{ "0-3,8", "0-3,8", 0 },
	{ "8,0-3\n", "0-3,8", 0 },
	{ "3,2,1,2-5", "1-5", 0 },
	{ "0-8:4,1023", "0,4,8,1023", 0 },
	{ "", NULL, ERR_PARSE },
	{ ",", NULL, ERR_PARSE },
	{ "0,", NULL, ERR_PARSE },
	{ "0-", NULL, ERR_PARSE },
	{ "-3", NULL, ERR_PARSE },
	{ "3-0", NULL, ERR_PARSE },
	{ "0-4:0", NULL, ERR_PARSE },
	{ "0x3", NULL, ERR_PARSE },
	{ "0 1", NULL, ERR_PARSE },
	{ "1\n2", NULL, ERR_PARSE },
	{ "1024", NULL, ERR_LIMIT },
	{ "0-99999999999999999999", NULL, ERR_LIMIT },
};

static void test_lists(void)
{
	char longer[PIN_LIST_MAX + 2], buf[64];
	struct err err = { 0 };
	cpu_set_t set;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		cpu_set_t before;
		int r;

		CPU_ZERO(&set);
		CPU_SET(77, &set);
		before = set;
		r = pin_parse_cpus(lists[i].text, &set, &err);
		if (r != lists[i].code) {
			(void)fprintf(stderr, "'%s': %d, %s\n", lists[i].text, r, err.msg);
			exit(1);
		}
		if (r < 0) {
			CHECK(CPU_EQUAL(&set, &before));
			continue;
		}
		pin_format_cpus(&set, buf, sizeof(buf));
		CHECK_STR(buf, lists[i].out);
	}
	CHECK_INT(pin_parse_cpus("0-3;5", &set, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "does not go on at ';5'");
	memset(longer, '1', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	CHECK_INT(pin_parse_cpus(longer, &set, &err), ERR_LIMIT);
	/* what does not fit is cut visibly */
	CPU_ZERO(&set);
	for (int c = 0; c < 100; c += 2)
		CPU_SET(c, &set);
	pin_format_cpus(&set, buf, sizeof(buf));
	CHECK_HAS(buf, "...");
	CHECK(strlen(buf) < sizeof(buf));
	pin_format_cpus(&set, buf, 0);
	CPU_ZERO(&set);
	pin_format_cpus(&set, buf, sizeof(buf));
	CHECK_STR(buf, "");
}

/* ---- pinning ---- */

static void kfd_node(unsigned i, const char *text)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "sys/class/kfd/kfd/topology/nodes/%u/properties", i);
	put(path, text);
}

static void test_pin(void)
{
	struct pin_opts o = { .root_fd = root };
	struct err err = { 0 };
	char near[64], mine[256];
	struct pin p;
	cpu_set_t allowed;
	unsigned minor = 0;

	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	pin_format_cpus(&allowed, mine, sizeof(mine));
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(!p.has_cpus && !p.has_gpu && !p.env[0]);
	CHECK_STR(p.text, "not pinned");
	o.cpus = mine;
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(p.has_cpus && CPU_EQUAL(&p.cpus, &allowed));
	if (!CPU_ISSET(1000, &allowed)) {
		o.cpus = "1000";
		CHECK_INT(pin_resolve(&o, &p, &err), ERR_INVALID);
		CHECK_HAS(err.msg, "--cpus: this process may not use CPU 1000, only");
	}
	o.cpus = "0-x";
	CHECK_INT(pin_resolve(&o, &p, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "--cpus: ");

	/* the second GPU by KFD, whose order is not that of the minors */
	CHECK_INT(pin_gpu_minor(root, 0, &minor, &err), ERR_NOT_FOUND);
	kfd_node(0, "cpu_cores_count 8\nsimd_count 0\n");
	kfd_node(1, "cpu_cores_count 0\nsimd_count 1216\ndrm_render_minor 136\n");
	kfd_node(2, "cpu_cores_count 0\nsimd_count 1216\ndrm_render_minor 128\n");
	CHECK_OK(pin_gpu_minor(root, 0, &minor, &err), &err);
	CHECK_INT(minor, 136);
	CHECK_OK(pin_gpu_minor(root, 1, &minor, &err), &err);
	CHECK_INT(minor, 128);
	CHECK_INT(pin_gpu_minor(root, 2, &minor, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "show 2 GPUs");

	for (int c = 0; c < CPU_SETSIZE; c++) {
		if (CPU_ISSET(c, &allowed)) {
			(void)snprintf(near, sizeof(near), "%d,1023\n", c);
			break;
		}
	}
	put("sys/class/drm/renderD128/device/local_cpulist", near);
	o = (struct pin_opts){ .root_fd = root, .gpu = "1" };
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(p.has_gpu && p.gpu == 1 && p.has_minor && p.minor == 128);
	CHECK(p.has_cpus);
	CHECK(CPU_COUNT(&p.cpus) == 1 || CPU_ISSET(1023, &allowed));
	CHECK_STR(p.env[0], "ROCR_VISIBLE_DEVICES=1");
	CHECK_STR(p.env[1], "HIP_VISIBLE_DEVICES=0");
	CHECK(!p.env[2]);
	CHECK_HAS(p.text, "near the GPU");
	o.gpu = "0"; /* its cores are not known */
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(!p.has_cpus);
	CHECK_HAS(p.text, "not pinned to cores");
	o.gpu = "one";
	CHECK_INT(pin_resolve(&o, &p, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "--gpu: 'one'");

	/* without KFD the cards of AMD are counted */
	drop("sys/class/kfd");
	put("sys/class/drm/renderD128/device/vendor", "0x8086\n");
	put("sys/class/drm/renderD129/device/vendor", "0x1002\n");
	CHECK_OK(pin_gpu_minor(root, 0, &minor, &err), &err);
	CHECK_INT(minor, 129);
	drop("sys/class/drm");
}

static void test_pin_env(void)
{
	struct pin_opts o = { .root_fd = root };
	struct err err = { 0 };
	struct pin p;

	CHECK(setenv("ROCBUDAI_BENCH_GPU", "3", 1) == 0);
	CHECK(setenv("ROCBUDAI_BENCH_CPUS", "1-", 1) == 0);
	CHECK_INT(pin_resolve(&o, &p, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "ROCBUDAI_BENCH_CPUS: ");
	CHECK(unsetenv("ROCBUDAI_BENCH_CPUS") == 0);
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(p.has_gpu && p.gpu == 3 && !p.has_minor);
	/* never beyond what the session may use */
	CHECK(setenv("ROCR_VISIBLE_DEVICES", "0, 13", 1) == 0);
	CHECK_INT(pin_resolve(&o, &p, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "ROCBUDAI_BENCH_GPU: GPU 3 is outside ROCR_VISIBLE_DEVICES=0, 13");
	o.gpu = "13";
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(setenv("ROCR_VISIBLE_DEVICES", "GPU-a1b2", 1) == 0);
	CHECK_OK(pin_resolve(&o, &p, &err), &err);
	CHECK(unsetenv("ROCR_VISIBLE_DEVICES") == 0 && unsetenv("ROCBUDAI_BENCH_GPU") == 0);
}

/* ---- disturbances ---- */

static void machine(const char *stat, const char *load, const char *governor, const char *khz,
		    const char *throttles, const char *swap, const char *quota)
{
	char text[128];

	put("proc/stat", stat);
	put("proc/loadavg", load);
	put("proc/self/cgroup", "0::/job.slice/step\n");
	put("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n");
	(void)snprintf(text, sizeof(text), "nr_free_pages 17\npswpin %s\npswpout 5\n", swap);
	put("proc/vmstat", text);
	(void)snprintf(text, sizeof(text), "usage_usec 12\nthrottled_usec %s\n", quota);
	put("sys/fs/cgroup/job.slice/step/cpu.stat", text);
	put("sys/devices/system/cpu/online", "0-1\n");
	put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", governor);
	put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", khz);
	put("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "1000000\n");
	put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", throttles);
}

static bool noted(const struct disturb_report *r, const char *part)
{
	for (size_t i = 0; i < r->n_notes; i++) {
		if (strstr(r->notes[i], part))
			return true;
	}
	return false;
}

static void test_disturbed(void)
{
	const struct disturb_where where = { .has_minor = true, .minor = 128 };
	struct disturb_snap before, after;
	struct disturb_report r;
	AUTO_JSON struct json *j = NULL;
	AUTO_FREE char *text = NULL;

	machine("cpu  1000 0 500 9000 0 10 5 100 0 0\ncpu0 1\n", "3.50 2.00 1.00 2/90 123\n",
		"performance\n", "3000000\n", "4\n", "10", "0");
	put("sys/class/drm/renderD128/device/gpu_busy_percent", "40\n");
	disturb_read(root, &where, &before);
	CHECK(before.has_load && before.load1 == 3.5);
	CHECK(before.has_cpu && before.has_throttle && before.has_quota && before.has_swap);
	CHECK(before.has_pressure && before.pressure_cpu_s == 2.5);
	CHECK_INT(before.n_cpus, 2);
	CHECK(before.freq_min_mhz == 1000 && before.freq_max_mhz == 3000);
	CHECK(before.has_gpu_busy && before.gpu_busy_pct == 40);
	CHECK_STR(before.governor, "performance");

	/* 10 s later: 14 CPU seconds more, of which ours are 4; 0.4 s stolen */
	machine("cpu  2000 0 900 9000 0 10 5 140 0 0\ncpu0 1\n", "3.60 2.00 1.00 2/90 123\n",
		"powersave\n", "2000000\n", "9\n", "12", "250000");
	disturb_read(root, &where, &after);
	after.mono_ns = before.mono_ns + 10 * NS_PER_SEC;
	after.own_s = before.own_s + 1;
	disturb_compare(&before, &after, 3, &r);
	CHECK(r.has_foreign);
	CHECK(fabs(r.foreign_cpus - 1.0) < 1e-9);
	CHECK(fabs(r.steal_pct - 2.0) < 1e-9);
	CHECK(noted(&r, "other programs kept 1.0 of 2 CPUs busy"));
	CHECK(noted(&r, "hypervisor took away 2.0 %"));
	CHECK(noted(&r, "throttled 5 times"));
	CHECK(noted(&r, "changed from 'performance' to 'powersave'"));
	CHECK(noted(&r, "fell from 3000 to 2000 MHz"));
	CHECK(noted(&r, "2 pages"));
	CHECK(noted(&r, "held programs back for 0.25 s"));
	CHECK(noted(&r, "GPU was already 40 % busy"));
	j = disturb_json(&r);
	text = json_dump(j);
	CHECK_HAS(text, "\"foreign_cpus\":1.0");
	CHECK_HAS(text, "\"throttle_events\":5");
	CHECK_HAS(text, "\"governor\":\"powersave\"");
	CHECK_INT(json_len(json_get(j, "notes")), r.n_notes);
}

static void test_calm(void)
{
	struct disturb_snap before, after;
	struct disturb_report r;

	machine("cpu  1000 0 500 9000 0 10 5 100 0 0\n", "0.10 2.00 1.00 2/90 123\n",
		"performance\n", "3000000\n", "4\n", "10", "0");
	disturb_read(root, NULL, &before);
	CHECK(!before.has_gpu_busy);
	after = before;
	after.mono_ns += 10 * NS_PER_SEC;
	after.busy_s += 5.1;
	disturb_compare(&before, &after, 5, &r);
	CHECK_INT(r.n_notes, 0);
	/* ours counted twice by rounding is no negative foreign load */
	disturb_compare(&before, &after, 7, &r);
	CHECK(r.foreign_cpus == 0);
}

/* A machine that shows nothing, and one whose files hold nonsense: no note, no reading. */
static void test_blind(void)
{
	static const char *const files[] = { "proc/stat",
					     "proc/loadavg",
					     "proc/vmstat",
					     "proc/pressure/cpu",
					     "proc/self/cgroup",
					     "sys/devices/system/cpu/online",
					     "sys/class/drm/renderD128/device/gpu_busy_percent" };
	const struct disturb_where where = { .has_minor = true, .minor = 128 };
	struct disturb_snap s;
	struct disturb_report r;
	AUTO_JSON struct json *j = NULL;

	for (int nonsense = 0; nonsense < 2; nonsense++) {
		drop("proc");
		drop("sys");
		for (size_t i = 0; nonsense && i < sizeof(files) / sizeof(files[0]); i++)
			put(files[i], "cpu  x y z\nnonsense total=\n");
		disturb_read(root, &where, &s);
		CHECK(!s.has_load && !s.has_cpu && !s.has_freq && !s.has_throttle && !s.has_quota);
		CHECK(!s.has_swap && !s.has_pressure && !s.has_gpu_busy && s.n_cpus == 0);
	}
	disturb_compare(&s, &s, 0, &r);
	CHECK_INT(r.n_notes, 0);
	CHECK(!r.has_foreign);
	j = disturb_json(&r);
	CHECK(!json_get(j, "foreign_cpus"));
	CHECK(json_get(j, "notes"));
}

/* The real machine: whatever it shows is sane. */
static void test_real(void)
{
	struct err err = { 0 };
	AUTO_CLOSE int real = rootfs_open("/", &err);
	struct disturb_snap a, b;
	struct disturb_report r;

	CHECK_OK(real, &err);
	disturb_read(real, NULL, &a);
	disturb_read(real, NULL, &b);
	disturb_compare(&a, &b, 0, &r);
	CHECK(a.has_cpu && a.busy_s > 0 && b.busy_s >= a.busy_s);
	CHECK(r.foreign_cpus >= 0 && r.steal_pct >= 0);
}

/* ---- the quiet wait ---- */

static const char *const *busy_next; /* what each further sample finds; NULL: as before */

static void next_sample(void *arg, double pct, uint64_t waited)
{
	(void)arg;
	(void)pct;
	(void)waited;
	if (busy_next && *busy_next)
		put("sys/class/drm/renderD128/device/gpu_busy_percent", *busy_next++);
}

static void test_quiet(void)
{
	struct quiet_opts o = { QUIET_DEFAULTS, .root_fd = root,
				.where = { .has_minor = true, .minor = 128 },
				.on_sample = next_sample };
	static const char *const wakes[] = { "0", "2", "50", "5", "4", "5", NULL };
	struct quiet_report q = { .n_read = 77 };
	struct err err = { 0 };
	int fds[2];

	CHECK(o.threshold_pct == 5 && o.n_samples == 3 && o.max_wait_ns == 30 * NS_PER_SEC);
	o.poll_ns = NS_PER_MS;
	drop("sys");
	CHECK_INT(quiet_wait(&o, &q, &err), ERR_NOT_FOUND);
	CHECK_HAS(err.msg, "renderD128/device/gpu_busy_percent");
	CHECK_INT(q.n_read, 77);

	put("sys/class/drm/renderD128/device/gpu_busy_percent", "5");
	CHECK_OK(quiet_wait(&o, &q, &err), &err);
	CHECK(q.quiet && q.n_read == 3);
	/* three in a row: the 50 in between starts the count anew */
	put("sys/class/drm/renderD128/device/gpu_busy_percent", "90");
	busy_next = wakes;
	CHECK_OK(quiet_wait(&o, &q, &err), &err);
	CHECK(q.quiet && q.n_read == 7);
	/* never quiet: it ends, and says so */
	put("sys/class/drm/renderD128/device/gpu_busy_percent", "99");
	o.max_wait_ns = 20 * NS_PER_MS;
	CHECK_OK(quiet_wait(&o, &q, &err), &err);
	CHECK(!q.quiet && q.last_busy_pct == 99);
	/* a user who has enough */
	CHECK(pipe2(fds, O_CLOEXEC) == 0 && write(fds[1], "x", 1) == 1);
	o.stop_fd = fds[0];
	o.poll_ns = o.max_wait_ns = 60 * NS_PER_SEC;
	o.max_wait_ns *= 2;
	CHECK_INT(quiet_wait(&o, &q, &err), ERR_CANCELLED);
	CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
}

int main(void)
{
	struct err err = { 0 };

	CHECK(mkdtemp(dir));
	root = rootfs_open(dir, &err);
	CHECK_OK(root, &err);
	CHECK(unsetenv("ROCBUDAI_BENCH_GPU") == 0 && unsetenv("ROCBUDAI_BENCH_CPUS") == 0 &&
	      unsetenv("ROCR_VISIBLE_DEVICES") == 0);
	test_lists();
	test_pin();
	test_pin_env();
	test_disturbed();
	test_calm();
	test_blind();
	test_real();
	test_quiet();
	(void)close(root);
	CHECK_OK(file_remove_tree(AT_FDCWD, dir, &err), &err);
	return 0;
}
