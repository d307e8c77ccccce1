/* Error value passed back next to a negative return code.  Threads: any. */
#ifndef CORE_ERR_H
#define CORE_ERR_H

enum err_code {
	ERR_OK = 0,
	ERR_SYS = -1,	    /* a system call failed; sys_errno says how */
	ERR_INVALID = -2,   /* the caller's or user's argument is wrong (exit code 2) */
	ERR_PARSE = -3,	    /* bytes from outside do not have the expected form */
	ERR_LIMIT = -4,	    /* a stated limit was reached */
	ERR_NOT_FOUND = -5, /* the thing asked for does not exist */
	ERR_NOMEM = -6,	    /* an allocation whose size came from outside failed */
	ERR_BUSY = -7,	    /* somebody else holds it */
	ERR_CANCELLED = -8, /* the user interrupted */
	ERR_STALE = -9,	    /* what it relies on has changed since */
	ERR_REFUSED = -10,  /* a rule of ours or an answer of the user's forbids it */
};

/*
 * Caller-owned, no heap.  A function that fails fills it exactly once; a
 * function that succeeds leaves it alone.  NULL is accepted everywhere.
 */
struct err {
	enum err_code code;
	int sys_errno; /* 0 unless code is ERR_SYS */
	char msg[480];
};

/* All three return the (negative) code, so callers write: return err_set(...) */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Appends ": <text of errnum>". */
int err_sys(struct err *err, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Prefixes "context: " to the message already in err; keeps the code. */
int err_wrap(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
