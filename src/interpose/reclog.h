/*
 * What the recorder library (rbrec.c) and the program that starts a build share: names in the
 * environment, the form of the log and of the plan.
 *
 * Log: records one after the other, each written by one write(2) to a file opened for appending:
 * RECLOG_MAGIC, the payload's length as 4 bytes (little endian), the payload.  A payload is a list
 * of fields: one letter (enum reclog_tag), the value, a NUL.
 *
 * Plan: the same fields in one file without frame; 'D' starts a driver's flags, 'K' lines list the
 * keys (16 hex digits, argclass_key()) of the steps that may be altered.
 */
#ifndef INTERPOSE_RECLOG_H
#define INTERPOSE_RECLOG_H

#define RECLOG_ENV_LOG	 "RB_REC_LOG"  /* path of the log; the plan is beside it, with .plan */
#define RECLOG_ENV_MARK	 "RB_REC_MARK" /* pid of the outermost driver, RECLOG_MARK_NONE outside */
#define RECLOG_MARK_NONE "0000000000"
#define RECLOG_LIB	 "librbrec.so"

#define RECLOG_MAGIC	  "RBr1"
#define RECLOG_FRAME	  8U /* magic and length */
#define RECLOG_MAX_RECORD (4U << 20)
#define RECLOG_MAX_PLAN	  (16U << 20)

enum reclog_tag {
	RECLOG_PID = 'p',
	RECLOG_DIR = 'w',
	RECLOG_FILE = 'x',  /* program file that was run */
	RECLOG_INNER = 'i', /* driver that a launcher (ccache) was told to run */
	RECLOG_ARG = 'a',   /* one of argv from the driver on, response files expanded */
	RECLOG_ADDED = '+',
	RECLOG_SWAP = 's', /* this program was run instead */
	RECLOG_ENV = 'e',
	RECLOG_HIDDEN = 'h', /* below a launcher that cannot be recorded; not altered */
	RECLOG_CANCEL = 'X', /* the altered command could not be started: pid's last is unaltered */
	RECLOG_CUT = 'T',    /* too long to be recorded whole */

	RECLOG_PLAN_DRIVER = 'D', /* file, or "file inner" */
	RECLOG_PLAN_COMPILE = 'c',
	RECLOG_PLAN_LINK = 'l',
	RECLOG_PLAN_AR = 'A',
	RECLOG_PLAN_RANLIB = 'R',
	RECLOG_PLAN_NM = 'N',
	RECLOG_PLAN_KEY = 'K',
};

#endif
