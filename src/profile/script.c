#include "profile/script.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/str.h"

#define SCRIPT_FORK_DEPTH 8	      /* generations that are asked for a mapping */
#define SCRIPT_STEPS_MAX  1000000000U /* mappings looked at in all; later samples have no line */

/* A part of a file that a process has mapped to run. */
struct script_map {
	int64_t pid;
	uint64_t start, len, offset;
	size_t dso;
};

struct script_fork {
	int64_t pid, parent;
};

/* The last mapping found for a process and a dso. */
struct script_hit {
	int64_t pid;
	size_t dso;
	struct script_map map; /* len 0: none */
};
#define SCRIPT_HITS 256

/* Positions in an array by hash; 0 is free, else position + 1. */
struct script_index {
	uint32_t *slot;
	size_t cap; /* a power of two */
};

struct profile_script {
	struct str line;
	bool too_long; /* the present line is, and is dropped */
	char **dsos;
	size_t n_dsos, cap_dsos;
	struct profile_script_func *funcs;
	size_t n_funcs, cap_funcs;
	struct profile_script_addr *addrs;
	size_t n_addrs, cap_addrs;
	struct script_index by_dso, by_func, by_addr;
	struct script_map *maps; /* a ring of PROFILE_SCRIPT_MAPS */
	size_t n_maps;		 /* ever added */
	struct script_fork *forks;
	size_t n_forks;
	struct script_hit hits[SCRIPT_HITS];
	uint64_t steps;
	uint64_t samples, lost, bad;
	double weight;
};

struct profile_script *profile_script_new(void)
{
	struct profile_script *s = xcalloc(1, sizeof(*s));

	str_init(&s->line, PROFILE_SCRIPT_LINE_MAX);
	s->maps = xcalloc(PROFILE_SCRIPT_MAPS, sizeof(*s->maps));
	s->forks = xcalloc(PROFILE_SCRIPT_MAPS, sizeof(*s->forks));
	return s;
}

void profile_script_free(struct profile_script *s)
{
	if (!s)
		return;
	str_done(&s->line);
	for (size_t i = 0; i < s->n_funcs; i++)
		free((char *)(uintptr_t)s->funcs[i].name);
	for (size_t i = 0; i < s->n_dsos; i++)
		free(s->dsos[i]);
	free(s->dsos);
	free(s->funcs);
	free(s->addrs);
	free(s->by_dso.slot);
	free(s->by_func.slot);
	free(s->by_addr.slot);
	free(s->maps);
	free(s->forks);
	free(s);
}

/* ---- look-ups ---- */

static uint64_t script_mix(uint64_t h, const void *data, size_t n)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h ^ (h >> 29);
}

static uint64_t script_hash(const void *data, size_t n, uint64_t extra)
{
	return script_mix(script_mix(UINT64_C(0xcbf29ce484222325), data, n), &extra, sizeof(extra));
}

/* Rebuilds the index for twice as many entries; hash_of gives the hash of entry i. */
static void script_index_grow(struct profile_script *s, struct script_index *ix, size_t n,
			      uint64_t (*hash_of)(const struct profile_script *s, size_t i))
{
	if (ix->cap >= 2 * (n + 1))
		return;
	ix->cap = ix->cap ? ix->cap * 2 : 256;
	free(ix->slot);
	ix->slot = xcalloc(ix->cap, sizeof(*ix->slot));
	for (size_t i = 0; i < n; i++) {
		size_t at = hash_of(s, i) & (ix->cap - 1);

		while (ix->slot[at])
			at = (at + 1) & (ix->cap - 1);
		ix->slot[at] = (uint32_t)i + 1;
	}
}

static uint64_t script_dso_hash(const struct profile_script *s, size_t i)
{
	return script_hash(s->dsos[i], strlen(s->dsos[i]), 0);
}

/* Position of the dso's name, which is added if new; beyond the limit that of "[other]". */
static size_t script_dso(struct profile_script *s, const char *name, size_t len)
{
	struct script_index *ix = &s->by_dso;
	size_t at;

	script_index_grow(s, ix, s->n_dsos, script_dso_hash);
	at = script_hash(name, len, 0) & (ix->cap - 1);
	for (; ix->slot[at]; at = (at + 1) & (ix->cap - 1)) {
		const char *have = s->dsos[ix->slot[at] - 1];

		if (strlen(have) == len && memcmp(have, name, len) == 0)
			return ix->slot[at] - 1;
	}
	if (s->n_dsos == PROFILE_SCRIPT_DSOS)
		return PROFILE_SCRIPT_DSOS - 1;
	if (s->n_dsos == PROFILE_SCRIPT_DSOS - 1) {
		name = "[other]";
		len = strlen(name);
	}
	if (s->n_dsos == s->cap_dsos) {
		s->cap_dsos = s->cap_dsos ? s->cap_dsos * 2 : 64;
		s->dsos = xrealloc_n(s->dsos, s->cap_dsos, sizeof(*s->dsos));
	}
	s->dsos[s->n_dsos] = xstrndup(name, len);
	ix->slot[at] = (uint32_t)s->n_dsos + 1;
	return s->n_dsos++;
}

static uint64_t script_func_hash(const struct profile_script *s, size_t i)
{
	return script_hash(s->funcs[i].name, strlen(s->funcs[i].name),
			   (uint64_t)(uintptr_t)s->funcs[i].dso);
}

static size_t script_func(struct profile_script *s, const char *name, size_t len, const char *dso)
{
	struct script_index *ix = &s->by_func;
	size_t at;

	script_index_grow(s, ix, s->n_funcs, script_func_hash);
	at = script_hash(name, len, (uint64_t)(uintptr_t)dso) & (ix->cap - 1);
	for (; ix->slot[at]; at = (at + 1) & (ix->cap - 1)) {
		const struct profile_script_func *f = &s->funcs[ix->slot[at] - 1];

		if (f->dso == dso && strlen(f->name) == len && memcmp(f->name, name, len) == 0)
			return ix->slot[at] - 1;
	}
	if (s->n_funcs == PROFILE_SCRIPT_FUNCS)
		return PROFILE_SCRIPT_FUNCS - 1;
	if (s->n_funcs == PROFILE_SCRIPT_FUNCS - 1) {
		name = dso = "[other]";
		len = strlen(name);
	}
	if (s->n_funcs == s->cap_funcs) {
		s->cap_funcs = s->cap_funcs ? s->cap_funcs * 2 : 64;
		s->funcs = xrealloc_n(s->funcs, s->cap_funcs, sizeof(*s->funcs));
	}
	s->funcs[s->n_funcs] =
		(struct profile_script_func){ .name = xstrndup(name, len), .dso = dso };
	ix->slot[at] = (uint32_t)s->n_funcs + 1;
	return s->n_funcs++;
}

static uint64_t script_addr_hash(const struct profile_script *s, size_t i)
{
	return script_hash(&s->addrs[i].offset, sizeof(s->addrs[i].offset), s->addrs[i].func);
}

static void script_count_addr(struct profile_script *s, size_t func, uint64_t offset, double weight)
{
	struct script_index *ix = &s->by_addr;
	size_t at;

	script_index_grow(s, ix, s->n_addrs, script_addr_hash);
	at = script_hash(&offset, sizeof(offset), func) & (ix->cap - 1);
	for (; ix->slot[at]; at = (at + 1) & (ix->cap - 1)) {
		struct profile_script_addr *a = &s->addrs[ix->slot[at] - 1];

		if (a->func == func && a->offset == offset) {
			a->weight += weight;
			return;
		}
	}
	if (s->n_addrs == PROFILE_SCRIPT_ADDRS)
		return;
	if (s->n_addrs == s->cap_addrs) {
		s->cap_addrs = s->cap_addrs ? s->cap_addrs * 2 : 256;
		s->addrs = xrealloc_n(s->addrs, s->cap_addrs, sizeof(*s->addrs));
	}
	s->addrs[s->n_addrs] = (struct profile_script_addr){ func, offset, weight };
	ix->slot[at] = (uint32_t)s->n_addrs + 1;
	s->n_addrs++;
}

/* ---- mappings ---- */

/* The newest mapping of the process that holds ip in this dso; NULL: none. */
static const struct script_map *script_map_of(const struct profile_script *s, int64_t pid,
					      uint64_t ip, size_t dso)
{
	size_t kept = s->n_maps < PROFILE_SCRIPT_MAPS ? s->n_maps : PROFILE_SCRIPT_MAPS;

	for (size_t back = 1; back <= kept; back++) {
		const struct script_map *m = &s->maps[(s->n_maps - back) % PROFILE_SCRIPT_MAPS];

		if (m->pid == pid && m->dso == dso && ip >= m->start && ip - m->start < m->len)
			return m;
	}
	return NULL;
}

static bool script_parent(const struct profile_script *s, int64_t *pid)
{
	size_t kept = s->n_forks < PROFILE_SCRIPT_MAPS ? s->n_forks : PROFILE_SCRIPT_MAPS;

	for (size_t back = 1; back <= kept; back++) {
		const struct script_fork *f = &s->forks[(s->n_forks - back) % PROFILE_SCRIPT_MAPS];

		if (f->pid == *pid) {
			*pid = f->parent;
			return true;
		}
	}
	return false;
}

/* The mapping that holds ip; a forked process has its parent's. */
static const struct script_map *script_find_map(struct profile_script *s, int64_t pid, uint64_t ip,
						size_t dso)
{
	for (int depth = 0; depth < SCRIPT_FORK_DEPTH; depth++) {
		const struct script_map *m = script_map_of(s, pid, ip, dso);

		s->steps += s->n_maps < PROFILE_SCRIPT_MAPS ? s->n_maps : PROFILE_SCRIPT_MAPS;
		if (m || !script_parent(s, &pid))
			return m;
	}
	return NULL;
}

static void script_place(struct profile_script *s, size_t func, int64_t pid, uint64_t ip,
			 size_t dso, double weight)
{
	struct script_hit *h = &s->hits[((uint64_t)pid * 31 + dso) % SCRIPT_HITS];

	if (h->pid != pid || h->dso != dso || ip < h->map.start ||
	    ip - h->map.start >= h->map.len) {
		const struct script_map *m =
			s->steps < SCRIPT_STEPS_MAX ? script_find_map(s, pid, ip, dso) : NULL;

		if (!m)
			return;
		*h = (struct script_hit){ .pid = pid, .dso = dso, .map = *m };
	}
	script_count_addr(s, func, ip - h->map.start + h->map.offset, weight);
}

static void script_forget_hits(struct profile_script *s, int64_t pid)
{
	for (size_t i = 0; i < SCRIPT_HITS; i++) {
		if (s->hits[i].pid == pid)
			s->hits[i].map.len = 0;
	}
}

/* ---- lines ---- */

static bool script_take_i64(const char **p, int64_t *out)
{
	char buf[24];
	size_t n = 0;
	const char *q = *p + strspn(*p, " ");

	while (n < sizeof(buf) - 1 && (isdigit((unsigned char)q[n]) || (n == 0 && q[n] == '-'))) {
		buf[n] = q[n];
		n++;
	}
	buf[n] = '\0';
	if (num_i64(buf, out, NULL) < 0)
		return false;
	*p = q + n;
	return true;
}

/* Hexadecimal, with or without 0x; at most 16 digits. */
static bool script_take_hex(const char **p, uint64_t *out)
{
	const char *q = *p + strspn(*p, " ");
	uint64_t v = 0;
	int n = 0;

	if (q[0] == '0' && q[1] == 'x')
		q += 2;
	for (; isxdigit((unsigned char)q[n]); n++) {
		int c = tolower((unsigned char)q[n]);

		if (n == 16)
			return false;
		v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
	}
	if (n == 0)
		return false;
	*p = q + n;
	*out = v;
	return true;
}

/* [0xSTART(0xLEN) @ OFFSET ...]: r-xp FILE */
static bool script_event_mmap(struct profile_script *s, int64_t pid, const char *p)
{
	struct script_map m = { .pid = pid };
	const char *name;

	p = strchr(p, '[');
	if (!p)
		return false;
	p++;
	if (!script_take_hex(&p, &m.start) || *p++ != '(' || !script_take_hex(&p, &m.len) ||
	    strncmp(p, ") @ ", 4) != 0)
		return false;
	p += 4;
	if (!script_take_hex(&p, &m.offset))
		return false;
	name = strstr(p, "]: ");
	if (!name)
		return false;
	name += 3;
	name += strcspn(name, " ");
	name += strspn(name, " ");
	if (*name != '/')
		return true; /* [vdso], the kernel: no file to look into */
	m.dso = script_dso(s, name, strlen(name));
	s->maps[s->n_maps++ % PROFILE_SCRIPT_MAPS] = m;
	script_forget_hits(s, pid);
	return true;
}

/* (14050:14050):(14043:14043) */
static bool script_event_fork(struct profile_script *s, const char *p)
{
	struct script_fork f;
	int64_t tid;

	if (*p++ != '(' || !script_take_i64(&p, &f.pid) || *p++ != ':' ||
	    !script_take_i64(&p, &tid) || strncmp(p, "):(", 3) != 0)
		return false;
	p += 3;
	if (!script_take_i64(&p, &f.parent))
		return false;
	if (f.pid != f.parent) /* else a thread */
		s->forks[s->n_forks++ % PROFILE_SCRIPT_MAPS] = f;
	return true;
}

static bool script_event(struct profile_script *s, int64_t pid, const char *p)
{
	p += strlen("PERF_RECORD_");
	if (strncmp(p, "MMAP", 4) == 0)
		return script_event_mmap(s, pid, p);
	if (strncmp(p, "FORK", 4) == 0)
		return script_event_fork(s, p + 4);
	if (strncmp(p, "LOST", 4) == 0) {
		const char *n = strstr(p, "lost ");
		int64_t lost;

		n = n ? n + 5 : "";
		if (script_take_i64(&n, &lost) && lost > 0)
			s->lost += (uint64_t)lost;
	}
	return true;
}

/*
 * "name (dso)" where both may hold blanks and brackets: a dso is nearly always a path or
 * "[kernel...]", so that the first " (/" or " ([" starts it.
 */
static bool script_split_symbol(const char *p, size_t *name_len, const char **dso, size_t *dso_len)
{
	size_t n = strlen(p);
	const char *at = strstr(p, " (/");

	if (!at)
		at = strstr(p, " ([");
	if (!at) {
		for (const char *q = strstr(p, " ("); q; q = strstr(q + 1, " ("))
			at = q;
	}
	if (!at || n < 3 || p[n - 1] != ')')
		return false;
	*name_len = (size_t)(at - p);
	*dso = at + 2;
	*dso_len = n - 1 - (size_t)(*dso - p);
	if (*dso_len > 10 && memcmp(*dso + *dso_len - 10, " (deleted)", 10) == 0)
		*dso_len -= 10;
	return *name_len > 0 && *dso_len > 0;
}

static bool script_sample(struct profile_script *s, int64_t pid, const char *p)
{
	const char *dso, *name = p;
	size_t name_len, dso_len, d, f;
	int64_t period;
	uint64_t ip;
	bool kernel;

	if (!script_take_i64(&p, &period) || period < 0 || !script_take_hex(&p, &ip) || *p != ' ')
		return false;
	name = p + strspn(p, " ");
	if (!script_split_symbol(name, &name_len, &dso, &dso_len))
		return false;
	kernel = strncmp(dso, "[kernel", 7) == 0 || strncmp(dso, "[guest.kernel", 13) == 0;
	d = kernel ? script_dso(s, "[kernel]", 8) : script_dso(s, dso, dso_len);
	f = script_func(s, name, name_len, s->dsos[d]);
	s->funcs[f].weight += (double)period;
	s->funcs[f].samples++;
	s->samples++;
	s->weight += (double)period;
	if (dso[0] == '/')
		script_place(s, f, pid, ip, d, (double)period);
	return true;
}

static bool script_line(struct profile_script *s, const char *p)
{
	int64_t pid;

	p += strspn(p, " \t");
	if (*p == '\0' || *p == '#')
		return true;
	if (!script_take_i64(&p, &pid))
		return false;
	p += strspn(p, " ");
	if (strncmp(p, "PERF_RECORD_", 12) == 0)
		return script_event(s, pid, p);
	return script_sample(s, pid, p);
}

static void script_flush(struct profile_script *s)
{
	if (s->too_long ||
	    (s->line.len && (memchr(s->line.s, '\0', s->line.len) || !script_line(s, s->line.s))))
		s->bad++;
	s->too_long = false;
	str_reset(&s->line);
}

void profile_script_add(struct profile_script *s, const char *data, size_t n)
{
	while (n) {
		const char *nl = memchr(data, '\n', n);
		size_t k = nl ? (size_t)(nl - data) : n;

		str_add(&s->line, data, k);
		s->too_long = s->too_long || s->line.failed;
		if (!nl)
			return;
		script_flush(s);
		data += k + 1;
		n -= k + 1;
	}
}

void profile_script_end(struct profile_script *s)
{
	if (s->line.len || s->too_long)
		script_flush(s);
}

uint64_t profile_script_samples(const struct profile_script *s)
{
	return s->samples;
}

double profile_script_weight(const struct profile_script *s)
{
	return s->weight;
}

uint64_t profile_script_lost(const struct profile_script *s)
{
	return s->lost;
}

uint64_t profile_script_bad(const struct profile_script *s)
{
	return s->bad;
}

const struct profile_script_func *profile_script_funcs(const struct profile_script *s, size_t *n)
{
	*n = s->n_funcs;
	return s->funcs;
}

const struct profile_script_addr *profile_script_addrs(const struct profile_script *s, size_t *n)
{
	*n = s->n_addrs;
	return s->addrs;
}
