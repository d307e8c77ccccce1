/* Time.  Durations are monotonic nanoseconds; dates are UTC.  Threads: any. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define NS_PER_MS  UINT64_C(1000000)

uint64_t clock_mono_ns(void);
/* "2026-12-01T16:14:47.123Z" */
void clock_iso_now(char out[32]);
void clock_iso(time_t sec, long ns, char out[32]);
/* "850 ms", "12.3 s", "4m 05s", "1h 02m" */
void clock_human(uint64_t ns, char out[32]);

#endif
