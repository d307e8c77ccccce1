/* What a restoration has to do, found before anything is touched.  Threads: one at a time. */
#ifndef CKPT_PLAN_H
#define CKPT_PLAN_H

#include "ckpt/ckpt_priv.h"

/* What is to happen to an entry of the live or of the checkpoint's tree. */
enum plan_act {
	PLAN_NONE,  /* as it should be */
	PLAN_LEFT,  /* not covered, or holds something that stays; not reported */
	PLAN_ASK,   /* only while planning: is its content known? */
	PLAN_TIMES, /* a folder's time alone; not reported */
	PLAN_WRITE, /* from here on as enum ckpt_act, in its order */
	PLAN_META,
	PLAN_REMOVE,
	PLAN_KEEP,
	PLAN_DISCARD,
	PLAN_REPLACE,
};

struct plan {
	struct ckpt *c;
	const char *id;
	const struct ckpt_restore_opts *opts;
	struct ckpt_tree *target, *live;
	struct ckpt_tree *also; /* the other side of a switch; NULL: none */
	uint8_t *t_act, *l_act; /* enum plan_act, one an entry */
	bool *l_forced;		/* it must go, or there is no way */
	uint32_t *t_live;	/* index of the live entry at the path + 1; 0: none */
};

/* Also refuses what must not be done.  Call plan_done() in any case. */
int plan_init(struct plan *p, struct ckpt *c, const char *id, const char *also,
	      const struct ckpt_restore_opts *opts, struct err *err);
void plan_done(struct plan *p);
/* Tells each act and counts them; cb may be NULL. */
int plan_report(const struct plan *p, ckpt_act_cb cb, void *arg, struct ckpt_restored *res);
/* The operations, in the order in which they are to be done. */
struct ckpt_journal *plan_journal(const struct plan *p);

#endif
