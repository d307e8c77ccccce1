#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger.h"
#include "ledger/verify.h"
#include "report/report.h"
#include "report/report_num.h"

#define VERIFY_FILE_MAX	  ((size_t)64 << 20)
#define VERIFY_MAX_CITED  64
#define VERIFY_MAX_DIFFER 50

struct verify {
	report_finding_cb cb;
	void *arg;
	const char *file;
	int n;
};

static void verify_tell(struct verify *v, size_t line, const char *what)
{
	struct report_finding f = { .file = v->file, .line = line, .what = what };

	v->n++;
	if (v->cb)
		v->cb(v->arg, &f);
}

/* ---- numbers ---- */

/* The records that a line cites as [E0001] or [host-1:E0001]. */
static size_t verify_cited(const struct ledger *l, const char *p, const char *end,
			   const struct json **v)
{
	size_t n = 0;

	for (; p < end; p++) {
		const char *close;
		char id[LEDGER_ID_CAP];
		size_t len;

		if (*p != '[')
			continue;
		close = memchr(p, ']', (size_t)(end - p));
		len = close ? (size_t)(close - p) - 1 : 0;
		if (!len || len >= sizeof(id))
			continue;
		memcpy(id, p + 1, len);
		id[len] = '\0';
		if (l && n < VERIFY_MAX_CITED && (v[n] = ledger_get(l, id)))
			n++;
	}
	return n;
}

/* The line without its code spans, which are quotations. */
static char *verify_strip(const char *p, const char *end)
{
	char *out = xcalloc(1, (size_t)(end - p) + 1);
	size_t n = 0;

	while (p < end) {
		size_t run = 0, k;
		const char *q;

		while (p + run < end && p[run] == '`')
			run++;
		if (!run) {
			out[n++] = *p++;
			continue;
		}
		for (q = p + run; q < end; q += k ? k : 1) {
			for (k = 0; q + k < end && q[k] == '`'; k++)
				;
			if (k == run)
				break;
		}
		p = q < end ? q + run : p + run;
	}
	return out;
}

static void verify_line(struct verify *v, const struct ledger *l, const char *p, const char *end,
			size_t line)
{
	const struct json *cited[VERIFY_MAX_CITED];
	AUTO_FREE char *text = verify_strip(p, end);
	const char *stop = text + strlen(text), *s = text;
	size_t n = verify_cited(l, text, stop, cited);
	struct report_num num;
	bool any = false;

	while (report_num_next(s, stop, cited, n, &num)) {
		char what[240];
		bool held = false;

		any = true;
		for (size_t i = 0; i < n && !held; i++)
			held = report_num_held(cited[i], &num);
		if (!held) {
			(void)snprintf(what, sizeof(what),
				       n ? "no record cited here holds '%.*s'"
					 : "'%.*s' cites no record, so nobody measured it",
				       (int)(num.full_len < 60 ? num.full_len : 60), num.start);
			verify_tell(v, line, what);
		}
		s = num.start + num.full_len;
	}
	if (strstr(text, "[FACT]") && !any)
		verify_tell(v, line, "a fact without a number and unit");
}

int report_check_numbers(const struct ledger *l, const char *text, size_t len, const char *file,
			 report_finding_cb cb, void *arg)
{
	struct verify v = { .cb = cb, .arg = arg, .file = file };
	const char *end = text + len;
	size_t line = 1, fence = 0;

	for (const char *p = text; p < end; line++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *eol = nl ? nl : end;
		size_t ticks = 0;

		while (p + ticks < eol && p[ticks] == '`')
			ticks++;
		if (fence) {
			if (ticks >= fence && p + ticks == eol)
				fence = 0;
		} else if (ticks >= 3 && !memchr(p + ticks, '`', (size_t)(eol - p) - ticks)) {
			fence = ticks;
		} else {
			verify_line(&v, l, p, eol, line);
		}
		p = eol + 1;
	}
	return v.n;
}

/* ---- the report as a whole ---- */

/* An iteration's section must say what was tried, why, and what became of it. */
static void verify_iterations(struct verify *v, const char *text)
{
	size_t line = 1, at = 0;
	bool open = false, change = false, decision = false, hypothesis = false;

	for (const char *p = text;; line++) {
		size_t n = strcspn(p, "\n");
		bool last = p[n] == '\0';

		if (open && (*p == '#' || (last && n == 0))) {
			if (!change || !decision || !hypothesis)
				verify_tell(v, at,
					    "an empty iteration: hypothesis, change and decision "
					    "must be there");
			open = false;
		}
		if (strncmp(p, "### Iteration ", 14) == 0) {
			open = true;
			change = decision = hypothesis = false;
			at = line;
		}
		hypothesis |= strncmp(p, "- hypothesis: ", 14) == 0 && n > 20 && p[14] != ' ';
		change |= strncmp(p, "- change: `", 11) == 0 && n > 12;
		decision |= strncmp(p, "- decision: **", 14) == 0 && n > 16;
		if (last)
			break;
		p += n + 1;
	}
}

/* Line by line against what the ledger gives. */
static void verify_rendered(struct verify *v, const char *have, const char *want)
{
	size_t line = 1;

	for (int told = 0; (*have || *want) && told < VERIFY_MAX_DIFFER; line++) {
		size_t a = strcspn(have, "\n"), b = strcspn(want, "\n");

		if (a != b || memcmp(have, want, a) != 0) {
			verify_tell(v, line,
				    !*have ? "lines that the ledger gives are missing from here on"
				    : !*want ? "the ledger gives no such line"
					     : "the ledger gives another line here");
			told++;
			if (!*have || !*want)
				break;
		}
		have += a + (have[a] == '\n');
		want += b + (want[b] == '\n');
	}
}

static void verify_report(struct verify *v, const struct ledger *l, const char *dir)
{
	static const char *const names[] = { "report.md", "rocbudai-report.md" };
	AUTO_CLOSE int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_FREE char *want = report_render(l);

	for (size_t i = 0; fd >= 0 && want && i < sizeof(names) / sizeof(names[0]); i++) {
		AUTO_FREE char *have = NULL;
		size_t len;

		if (file_read(fd, names[i], VERIFY_FILE_MAX, &have, &len, NULL) < 0 ||
		    strncmp(have, REPORT_MARK, strlen(REPORT_MARK)) != 0)
			continue;
		v->file = names[i];
		if (strlen(have) != len)
			verify_tell(v, 0, "it holds NUL bytes");
		v->n += report_check_numbers(l, have, len, names[i], v->cb, v->arg);
		verify_iterations(v, have);
		verify_rendered(v, have, want);
		return;
	}
	v->file = "report.md";
	if (ledger_count(l))
		verify_tell(v, 0, "there is no report of ours; 'rocbudai report' makes it");
}

static void verify_ledger_cb(void *arg, const char *file, size_t line, const char *message)
{
	struct verify *v = arg;

	v->file = file;
	verify_tell(v, line, message);
}

int report_verify(const char *dir, report_finding_cb cb, void *arg, struct err *err)
{
	struct verify v = { .cb = cb, .arg = arg };
	struct ledger *l = NULL;
	int r = ledger_verify(dir, verify_ledger_cb, &v, err);

	if (r < 0)
		return r;
	r = ledger_open_read(dir, &l, err);
	if (r < 0) /* damage that was told above */
		return v.n ? v.n : r;
	verify_report(&v, l, dir);
	ledger_close(l);
	return v.n;
}
