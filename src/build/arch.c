/* The name of this node's CPU, as a compiler would resolve "native". */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "build/build_priv.h"
#include "core/cleanup.h"
#include "core/err.h"

/* The x86-64 level of this CPU (psABI), as far as the system lets programs use it. */
static int cpu_level(void)
{
#if defined(__x86_64__)
	bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") &&
		  __builtin_cpu_supports("ssse3");
	bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
		  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
	bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
		  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
		  __builtin_cpu_supports("avx512vl");

	return v4 ? 4 : v3 ? 3 : v2 ? 2 : 1;
#else
	return 0;
#endif
}

/* The level that code for -march=name may use, by the compiler's own macros. */
static int level_of(struct proc_keeper *k, const struct build_driver *d, const char *name)
{
	AUTO_FREE char *march = xasprintf("-march=%s", name), *text = NULL;
	const char *const args[] = { march, "-dM", "-E", "-x", "c", "/dev/null", NULL };

	if (build_driver_ask(k, d, args, &text, NULL) < 0)
		return 0;
	if (strstr(text, "__AVX512VL__ 1") && strstr(text, "__AVX512BW__ 1"))
		return 4;
	if (strstr(text, "__AVX2__ 1") && strstr(text, "__FMA__ 1"))
		return 3;
	return strstr(text, "__SSE4_2__ 1") ? 2 : 1;
}

/* The word after the text's first "key". */
static char *word_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	size_t n;

	if (!at)
		return NULL;
	at += strlen(key);
	at += strspn(at, " \t\"");
	n = strcspn(at, " \t\"\n");
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)at[i]) && !strchr("-_.+", at[i]))
			return NULL;
	}
	return n ? xstrndup(at, n) : NULL;
}

static char *ask_name(struct proc_keeper *k, const struct build_driver *d, struct err *err)
{
	static const char *const gcc[] = { "-march=native", "-Q", "--help=target", NULL };
	static const char *const clang[] = { "-march=native", "-###", "-c", "-x", "c",
					     "/dev/null",     NULL };
	bool is_gcc = d->family == BUILD_FAM_GCC;
	AUTO_FREE char *text = NULL;
	char *name;

	if (build_driver_ask(k, d, is_gcc ? gcc : clang, &text, err) < 0)
		return NULL;
	name = word_after(text, is_gcc ? "-march=" : "\"-target-cpu\"");
	if (!name)
		(void)err_set(err, ERR_REFUSED, "'%s' does not say what -march=native means here",
			      d->key);
	return name;
}

static void flag(struct build_flags *out, char *take)
{
	build_strv_add(&out->compile, &out->n_compile, take);
}

/* nvcc: its host compiler decides. */
static int host_of_nvcc(const struct build_driver *nvcc, struct build_driver *out)
{
	*out = (struct build_driver){ .key = xstrdup("/usr/bin/env g++"),
				      .file = xstrdup("/usr/bin/env"),
				      .inner = xstrdup("g++"),
				      .cwd = xstrdup(nvcc->cwd),
				      .family = BUILD_FAM_GCC };
	for (size_t i = 0; i < nvcc->n_env; i++) {
		if (strncmp(nvcc->env[i], "NVCC_CCBIN=", 11) == 0) {
			free(out->inner);
			out->inner = xstrdup(nvcc->env[i] + 11);
		}
		build_strv_add(&out->env, &out->n_env, xstrdup(nvcc->env[i]));
	}
	return 0;
}

static int names_for(struct proc_keeper *k, const struct build_driver *d, struct build_flags *out,
		     struct err *err)
{
	AUTO_FREE char *name = ask_name(k, d, err);
	int have = cpu_level(), level;

	if (!name)
		return ERR_REFUSED;
	level = level_of(k, d, name);
	if (level < have) { /* the compiler is older than the CPU */
		AUTO_FREE char *v = xasprintf("x86-64-v%d", have);

		if (have > 1 && level_of(k, d, v) == have) {
			flag(out, xasprintf("-march=%s", v));
			if (strncmp(name, "x86-64", 6) != 0)
				flag(out, xasprintf("-mtune=%s", name));
			return 0;
		}
	}
	flag(out, xasprintf("-march=%s", name));
	return 0;
}

int build_arch_native(struct proc_keeper *k, const struct build_driver *d, struct build_flags *out,
		      struct err *err)
{
	struct build_driver host;
	int r;

	if (cpu_level() == 0)
		return err_set(err, ERR_REFUSED,
			       "this node's CPU is no x86-64, whose names alone are resolved");
	if (d->family != BUILD_FAM_NVCC)
		return names_for(k, d, out, err);
	(void)host_of_nvcc(d, &host);
	r = names_for(k, &host, out, err);
	build_driver_done(&host);
	return r;
}
