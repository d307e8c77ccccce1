#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "ledger/ledger_priv.h"

void ledger_chain_init(struct ledger_chain *c, const char *shard)
{
	*c = (struct ledger_chain){ .shards = json_new_obj() };
	(void)snprintf(c->head, sizeof(c->head), "%s", LEDGER_ZEROS);
	(void)snprintf(c->shard, sizeof(c->shard), "%s", shard);
}

void ledger_chain_done(struct ledger_chain *c)
{
	json_unref(c->shards);
	c->shards = NULL;
}

uint64_t ledger_chain_shard(const struct ledger_chain *c, const char *shard, const char **head)
{
	const struct json *s = json_get(c->shards, shard);

	if (head)
		*head = json_get_str(s, "head", LEDGER_ZEROS);
	return (uint64_t)json_get_int(s, "n", 0);
}

int ledger_chain_prev(const struct ledger_chain *c, const struct json *rec, struct err *err)
{
	const char *prev = json_get_str(rec, "prev", "");

	if (strcmp(prev, c->head) == 0)
		return ERR_OK;
	return err_set(
		err, ERR_PARSE,
		"the chain is broken: prev is %.12s..., line %llu has %.12s... (one of the two "
		"was changed, or a line between them is gone)",
		prev, (unsigned long long)c->n, c->head);
}

int ledger_chain_id(const struct ledger_chain *c, const struct json *rec, struct err *err)
{
	const char *id = json_get_str(rec, "id", "");
	char shard[LEDGER_SHARD_CAP], want[LEDGER_ID_CAP];
	uint64_t num = 0, last;

	if (!ledger_id_split(id, shard, &num))
		return err_set(err, ERR_PARSE, "id '%s' is not of the form E0001", id);
	if (strcmp(shard, c->shard) == 0)
		last = c->own;
	else if (c->shard[0])
		return err_set(err, ERR_PARSE, "%s is not an id of this shard", id);
	else
		last = ledger_chain_shard(c, shard, NULL);
	if (num == last + 1)
		return ERR_OK;
	if (num <= last)
		return err_set(err, ERR_PARSE, "%s stands again", id);
	ledger_id_make(shard, last + 1, want);
	return err_set(err, ERR_PARSE, "%s stands where %s was expected", id, want);
}

int ledger_chain_parents(const struct ledger_chain *c, const struct json *rec, struct err *err)
{
	const struct json *parents = json_get(rec, "parents");
	char shard[LEDGER_SHARD_CAP];
	uint64_t num, last;

	for (size_t i = 0; i < json_len(parents); i++) {
		const char *p = json_str(json_at(parents, i));

		if (!p || !ledger_id_split(p, shard, &num))
			return err_set(err, ERR_PARSE, "a parent is not an id");
		if (strcmp(shard, c->shard) == 0)
			last = c->own;
		else if (c->shard[0])
			continue; /* of the main ledger, which a shard does not see */
		else
			last = ledger_chain_shard(c, shard, NULL);
		if (num > last)
			return err_set(err, ERR_PARSE, "its parent %s is no earlier record", p);
	}
	return ERR_OK;
}

struct json *ledger_merged_from(const struct json *shard_rec)
{
	struct json *rec = json_dup(shard_rec), *origin = json_new_obj();

	json_set_str(origin, "prev", json_get_str(rec, "prev", ""));
	json_set(rec, "origin", origin);
	return rec;
}

char *ledger_merged_line(const struct json *rec)
{
	AUTO_JSON struct json *was = json_dup(rec);

	json_set_str(was, "prev", json_get_str(json_get(rec, "origin"), "prev", ""));
	json_del(was, "origin");
	return json_dump(was);
}

bool ledger_is_merge(const struct json *rec)
{
	return strcmp(json_get_str(rec, "kind", ""), "note") == 0 &&
	       strcmp(json_get_str(json_get(rec, "detail"), "what", ""), "merge") == 0;
}

int ledger_chain_merged(const struct ledger_chain *c, const struct json *rec, struct err *err)
{
	const struct json *list = json_get(json_get(rec, "detail"), "shards");
	const char *prev = json_get_str(json_get(rec, "origin"), "prev", NULL), *head;
	char shard[LEDGER_SHARD_CAP];
	uint64_t num;

	if (!ledger_id_split(json_get_str(rec, "id", ""), shard, &num))
		return ERR_OK; /* told by ledger_chain_id() */
	if (strcmp(shard, c->shard) != 0) {
		(void)ledger_chain_shard(c, shard, &head);
		if (!prev || strcmp(prev, head) != 0)
			return err_set(err, ERR_PARSE,
				       "it does not follow the record before it in shard %s",
				       shard);
		return ERR_OK;
	}
	if (json_get(rec, "origin"))
		return err_set(err, ERR_PARSE, "a record of no shard has an origin");
	for (size_t i = 0; ledger_is_merge(rec) && i < json_len(list); i++) {
		const struct json *s = json_at(list, i);
		const char *name = json_get_str(s, "shard", "");
		uint64_t n = ledger_chain_shard(c, name, &head);

		if ((uint64_t)json_get_int(s, "count", -1) != n ||
		    strcmp(json_get_str(s, "head", ""), head) != 0)
			return err_set(err, ERR_PARSE,
				       "the merge cites another head or count of shard %s than the "
				       "records before it have",
				       name);
	}
	return ERR_OK;
}

int ledger_chain_check(const struct ledger_chain *c, const struct json *rec, struct err *err)
{
	int r = ledger_chain_prev(c, rec, err);

	if (r == ERR_OK)
		r = ledger_chain_id(c, rec, err);
	if (r == ERR_OK)
		r = ledger_chain_parents(c, rec, err);
	if (r == ERR_OK)
		r = ledger_chain_merged(c, rec, err);
	return r;
}

void ledger_chain_add(struct ledger_chain *c, const struct json *rec, const char *line, size_t len)
{
	char shard[LEDGER_SHARD_CAP], head[HASH_HEX_LEN + 1];
	uint64_t num;

	hash_mem_hex(line, len, c->head);
	c->n++;
	if (!rec || !ledger_id_split(json_get_str(rec, "id", ""), shard, &num))
		return;
	if (strcmp(shard, c->shard) == 0) {
		/* a repeated record must not make those after it look wrong */
		c->own = num > c->own ? num : c->own;
		return;
	}
	if (num > ledger_chain_shard(c, shard, NULL)) {
		AUTO_FREE char *was = ledger_merged_line(rec);
		struct json *s = json_new_obj();

		hash_mem_hex(was, strlen(was), head);
		json_set_int(s, "n", (int64_t)num);
		json_set_str(s, "head", head);
		json_set(c->shards, shard, s);
	}
}
