/* Facts that are read from sources and from the machine. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/rootfs.h"
#include "diagnose/diagnose_priv.h"

#define SCAN_NODES_MAX 1024
#define SCAN_FILES_MAX 64 /* a source and what it includes */

/* After the first word of a line: "#", blanks, "pragma", blanks, "omp". */
static bool scan_is_pragma(const char *p, const char *eol)
{
	static const char *const words[] = { "#", "pragma", "omp" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		while (p < eol && (*p == ' ' || *p == '\t'))
			p++;
		if ((size_t)(eol - p) < n || memcmp(p, words[i], n) != 0)
			return false;
		p += n;
	}
	return p == eol || isspace((unsigned char)*p);
}

static bool scan_is_sentinel(const char *p, const char *eol)
{
	while (p < eol && (*p == ' ' || *p == '\t'))
		p++;
	return eol - p >= 5 && (*p == '!' || *p == 'c' || *p == 'C' || *p == '*') &&
	       strncasecmp(p + 1, "$omp", 4) == 0 &&
	       (eol - p == 5 || !isalnum((unsigned char)p[5]));
}

/* Whether the line ends inside a block comment that began in it or before. */
static bool scan_comment_after(const char *p, const char *eol, bool inside)
{
	for (; p + 1 < eol; p++) {
		if (inside && p[0] == '*' && p[1] == '/') {
			inside = false;
			p++;
		} else if (!inside && p[0] == '/' && p[1] == '/') {
			return false;
		} else if (!inside && p[0] == '/' && p[1] == '*') {
			inside = true;
			p++;
		} else if (!inside && p[0] == '"') {
			for (p++; p < eol && *p != '"'; p++)
				p += *p == '\\';
		}
	}
	return inside;
}

void diagnose_scan_omp_text(const char *text, size_t len, bool fortran, unsigned *n,
			    unsigned *first_line)
{
	const char *end = text + len;
	bool comment = false;

	*n = *first_line = 0;
	for (unsigned line = 1; text < end; line++) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		const char *eol = nl ? nl : end;

		if (fortran ? scan_is_sentinel(text, eol) : !comment && scan_is_pragma(text, eol)) {
			if ((*n)++ == 0)
				*first_line = line;
		}
		if (!fortran)
			comment = scan_comment_after(text, eol, comment);
		text = eol + 1;
	}
}

/* The name in #include "name"; caller frees; NULL: none. */
static char *scan_include(const char *p, const char *eol)
{
	static const char *const words[] = { "#", "include", "\"" };
	const char *close;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i]);

		while (p < eol && (*p == ' ' || *p == '\t'))
			p++;
		if ((size_t)(eol - p) < n || memcmp(p, words[i], n) != 0)
			return NULL;
		p += n;
	}
	close = memchr(p, '"', (size_t)(eol - p));
	return close && close > p ? xstrndup(p, (size_t)(close - p)) : NULL;
}

struct scan_files {
	char *v[SCAN_FILES_MAX];
	size_t n;
};

/* Takes the name if it is new and there is room. */
static void scan_add_file(struct scan_files *f, char *take)
{
	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->v[i], take) == 0) {
			free(take);
			return;
		}
	}
	if (f->n < SCAN_FILES_MAX)
		f->v[f->n++] = take;
	else
		free(take);
}

/* Headers are looked for beside the file that names them; others are the system's. */
static void scan_add_includes(struct scan_files *f, const char *path, const char *text, size_t len)
{
	const char *slash = strrchr(path, '/'), *end = text + len;
	AUTO_FREE char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup("");

	while (text < end) {
		const char *nl = memchr(text, '\n', (size_t)(end - text));
		const char *eol = nl ? nl : end;
		char *name = scan_include(text, eol);

		if (name && name[0] == '/')
			scan_add_file(f, name);
		else if (name) {
			scan_add_file(f, slash && !*dir ? xasprintf("/%s", name)
							: file_join(dir, name));
			free(name);
		}
		text = eol + 1;
	}
}

int diagnose_scan_omp(int dir_fd, const char *path, unsigned *n, unsigned *first_line,
		      struct err *err)
{
	const char *dot = strrchr(path, '.');
	bool fortran = dot && (dot[1] == 'f' || dot[1] == 'F');
	struct scan_files files = { .v = { xstrdup(path) }, .n = 1 };
	unsigned total = 0, first = 0;
	int r = ERR_OK;

	for (size_t i = 0; r == ERR_OK && i < files.n; i++) {
		AUTO_FREE char *text = NULL;
		unsigned here, line;
		size_t len = 0;

		r = file_read(dir_fd, files.v[i], DIAGNOSE_SOURCE_MAX, &text, &len, i ? NULL : err);
		if (r < 0) {
			/* a header that is not beside its source is found by -I, or is none */
			r = i ? ERR_OK : r;
			continue;
		}
		diagnose_scan_omp_text(text, len, fortran, &here, &line);
		total += here;
		if (i == 0)
			first = line;
		scan_add_includes(&files, files.v[i], text, len);
	}
	for (size_t i = 0; i < files.n; i++)
		free(files.v[i]);
	if (r < 0)
		return r;
	*n = total;
	*first_line = first;
	return ERR_OK;
}

static unsigned scan_cores(int root_fd, const int *cpus, size_t n_cpus)
{
	unsigned cores = 0;

	for (size_t i = 0; i < n_cpus; i++) {
		char path[96], text[256];

		(void)snprintf(path, sizeof(path),
			       "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
			       cpus[i]);
		if (rootfs_read(root_fd, path, text, sizeof(text), NULL) < 0)
			return 0;
		/* a core is counted at the first of its CPUs that the run may use */
		for (size_t k = 0; k <= i; k++) {
			bool sibling = false;

			for (char *p = text; *p && !sibling;) {
				char *stop;
				long low = strtol(p, &stop, 10), high = low;

				if (stop == p)
					break;
				if (*stop == '-')
					high = strtol(stop + 1, &stop, 10);
				sibling = cpus[k] >= low && cpus[k] <= high;
				p = *stop == ',' ? stop + 1 : stop;
			}
			if (sibling) {
				cores += k == i;
				break;
			}
		}
	}
	return cores;
}

void diagnose_scan_node(int root_fd, const int *cpus, size_t n_cpus, unsigned *cores,
			unsigned *numa_nodes, char thp[16])
{
	char text[256], path[64];
	char *open, *close;

	*cores = scan_cores(root_fd, cpus, n_cpus);
	*numa_nodes = 0;
	for (unsigned i = 0; i < SCAN_NODES_MAX; i++) {
		(void)snprintf(path, sizeof(path), "sys/devices/system/node/node%u/cpulist", i);
		if (rootfs_read(root_fd, path, text, sizeof(text), NULL) < 0)
			break;
		(*numa_nodes)++;
	}
	thp[0] = '\0';
	if (rootfs_read(root_fd, "sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text),
			NULL) < 0)
		return;
	open = strchr(text, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close && close - open <= 15)
		(void)snprintf(thp, 16, "%.*s", (int)(close - open - 1), open + 1);
}
