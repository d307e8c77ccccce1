/* The records of the last session, by what they are for.  Private to the module. */
#ifndef REPORT_REPORT_FIND_H
#define REPORT_REPORT_FIND_H

#include <stddef.h>

struct json;
struct ledger;

/* Index of the record that the last session starts with; 0 where there is none. */
size_t report_start(const struct ledger *l);
/* The last record from start on whose detail.what is so; NULL. */
const struct json *report_last(const struct ledger *l, size_t start, const char *what);
/* The last record of a kind whose detail.role is so; NULL. */
const struct json *report_role(const struct ledger *l, size_t start, const char *kind,
			       const char *role);
/* True for a decision about an iteration. */
int report_is_iteration(const struct json *rec);
const char *report_id(const struct json *rec); /* "" for NULL */

#endif
