/* Shared between the files of this module only. */
#ifndef BUILD_BUILD_PRIV_H
#define BUILD_BUILD_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "build/build.h"
#include "build/flags.h"
#include "build/log.h"
#include "interpose/argclass.h"

struct err;
struct proc_result;
struct str;

#define BUILD_MAX_STEPS	  200000U
#define BUILD_MAX_STRINGS 65536U /* of one list of one step */
#define BUILD_MAX_LOG	  ((size_t)512 << 20)
#define BUILD_MAX_JSON	  ((size_t)256 << 20)

/* ---- lists of strings, and paths (paths.c) ---- */

void build_strv_add(char ***v, size_t *n, char *take);
bool build_strv_has(char *const *v, size_t n, const char *s);
void build_strv_free(char **v, size_t n);
/* cwd/path without "." and "..", lexically.  Caller frees. */
char *build_path_abs(const char *cwd, const char *path);
/* Relative where it lies below dir, else a copy.  Caller frees. */
char *build_path_show(const char *dir, const char *abs);
/* The way back: a shown path made absolute.  Caller frees. */
char *build_path_full(const struct build_record *r, const char *shown);
const char *build_path_base(const char *path);
/* True for an absolute path below dir (dir itself is not). */
bool build_path_below(const char *dir, const char *abs);

/* What a walk of the project hands out: regular files, links not followed, .git and .rocbudai left
 * out; at most a million.  path is absolute. */
struct stat;
typedef void (*build_walk_cb)(void *arg, const char *path, const struct stat *st);
void build_walk(const char *dir, build_walk_cb cb, void *arg);

/* ---- steps (log.c) ---- */

void build_step_done(struct build_step *s);
enum argclass_tool build_step_tool(const struct build_step *s);
/* See argclass_key(). */
uint64_t build_step_key(const struct build_step *s, bool with_output);
/* A compile or link that counts: no probe, no pure assembly. */
bool build_step_counts(const struct build_step *s);
/* Fills kind, langs, sources, objects and outputs from argv and cwd, shown relative to dir. */
void build_step_classify(struct build_step *s, const char *dir);
/* Steps whose sources and outputs are both gone were somebody's tests: probes. */
void build_drop_transient(struct build_record *r);

/* ---- programs (program.c) ---- */

/* Fills r->programs from what its link steps wrote. */
void build_find_programs(struct build_record *r);
void build_program_done(struct build_program *p);

/* ---- running (run.c) ---- */

/* want, else TMPDIR, else /tmp.  Borrowed. */
const char *build_tmp_dir(const char *want);

/* Runs argv (NULL-terminated) in cwd, stdout and stderr captured together.  Caller owes *res
 * proc_result_done(). */
int build_exec(struct proc_keeper *k, const char *const *argv, const char *cwd,
	       const char *const *envp, uint64_t timeout_ns, struct proc_result *res,
	       struct err *err);
/* The last lines of captured output.  Caller frees. */
char *build_tail(const struct proc_result *res, unsigned lines);
/* One line for an error message out of a failed command's output: the first with "error", else the
 * last.  Caller frees. */
char *build_cause(const char *tail);

/* ---- flags (plan.c, arch.c, driver.c) ---- */

/* The name and tuning of this node for a driver, by asking it. */
int build_arch_native(struct proc_keeper *k, const struct build_driver *d, struct build_flags *out,
		      struct err *err);
/* Runs the driver with args (NULL-terminated); ERR_REFUSED where it fails, with its cause. *text
 * (may be NULL) is its output, the caller's. */
int build_driver_ask(struct proc_keeper *k, const struct build_driver *d, const char *const *args,
		     char **text, struct err *err);
/* Compiles (and links) a tiny program with the flags.  ERR_REFUSED with the cause. */
int build_driver_try(struct proc_keeper *k, const struct build_driver *d, char *const *flags,
		     size_t n_flags, bool link, struct err *err);
/* True where all of the driver's compiles have what the action wants; why: the flag. */
bool build_flags_already(const struct build_driver *d, const struct build_action *a, char why[96]);
/* True where a source of base, or a file of the project that it includes by name, has OpenMP
 * pragmas (pragmas.c). */
bool build_has_omp(const struct build_record *base);
/* Writes the plan's file for the recorder. */
void build_plan_write(const struct build_plan *p, struct str *out);

#endif
