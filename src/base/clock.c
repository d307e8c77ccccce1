#include "base/clock.h"

#include <stdio.h>

uint64_t clock_mono_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

void clock_iso(time_t sec, long ns, char out[32])
{
	struct tm tm = { 0 };
	int ms = (int)(ns / 1000000) % 1000;

	(void)gmtime_r(&sec, &tm);
	(void)snprintf(out, 32, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", (tm.tm_year + 1900) % 10000,
		       (tm.tm_mon + 1) % 100, tm.tm_mday % 100, tm.tm_hour % 100, tm.tm_min % 100,
		       tm.tm_sec % 100, ms < 0 ? 0 : ms);
}

void clock_iso_now(char out[32])
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	clock_iso(ts.tv_sec, ts.tv_nsec, out);
}

void clock_human(uint64_t ns, char out[32])
{
	uint64_t s = ns / NS_PER_SEC;

	if (ns < NS_PER_SEC)
		(void)snprintf(out, 32, "%.3g ms", (double)ns / 1e6);
	else if (s < 60)
		(void)snprintf(out, 32, "%.1f s", (double)ns / 1e9);
	else if (s < 3600)
		(void)snprintf(out, 32, "%um %02us", (unsigned)(s / 60), (unsigned)(s % 60));
	else
		(void)snprintf(out, 32, "%lluh %02um", (unsigned long long)(s / 3600),
			       (unsigned)(s / 60 % 60));
}
