#include "cmd/opt.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/err.h"
#include "core/str.h"

static const struct opt *opt_find_long(const struct opt *opts, const char *name, size_t n)
{
	for (const struct opt *o = opts; o && o->type != OPT_END; o++) {
		if (o->name && strlen(o->name) == n && memcmp(o->name, name, n) == 0)
			return o;
	}
	return NULL;
}

static const struct opt *opt_find_key(const struct opt *opts, char key)
{
	for (const struct opt *o = opts; o && o->type != OPT_END; o++) {
		if (o->key && o->key == key)
			return o;
	}
	return NULL;
}

static int opt_store_uint(unsigned *field, const char *value, struct err *err)
{
	uint64_t v;
	int r = num_u64(value, &v, err);

	if (r < 0)
		return r;
	if (v > UINT_MAX)
		return err_set(err, ERR_LIMIT, "%s is too large", value);
	*field = (unsigned)v;
	return ERR_OK;
}

static int opt_store(const struct opt *o, void *args, const char *value, struct err *err)
{
	void *field = (char *)args + o->off;
	struct opt_list *l = field;
	int r = ERR_OK;

	switch (o->type) {
	case OPT_STR:
		*(const char **)field = value;
		break;
	case OPT_UINT:
		r = opt_store_uint(field, value, err);
		break;
	case OPT_DOUBLE:
		r = num_double(value, field, err);
		break;
	case OPT_DURATION:
		r = num_duration_ns(value, field, err);
		break;
	case OPT_LIST:
		l->v = xrealloc_n(l->v, l->n + 1, sizeof(*l->v));
		l->v[l->n++] = value;
		break;
	case OPT_FLAG:
	case OPT_END:
		break;
	}
	if (r < 0) {
		if (err)
			err->code = ERR_INVALID;
		return err_wrap(err, ERR_INVALID, "%s%s", o->name ? "--" : "-",
				o->name ? o->name : (char[2]){ o->key, '\0' });
	}
	return r;
}

/* One option at argv[*i]; *i moves to its value where that is a word of its own. */
static int opt_one(const struct opt *opts, int argc, char **argv, int *i, void *args,
		   struct err *err)
{
	const char *a = argv[*i], *value = NULL;
	const struct opt *o;

	if (a[1] == '-') {
		size_t n = strcspn(a + 2, "=");

		o = opt_find_long(opts, a + 2, n);
		if (a[2 + n] == '=')
			value = a + 3 + n;
	} else {
		o = opt_find_key(opts, a[1]);
		if (a[2])
			value = a + 2;
	}
	if (!o)
		return err_set(err, ERR_INVALID, "unknown option %s", a);
	if (o->type == OPT_FLAG) {
		if (value)
			return err_set(err, ERR_INVALID, "%s: takes no value", a);
		*(bool *)((char *)args + o->off) = true;
		return ERR_OK;
	}
	if (!value && ++*i == argc)
		return err_set(err, ERR_INVALID, "%s needs %s", a, o->arg);
	return opt_store(o, args, value ? value : argv[*i], err);
}

int opt_parse(const struct opt *opts, int argc, char **argv, void *args, struct err *err)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		int r;

		if (strcmp(argv[i], "--") == 0)
			return i + 1;
		if ((r = opt_one(opts, argc, argv, &i, args, err)) < 0)
			return r;
	}
	return i;
}

void opt_list_done(struct opt_list *l)
{
	free(l->v);
	*l = (struct opt_list){ 0 };
}

void opt_print_help(const struct opt *opts, FILE *to)
{
	for (const struct opt *o = opts; o && o->type != OPT_END; o++) {
		char left[64];
		int n = 0;

		if (o->key)
			n += snprintf(left, sizeof(left), "-%c%s", o->key, o->name ? ", " : "");
		if (o->name)
			n += snprintf(left + n, sizeof(left) - (size_t)n, "--%s", o->name);
		if (o->arg)
			(void)snprintf(left + n, sizeof(left) - (size_t)n, " %s", o->arg);
		(void)fprintf(to, "  %-26s %s\n", left, o->help);
	}
}
