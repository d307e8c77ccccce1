/* Candidates: which there are, the next one, and whether its change was applied. */
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "build/build.h"
#include "build/flags.h"
#include "core/cleanup.h"
#include "core/rootfs.h"
#include "core/str.h"
#include "flow/flow_plan.h"
#include "flow/flow_priv.h"
#include "session/session.h"

/* ---- diagnose ---- */

struct try_facts {
	struct diagnose_facts d;
	struct diagnose_unit *units;
	struct diagnose_tunable *tunables;
	char thp[16];
};

static void try_units(struct flow *f, struct try_facts *t)
{
	const struct build_record *rec = f->rec_best;
	AUTO_CLOSE int dir = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t n = 0;

	for (size_t i = 0; i < rec->n_steps; i++)
		n += rec->steps[i].n_sources;
	t->units = xcalloc(n, sizeof(*t->units));
	for (size_t i = 0; i < rec->n_steps; i++) {
		const struct build_step *s = &rec->steps[i];

		if (s->kind != BUILD_COMPILE && s->kind != BUILD_COMPILE_LINK)
			continue;
		for (size_t k = 0; k < s->n_sources && t->d.n_units < DIAGNOSE_UNITS_MAX; k++) {
			struct diagnose_unit *u = &t->units[t->d.n_units++];

			u->source = s->sources[k];
			u->family = build_family_name(s->family);
			u->argv = (const char *const *)s->argv;
			u->n_argv = s->n_argv;
			(void)diagnose_scan_omp(dir, s->sources[k], &u->omp_pragmas, &u->omp_line,
						NULL);
		}
	}
	t->d.units = t->units;
}

static void try_glibc(struct diagnose_facts *d)
{
	const char *text = gnu_get_libc_version();
	char *end;
	unsigned long major = strtoul(text, &end, 10);

	if (*end != '.')
		return;
	d->glibc_major = (unsigned)major;
	d->glibc_minor = (unsigned)strtoul(end + 1, NULL, 10);
}

static void try_node(struct flow *f, struct try_facts *t)
{
	AUTO_CLOSE int root = rootfs_open("/", NULL);
	int cpus[CPU_SETSIZE];
	cpu_set_t set;
	size_t n = 0;

	if (f->pin.has_cpus)
		set = f->pin.cpus;
	else if (sched_getaffinity(0, sizeof(set), &set) < 0)
		CPU_ZERO(&set);
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set))
			cpus[n++] = i;
	}
	t->d.cpus = (unsigned)n;
	diagnose_scan_node(root, cpus, n, &t->d.cores, &t->d.numa_nodes, t->thp);
	t->d.thp = t->thp;
	try_glibc(&t->d);
}

/* A kept OpenMP flag, or one that the build had, means that threads are there to be set. */
static bool try_uses_openmp(const struct flow *f)
{
	for (size_t i = 0; i < json_len(f->best.actions); i++) {
		if (strcmp(json_get_str(json_at(f->best.actions, i), "name", ""), "openmp") == 0)
			return true;
	}
	for (size_t i = 0; i < f->rec_best->n_steps; i++) {
		const struct build_step *s = &f->rec_best->steps[i];

		for (size_t k = 0; k < s->n_argv; k++) {
			if (strncmp(s->argv[k], "-fopenmp", 8) == 0)
				return true;
		}
	}
	return false;
}

static void try_facts_make(struct flow *f, struct try_facts *t)
{
	*t = (struct try_facts){ 0 };
	t->d.build_id = f->id_build;
	t->d.profile_id = f->id_profile;
	t->d.profile = &f->prof;
	t->d.baseline_id = f->id_bench;
	t->d.wall_s = f->base_wall_s;
	t->d.cpu_s = f->base_cpu.median;
	t->d.peak_bytes = f->base_last.peak_bytes;
	t->d.minor_faults = (double)f->base_last.minor_faults;
	t->d.env = (const char *const *)f->envp;
	t->d.uses_openmp = try_uses_openmp(f);
	t->d.allow_fp = f->o->allow_fp;
	try_units(f, t);
	try_node(f, t);
	t->tunables = xcalloc(f->tun.n, sizeof(*t->tunables));
	for (size_t i = 0; i < f->tun.n; i++)
		t->tunables[i] = (struct diagnose_tunable){
			.name = f->tun.v[i].name,
			.values = (const char *const *)f->tun.v[i].values,
			.n_values = f->tun.v[i].n_values,
		};
	t->d.tunables = t->tunables;
	t->d.n_tunables = f->tun.n;
}

static struct json *try_candidate_json(const struct diagnose_candidate *c)
{
	struct json *o = json_new_obj();
	AUTO_FREE char *key = xasprintf("%s: %s", c->play->id, c->change);

	json_set_str(o, "key", key);
	json_set_str(o, "play", c->play->id);
	json_set_str(o, "hypothesis", c->hypothesis);
	json_set_str(o, "change", c->change);
	json_set_str(o, "label", c->label);
	json_set(o, "action", json_dup(c->action));
	return o;
}

static int try_diagnosis_record(struct flow *f, const struct diagnose_list *list,
				const struct diagnose_plays *plays, struct err *err)
{
	AUTO_JSON struct json *detail = json_new_obj();
	const char *parents[3];
	struct ledger_rec rec = { .kind = LEDGER_DECISION, .detail = detail, .parents = parents };
	struct json *skipped = json_new_arr(), *errors = json_new_arr();
	char id[LEDGER_ID_CAP];

	json_set_str(detail, "what", "diagnosis");
	json_set_str(detail, "session", session_id(f->s));
	json_set(detail, "candidates", json_dup(f->todo));
	for (size_t i = 0; i < list->n_skipped; i++) {
		struct json *o = json_new_obj();

		json_set_str(o, "play", list->skipped[i].play_id);
		json_set_str(o, "reason", list->skipped[i].reason);
		json_add(skipped, o);
	}
	for (size_t i = 0; i < plays->n_errors; i++)
		json_add(errors, json_new_str(plays->errors[i]));
	json_set(detail, "skipped", skipped);
	json_set(detail, "errors", errors);
	if (f->id_build[0])
		parents[rec.n_parents++] = f->id_build;
	if (f->id_profile[0])
		parents[rec.n_parents++] = f->id_profile;
	if (f->id_bench[0])
		parents[rec.n_parents++] = f->id_bench;
	return flow_append(f, &rec, id, err);
}

int flow_do_diagnose(struct flow *f, struct err *err)
{
	struct diagnose_plays *plays = NULL;
	struct diagnose_list *list = NULL;
	struct try_facts facts;
	int r = diagnose_plays_load(NULL, NULL, &plays, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < plays->n_errors; i++)
		flow_say(f, "play left out: %s", plays->errors[i]);
	try_facts_make(f, &facts);
	r = diagnose_candidates(&facts.d, plays, &list, err);
	if (r == ERR_OK) {
		json_unref(f->todo);
		f->todo = json_new_arr();
		for (size_t i = 0; i < list->n; i++) {
			struct json *c = try_candidate_json(&list->v[i]);

			if (json_get(f->tried, json_get_str(c, "key", "")))
				json_unref(c);
			else
				json_add(f->todo, c);
		}
		r = try_diagnosis_record(f, list, plays, err);
	}
	diagnose_list_free(list);
	diagnose_plays_free(plays);
	free(facts.units);
	free(facts.tunables);
	return r < 0 ? r : FLOW_OK;
}

/* ---- propose ---- */

static void try_apply_build(struct flow_config *cfg, const struct json *build)
{
	for (size_t i = 0; i < json_len(build); i++) {
		const struct json *a = json_at(build, i);
		const char *name = json_get_str(a, "name", "");
		struct json *kept = json_new_arr();
		bool free_form = strcmp(name, "flag") == 0 || strcmp(name, "link-flag") == 0;

		/* a later level or architecture takes the place of the earlier one */
		for (size_t k = 0; k < json_len(cfg->actions); k++) {
			struct json *old = json_at(cfg->actions, k);

			if (free_form || strcmp(json_get_str(old, "name", ""), name) != 0)
				json_add(kept, json_ref(old));
		}
		json_add(kept, json_dup(a));
		json_unref(cfg->actions);
		cfg->actions = kept;
	}
}

static void try_apply(struct flow_config *cfg, const struct json *action)
{
	const struct json *env = json_get(action, "env"), *t = json_get(action, "tunable");

	try_apply_build(cfg, json_get(action, "build"));
	for (void *it = json_iter(env); it; it = json_next(env, it))
		json_set(cfg->env, json_iter_key(it), json_ref(json_iter_value(it)));
	if (t)
		json_set_str(cfg->tunables, json_get_str(t, "name", ""),
			     json_get_str(t, "value", ""));
}

static struct json *try_next(struct flow *f)
{
	for (size_t i = 0; i < json_len(f->todo); i++) {
		struct json *c = json_at(f->todo, i);

		if (!json_get(f->tried, json_get_str(c, "key", "")))
			return c;
	}
	return NULL;
}

static bool try_agreed(struct flow *f)
{
	AUTO_FREE char *text = NULL;
	const char *label = json_get_str(f->candidate, "label", NULL);

	if (!f->ui.agree)
		return true;
	text = xasprintf("change %u: %s (%s)\n%s%s%s\n", f->iteration + 1,
			 json_get_str(f->candidate, "change", ""),
			 json_get_str(f->candidate, "play", ""),
			 json_get_str(f->candidate, "hypothesis", ""), label ? "\n" : "",
			 label ? label : "");
	return f->ui.agree(f->ui.arg, text);
}

int flow_do_propose(struct flow *f, struct err *err)
{
	struct json *c;

	(void)err;
	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	for (;;) {
		c = f->confirmations < FLOW_CONFIRMATIONS ? try_next(f) : NULL;
		if (!c)
			return FLOW_EV_NOTHING;
		json_unref(f->candidate);
		f->candidate = json_dup(c);
		if (try_agreed(f))
			break;
		if (flow_must_stop(f)) /* no answer, so nothing was declined */
			return FLOW_EV_BUDGET;
		json_set_str(f->tried, json_get_str(c, "key", ""), "declined");
		flow_say(f, "left out, as you said: %s", json_get_str(c, "change", ""));
	}
	f->iteration++;
	flow_config_copy(&f->cand, &f->best);
	try_apply(&f->cand, json_get(f->candidate, "action"));
	flow_guards_init(&f->guards);
	f->id_cand_build[0] = f->id_cand_check[0] = f->id_screen[0] = f->id_confirm[0] =
		f->id_cold[0] = '\0';
	flow_guard_set(&f->guards, FLOW_G_PROFILED, FLOW_MET,
		       f->prof.ok ? "profile %s" : "no profile: see %s", f->id_profile);
	flow_guard_set(&f->guards, FLOW_G_KERNELS, FLOW_NOT_APPLICABLE,
		       "no GPU durations were measured");
	flow_guard_set(&f->guards, FLOW_G_PHYSICS, FLOW_NOT_APPLICABLE, "no counters");
	flow_say(f, "iteration %u: %s (%s)", f->iteration, json_get_str(f->candidate, "change", ""),
		 json_get_str(f->candidate, "play", ""));
	return FLOW_OK;
}

/* ---- change ---- */

static int try_inputs(struct flow *f, struct err *err)
{
	AUTO_FREE char *first = NULL;
	int r = flow_tree_foreign_change(f, f->ck_best, f->ck_cand, &first, err);

	if (r < 0)
		return r;
	if (!first) {
		flow_guard_set(&f->guards, FLOW_G_INPUTS, FLOW_MET, "%s",
			       "only what compiles and links make has changed");
		return FLOW_OK;
	}
	flow_guard_set(&f->guards, FLOW_G_INPUTS, FLOW_NOT_MET,
		       "the build changed %.120s, which no compile or link makes", first);
	return FLOW_EV_FAILED;
}

static int try_not_built(struct flow *f, struct err *err)
{
	int r;

	build_record_free(f->rec_cand);
	f->rec_cand = NULL;
	(void)snprintf(f->ck_cand, sizeof(f->ck_cand), "%s", f->ck_best);
	flow_guard_set(&f->guards, FLOW_G_APPLIED, FLOW_MET, "the run gets %.150s",
		       json_get_str(f->candidate, "change", ""));
	flow_guard_set(&f->guards, FLOW_G_INPUTS, FLOW_NOT_APPLICABLE, "nothing is built");
	/* the record of the candidate's program is the one that was kept last */
	AUTO_JSON struct json *j = build_record_to_json(f->rec_best);

	r = build_record_from_json(j, &f->rec_cand, err);
	return r < 0 ? r : FLOW_OK;
}

static int try_built(struct flow *f, const struct build_plan *plan, const struct build_opts *opts,
		     struct err *err)
{
	struct build_verdict v;
	struct build_record *rec = NULL;
	char label[120]; /* the change itself may be longer than a label */
	int r = build_change(f->k, opts, f->rec_best, &rec, &v, err);

	if (r < 0)
		return r;
	build_record_free(f->rec_cand);
	f->rec_cand = rec;
	r = flow_record_build(f, "candidate", rec, plan, v.applied ? NULL : v.reason,
			      f->id_cand_build, err);
	if (r < 0)
		return r;
	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	if (v.same && flow_config_same_command(&f->best, &f->cand, f->a.build)) {
		/* builds do not read this tunable, so what it may change is the run */
		r = flow_tree_restore(f, f->ck_best, err);
		return r < 0 ? r : try_not_built(f, err);
	}
	if (!v.applied) {
		flow_guard_set(&f->guards, FLOW_G_APPLIED, FLOW_NOT_MET, "%.190s", v.reason);
		return FLOW_EV_FAILED;
	}
	flow_guard_set(&f->guards, FLOW_G_APPLIED, FLOW_MET,
		       "every compile and link was made again%s, the program differs",
		       v.forced ? " (forced)" : "");
	(void)snprintf(label, sizeof(label), "iteration %u: %s", f->iteration,
		       json_get_str(f->candidate, "play", ""));
	r = ckpt_create(f->c, label, f->ck_cand, err);
	return r < 0 ? r : try_inputs(f, err);
}

int flow_do_change(struct flow *f, struct err *err)
{
	AUTO_FREE const char **env = NULL;
	AUTO_FREE char *command = NULL;
	struct build_plan *plan = NULL;
	struct build_opts opts;
	struct err e = { 0 };
	int r = flow_tree_restore(f, f->ck_best, err);

	if (r < 0)
		return r;
	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	if (flow_config_same_build(&f->best, &f->cand, f->a.build, f->a.run))
		return try_not_built(f, err);
	r = flow_plan_make(f, &f->cand, &plan, &e);
	if (r == ERR_REFUSED || r == ERR_INVALID) {
		flow_guard_set(&f->guards, FLOW_G_APPLIED, FLOW_NOT_MET, "%.190s", e.msg);
		return FLOW_EV_FAILED;
	}
	if (r < 0) {
		if (err)
			*err = e;
		return r;
	}
	env = flow_build_env(f, &f->cand);
	command = flow_expand(f->a.build, f->cand.tunables, NULL);
	flow_build_opts(f, command, env, &opts);
	opts.plan = plan;
	r = try_built(f, plan, &opts, err);
	build_plan_free(plan);
	return r;
}

int flow_do_recheck(struct flow *f, struct err *err)
{
	bool ok = false;
	int r;

	if (flow_must_stop(f))
		return FLOW_EV_BUDGET;
	r = flow_check_candidate(f, &f->cand, "candidate", &ok, f->id_cand_check, err);
	if (r < 0)
		return r;
	if (!ok && flow_must_stop(f))
		return FLOW_EV_BUDGET;
	flow_guard_set(&f->guards, FLOW_G_CLEAN, FLOW_MET,
		       "what the run left behind was ended; no GPU is measured");
	return ok && f->guards.state[FLOW_G_CORRECT] != FLOW_NOT_MET ? FLOW_OK : FLOW_EV_FAILED;
}
