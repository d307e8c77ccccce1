/* The cold re-measure: restored tree, clean build, folders that no earlier run has seen. */
#include <errno.h>
#include <fcntl.h>
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
#include "flow/flow_plan.h"
#include "flow/flow_priv.h"
#include "proc/proc.h"

static bool fresh_inside(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return path && strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* An empty folder over dir, with what the run needs of it put back: the project and its state. */
static void fresh_hide(const struct flow *f, struct flow_fresh *fresh, const char *dir)
{
	const char *keep[] = { f->dir, fresh->state };

	if (!file_exists(AT_FDCWD, dir))
		return;
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		if (strcmp(keep[i], dir) == 0) {
			(void)snprintf(fresh->note, sizeof(fresh->note),
				       "%s could not be replaced: it is the project or its state",
				       dir);
			return;
		}
	}
	fresh->mounts[fresh->n_mounts++] = (struct proc_mount){ .dst = dir };
	for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++) {
		if (fresh_inside(keep[i], dir))
			fresh->mounts[fresh->n_mounts++] =
				(struct proc_mount){ .src = keep[i], .dst = keep[i] };
	}
}

int flow_fresh_open(struct flow *f, struct flow_fresh *fresh, struct err *err)
{
	static const char *const hide[] = { "/dev/shm", "/tmp", "/var/tmp" };
	static const struct {
		const char *var, *sub;
	} vars[] = { { "HOME", "home" },
		     { "TMPDIR", "tmp" },
		     { "XDG_CACHE_HOME", "home/.cache" },
		     { "XDG_CONFIG_HOME", "home/.config" },
		     { "XDG_DATA_HOME", "home/.local/share" } };
	size_t n = 0;

	*fresh = (struct flow_fresh){ 0 };
	fresh->root = xasprintf("%s/fresh", ledger_state_dir(f->l));
	for (; n < sizeof(vars) / sizeof(vars[0]); n++) {
		fresh->texts[n] = xasprintf("%s=%s/%s", vars[n].var, fresh->root, vars[n].sub);
		fresh->env[n] = fresh->texts[n];
	}
	/* by its real name, under which it has to be put back */
	fresh->state = realpath(ledger_state_dir(f->l), NULL);
	if (!fresh->state)
		return err_sys(err, errno, "folder %s", ledger_state_dir(f->l));
	/* each is hidden, and at most two folders in it are put back */
	fresh->mounts = xcalloc(3 * sizeof(hide) / sizeof(hide[0]), sizeof(*fresh->mounts));
	if (!proc_can_mount()) {
		(void)snprintf(fresh->note, sizeof(fresh->note),
			       "/dev/shm and /tmp could not be replaced: no mount namespaces here");
		return flow_fresh_renew(fresh, err);
	}
	for (size_t i = 0; i < sizeof(hide) / sizeof(hide[0]); i++)
		fresh_hide(f, fresh, hide[i]);
	return flow_fresh_renew(fresh, err);
}

int flow_fresh_renew(struct flow_fresh *fresh, struct err *err)
{
	static const char *const subs[] = { "home/.cache", "home/.config", "home/.local/share",
					    "tmp" };
	int r = file_remove_tree(AT_FDCWD, fresh->root, err);

	for (size_t i = 0; r == ERR_OK && i < sizeof(subs) / sizeof(subs[0]); i++) {
		AUTO_FREE char *path = file_join(fresh->root, subs[i]);

		r = file_mkdirs(path, 0700, err);
	}
	return r;
}

void flow_fresh_done(struct flow_fresh *fresh)
{
	if (fresh->root)
		(void)file_remove_tree(AT_FDCWD, fresh->root, NULL);
	free(fresh->root);
	free(fresh->state);
	free(fresh->mounts);
	for (size_t i = 0; i < sizeof(fresh->texts) / sizeof(fresh->texts[0]); i++)
		free(fresh->texts[i]);
	*fresh = (struct flow_fresh){ 0 };
}

/* The original tree, every product of ours gone, built from nothing; ck receives its checkpoint. */
static int cold_build(struct flow *f, const struct flow_config *cfg, char ck[CKPT_ID_CAP],
		      char *failed, size_t cap, struct err *err)
{
	AUTO_FREE const char **env = flow_build_env(f, cfg);
	AUTO_FREE char *command = flow_expand(f->a.build, cfg->tunables, NULL);
	struct build_record *rec = NULL;
	struct build_plan *plan = NULL;
	struct build_opts opts;
	char id[LEDGER_ID_CAP];
	int r = flow_tree_restore(f, f->ck_orig, err);

	if (r == ERR_OK && (r = build_remove_outputs(f->rec_orig, err)) >= 0)
		r = flow_plan_make(f, cfg, &plan, err);
	if (r < 0)
		return r;
	flow_build_opts(f, command, env, &opts);
	opts.plan = plan;
	r = build_run(f->k, &opts, &rec, err);
	if (r == ERR_OK)
		r = flow_record_build(f, "cold", rec, plan, NULL, id, err);
	if (r == ERR_OK && !build_record_ok(rec) && flow_must_stop(f))
		r = err_set(err, ERR_CANCELLED, "stopped");
	else if (r == ERR_OK && !build_record_ok(rec))
		(void)snprintf(failed, cap, "the clean build %s", rec->status);
	else if (r == ERR_OK)
		r = ckpt_create(f->c, "cold build", ck, err);
	build_record_free(rec);
	build_plan_free(plan);
	return r;
}

static int cold_measure(struct flow *f, const char *ck_cand, double confirmed_ratio,
			struct err *err)
{
	struct flow_compare c = {
		.role = "cold",
		.ck = { f->ck_cold, ck_cand },
		.cfg = { &f->best, &f->cand },
		.pairs = FLOW_COLD_PAIRS,
		.cold = true,
	};
	int r = flow_compare_run(f, &c, err);

	if (r < 0) {
		compare_result_done(
			&c.res); /* filled where only its record or the way back failed */
		return r;
	}
	(void)snprintf(f->id_cold, sizeof(f->id_cold), "%s", c.id);
	if (c.res.end != BENCH_END_REPS && !c.wrong[0] && flow_must_stop(f)) {
		compare_result_done(&c.res);
		return err_set(err, ERR_CANCELLED, "stopped");
	}
	if (c.wrong[0] || c.failed[0]) {
		flow_guard_set(&f->guards, FLOW_G_COLD, FLOW_NOT_MET, "%s",
			       c.wrong[0] ? c.wrong : c.failed);
	} else if (c.res.end == BENCH_END_REPS) {
		/* half of the confirmed gain: a cold run also pays for what a warm one does not */
		double need = 1 + (confirmed_ratio - 1) / 2, got = c.res.ratio.ratio;

		flow_guard_set(&f->guards, FLOW_G_COLD, got >= need ? FLOW_MET : FLOW_NOT_MET,
			       "cold ratio %.3f×, at least %.3f× is needed%s%.100s", got, need,
			       c.note[0] ? "; " : "", c.note);
	}
	compare_result_done(&c.res);
	return ERR_OK;
}

int flow_cold_check(struct flow *f, double confirmed_ratio, struct err *err)
{
	char ck_cand[CKPT_ID_CAP] = "", failed[160] = "";
	bool same = flow_nothing_built(f);
	int r = ERR_OK;

	if (!f->ck_cold[0])
		r = cold_build(f, &f->best, f->ck_cold, failed, sizeof(failed), err);
	if (r == ERR_OK && !failed[0]) {
		if (same)
			(void)snprintf(ck_cand, sizeof(ck_cand), "%s", f->ck_cold);
		else
			r = cold_build(f, &f->cand, ck_cand, failed, sizeof(failed), err);
	}
	if (r == ERR_OK && failed[0])
		flow_guard_set(&f->guards, FLOW_G_COLD, FLOW_NOT_MET, "%s", failed);
	else if (r == ERR_OK && same)
		r = flow_tree_restore(f, f->ck_cold, err);
	if (r == ERR_OK && !failed[0])
		r = cold_measure(f, ck_cand, confirmed_ratio, err);
	if (r < 0)
		return r;
	/* the next candidate is compared with this one, if it is kept */
	if (f->guards.state[FLOW_G_COLD] == FLOW_MET && ck_cand[0])
		(void)snprintf(f->ck_cold, sizeof(f->ck_cold), "%s", ck_cand);
	return flow_tree_restore(f, f->ck_cand, err);
}
