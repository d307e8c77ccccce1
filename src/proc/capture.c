#include <stdlib.h>
#include <string.h>

#include "proc/proc_priv.h"

bool capture_init(struct capture *c, size_t max)
{
	*c = (struct capture){ .max = max };
	str_init(&c->head, max);
	/* so that head is a string even when nothing comes */
	str_add(&c->head, "", 0);
	return !c->head.failed;
}

static void capture_ring(struct capture *c, const char *data, size_t n)
{
	if (!c->ring && c->over == 0)
		c->ring = malloc(CAPTURE_TAIL);
	if (c->ring) {
		size_t skip = n > CAPTURE_TAIL ? n - CAPTURE_TAIL : 0;

		for (size_t at = skip; at < n;) {
			size_t pos = (size_t)((c->over + at) % CAPTURE_TAIL);
			size_t k = CAPTURE_TAIL - pos < n - at ? CAPTURE_TAIL - pos : n - at;

			memcpy(c->ring + pos, data + at, k);
			at += k;
		}
	}
	c->over += n;
}

void capture_add(struct capture *c, const char *data, size_t n)
{
	size_t room = c->full ? 0 : c->max - c->head.len;
	size_t k = n < room ? n : room;

	c->total += n;
	str_add(&c->head, data, k);
	if (c->head.failed) {
		/* out of memory: what is kept ends here, as at the maximum */
		c->head.failed = false;
		k = 0;
	}
	if (k == n)
		return;
	c->full = true;
	capture_ring(c, data + k, n - k);
}

/* The ring in order, NUL-terminated; NULL without memory. */
static char *capture_tail(const struct capture *c, size_t n)
{
	size_t start = (size_t)((c->over - n) % CAPTURE_TAIL);
	size_t first = CAPTURE_TAIL - start < n ? CAPTURE_TAIL - start : n;
	char *p = malloc(n + 1);

	if (!p)
		return NULL;
	memcpy(p, c->ring + start, first);
	memcpy(p + first, c->ring, n - first);
	p[n] = '\0';
	return p;
}

void capture_take(struct capture *c, struct proc_capture *out)
{
	*out = (struct proc_capture){ .head_len = c->head.len, .total = c->total };
	out->head = str_take(&c->head);
	if (c->ring) {
		size_t n = c->over < CAPTURE_TAIL ? (size_t)c->over : CAPTURE_TAIL;

		out->tail = capture_tail(c, n);
		out->tail_len = out->tail ? n : 0;
	}
	free(c->ring);
	c->ring = NULL;
}

void capture_done(struct capture *c)
{
	str_done(&c->head);
	free(c->ring);
	c->ring = NULL;
}
