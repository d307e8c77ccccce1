/*
 * Verification of a project's evidence: the master, its head, the published copy, and the shards
 * of array tasks.  Finds damage, and whatever was done to the published files, also when every
 * hash in them was recomputed.  It cannot find what the owner of the account does to master, head
 * and copy together; the head hash printed in a report shows that.
 * Threads: any; reads only.
 */
#ifndef LEDGER_VERIFY_H
#define LEDGER_VERIFY_H

#include <stddef.h>

struct err;

#define LEDGER_FINDINGS_MAX 200 /* after that many it stops, and says so in a last finding */

/* line is 1-based; 0: the file as a whole.  file and message are borrowed during the call. */
typedef void (*ledger_finding_cb)(void *arg, const char *file, size_t line, const char *message);

/*
 * Returns the number of findings (0: intact), each told to cb (may be NULL) in file order.
 * Files are streamed: memory does not grow with them.  While a program is writing, it looks again
 * until it saw one state.
 * ERR_NOT_FOUND: no ledger at dir.  ERR_STALE: the folder is a copy of another project, whose
 * ledger this is (named).  ERR_SYS: a file cannot be read.
 */
int ledger_verify(const char *dir, ledger_finding_cb cb, void *arg, struct err *err);

#endif
