/* Conditions of plays: one table of names, each with what it takes and how it is judged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "core/err.h"
#include "core/str.h"
#include "diagnose/diagnose_priv.h"
#include "profile/profile.h"

enum applies_takes { TAKES_TRUE, TAKES_INT, TAKES_TEXT, TAKES_LIST };

struct applies_in {
	const struct diagnose_facts *f;
	const struct json *value;
	struct str *seen, *reason;
};

struct applies_cond {
	const char *name;
	enum applies_takes takes;
	bool (*holds)(const struct applies_in *in);
};

unsigned diagnose_opt_level(const struct diagnose_unit *u, const char **flag)
{
	unsigned level = 0;

	*flag = "no -O";
	for (size_t i = 1; i < u->n_argv; i++) {
		const char *a = u->argv[i];

		if (strncmp(a, "-O", 2) != 0)
			continue;
		*flag = a;
		if (a[2] == '\0' || a[2] == '1' || a[2] == 'g')
			level = 1;
		else if (a[2] == '2' || a[2] == 's' || a[2] == 'z')
			level = 2;
		else
			level = a[2] == '0' ? 0 : 3;
	}
	return level;
}

bool diagnose_has_flag(const struct diagnose_unit *u, const char *prefix)
{
	for (size_t i = 1; i < u->n_argv; i++) {
		if (strncmp(u->argv[i], prefix, strlen(prefix)) == 0)
			return true;
	}
	return false;
}

static void applies_cite(struct str *o, const char *id)
{
	if (id && *id)
		str_addf(o, " [%s]", id);
}

static bool applies_need_units(const struct applies_in *in)
{
	if (in->f->n_units)
		return true;
	str_adds(in->reason, "no compile was recorded");
	return false;
}

/* What the profile says about the sources that a condition found. */
static void applies_add_hot(const struct applies_in *in,
			    bool (*is)(const struct diagnose_unit *u, unsigned arg), unsigned arg)
{
	const struct profile_func *hot = diagnose_hottest(in->f, is, arg);

	if (!hot)
		return;
	str_addf(in->seen, "; of these, %.80s takes %.1f %% of the samples", hot->name,
		 hot->share_pct);
	applies_cite(in->seen, in->f->profile_id);
}

static bool unit_is_below(const struct diagnose_unit *u, unsigned level)
{
	const char *flag;

	return diagnose_opt_level(u, &flag) < level;
}

static bool unit_ignores_omp(const struct diagnose_unit *u, unsigned arg)
{
	(void)arg;
	return u->omp_pragmas && !diagnose_has_flag(u, "-fopenmp");
}

static bool cond_opt_level(const struct applies_in *in)
{
	int64_t below = 0;
	const char *flag, *first = "";
	size_t n = 0;
	double v;

	if (json_num(in->value, &v))
		below = (int64_t)v;
	if (!applies_need_units(in))
		return false;
	for (size_t i = 0; i < in->f->n_units; i++) {
		if (diagnose_opt_level(&in->f->units[i], &flag) >= (unsigned)below)
			continue;
		if (n++ == 0)
			first = flag;
	}
	if (!n) {
		str_addf(in->reason, "every compile has -O%lld or more", (long long)below);
		return false;
	}
	str_addf(in->seen, "%zu of %zu compiles have less than -O%lld (the first: %s)", n,
		 in->f->n_units, (long long)below, first);
	applies_cite(in->seen, in->f->build_id);
	applies_add_hot(in, unit_is_below, (unsigned)below);
	return true;
}

/* No compile has a flag with the prefix. */
static bool applies_none_has(const struct applies_in *in, const char *prefix, const char *what)
{
	if (!applies_need_units(in))
		return false;
	for (size_t i = 0; i < in->f->n_units; i++) {
		if (diagnose_has_flag(&in->f->units[i], prefix)) {
			str_addf(in->reason, "%.100s is compiled with %s already",
				 in->f->units[i].source, prefix);
			return false;
		}
	}
	if (*what) {
		str_adds(in->seen, what);
		applies_cite(in->seen, in->f->build_id);
	}
	return true;
}

static bool cond_no_arch(const struct applies_in *in)
{
	/* -mcpu= is how ARM and Power spell it */
	return applies_none_has(in, "-mcpu=", "") &&
	       applies_none_has(in, "-march=", "no compile names an architecture");
}

static bool cond_no_lto(const struct applies_in *in)
{
	return applies_none_has(in, "-flto", "no compile uses link-time optimisation");
}

static bool cond_no_fast_math(const struct applies_in *in)
{
	return applies_none_has(in, "-Ofast", "") &&
	       applies_none_has(in, "-ffast-math", "no compile uses -ffast-math");
}

static bool cond_omp_unused(const struct applies_in *in)
{
	size_t n = 0, pragmas = 0;
	const struct diagnose_unit *first = NULL;

	if (!applies_need_units(in))
		return false;
	for (size_t i = 0; i < in->f->n_units; i++) {
		const struct diagnose_unit *u = &in->f->units[i];

		if (!unit_ignores_omp(u, 0))
			continue;
		first = first ? first : u;
		pragmas += u->omp_pragmas;
		n++;
	}
	if (!n) {
		str_adds(in->reason,
			 "no source has OpenMP pragmas that are compiled without -fopenmp");
		return false;
	}
	str_addf(in->seen, "%zu OpenMP pragmas in %zu sources are ignored (the first: %.200s",
		 pragmas, n, first->source);
	if (first->omp_line)
		str_addf(in->seen, ":%u)", first->omp_line);
	else
		str_adds(in->seen, ", in what it includes)");
	applies_cite(in->seen, in->f->build_id);
	applies_add_hot(in, unit_ignores_omp, 0);
	return true;
}

static bool cond_uses_openmp(const struct applies_in *in)
{
	if (!in->f->uses_openmp)
		str_adds(in->reason, "the program does not use OpenMP");
	else
		str_adds(in->seen, "the program uses OpenMP");
	return in->f->uses_openmp;
}

static bool cond_allow_fp(const struct applies_in *in)
{
	if (!in->f->allow_fp)
		str_adds(in->reason, "it may change floating-point results: only with --allow-fp");
	return in->f->allow_fp;
}

static bool cond_env_unset(const struct applies_in *in)
{
	if (!in->f->env) {
		str_adds(in->reason, "the environment of the run is not known");
		return false;
	}
	for (size_t i = 0; i < json_len(in->value); i++) {
		const char *name = json_str(json_at(in->value, i));
		size_t n = strlen(name);

		for (const char *const *e = in->f->env; *e; e++) {
			if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') {
				str_addf(in->reason, "%s is set by the user", name);
				return false;
			}
		}
	}
	return true;
}

static bool applies_at_least(const struct applies_in *in, double have, const char *what,
			     const char *id)
{
	double need = 0;

	(void)json_num(in->value, &need);
	if (have <= 0) {
		str_addf(in->reason, "it is not known how many %s there are", what);
		return false;
	}
	if (have < need) {
		str_addf(in->reason, "%.0f %s, fewer than %.0f", have, what, need);
		return false;
	}
	str_addf(in->seen, "%.0f %s", have, what);
	applies_cite(in->seen, id);
	return true;
}

static bool cond_min_cpus(const struct applies_in *in)
{
	return applies_at_least(in, in->f->cpus, "CPUs", NULL);
}

static bool cond_min_numa(const struct applies_in *in)
{
	return applies_at_least(in, in->f->numa_nodes, "NUMA nodes", NULL);
}

static bool cond_min_units(const struct applies_in *in)
{
	return applies_need_units(in) &&
	       applies_at_least(in, (double)in->f->n_units, "compiles", in->f->build_id);
}

static bool cond_min_peak(const struct applies_in *in)
{
	/* told as a plain number: the record holds bytes */
	return applies_at_least(in, (double)(in->f->peak_bytes >> 20), "mebibytes of peak memory",
				in->f->baseline_id);
}

static bool cond_min_faults(const struct applies_in *in)
{
	return applies_at_least(in, in->f->minor_faults, "page faults a run", in->f->baseline_id);
}

/* One of the texts of the list. */
static bool applies_one_of(const struct json *list, const char *text)
{
	for (size_t i = 0; i < json_len(list); i++) {
		if (strcmp(json_str(json_at(list, i)), text) == 0)
			return true;
	}
	return false;
}

static bool cond_thp(const struct applies_in *in)
{
	if (!in->f->thp || !*in->f->thp) {
		str_adds(in->reason, "it is not known how this kernel uses huge pages");
		return false;
	}
	if (!applies_one_of(in->value, in->f->thp)) {
		str_addf(in->reason, "transparent huge pages are set to '%s' here", in->f->thp);
		return false;
	}
	str_addf(in->seen, "transparent huge pages are set to '%s'", in->f->thp);
	return true;
}

static bool cond_compiler(const struct applies_in *in)
{
	if (!applies_need_units(in))
		return false;
	for (size_t i = 0; i < in->f->n_units; i++) {
		if (!applies_one_of(in->value, in->f->units[i].family)) {
			str_addf(in->reason, "%.100s is compiled by %s", in->f->units[i].source,
				 in->f->units[i].family);
			return false;
		}
	}
	return true;
}

static bool applies_version(const char *text, unsigned *major, unsigned *minor)
{
	char *end;
	unsigned long a = strtoul(text, &end, 10), b;

	if (end == text || *end != '.' || a > 999)
		return false;
	text = end + 1;
	b = strtoul(text, &end, 10);
	if (end == text || *end || b > 999)
		return false;
	*major = (unsigned)a;
	*minor = (unsigned)b;
	return true;
}

static bool cond_min_glibc(const struct applies_in *in)
{
	const struct diagnose_facts *f = in->f;
	unsigned major = 0, minor = 0;

	(void)applies_version(json_str(in->value), &major, &minor);
	if (f->glibc_major > major || (f->glibc_major == major && f->glibc_minor >= minor))
		return true;
	str_addf(in->reason, "glibc %u.%u is older than %u.%u, or unknown", f->glibc_major,
		 f->glibc_minor, major, minor);
	return false;
}

static bool cond_tunables(const struct applies_in *in)
{
	for (size_t i = 0; i < in->f->n_tunables; i++) {
		if (in->f->tunables[i].n_values > 1)
			return true;
	}
	str_adds(in->reason, "no tunable was declared (--tunable NAME=v1,v2)");
	return false;
}

static const struct applies_cond conditions[] = {
	{ "opt_level_below", TAKES_INT, cond_opt_level },
	{ "no_arch_flag", TAKES_TRUE, cond_no_arch },
	{ "no_lto", TAKES_TRUE, cond_no_lto },
	{ "no_fast_math", TAKES_TRUE, cond_no_fast_math },
	{ "omp_pragmas_unused", TAKES_TRUE, cond_omp_unused },
	{ "uses_openmp", TAKES_TRUE, cond_uses_openmp },
	{ "allow_fp", TAKES_TRUE, cond_allow_fp },
	{ "env_unset", TAKES_LIST, cond_env_unset },
	{ "min_units", TAKES_INT, cond_min_units },
	{ "min_cpus", TAKES_INT, cond_min_cpus },
	{ "min_numa_nodes", TAKES_INT, cond_min_numa },
	{ "min_peak_mib", TAKES_INT, cond_min_peak },
	{ "min_minor_faults", TAKES_INT, cond_min_faults },
	{ "thp", TAKES_LIST, cond_thp },
	{ "min_glibc", TAKES_TEXT, cond_min_glibc },
	{ "compiler", TAKES_LIST, cond_compiler },
	{ "tunables", TAKES_TRUE, cond_tunables },
};

#define N_CONDITIONS (sizeof(conditions) / sizeof(conditions[0]))

static const struct applies_cond *applies_find(const char *name)
{
	for (size_t i = 0; i < N_CONDITIONS; i++) {
		if (strcmp(conditions[i].name, name) == 0)
			return &conditions[i];
	}
	return NULL;
}

static bool applies_value_fits(const struct applies_cond *c, const struct json *v)
{
	unsigned major, minor;

	switch (c->takes) {
	case TAKES_TRUE:
		return json_truth(v);
	case TAKES_INT:
		return json_kind(v) == JSON_KIND_INT;
	case TAKES_TEXT:
		return json_str(v) && applies_version(json_str(v), &major, &minor);
	case TAKES_LIST:
		for (size_t i = 0; i < json_len(v); i++) {
			if (!json_str(json_at(v, i)))
				return false;
		}
		return json_kind(v) == JSON_KIND_ARR && json_len(v) > 0;
	}
	return false;
}

int diagnose_applies_check(const struct json *applies, const struct json *lines, const char *what,
			   struct err *err)
{
	static const char *const forms[] = { "true", "a whole number", "a version such as \"2.35\"",
					     "a list of words" };

	if (json_kind(applies) != JSON_KIND_OBJ)
		return err_set(err, ERR_INVALID,
			       "%s:%d: 'applies' must be a map of conditions ({}: always)", what,
			       (int)json_get_int(lines, "applies", 1));
	for (void *it = json_iter(applies); it; it = json_next(applies, it)) {
		const struct applies_cond *c = applies_find(json_iter_key(it));
		char path[128];
		int line;

		(void)snprintf(path, sizeof(path), "applies.%.100s", json_iter_key(it));
		line = (int)json_get_int(lines, path, 1);
		if (!c)
			return err_set(err, ERR_INVALID,
				       "%s:%d: unknown condition '%.60s'; docs/plays.md lists them",
				       what, line, json_iter_key(it));
		if (!applies_value_fits(c, json_iter_value(it)))
			return err_set(err, ERR_INVALID, "%s:%d: condition %s takes %s", what, line,
				       c->name, forms[c->takes]);
	}
	return ERR_OK;
}

bool diagnose_applies(const struct diagnose_facts *f, const struct json *applies, struct str *seen,
		      struct str *reason)
{
	for (void *it = json_iter(applies); it; it = json_next(applies, it)) {
		const struct applies_cond *c = applies_find(json_iter_key(it));
		struct str one = { 0 };
		struct applies_in in = {
			.f = f, .value = json_iter_value(it), .seen = &one, .reason = reason
		};
		bool ok = c && c->holds(&in);

		if (ok && one.len)
			str_addf(seen, "%s%s", seen->len ? "; " : "", str_get(&one));
		str_done(&one);
		if (!ok)
			return false;
	}
	return true;
}
