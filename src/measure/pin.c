#include "measure/pin.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "core/str.h"

#define PIN_NODES_MAX	512 /* KFD nodes looked at */
#define PIN_MINOR_FIRST 128
#define PIN_MINOR_LAST	255
#define PIN_VENDOR_AMD	0x1002
#define PIN_GPU_MAX	1023

static int pin_bad_list(struct err *err, const char *text, const char *at)
{
	return err_set(err, ERR_PARSE,
		       "'%.60s' is not a CPU list such as 0-3,8: it does not go on at '%.20s'",
		       text, at);
}

/* One number below limit; *p moves behind it. */
static int pin_number(const char *text, const char **p, unsigned limit, unsigned *out,
		      struct err *err)
{
	const char *start = *p;
	unsigned v = 0;

	if (!isdigit((unsigned char)**p))
		return pin_bad_list(err, text, *p);
	for (; isdigit((unsigned char)**p); (*p)++) {
		v = v * 10 + (unsigned)(**p - '0');
		if (v >= limit)
			return err_set(err, ERR_LIMIT,
				       "CPU list '%.60s': %.*s... is beyond the largest number "
				       "taken, %u",
				       text, (int)(*p - start + 1), start, limit - 1);
	}
	*out = v;
	return ERR_OK;
}

/* "3", "0-7" or "0-15:2"; *p moves behind it. */
static int pin_range(const char *text, const char **p, cpu_set_t *set, struct err *err)
{
	unsigned from = 0, to, step = 1;
	const char *start = *p;
	int r;

	if ((r = pin_number(text, p, CPU_SETSIZE, &from, err)) < 0)
		return r;
	to = from;
	if (**p == '-') {
		(*p)++;
		if ((r = pin_number(text, p, CPU_SETSIZE, &to, err)) < 0)
			return r;
		if (**p == ':') {
			(*p)++;
			if ((r = pin_number(text, p, CPU_SETSIZE, &step, err)) < 0)
				return r;
		}
	}
	if (to < from || step == 0)
		return err_set(err, ERR_PARSE, "CPU list '%.60s': the range %.*s is empty", text,
			       (int)(*p - start), start);
	for (unsigned c = from; c <= to; c += step)
		CPU_SET(c, set);
	return ERR_OK;
}

int pin_parse_cpus(const char *text, cpu_set_t *out, struct err *err)
{
	const char *p = text;
	cpu_set_t set;
	int r;

	CPU_ZERO(&set);
	if (strnlen(text, PIN_LIST_MAX + 1) > PIN_LIST_MAX)
		return err_set(err, ERR_LIMIT, "the CPU list '%.40s...' is longer than %d bytes",
			       text, PIN_LIST_MAX);
	for (;;) {
		if ((r = pin_range(text, &p, &set, err)) < 0)
			return r;
		if (*p != ',')
			break;
		p++;
	}
	if (*p == '\n')
		p++;
	if (*p)
		return pin_bad_list(err, text, p);
	*out = set;
	return ERR_OK;
}

/* Appends a range to a list; false: it does not fit. */
static bool pin_add_range(char *buf, size_t cap, size_t *used, int first, int last)
{
	char part[32];
	int n = last > first
			? snprintf(part, sizeof(part), "%s%d-%d", *used ? "," : "", first, last)
			: snprintf(part, sizeof(part), "%s%d", *used ? "," : "", first);

	if (*used + (size_t)n >= cap)
		return false;
	memcpy(buf + *used, part, (size_t)n + 1);
	*used += (size_t)n;
	return true;
}

void pin_format_cpus(const cpu_set_t *set, char *buf, size_t cap)
{
	static const char more[] = "...";
	size_t used = 0;

	if (cap <= sizeof(more))
		return;
	buf[0] = '\0';
	for (int c = 0; c < CPU_SETSIZE; c++) {
		int first = c;

		if (!CPU_ISSET(c, set))
			continue;
		while (c + 1 < CPU_SETSIZE && CPU_ISSET(c + 1, set))
			c++;
		if (!pin_add_range(buf, cap - sizeof(more), &used, first, c)) {
			memcpy(buf + used, more, sizeof(more));
			return;
		}
	}
}

/* ---- which GPU ---- */

/* The value behind a name in a KFD properties file; false: not there. */
static bool pin_property(const char *text, const char *name, uint64_t *out)
{
	size_t n = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		char digits[24];
		size_t len;

		line += *line == '\n';
		if (strncmp(line, name, n) != 0 || line[n] != ' ')
			continue;
		len = strcspn(line + n + 1, "\n");
		if (len >= sizeof(digits))
			return false;
		memcpy(digits, line + n + 1, len);
		digits[len] = '\0';
		return num_u64(digits, out, NULL) == 0;
	}
	return false;
}

/* Nodes that we may not read are those of other jobs; ROCr leaves them out of its count as well. */
static int pin_minor_by_kfd(int root_fd, unsigned gpu, unsigned *minor, unsigned *n_seen)
{
	*n_seen = 0;
	for (unsigned i = 0; i < PIN_NODES_MAX; i++) {
		char path[96], text[8192];
		struct err err = { 0 };
		uint64_t simds, render;

		(void)snprintf(path, sizeof(path), "sys/class/kfd/kfd/topology/nodes/%u/properties",
			       i);
		if (rootfs_read(root_fd, path, text, sizeof(text), &err) < 0) {
			if (err.sys_errno == ENOENT)
				return 0;
			continue;
		}
		if (!pin_property(text, "simd_count", &simds) || simds == 0)
			continue;
		if ((*n_seen)++ != gpu)
			continue;
		if (!pin_property(text, "drm_render_minor", &render) || render < PIN_MINOR_FIRST ||
		    render > UINT16_MAX)
			return 0;
		*minor = (unsigned)render;
		return 1;
	}
	return 0;
}

static int pin_minor_by_drm(int root_fd, unsigned gpu, unsigned *minor, unsigned *n_seen)
{
	for (unsigned m = PIN_MINOR_FIRST; m <= PIN_MINOR_LAST; m++) {
		char path[96];
		uint64_t vendor;

		(void)snprintf(path, sizeof(path), "sys/class/drm/renderD%u/device/vendor", m);
		if (rootfs_read_u64(root_fd, path, &vendor, NULL) < 0 || vendor != PIN_VENDOR_AMD)
			continue;
		if ((*n_seen)++ != gpu)
			continue;
		*minor = m;
		return 1;
	}
	return 0;
}

int pin_gpu_minor(int root_fd, unsigned gpu, unsigned *minor, struct err *err)
{
	unsigned n = 0;

	if (pin_minor_by_kfd(root_fd, gpu, minor, &n))
		return ERR_OK;
	if (n == 0 && pin_minor_by_drm(root_fd, gpu, minor, &n))
		return ERR_OK;
	return err_set(err, ERR_NOT_FOUND,
		       "GPU %u is not to be seen: /sys/class/kfd and /sys/class/drm show %u GPU%s",
		       gpu, n, n == 1 ? "" : "s");
}

/* ---- the decision ---- */

/* Where the ambient mask is a list of ordinals, ours must be among them: narrowing only. */
static int pin_check_mask(unsigned gpu, const char *what, struct err *err)
{
	const char *mask = env_get(ENV_ROCR_VISIBLE_DEVICES);

	if (!mask || mask[strspn(mask, "0123456789, ")])
		return ERR_OK;
	for (const char *p = mask; *p;) {
		char *end;
		unsigned long v = strtoul(p, &end, 10);

		if (end == p)
			end++;
		else if (v == gpu)
			return ERR_OK;
		p = end;
	}
	return err_set(
		err, ERR_INVALID,
		"%s: GPU %u is outside ROCR_VISIBLE_DEVICES=%.60s, which this session may use",
		what, gpu, mask);
}

static int pin_gpu(const struct pin_opts *opts, struct pin *p, struct err *err)
{
	const char *text = opts->gpu ? opts->gpu : env_get(ENV_BENCH_GPU);
	const char *what = opts->gpu ? "--gpu" : env_table[ENV_BENCH_GPU].name;
	uint64_t v;
	int r;

	if (!text)
		return ERR_OK;
	if (num_u64(text, &v, NULL) < 0 || v > PIN_GPU_MAX)
		return err_set(err, ERR_INVALID, "%s: '%.40s' is not the number of a GPU", what,
			       text);
	if ((r = pin_check_mask((unsigned)v, what, err)) < 0)
		return r;
	p->has_gpu = true;
	p->gpu = (unsigned)v;
	p->has_minor = pin_gpu_minor(opts->root_fd, p->gpu, &p->minor, NULL) == 0;
	return ERR_OK;
}

/* Cores in the GPU's NUMA domain that we may use; without any, the run stays unpinned. */
static bool pin_near_gpu(int root_fd, const struct pin *p, const cpu_set_t *allowed, cpu_set_t *out)
{
	char path[96], text[PIN_LIST_MAX];
	cpu_set_t near = { 0 };

	(void)snprintf(path, sizeof(path), "sys/class/drm/renderD%u/device/local_cpulist",
		       p->minor);
	if (!p->has_minor || rootfs_read(root_fd, path, text, sizeof(text), NULL) < 0 ||
	    pin_parse_cpus(text, &near, NULL) < 0)
		return false;
	CPU_AND(&near, &near, allowed);
	if (CPU_COUNT(&near) == 0)
		return false;
	*out = near;
	return true;
}

static int pin_cpus(const struct pin_opts *opts, const cpu_set_t *allowed, struct pin *p,
		    struct err *err)
{
	const char *text = opts->cpus ? opts->cpus : env_get(ENV_BENCH_CPUS);
	const char *what = opts->cpus ? "--cpus" : env_table[ENV_BENCH_CPUS].name;
	char list[128], have[128];
	cpu_set_t other;

	if (!text)
		return ERR_OK;
	if (pin_parse_cpus(text, &p->cpus, err) < 0) {
		if (err)
			err->code = ERR_INVALID;
		return err_wrap(err, ERR_INVALID, "%s", what);
	}
	p->has_cpus = true;
	CPU_AND(&other, &p->cpus, allowed);
	if (CPU_EQUAL(&other, &p->cpus))
		return ERR_OK;
	CPU_XOR(&other, &other, &p->cpus);
	pin_format_cpus(&other, list, sizeof(list));
	pin_format_cpus(allowed, have, sizeof(have));
	return err_set(err, ERR_INVALID, "%s: this process may not use CPU %s, only %s", what, list,
		       have);
}

static void pin_describe(struct pin *p, bool near, bool lost)
{
	char list[128], gpu[128] = "";

	if (p->has_gpu)
		(void)snprintf(gpu, sizeof(gpu), "GPU %u%s", p->gpu,
			       lost ? ", not pinned to cores: those near it are not known or not "
				      "ours, and a run from far cores can be many times slower"
				    : "");
	if (p->has_cpus) {
		pin_format_cpus(&p->cpus, list, sizeof(list));
		(void)snprintf(p->text, sizeof(p->text), "CPUs %s%s%s%s", list,
			       near ? " (near the GPU)" : "", gpu[0] ? "; " : "", gpu);
	} else {
		(void)snprintf(p->text, sizeof(p->text), "%s", gpu[0] ? gpu : "not pinned");
	}
}

int pin_resolve(const struct pin_opts *opts, struct pin *out, struct err *err)
{
	struct pin p = { 0 };
	bool near = false;
	cpu_set_t allowed;
	int r;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		CPU_ZERO(&allowed); /* more CPUs than a cpu_set_t holds */
	if (CPU_COUNT(&allowed) == 0)
		memset(&allowed, 0xff, sizeof(allowed));
	if ((r = pin_gpu(opts, &p, err)) < 0 || (r = pin_cpus(opts, &allowed, &p, err)) < 0)
		return r;
	if (p.has_gpu && !p.has_cpus) {
		near = pin_near_gpu(opts->root_fd, &p, &allowed, &p.cpus);
		p.has_cpus = near;
	}
	pin_describe(&p, near, p.has_gpu && !p.has_cpus);
	*out = p;
	if (p.has_gpu) {
		(void)snprintf(out->env_buf[0], sizeof(out->env_buf[0]), "ROCR_VISIBLE_DEVICES=%u",
			       p.gpu);
		(void)snprintf(out->env_buf[1], sizeof(out->env_buf[1]), "HIP_VISIBLE_DEVICES=0");
		out->env[0] = out->env_buf[0];
		out->env[1] = out->env_buf[1];
	}
	return ERR_OK;
}
