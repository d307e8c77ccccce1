/* The answers, and everything that is made before the first build. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/rootfs.h"
#include "core/str.h"
#include "flow/flow_modules.h"
#include "flow/flow_priv.h"
#include "proc/proc.h"
#include "session/session.h"

#define SETUP_ASKS_MAX 5 /* times that one question is put before it is given up */

int flow_do_discover(struct flow *f, struct err *err)
{
	int r = ledger_open(f->dir, &f->l, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ledger_n_remarks(f->l); i++)
		flow_say(f, "%s", ledger_remark(f->l, i));
	flow_found_done(&f->found);
	flow_discover(f->dir, &f->found);
	return FLOW_OK;
}

/* ---- answers ---- */

/* "", "ok", "default", "y" and the like take the proposed answer. */
static bool setup_takes_default(const char *s)
{
	static const char *const words[] = { "", "ok", "okay", "default", "y", "yes", "fine" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(s, words[i]) == 0)
			return true;
	}
	return false;
}

static char *setup_trim(const char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	for (n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--)
		;
	return xstrndup(s, n);
}

/* Words with blanks or commas between; "none" is an empty list. */
static char **setup_words(const char *text)
{
	char **v = xcalloc(1, sizeof(*v));
	size_t n = 0;

	for (const char *p = text; *p;) {
		size_t len = strcspn(p, " ,\t");

		if (len && !(len == 4 && strncasecmp(p, "none", 4) == 0)) {
			v = xrealloc_n(v, n + 2, sizeof(*v));
			v[n++] = xstrndup(p, len);
			v[n] = NULL;
		}
		p += len;
		p += strspn(p, " ,\t");
	}
	return v;
}

static void setup_free_words(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

static const char *setup_key(enum flow_question q)
{
	static const char *const keys[] = {
		[FLOW_Q_NAME] = "name",	      [FLOW_Q_TYPE] = "type",	[FLOW_Q_ROCM] = "rocm",
		[FLOW_Q_MODULES] = "modules", [FLOW_Q_BUILD] = "build", [FLOW_Q_RUN] = "run",
		[FLOW_Q_FOM] = "fom.pattern"
	};

	return keys[q];
}

static char **setup_field(struct flow *f, enum flow_question q)
{
	switch (q) {
	case FLOW_Q_NAME:
		return &f->a.name;
	case FLOW_Q_TYPE:
		return &f->a.type;
	case FLOW_Q_ROCM:
		return &f->a.rocm;
	case FLOW_Q_BUILD:
		return &f->a.build;
	case FLOW_Q_RUN:
		return &f->a.run;
	case FLOW_Q_FOM:
		return &f->a.fom_pattern;
	case FLOW_Q_MODULES:
		break;
	}
	return NULL;
}

static const char *setup_default(struct flow *f, enum flow_question q, const char **why)
{
	*why = NULL;
	switch (q) {
	case FLOW_Q_NAME:
		return f->found.name;
	case FLOW_Q_TYPE:
		return f->found.type;
	case FLOW_Q_ROCM:
		return f->found.rocm;
	case FLOW_Q_MODULES:
		return "none";
	case FLOW_Q_BUILD:
		*why = f->found.build_why;
		return f->found.build;
	case FLOW_Q_RUN:
		*why = f->found.run_why;
		return f->found.run;
	case FLOW_Q_FOM:
		return "wall time";
	}
	return NULL;
}

static int setup_store(struct flow *f, enum flow_question q, const char *text, struct err *err)
{
	AUTO_FREE char *value = setup_trim(text);
	char **field = setup_field(f, q);
	int r;

	if (q == FLOW_Q_MODULES) {
		setup_free_words(f->a.modules);
		f->a.modules = setup_words(value);
		return ERR_OK;
	}
	if (q == FLOW_Q_FOM && (strcasecmp(value, "wall time") == 0 ||
				strcasecmp(value, "wall") == 0 || strcasecmp(value, "time") == 0)) {
		f->wall_time = true;
		return ERR_OK; /* no pattern: wall time */
	}
	if ((r = session_answer_check(setup_key(q), value, err)) < 0)
		return r;
	free(*field);
	*field = TAKE_PTR(value);
	return ERR_OK;
}

static int setup_missing(enum flow_question q, struct err *err)
{
	return err_set(err, ERR_INVALID,
		       q == FLOW_Q_BUILD
			       ? "no build command was found in this folder: give one with "
				 "--build (or --build true where nothing is built)"
			       : "no program to run was found in this folder: give the "
				 "command with --run");
}

static int setup_ask(struct flow *f, enum flow_question q, struct err *err)
{
	const char *why, *fallback = setup_default(f, q, &why);

	if (!f->ui.ask) {
		if (!fallback)
			return setup_missing(q, err);
		if (q >= FLOW_Q_BUILD)
			flow_say(f, "%s: %s%s%s%s", setup_key(q), fallback, why ? " (" : "",
				 why ? why : "", why ? ")" : "");
		return setup_store(f, q, fallback, err);
	}
	for (int i = 0; i < SETUP_ASKS_MAX; i++) {
		AUTO_FREE char *answer = NULL;
		AUTO_FREE char *text = NULL;
		struct err e = { 0 };
		int r = f->ui.ask(f->ui.arg, q, fallback, why, &answer, err);

		if (r < 0)
			return r;
		text = setup_trim(answer);
		if (setup_takes_default(text)) {
			if (fallback)
				return setup_store(f, q, fallback, err);
			(void)setup_missing(q, &e);
		} else if (setup_store(f, q, text, &e) == ERR_OK) {
			return ERR_OK;
		}
		flow_say(f, "%s", e.msg);
	}
	return err_set(err, ERR_INVALID, "no usable answer to question %d of 7", (int)q);
}

static void setup_take(char **to, const char *from)
{
	if (from) {
		free(*to);
		*to = xstrdup(from);
	}
}

/* Those of the command line are remembered; where it has none, those remembered are taken. */
static int setup_tunables(struct flow *f, struct err *err)
{
	int r;

	for (size_t i = 0; !f->o->n_tunables && f->a.tunables && f->a.tunables[i]; i++) {
		if ((r = flow_tunable_add(&f->tun, f->a.tunables[i], err)) < 0)
			return r;
	}
	if (!f->o->n_tunables)
		return ERR_OK;
	setup_free_words(f->a.tunables);
	f->a.tunables = xcalloc(f->o->n_tunables + 1, sizeof(*f->a.tunables));
	for (size_t i = 0; i < f->o->n_tunables; i++)
		f->a.tunables[i] = xstrdup(f->o->tunables[i]);
	return ERR_OK;
}

/* What the command line said wins over what project.yaml remembers. */
static int setup_known(struct flow *f, struct err *err)
{
	const struct session_answers *g = f->o->given;
	int r = session_answers_load(f->dir, &f->a, err);

	if (r < 0 && r != ERR_NOT_FOUND)
		return r;
	if ((r = setup_tunables(f, err)) < 0)
		return r;
	if (!g)
		return ERR_OK;
	setup_take(&f->a.name, g->name);
	setup_take(&f->a.type, g->type);
	setup_take(&f->a.rocm, g->rocm);
	setup_take(&f->a.build, g->build);
	setup_take(&f->a.run, g->run);
	setup_take(&f->a.check, g->check);
	setup_take(&f->a.heldout, g->heldout);
	setup_take(&f->a.fom_pattern, g->fom_pattern);
	setup_take(&f->a.fom_unit, g->fom_unit);
	if (g->has_fom_higher) {
		f->a.has_fom_higher = true;
		f->a.fom_higher = g->fom_higher;
	}
	if (g->modules) {
		AUTO_STR struct str s = { 0 };

		for (size_t i = 0; g->modules[i]; i++)
			str_addf(&s, "%s ", g->modules[i]);
		setup_free_words(f->a.modules);
		f->a.modules = setup_words(str_get(&s));
	}
	return ERR_OK;
}

static bool setup_answered(struct flow *f, enum flow_question q)
{
	char **field = setup_field(f, q);

	if (q == FLOW_Q_MODULES)
		return f->a.modules != NULL;
	/* without a person the figure of merit is wall time unless it was given */
	return *field != NULL || (q == FLOW_Q_FOM && (f->wall_time || !f->ui.ask));
}

static char *setup_recap(struct flow *f)
{
	struct str s = { 0 };

	str_addf(&s, "project   %s (%s)\n", f->a.name, f->dir);
	str_addf(&s, "type      %s, ROCm %s\n", f->a.type, f->a.rocm);
	str_adds(&s, "modules  ");
	for (size_t i = 0; f->a.modules[i]; i++)
		str_addf(&s, " %s", f->a.modules[i]);
	str_addf(&s, "%s\nbuild     %s\nrun       %s\n", f->a.modules[0] ? "" : " none", f->a.build,
		 f->a.run);
	if (f->a.check)
		str_addf(&s, "check     %s\n", f->a.check);
	if (f->a.heldout)
		str_addf(&s, "held out  %s\n", f->a.heldout);
	str_addf(&s, "figure    %s%s%s\n", f->a.fom_pattern ? f->a.fom_pattern : "wall time",
		 f->a.fom_unit ? " in " : "", f->a.fom_unit ? f->a.fom_unit : "");
	for (size_t i = 0; i < f->tun.n; i++)
		str_addf(&s, "tunable   %s, %zu values, now %s\n", f->tun.v[i].name,
			 f->tun.v[i].n_values, f->tun.v[i].values[0]);
	return str_take(&s);
}

int flow_do_agree(struct flow *f, struct err *err)
{
	AUTO_FREE char *recap = NULL;
	int r;

	if (f->problem.code && (!f->ui.ask || !f->reask))
		return FLOW_EV_FAILED;
	if (f->problem.code) {
		char **field = setup_field(f, f->reask);

		flow_say(f, "%s", f->problem.msg);
		f->problem = (struct err){ 0 };
		f->wall_time &= f->reask != FLOW_Q_FOM;
		if (field) {
			free(*field);
			*field = NULL;
		}
		if (f->reask == FLOW_Q_FOM) { /* unit and direction belonged to the old figure */
			const struct session_answers *g = f->o->given;

			free(f->a.fom_unit);
			f->a.fom_unit = xstrdup(g ? g->fom_unit : NULL);
			f->a.has_fom_higher = g && g->has_fom_higher;
			f->a.fom_higher = g && g->fom_higher;
		}
		f->reask = 0;
	} else if ((r = setup_known(f, err)) < 0) {
		return r;
	}
	for (int q = FLOW_Q_NAME; q <= FLOW_Q_FOM; q++) {
		if (!setup_answered(f, (enum flow_question)q) &&
		    (r = setup_ask(f, (enum flow_question)q, err)) < 0)
			return r;
	}
	recap = setup_recap(f);
	if (f->ui.agree && !f->ui.agree(f->ui.arg, recap))
		return err_set(err, ERR_REFUSED, "stopped: the answers were not confirmed");
	if (!f->ui.agree)
		flow_say(f, "%s", recap);
	return FLOW_OK;
}

/* ---- setup ---- */

static void setup_note(void *arg, const char *path, enum ckpt_reason why, uint64_t size_bytes)
{
	struct flow *f = arg;

	if (why != CKPT_WHY_EXCLUDED && why != CKPT_WHY_USER_GIT)
		flow_say(f, "not covered by checkpoints: %s (%s, %llu bytes)", path,
			 ckpt_reason_text(why), (unsigned long long)size_bytes);
}

static struct json *setup_node(void)
{
	struct json *o = json_new_obj();
	AUTO_CLOSE int root = rootfs_open("/", NULL);
	struct utsname u;
	char text[4096] = "";
	const char *p;

	if (rootfs_read(root, "proc/cpuinfo", text, sizeof(text), NULL) > 0 &&
	    (p = strstr(text, "model name"))) {
		p += strcspn(p, ":\n");
		p += strspn(p, ": \t");
		json_set(o, "cpu", json_new_strn(p, strcspn(p, "\n")));
	}
	json_set_int(o, "cores", sysconf(_SC_NPROCESSORS_ONLN));
	if (uname(&u) == 0)
		json_set_str(o, "kernel", u.release);
	if (rootfs_read(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text,
			sizeof(text), NULL) > 0)
		json_set_str(o, "governor", text);
	return o;
}

static int setup_record(struct flow *f, struct err *err)
{
	AUTO_JSON struct json *detail = session_answers_json(&f->a);
	struct ledger_rec rec = { .kind = LEDGER_USER, .command = f->o->command, .detail = detail };
	struct json *opts = json_new_obj();

	json_set_str(detail, "what", "session");
	json_set_str(detail, "session", session_id(f->s));
	json_set(detail, "node", setup_node());
	json_set_bool(opts, "allow_fp", f->o->allow_fp);
	json_set_bool(opts, "fom_only", f->o->fom_only);
	json_set_bool(opts, "accept_unchecked", f->o->accept_unchecked);
	json_set_real(opts, "rtol", f->o->rtol);
	json_set_real(opts, "atol", f->o->atol);
	json_set_int(opts, "pairs", f->o->pairs);
	json_set_str(opts, "pinned", f->pin.text);
	json_set(detail, "options", opts);
	return flow_append(f, &rec, f->id_session, err);
}

static int setup_checkpoint(struct flow *f, struct err *err)
{
	static const char *const exclude[] = { "report.md", "rocbudai-report.md", "report.html",
					       NULL };
	struct ckpt_opts opts = { .exclude = exclude };
	int r;

	if (!f->c && (r = ckpt_open(ledger_state_dir(f->l), f->dir, &opts, &f->c, err)) < 0)
		return r;
	if (ckpt_recovered(f->c))
		flow_say(f, "%s", ckpt_recovered(f->c));
	if (f->ck_orig[0]) /* a question was asked again: the tree is what it was */
		return flow_tree_restore(f, f->ck_orig, err);
	if ((r = ckpt_plan(f->c, setup_note, f, NULL, err)) < 0)
		return r;
	return ckpt_create(f->c, "before the first change", f->ck_orig, err);
}

int flow_do_setup(struct flow *f, struct err *err)
{
	size_t n = 0;
	int r;

	while (f->a.modules[n])
		n++;
	free(f->envp);
	f->envp = NULL;
	r = flow_modules_env(f->k, (const char *const *)f->a.modules, n, &f->envp, err);
	if (r < 0)
		return r;
	if (!f->s && (r = session_create(f->dir, f->a.name, &f->s, err)) < 0)
		return r;
	if ((r = session_answers_save(f->dir, &f->a, err)) < 0 ||
	    (r = setup_checkpoint(f, err)) < 0)
		return r;
	for (size_t i = 0; i < f->tun.n; i++)
		json_set_str(f->best.tunables, f->tun.v[i].name, f->tun.v[i].values[0]);
	if (!f->id_session[0] && (r = setup_record(f, err)) < 0)
		return r;
	return FLOW_OK;
}
