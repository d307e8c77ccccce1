#include "report/report.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "ledger/ledger.h"
#include "report/report_find.h"
#include "report/report_md.h"

static void put_value(struct str *o, const struct json *rec, const struct ledger_value *v)
{
	md_value(o, v->value, v->unit);
	if (v->has_ci) {
		str_adds(o, " (interval ");
		md_value(o, v->ci95_low, v->unit);
		str_adds(o, " to ");
		md_value(o, v->ci95_high, v->unit);
		str_adds(o, ")");
	}
	str_addf(o, " [%s]", report_id(rec));
}

/* The figure of merit of a record, or wall time. */
static bool find_figure(const struct json *rec, struct ledger_value *v)
{
	return rec && (ledger_find_value(rec, "fom", v) == ERR_OK ||
		       ledger_find_value(rec, "wall", v) == ERR_OK);
}

static const char *put_tag(const struct ledger_value *v)
{
	return v->n >= 3 ? "[FACT]" : "[OPINION]";
}

/* ---- sections ---- */

static void put_summary(struct str *o, const struct ledger *l, size_t start)
{
	const struct json *base = report_role(l, start, "bench", "baseline");
	const struct json *delivery = report_last(l, start, "delivery");
	const struct json *end = report_last(l, start, "end");
	struct ledger_value v;
	unsigned n[3] = { 0, 0, 0 };

	str_adds(o, "## Summary\n\n");
	for (size_t i = start; i < ledger_count(l); i++) {
		const char *d = json_get_str(json_get(ledger_at(l, i), "detail"), "decision", "");

		if (!report_is_iteration(ledger_at(l, i)))
			continue;
		n[strcmp(d, "kept") == 0 ? 0 : strcmp(d, "rejected") == 0 ? 1 : 2]++;
	}
	if (delivery && ledger_find_value(delivery, "gain", &v) == ERR_OK) {
		str_addf(o, "%s Gain of the delivered program over the original: **", put_tag(&v));
		md_value(o, v.value, v.unit);
		str_adds(o, "**");
		if (v.has_ci) {
			str_adds(o, " (interval ");
			md_value(o, v.ci95_low, v.unit);
			str_adds(o, " to ");
			md_value(o, v.ci95_high, v.unit);
			str_adds(o, ")");
		}
		str_addf(o, " [%s]\n\n", report_id(delivery));
	} else if (delivery) {
		str_adds(o, "Nothing was delivered: ");
		md_text(o, json_get_str(json_get(delivery, "detail"), "why", "no reason recorded"));
		str_addf(o, " [%s]\n\n", report_id(delivery));
	} else {
		str_adds(o, "Nothing has been delivered yet.\n\n");
	}
	if (find_figure(base, &v)) {
		str_addf(o, "%s The original: ", put_tag(&v));
		put_value(o, base, &v);
		str_adds(o, "\n\n");
	}
	str_addf(o, "%u iterations: %u kept, %u rejected, %u void.", n[0] + n[1] + n[2], n[0], n[1],
		 n[2]);
	if (end) {
		str_adds(o, " The session ended: ");
		md_text(o, json_get_str(json_get(end, "detail"), "why", ""));
		str_addf(o, " [%s].", report_id(end));
	}
	str_adds(o, "\n\n");
}

static void put_line(struct str *o, const char *name, const char *code)
{
	if (!code || !*code)
		return;
	str_addf(o, "- %s: ", name);
	md_code(o, code);
	str_adds(o, "\n");
}

static void put_delivery(struct str *o, const struct ledger *l, size_t start)
{
	const struct json *rec = report_last(l, start, "delivery");
	const struct json *d = json_get(rec, "detail");
	const char *text = json_get_str(d, "text", NULL);
	const struct json *cmp;
	struct ledger_value v;

	if (!rec || !text)
		return;
	str_addf(o, "## Delivered change [%s]\n\n", report_id(rec));
	put_line(o, "form", json_get_str(d, "form", ""));
	put_line(o, "file", json_get_str(d, "path", ""));
	put_line(o, "where", json_get_str(d, "how", ""));
	str_addf(o, "- applied: %s\n", json_get_bool(d, "applied", false) ? "yes" : "no");
	put_line(o, "build", json_get_str(d, "build", ""));
	put_line(o, "run", json_get_str(d, "run", ""));
	put_line(o, "undo", json_get_str(d, "undo", ""));
	cmp = ledger_get(l, json_get_str(d, "compare", ""));
	for (int i = 0; cmp && i < 2; i++) {
		if (ledger_find_value(cmp, i ? "b" : "a", &v) == ERR_OK) {
			str_addf(o, "- %s: ", i ? "delivered" : "original, measured beside it");
			put_value(o, cmp, &v);
			str_adds(o, "\n");
		}
	}
	str_adds(o, "\n");
	md_block(o, strcmp(json_get_str(d, "form", ""), "patch") == 0 ? "diff" : "sh", text);
	str_adds(o, "\n");
}

static void put_ids(struct str *o, const struct json *rec)
{
	const struct json *p = json_get(rec, "parents");

	str_addf(o, " [%s]", report_id(rec));
	for (size_t i = 0; i < json_len(p); i++)
		str_addf(o, " [%s]", json_str(json_at(p, i)));
}

static void put_guards(struct str *o, const struct json *rec)
{
	const struct json *g = json_get(json_get(rec, "detail"), "guards");

	str_adds(o, "| guard | state | why |\n|---|---|---|\n");
	for (size_t i = 0; i < json_len(g); i++) {
		const struct json *one = json_at(g, i);

		str_adds(o, "| ");
		md_text(o, json_get_str(one, "name", ""));
		str_adds(o, " | ");
		md_text(o, json_get_str(one, "state", ""));
		str_adds(o, " | ");
		md_text(o, json_get_str(one, "why", ""));
		str_addf(o, " [%s] |\n", report_id(rec));
	}
	str_adds(o, "\n");
}

static void put_compare(struct str *o, const struct ledger *l, const struct json *d,
			const char *key)
{
	const struct json *rec = ledger_get(l, json_get_str(d, key, ""));
	struct ledger_value v;

	if (!rec || ledger_find_value(rec, "ratio", &v) < 0)
		return;
	str_addf(o, "- %s: ratio ", key);
	put_value(o, rec, &v);
	str_addf(o, ", %u pairs", v.n);
	if (ledger_find_value(rec, "lower_bound", &v) == ERR_OK &&
	    strcmp(key, "confirmation") == 0) {
		str_adds(o, ", lower bound ");
		md_value(o, v.value, v.unit);
	}
	str_adds(o, "\n");
}

static void put_iteration(struct str *o, const struct ledger *l, const struct json *rec)
{
	const struct json *d = json_get(rec, "detail");
	const char *label = json_get_str(d, "label", NULL);

	str_addf(o, "### Iteration %lld: ", (long long)json_get_int(d, "iteration", 0));
	md_text(o, json_get_str(d, "play", ""));
	str_adds(o, ": ");
	md_text(o, json_get_str(d, "decision", ""));
	str_addf(o, " [%s]\n\n- hypothesis: ", report_id(rec));
	md_text(o, json_get_str(d, "hypothesis", ""));
	put_ids(o, rec);
	str_adds(o, "\n- change: ");
	md_code(o, json_get_str(d, "change", ""));
	str_adds(o, "\n");
	if (label) {
		str_adds(o, "- note: ");
		md_text(o, label);
		str_adds(o, "\n");
	}
	if (json_get_str(d, "check", NULL))
		str_addf(o, "- check: [%s]\n", json_get_str(d, "check", ""));
	put_compare(o, l, d, "screen");
	put_compare(o, l, d, "confirmation");
	put_compare(o, l, d, "cold");
	str_addf(o, "- decision: **%s**: ", json_get_str(d, "decision", ""));
	md_text(o, json_get_str(d, "reason", ""));
	str_addf(o, " [%s]\n\n", report_id(rec));
	put_guards(o, rec);
}

static void put_iterations(struct str *o, const struct ledger *l, size_t start)
{
	const struct json *diag = report_last(l, start, "diagnosis");
	const struct json *skipped = json_get(json_get(diag, "detail"), "skipped");

	str_adds(o, "## Iterations\n\n");
	for (size_t i = start; i < ledger_count(l); i++) {
		if (report_is_iteration(ledger_at(l, i)))
			put_iteration(o, l, ledger_at(l, i));
	}
	if (json_len(skipped)) {
		str_addf(o, "### Not tried [%s]\n\n", report_id(diag));
		for (size_t i = 0; i < json_len(skipped); i++) {
			const struct json *s = json_at(skipped, i);

			str_adds(o, "- ");
			md_text(o, json_get_str(s, "play", ""));
			str_adds(o, ": ");
			md_text(o, json_get_str(s, "reason", ""));
			str_addf(o, " [%s]\n", report_id(diag));
		}
		str_adds(o, "\n");
	}
}

static void put_profile(struct str *o, const struct ledger *l, size_t start)
{
	const struct json *rec = NULL, *d, *funcs, *values;

	for (size_t i = start; i < ledger_count(l) && !rec; i++) {
		if (strcmp(json_get_str(ledger_at(l, i), "kind", ""), "profile") == 0)
			rec = ledger_at(l, i);
	}
	if (!rec)
		return;
	d = json_get(rec, "detail");
	funcs = json_get(d, "functions");
	values = json_get(rec, "values");
	str_addf(o, "## Where the original spends its time [%s]\n\n", report_id(rec));
	if (!json_get_bool(d, "ok", false)) {
		str_adds(o, "There is no profile: ");
		md_text(o, json_get_str(d, "why", ""));
		str_addf(o, " [%s]\n\n", report_id(rec));
		return;
	}
	str_adds(o, "| function | share | source |\n|---|---|---|\n");
	for (size_t i = 0; i < json_len(values) && i < 10; i++) {
		const struct json *v = json_at(values, i), *fn = json_at(funcs, i);

		str_adds(o, "| ");
		md_code(o, json_get_str(v, "name", ""));
		str_adds(o, " | ");
		md_value(o, json_get_num(v, "value", 0), json_get_str(v, "unit", "%"));
		str_addf(o, " [%s] | ", report_id(rec));
		if (json_get_str(fn, "file", NULL)) {
			char text[512];

			(void)snprintf(text, sizeof(text), "%s:%lld", json_get_str(fn, "file", ""),
				       (long long)json_get_int(fn, "line", 0));
			md_code(o, text);
		}
		str_adds(o, " |\n");
	}
	str_adds(o, "\n");
}

static void put_environment(struct str *o, const struct ledger *l, size_t start)
{
	const struct json *rec = ledger_at(l, start), *d = json_get(rec, "detail");
	const struct json *node = json_get(d, "node"),
			  *check = report_role(l, start, "check", "baseline");
	const struct json *cd = json_get(check, "detail");

	str_addf(o, "## Environment [%s]\n\n", report_id(rec));
	put_line(o, "host", json_get_str(rec, "host", ""));
	put_line(o, "processor", json_get_str(node, "cpu", ""));
	str_addf(o, "- cores: %lld\n", (long long)json_get_int(node, "cores", 0));
	put_line(o, "kernel", json_get_str(node, "kernel", ""));
	put_line(o, "governor", json_get_str(node, "governor", ""));
	put_line(o, "build", json_get_str(d, "build", ""));
	put_line(o, "run", json_get_str(d, "run", ""));
	put_line(o, "check", json_get_str(d, "check", ""));
	put_line(o, "held out", json_get_str(d, "heldout", ""));
	put_line(o, "placement", json_get_str(json_get(d, "options"), "pinned", ""));
	if (check) {
		str_adds(o, "- results: ");
		if (strcmp(json_get_str(cd, "mode", ""), "unchecked") == 0) {
			str_adds(o, "**unchecked**: ");
			md_text(o, json_get_str(cd, "why", ""));
		} else {
			md_text(o,
				strcmp(json_get_str(cd, "mode", ""), "command") == 0
					? "checked by the check command"
					: "the output of every run is compared with the original's");
		}
		str_addf(o, " [%s]\n", report_id(check));
		if (!json_get_str(d, "heldout", NULL))
			str_adds(o, "- tested on one input\n");
	}
	if (json_get_bool(json_get(d, "options"), "fom_only", false))
		str_adds(o, "- wall time was not required to agree (`--fom-only`)\n");
	str_adds(o, "\n");
}

char *report_render(const struct ledger *l)
{
	size_t start = report_start(l);
	const struct json *d = json_get(ledger_at(l, start), "detail");
	struct str o = { 0 };

	str_adds(&o, REPORT_MARK "\n\n# Report: ");
	md_text(&o, json_get_str(d, "name", "unnamed"));
	str_addf(
		&o,
		"\n\nHead of the ledger: `%s`, %zu records. `rocbudai report --verify` checks every "
		"number below against it; `[E0001]` names the record that holds a number.\n\n",
		ledger_head(l), ledger_count(l));
	if (ledger_count(l)) {
		put_summary(&o, l, start);
		put_delivery(&o, l, start);
		put_iterations(&o, l, start);
		put_profile(&o, l, start);
		put_environment(&o, l, start);
	}
	return str_take(&o);
}

int report_write(const struct ledger *l, const char *dir, const char **path, struct err *err)
{
	static const char ours[] = "report.md", beside[] = "rocbudai-report.md";
	AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FREE char *text = report_render(l);
	AUTO_FREE char *old = NULL;
	const char *name = ours;
	struct err e = { 0 };
	int r;

	if (fd < 0)
		return err_set(err, ERR_SYS, "the folder %s cannot be opened", dir);
	if (!text)
		return err_set(err, ERR_NOMEM, "no memory for the report");
	r = file_read(fd, ours, (size_t)64 << 20, &old, NULL, &e);
	if ((r == ERR_OK && strncmp(old, REPORT_MARK, strlen(REPORT_MARK)) != 0) ||
	    (r < 0 && file_exists(fd, ours)))
		name = beside; /* a user's own report is never touched */
	r = file_write_atomic(fd, name, text, strlen(text), 0644, err);
	if (r == ERR_OK && path)
		*path = name;
	return r;
}
