/*
 * The test programs' assertions: they hold in every build type and name file, line and values.
 * A test that cannot run here prints why and exits 77 (CHECK_SKIP).
 */
#ifndef SUPPORT_CHECK_H
#define SUPPORT_CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			(void)fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_INT(got, want)                                                                       \
	do {                                                                                       \
		long long got_ = (long long)(got), want_ = (long long)(want);                      \
		if (got_ != want_) {                                                               \
			(void)fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, \
				      #got, got_, want_);                                          \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_STR(got, want)                                                                       \
	do {                                                                                       \
		const char *got_ = (got), *want_ = (want);                                         \
		if (!got_ || strcmp(got_, want_) != 0) {                                           \
			(void)fprintf(stderr, "%s:%d: %s is '%s', not '%s'\n", __FILE__, __LINE__, \
				      #got, got_ ? got_ : "(null)", want_);                        \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* text contains part */
#define CHECK_HAS(text, part)                                                                      \
	do {                                                                                       \
		const char *got_ = (text), *want_ = (part);                                        \
		if (!got_ || !strstr(got_, want_)) {                                               \
			(void)fprintf(stderr, "%s:%d: %s is '%s', without '%s'\n", __FILE__,       \
				      __LINE__, #text, got_ ? got_ : "(null)", want_);             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* r of a call that fills err: 0 or more, else its message is shown */
#define CHECK_OK(r, e)                                                                             \
	do {                                                                                       \
		int r_ = (r);                                                                      \
		if (r_ < 0) {                                                                      \
			(void)fprintf(stderr, "%s:%d: %s failed with %d: %s\n", __FILE__,          \
				      __LINE__, #r, r_, (e)->msg);                                 \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_SKIP(why)                                                                            \
	do {                                                                                       \
		(void)printf("skipped: %s\n", why);                                                \
		exit(77);                                                                          \
	} while (0)

#endif
