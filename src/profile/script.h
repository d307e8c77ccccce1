/*
 * Reads the text of `perf script` as it arrives and adds samples up by function and by address.
 * Memory is bounded whatever comes.  Threads: one at a time per object.
 */
#ifndef PROFILE_SCRIPT_H
#define PROFILE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_script;

enum {
	PROFILE_SCRIPT_LINE_MAX = 64 << 10, /* bytes of a line; longer ones are left out */
	PROFILE_SCRIPT_FUNCS = 20000,	    /* functions kept apart; the rest is one "[other]" */
	PROFILE_SCRIPT_ADDRS = 200000,	    /* addresses kept apart; more have no line */
	PROFILE_SCRIPT_DSOS = 4000,
	PROFILE_SCRIPT_MAPS = 20000, /* of all processes; the oldest are forgotten first */
};

/* The fields that `perf script -F` must be asked for, with mmap, task and lost events shown. */
#define PROFILE_SCRIPT_FIELDS "pid,period,ip,sym,dso"

/* Aborts when memory is out, as base does.  Caller frees with profile_script_free(). */
struct profile_script *profile_script_new(void);
void profile_script_free(struct profile_script *s); /* NULL is fine */
void profile_script_add(struct profile_script *s, const char *data, size_t n);
void profile_script_end(struct profile_script *s); /* takes a last line without newline */

uint64_t profile_script_samples(const struct profile_script *s);
double profile_script_weight(const struct profile_script *s); /* sum of the periods */
uint64_t profile_script_lost(const struct profile_script *s);
/* Lines that were neither a sample nor an event. */
uint64_t profile_script_bad(const struct profile_script *s);

struct profile_script_func {
	const char *name, *dso; /* borrowed from the script */
	double weight;
	uint64_t samples;
};
struct profile_script_addr {
	size_t func;	 /* index in the functions */
	uint64_t offset; /* in the file of its dso */
	double weight;
};
/* In the order of first appearance; borrowed, good until the next addition. */
const struct profile_script_func *profile_script_funcs(const struct profile_script *s, size_t *n);
const struct profile_script_addr *profile_script_addrs(const struct profile_script *s, size_t *n);

#endif
