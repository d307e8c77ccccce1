/* Delivery by the lines that call the compilers, in makefiles and scripts. */
#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "build/deliver_priv.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"

/* Variables that name a compiler, in makefiles and scripts. */
static const char *const compiler_vars[] = { "CC",   "CXX",   "FC",    "F77",	 "F90",
					     "LD",   "LINK",  "MPICC", "MPICXX", "MPIFC",
					     "NVCC", "HIPCC", "CCOMP", "LINKER", NULL };

static const char *skip_blanks(const char *p)
{
	return p + strspn(p, " \t");
}

/* The length of "$(CC)", "${CC}", "$CC" or "\"$CC\"" at p for a compiler's variable; else 0. */
static size_t variable_call(const char *p)
{
	const char *start = p;
	bool quoted = *p == '"';
	char close = 0;

	p += quoted;
	if (*p++ != '$')
		return 0;
	if (*p == '(' || *p == '{')
		close = *p++ == '(' ? ')' : '}';
	for (const char *const *v = compiler_vars; *v; v++) {
		size_t n = strlen(*v);
		const char *end = p + n;

		if (strncmp(p, *v, n) != 0 || (close && *end++ != close) ||
		    (quoted && *end++ != '"'))
			continue;
		if (!*end || isblank((unsigned char)*end))
			return (size_t)(end - start);
	}
	return 0;
}

/* The driver that the plan has flags for and that the word at p names; NULL: none. */
static const struct build_plan_driver *literal_call(const struct build_plan *plan, const char *p,
						    size_t *len)
{
	size_t n = strcspn(p, " \t;&|()<>\"'`\\");
	AUTO_FREE char *word = xstrndup(p, n);
	const char *base = build_path_base(word);

	if (!argclass_compiles(argclass_tool_of(word)))
		return NULL;
	for (size_t i = 0; i < plan->n_drivers; i++) {
		const struct build_plan_driver *d = &plan->drivers[i];
		const char *mine = d->driver.inner ? d->driver.inner : d->driver.file;

		if (strcmp(build_path_base(mine), base) == 0) {
			*len = n;
			return d;
		}
	}
	return NULL;
}

/* Behind one quoted text, $(...) or character at p. */
static const char *skip_piece(const char *p)
{
	if (*p == '\\' && p[1])
		return p + 2;
	if (*p == '\'' || *p == '"') {
		const char *end = strchr(p + 1, *p);

		return end ? end + 1 : p + strlen(p);
	}
	if (*p == '$' && (p[1] == '(' || p[1] == '{')) {
		const char *end = strchr(p, p[1] == '(' ? ')' : '}');

		return end ? end + 1 : p + strlen(p);
	}
	return p + 1;
}

static const char *skip_word(const char *p)
{
	while (*p && !strchr(" \t;&|<>()\r", *p))
		p = skip_piece(p);
	return p;
}

/* Where the simple command that starts at p ends: at an operator or comment outside of quotes. */
static const char *command_end(const char *from)
{
	const char *p = from, *end;

	for (; *p; p = skip_piece(p)) {
		bool after_blank = p > from && isblank((unsigned char)p[-1]);

		if (strchr(";&|<>)\r", *p) || (after_blank && *p == '#') ||
		    (after_blank && isdigit((unsigned char)*p) && p[1] == '>') || /* "2>" */
		    (*p == '\\' && (!p[1] || p[1] == '\r'))) /* goes on in the next line */
			break;
	}
	for (end = p; end > from && isblank((unsigned char)end[-1]); end--)
		;
	return end;
}

/* Behind the operator that ends the command that p is in, or at the end of the text. */
static const char *next_command(const char *p)
{
	while (*p && !strchr(";&|()", *p))
		p = skip_piece(p);
	return *p ? p + 1 : p;
}

static bool has_word(const char *from, const char *to, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = from; p + n <= to; p++) {
		if (strncmp(p, word, n) == 0 && isblank((unsigned char)p[-1]) &&
		    (p + n == to || isblank((unsigned char)p[n])))
			return true;
	}
	return false;
}

struct call {
	const char *start, *end;		/* of the command's arguments */
	const struct build_plan_driver *driver; /* NULL: a variable's, whose one is not known */
};

/* Words behind which a command starts as well: keywords, launchers and NAME=value. */
static bool is_prefix(const char *from, const char *to)
{
	static const char *const words[] = {
		"exec", "then", "do",	  "else",    "if",	  "while",	 "!", "time",
		"nice", "env",	"ccache", "command", "$(CCACHE)", "$(LAUNCHER)", NULL
	};
	size_t n = (size_t)(to - from);
	const char *p = from;

	for (const char *const *w = words; *w; w++) {
		if (strlen(*w) == n && strncmp(from, *w, n) == 0)
			return true;
	}
	while (p < to && (isalnum((unsigned char)*p) || *p == '_'))
		p++;
	return p > from && p < to && *p == '=';
}

/* The call that starts where a command does; NULL: the command is another one. */
static bool call_at(const struct build_plan *plan, const char *p, struct call *c)
{
	for (;;) {
		const char *end;
		size_t n = 0;

		p += strspn(p, " \t@-+");
		if (!*p)
			return false;
		c->driver = literal_call(plan, p, &n);
		if (!c->driver)
			n = variable_call(p);
		if (n) {
			c->start = p + n;
			c->end = command_end(c->start);
			return true;
		}
		end = skip_word(p);
		if (*p == '$' && (p[1] == '(' || p[1] == '{') && skip_piece(p) < end)
			p = skip_piece(p); /* "$(Q)$(CC)": a prefix that may be "@" */
		else if (end > p && is_prefix(p, end))
			p = end;
		else
			return false;
	}
}

/* The next compiler call in the line from p, where a command starts, on. */
static bool next_call(const struct build_plan *plan, const char *p, struct call *c)
{
	for (; *p; p = next_command(p)) {
		if (call_at(plan, p, c))
			return true;
	}
	return false;
}

static void add_once(struct str *done, struct str *out, const char *flag)
{
	AUTO_FREE char *word = xasprintf(" %s ", flag);

	if (strstr(str_get(done), word))
		return;
	str_adds(done, word);
	str_addf(out, " %s", flag);
}

/* All flags that a call may need; of all drivers where it is not known which one it is. */
static void call_flags(const struct build_plan *plan, const struct call *c, bool links_only,
		       struct str *out)
{
	bool compile = !links_only, link = !has_word(c->start, c->end, "-c");
	AUTO_STR struct str done = { 0 };

	for (size_t i = 0; i < plan->n_drivers; i++) {
		const struct build_plan_driver *d = &plan->drivers[i];

		if (c->driver && d != c->driver)
			continue;
		for (size_t f = 0; compile && f < d->flags.n_compile; f++)
			add_once(&done, out, d->flags.compile[f]);
		for (size_t f = 0; link && f < d->flags.n_link; f++)
			add_once(&done, out, d->flags.link[f]);
	}
}

static bool is_question(const struct call *c)
{
	static const char *const q[] = { "-E",		 "-M",		 "-MM", "--version",
					 "-dumpversion", "-dumpmachine", NULL };

	for (const char *const *w = q; *w; w++) {
		if (has_word(c->start, c->end, *w))
			return true;
	}
	return false;
}

/* One line with the flags behind every call in it; NULL where nothing changes.  Behind a call the
 * text goes on in the middle of a command, so the next start is looked for. */
static char *edit_line(const struct build_deliver_opts *o, const char *text, bool links_only,
		       size_t *calls)
{
	AUTO_STR struct str out = { 0 };
	const char *p = text, *from = text;
	struct call c;

	while (next_call(o->plan, from, &c)) {
		str_add(&out, p, (size_t)(c.end - p));
		if (!is_question(&c) && !(links_only && has_word(c.start, c.end, "-c"))) {
			call_flags(o->plan, &c, links_only, &out);
			++*calls;
		}
		p = c.end;
		from = next_command(p);
	}
	if (p == text)
		return NULL;
	str_adds(&out, p);
	return strcmp(str_get(&out), text) == 0 ? NULL : str_take(&out);
}

size_t deliver_edit_calls(const struct build_deliver_opts *o, struct edit_file *f, bool makefile,
			  bool links_only)
{
	size_t calls = 0;
	bool goes_on = false;

	for (size_t i = 1; i <= f->n_lines; i++) {
		const char *text = f->lines[i].text;
		size_t n = strlen(text);
		/* of a makefile, recipes alone; a comment is none; what goes on started before */
		bool here = makefile ? text[0] == '\t' : *skip_blanks(text) != '#';

		if (here && !goes_on) {
			char *now = edit_line(o, text, links_only, &calls);

			if (now)
				edit_replace(f, i, now);
		}
		goes_on = n && text[n - 1] == '\\';
	}
	return calls;
}

/* ---- scripts ---- */

/* Text files of the project that the build command names. */
static void open_scripts(const struct build_deliver_opts *o, struct edit_set *s)
{
	const char *p = o->build->command;

	while (*p) {
		AUTO_FREE char *word = NULL, *full = NULL;
		size_t n;

		p += strspn(p, " \t;&|()<>\"'\n");
		n = strcspn(p, *p && p > o->build->command && strchr("'\"", p[-1])
				       ? (p[-1] == '"' ? "\"" : "'")
				       : " \t;&|()<>\"'\n");
		word = xstrndup(p, n);
		full = build_path_abs(o->base->dir, word);
		if (n && !strstr(build_path_base(word), "configure"))
			(void)edit_open(s, o->base->dir, full);
		p += n;
	}
}

static bool is_makefile(const struct edit_file *f)
{
	const char *b = build_path_base(f->path), *dot = strrchr(b, '.');

	return strcasestr(b, "makefile") ||
	       (dot &&
		(strcmp(dot, ".mk") == 0 || strcmp(dot, ".mak") == 0 || strcmp(dot, ".inc") == 0));
}

int deliver_lines(const struct build_deliver_opts *o, struct edit_set *s, struct str *how,
		  struct err *err)
{
	deliver_makefiles(o, s);
	open_scripts(o, s);
	for (size_t i = 0; i < s->n_files; i++) {
		struct edit_file *f = &s->files[i];
		size_t n = deliver_edit_calls(o, f, is_makefile(f), false);

		if (n)
			str_addf(how, "%s%s: %zu compiler line%s", how->len ? ", " : "", f->path, n,
				 n == 1 ? "" : "s");
	}
	return how->len ? 0 : err_set(err, ERR_NOT_FOUND, "no line of the build calls a compiler");
}
