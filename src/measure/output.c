#include "measure/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "measure/output_priv.h"

struct output_names {
	struct output_name v[OUTPUT_NAMES_MAX];
	size_t n;
};

struct output_model {
	struct output_rules rules;
	struct output_page page[2]; /* stdout, stderr */
	bool use[2];		    /* is compared */
	bool any_order[2];
	size_t n_runs;
	enum output_mode mode;
	char why[OUTPUT_TEXT_CAP + 80];
	struct output_names ignored, results;
};

static const char *const output_where[2] = { "", " of stderr" };

const char *output_class_name(enum output_class c)
{
	static const char *const names[OUTPUT_N_CLASSES] = {
		[OUTPUT_RESULT] = "result",   [OUTPUT_FOM] = "figure of merit",
		[OUTPUT_TIME] = "time",	      [OUTPUT_DATE] = "date",
		[OUTPUT_ADDRESS] = "address", [OUTPUT_PID] = "pid",
		[OUTPUT_HOST] = "host",	      [OUTPUT_RATE] = "throughput",
		[OUTPUT_USER] = "ignored",
	};

	return (unsigned)c < OUTPUT_N_CLASSES ? names[c] : "unknown";
}

const char *output_mode_name(enum output_mode m)
{
	switch (m) {
	case OUTPUT_COMPARED:
		return "output";
	case OUTPUT_UNCHECKED:
		return "unchecked";
	case OUTPUT_NOT_DETERMINISTIC:
		return "not deterministic";
	}
	return "unknown";
}

/* ---- learning ---- */

static void output_add_name(struct output_names *names, const char *name, enum output_class cls)
{
	for (size_t i = 0; i < names->n; i++) {
		if (names->v[i].cls == cls && strcmp(names->v[i].name, name) == 0) {
			names->v[i].n++;
			return;
		}
	}
	if (names->n < OUTPUT_NAMES_MAX)
		names->v[names->n++] =
			(struct output_name){ .name = xstrdup(name), .cls = cls, .n = 1 };
}

static void output_note_field(void *arg, const struct output_page *p,
			      const struct output_item *item, size_t line, size_t field,
			      bool result)
{
	struct output_model *m = arg;
	char name[64];

	if (item->cls == OUTPUT_RESULT && !result)
		return;
	if (item->name_len)
		output_cut(p->text + item->name_off, item->name_len, name);
	else
		(void)snprintf(name, sizeof(name), "line %u, field %zu", p->lines[line].no, field);
	output_add_name(result ? &m->results : &m->ignored, name, (enum output_class)item->cls);
}

static const struct output_stream *output_stream_of(const struct output_run *run, int which)
{
	return which ? &run->err : &run->out;
}

/* Whether what another run printed is the same as the model's page; fills d where not. */
static bool output_agrees(struct output_model *m, int which, const struct output_stream *s,
			  struct output_diff *d)
{
	bool tolerant = m->rules.rtol > 0 || m->rules.atol > 0;
	struct output_page *a = &m->page[which], b;

	output_page_init(&b, &m->rules, s, a, NULL, NULL);
	output_diff_pages(&m->rules, a, &b, m->any_order[which], d);
	if (d->n && !m->any_order[which] && !a->binary && !b.binary && output_same_lines(a, &b)) {
		struct output_diff again = { .learning = true, .where = d->where };

		output_diff_pages(&m->rules, a, &b, true, &again);
		*d = again;
		m->any_order[which] = again.n == 0;
	} else if (d->n == 0 && tolerant && !m->any_order[which]) {
		output_page_widen(a, &b);
	}
	output_page_done(&b);
	return d->n == 0;
}

static bool output_learn_stream(struct output_model *m, const struct output_run *runs,
				size_t n_runs, int which)
{
	output_page_init(&m->page[which], &m->rules, output_stream_of(&runs[0], which), NULL,
			 output_note_field, m);
	if (m->rules.rtol > 0 || m->rules.atol > 0)
		output_page_widen(&m->page[which], &m->page[which]);
	for (size_t i = 1; i < n_runs; i++) {
		struct output_diff d = { .learning = true, .where = output_where[which] };

		if (output_agrees(m, which, output_stream_of(&runs[i], which), &d))
			continue;
		m->mode = OUTPUT_NOT_DETERMINISTIC;
		(void)snprintf(m->why, sizeof(m->why), "not deterministic in %s", d.text[0]);
		return false;
	}
	return true;
}

static void output_say_unchecked(struct output_model *m)
{
	m->mode = OUTPUT_UNCHECKED;
	if (output_page_empty(&m->page[0]) && output_page_empty(&m->page[1]))
		(void)snprintf(m->why, sizeof(m->why), "nothing was printed");
	else
		(void)snprintf(m->why, sizeof(m->why),
			       "no field of the output tells a result (%zu are ignored as times, "
			       "throughputs and the like)",
			       m->page[0].n_ignored + m->page[1].n_ignored);
}

/* stderr counts only where stdout says nothing; warnings and progress are no results. */
static void output_learn_streams(struct output_model *m, const struct output_run *runs,
				 size_t n_runs)
{
	m->mode = OUTPUT_COMPARED;
	if (!output_learn_stream(m, runs, n_runs, 0))
		return;
	m->use[0] = true;
	if (m->page[0].n_results)
		return;
	if (!output_learn_stream(m, runs, n_runs, 1) || m->page[1].n_results == 0) {
		output_say_unchecked(m);
		return;
	}
	m->use[1] = true;
}

int output_learn(const struct output_run *runs, size_t n_runs, const struct output_opts *opts,
		 struct output_model **out, struct err *err)
{
	struct output_model *m;
	int r;

	if (n_runs < 1 || n_runs > OUTPUT_RUNS_MAX)
		return err_set(err, ERR_INVALID, "output is learnt from 1 to %d runs, not %zu",
			       OUTPUT_RUNS_MAX, n_runs);
	m = xcalloc(1, sizeof(*m));
	m->n_runs = n_runs;
	r = output_rules_init(&m->rules, opts, err);
	if (r < 0) {
		free(m);
		return r;
	}
	output_learn_streams(m, runs, n_runs);
	*out = m;
	return ERR_OK;
}

static void output_names_done(struct output_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i].name);
}

void output_model_free(struct output_model *m)
{
	if (!m)
		return;
	output_rules_done(&m->rules);
	output_page_done(&m->page[0]);
	output_page_done(&m->page[1]);
	output_names_done(&m->ignored);
	output_names_done(&m->results);
	free(m);
}

enum output_mode output_model_mode(const struct output_model *m)
{
	return m->mode;
}

const char *output_model_why(const struct output_model *m)
{
	return m->why;
}

size_t output_model_compared(const struct output_model *m)
{
	return (m->use[0] ? m->page[0].n_fields : 0) + (m->use[1] ? m->page[1].n_fields : 0);
}

size_t output_model_results(const struct output_model *m)
{
	return (m->use[0] ? m->page[0].n_results : 0) + (m->use[1] ? m->page[1].n_results : 0);
}

size_t output_model_ignored(const struct output_model *m)
{
	return (m->use[0] ? m->page[0].n_ignored : 0) + (m->use[1] ? m->page[1].n_ignored : 0);
}

uint64_t output_model_unseen(const struct output_model *m)
{
	uint64_t n = 0;

	for (int i = 0; i < 2; i++) {
		if (m->use[i] && !m->page[i].rest_sha256[0])
			n += m->page[i].rest;
	}
	return n;
}

const struct output_name *output_model_ignored_names(const struct output_model *m, size_t *n)
{
	*n = m->ignored.n;
	return m->ignored.v;
}

const struct output_name *output_model_result_names(const struct output_model *m, size_t *n)
{
	*n = m->results.n;
	return m->results.v;
}

static struct json *output_names_json(const struct output_names *names, bool with_class)
{
	struct json *arr = json_new_arr();

	for (size_t i = 0; i < names->n; i++) {
		const struct output_name *nm = &names->v[i];
		AUTO_FREE char *text =
			with_class ? xasprintf("%s (%s)", nm->name, output_class_name(nm->cls))
				   : xstrdup(nm->name);

		json_add(arr, json_new_str(text));
	}
	return arr;
}

struct json *output_model_json(const struct output_model *m)
{
	struct json *j = json_new_obj(), *streams = json_new_arr();

	if (m->use[0])
		json_add(streams, json_new_str("stdout"));
	if (m->use[1])
		json_add(streams, json_new_str("stderr"));
	json_set_str(j, "mode", output_mode_name(m->mode));
	json_set_str(j, "why", m->why[0] ? m->why : NULL);
	json_set_int(j, "runs", (int64_t)m->n_runs);
	json_set_int(j, "compared_fields", (int64_t)output_model_compared(m));
	json_set_int(j, "result_fields", (int64_t)output_model_results(m));
	json_set_int(j, "ignored_fields", (int64_t)output_model_ignored(m));
	json_set(j, "ignored", output_names_json(&m->ignored, true));
	json_set(j, "results", output_names_json(&m->results, false));
	json_set_bool(j, "any_order", m->any_order[0] || m->any_order[1]);
	json_set(j, "streams", streams);
	json_set_int(j, "unseen_bytes", (int64_t)output_model_unseen(m));
	json_set_real(j, "rtol", m->rules.rtol);
	json_set_real(j, "atol", m->rules.atol);
	return j;
}

/* ---- comparing ---- */

void output_check(const struct output_model *m, const struct output_run *run,
		  struct output_verdict *out)
{
	*out = (struct output_verdict){ .mode = m->mode };
	if (m->mode != OUTPUT_COMPARED)
		return;
	for (int which = 0; which < 2; which++) {
		struct output_diff d = { .where = output_where[which] };
		struct output_page b;

		if (!m->use[which])
			continue;
		output_page_init(&b, &m->rules, output_stream_of(run, which), &m->page[which], NULL,
				 NULL);
		output_diff_pages(&m->rules, &m->page[which], &b, m->any_order[which], &d);
		output_page_done(&b);
		for (size_t i = 0; i < d.n && i < OUTPUT_MISMATCH_SHOWN; i++) {
			if (out->n_mismatches + i < OUTPUT_MISMATCH_SHOWN)
				memcpy(out->mismatch[out->n_mismatches + i], d.text[i],
				       sizeof(d.text[i]));
		}
		out->n_mismatches += d.n;
		out->compared += d.compared;
	}
	out->ok = out->n_mismatches == 0;
}

struct json *output_verdict_json(const struct output_verdict *v)
{
	struct json *j = json_new_obj(), *arr = json_new_arr();

	json_set_str(j, "mode", output_mode_name(v->mode));
	json_set_bool(j, "ok", v->ok);
	json_set_int(j, "compared_fields", (int64_t)v->compared);
	json_set_int(j, "n_mismatches", (int64_t)v->n_mismatches);
	for (size_t i = 0; i < v->n_mismatches && i < OUTPUT_MISMATCH_SHOWN; i++)
		json_add(arr, json_new_str(v->mismatch[i]));
	json_set(j, "mismatches", arr);
	return j;
}
