/*
 * report.md and its JSON form, derived from the evidence ledger and from nothing else, and the
 * check that a report and its ledger agree.  Threads: any, one ledger a thread.
 */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json;
struct ledger;

#define REPORT_MARK "<!-- rocbudai report: made from the evidence ledger; edits are overwritten -->"

/* The whole text; the same ledger always gives the same bytes.  Caller frees. */
char *report_render(const struct ledger *l);
/*
 * Renders and replaces report.md in the project folder; where a report.md without our mark is
 * there, it is a user's and rocbudai-report.md is written.  *path (may be NULL) receives the file's
 * name, static.
 */
int report_write(const struct ledger *l, const char *dir, const char **path, struct err *err);

/*
 * gain (over 1 is better; null when nothing was delivered), gain_ci95_low, gain_ci95_high,
 * baseline, best (each value, unit, evidence; or null), iterations[] (id, play, change, decision,
 * reason, ratio, ci95_low, ci95_high, evidence[]), head, records.  A new reference.
 */
struct json *report_json(const struct ledger *l);

struct report_finding {
	const char *file; /* as a path relative to the project, or absolute for a master */
	size_t line;	  /* 0: the file as a whole */
	const char *what; /* what is wrong, without full stop */
};
typedef void (*report_finding_cb)(void *arg, const struct report_finding *f);

/*
 * Checks chain, master against copy, and the report against both.  Returns the number of findings
 * (0: all holds), each told to cb (may be NULL), or ERR_* when it cannot be judged at all
 * (ERR_NOT_FOUND: no ledger here).
 */
int report_verify(const char *dir, report_finding_cb cb, void *arg, struct err *err);

/*
 * The numbers of a text against the records that it cites (l NULL: an empty ledger): every number
 * with a unit, a per cent or a times sign must be held, to the digits written, by a record that is
 * cited (E0007) on its line. Code spans and fenced blocks are quotations and are passed over.
 * Returns the number of findings.
 */
int report_check_numbers(const struct ledger *l, const char *text, size_t len, const char *file,
			 report_finding_cb cb, void *arg);

#endif
