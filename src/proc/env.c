#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/proc.h"

static size_t proc_env_name_len(const char *entry)
{
	/* a leading '=' belongs to the name, as for the C library */
	return *entry ? 1 + strcspn(entry + 1, "=") : 0;
}

static bool proc_env_same_name(const char *a, const char *b)
{
	size_t n = proc_env_name_len(a);

	return n == proc_env_name_len(b) && memcmp(a, b, n) == 0;
}

/* An entry of the list from..., which changes the same name. */
static bool proc_env_in(const char *const *from, const char *entry)
{
	for (; from && *from; from++) {
		if (proc_env_same_name(*from, entry))
			return true;
	}
	return false;
}

static bool proc_env_sets(const char *change)
{
	return change[proc_env_name_len(change)] == '=';
}

/* Calls for each entry of the result, in order; at is the next free byte. */
static void proc_env_put(const char **list, size_t *n, char **at, const char *entry)
{
	size_t len = strlen(entry) + 1;

	memcpy(*at, entry, len);
	list[(*n)++] = *at;
	*at += len;
}

const char **proc_env(const char *const *base, const char *const *changes)
{
	static const char *const none[] = { NULL };
	size_t slots = 1, bytes = 0, n = 0;
	const char **list;
	char *at;

	if (!base)
		base = environ ? (const char *const *)environ : none;
	if (!changes)
		changes = none;
	for (const char *const *p = base; *p; p++, slots++)
		bytes += strlen(*p) + 1;
	for (const char *const *p = changes; *p; p++, slots++)
		bytes += strlen(*p) + 1;
	list = malloc(slots * sizeof(*list) + bytes);
	if (!list)
		return NULL;
	at = (char *)(list + slots);
	for (const char *const *p = base; *p; p++) {
		if (!proc_env_in(changes, *p))
			proc_env_put(list, &n, &at, *p);
	}
	for (const char *const *p = changes; *p; p++) {
		/* the last change of a name holds */
		if (proc_env_sets(*p) && !proc_env_in(p + 1, *p))
			proc_env_put(list, &n, &at, *p);
	}
	list[n] = NULL;
	return list;
}
