/* deps: core proc */
/*
 * The keeper's reading of a message, and what capture keeps of a stream that comes in pieces.  Both
 * are inside of proc; a wrong count there would be a write out of bounds in the keeper.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/proc_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Four counts, then the body; what is accepted has to be readable to its last byte. */
static void fuzz_message(const uint8_t *data, size_t size)
{
	struct wire_head h = { .magic = WIRE_MAGIC, .type = WIRE_RUN };
	struct spawn s = { .status_fd = -1 };
	char *body;
	size_t n, sum = 0;

	if (size < 5)
		return;
	h.n_argv = data[0];
	h.n_envp = data[1];
	h.n_mounts = data[2] % (WIRE_LIST_MAX + 1);
	h.n_limits = data[3] % (WIRE_LIST_MAX + 1);
	h.flags = data[4];
	n = size - 5;
	body = malloc(n ? n : 1);
	if (!body)
		return;
	memcpy(body, data + 5, n);
	if (spawn_parse(&s, &h, body, n) == 0) {
		for (char **p = s.argv; *p; p++)
			sum += strlen(*p);
		for (char **p = s.envp; *p; p++)
			sum += strlen(*p);
		for (uint32_t i = 0; i < h.n_mounts; i++)
			sum += strlen(s.mounts[i].dst) +
			       (s.mounts[i].src ? strlen(s.mounts[i].src) : 0);
		if (sum > n)
			__builtin_trap();
	}
	free(s.block);
	free(body);
}

static void fuzz_capture(const uint8_t *data, size_t size)
{
	struct capture c;
	struct proc_capture out;
	size_t max = size ? data[0] : 0, at = 0;

	if (!capture_init(&c, max ? max : 1))
		return;
	while (at < size) {
		size_t n = (size_t)data[at] * 7 + 1;

		n = n < size - at ? n : size - at;
		capture_add(&c, (const char *)data + at, n);
		at += n;
	}
	capture_take(&c, &out);
	if (out.total != size || out.head_len > size || memcmp(out.head, data, out.head_len) != 0)
		__builtin_trap();
	if (out.tail && memcmp(out.tail, data + size - out.tail_len, out.tail_len) != 0)
		__builtin_trap();
	if (!out.tail && out.head_len != size)
		__builtin_trap();
	free(out.head);
	free(out.tail);
	capture_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_message(data, size);
	fuzz_capture(data, size);
	return 0;
}
