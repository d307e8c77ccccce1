/* What the tests of recorded builds share: a keeper, builds, plans, and a look for our traces. */
#ifndef SUPPORT_BUILDS_H
#define SUPPORT_BUILDS_H

#include "build/build.h"
#include "build/flags.h"
#include "core/err.h"
#include "proc/proc.h"
#include "project.h"

struct builds {
	struct proc_keeper *k;
	char *dir;
	const char *command;
	struct build_record *base;
};

static inline struct build_opts builds_opts(const struct builds *b, const struct build_plan *plan)
{
	return (struct build_opts){ .command = b->command,
				    .dir = b->dir,
				    .plan = plan,
				    .timeout_ns = UINT64_C(120000000000) };
}

/* The part of a test that needs an absent tool is passed over, and says so. */
static inline bool builds_need(const char *tool, const char *part)
{
	if (project_has_tool(tool))
		return true;
	(void)printf("skipped: %s: no %s\n", part, tool);
	return false;
}

static inline void builds_start(struct builds *b, const char *command)
{
	struct err err;

	*b = (struct builds){ .command = command, .dir = project_new() };
	CHECK_OK(proc_keeper_open(&b->k, &err), &err);
}

static inline void builds_base(struct builds *b)
{
	struct build_opts o = builds_opts(b, NULL);
	struct err err;

	CHECK_OK(build_baseline(b->k, &o, &b->base, &err), &err);
	if (!build_record_ok(b->base))
		(void)fprintf(stderr, "build: %s\n%s\n", b->base->status, b->base->tail);
	CHECK(build_record_ok(b->base));
	CHECK(!b->base->truncated);
}

/* Nothing of ours may be left in the user's tree. */
static inline void builds_no_trace(const struct builds *b)
{
	CHECK(project_sh(b->dir, "grep -rlaE 'librbrec|RB_REC_|rb-build\\.|LD_PRELOAD' . >&2") ==
	      1);
}

static inline void builds_end(struct builds *b)
{
	build_record_free(b->base);
	proc_keeper_close(b->k);
	project_end(b->dir);
}

static inline size_t builds_count(const struct build_record *r, enum build_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_steps; i++)
		n += r->steps[i].kind == kind;
	return n;
}

static inline struct build_plan *builds_plan(const struct builds *b, enum build_action_kind kind,
					     const char *value)
{
	struct build_action a = { .kind = kind, .value = value };
	struct build_plan *p = NULL;
	struct err err;

	CHECK_OK(build_plan_make(b->k, b->base, &a, 1, false, &p, &err), &err);
	return p;
}

static inline struct build_record *
builds_change(const struct builds *b, const struct build_plan *plan, struct build_verdict *v)
{
	struct build_opts o = builds_opts(b, plan);
	struct build_record *r = NULL;
	struct err err;

	CHECK_OK(build_change(b->k, &o, b->base, &r, v, &err), &err);
	return r;
}

/* -O3 must reach every compile, and the tree must bear no trace.  forced: 1, 0, or -1 for either.
 */
static inline void builds_o3_applies(const struct builds *b, int forced)
{
	struct build_plan *p = builds_plan(b, BUILD_ACT_OPT_LEVEL, "3");
	struct build_verdict v;
	struct build_record *r = builds_change(b, p, &v);

	if (!v.applied)
		(void)fprintf(stderr, "void: %s\n%s\n", v.reason, r->tail);
	CHECK(v.applied);
	if (forced >= 0)
		CHECK_INT(v.forced, forced);
	for (size_t i = 0; i < r->n_steps; i++) {
		if (r->steps[i].kind == BUILD_PROBE)
			CHECK_INT(r->steps[i].n_added, 0);
	}
	builds_no_trace(b);
	build_record_free(r);
	build_plan_free(p);
}

#endif
