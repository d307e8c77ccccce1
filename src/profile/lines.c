#include "profile/lines.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "proc/proc.h"

#define LINES_PHDRS_MAX	 256
#define LINES_OUTPUT_MAX ((size_t)4 << 20)

/* The loadable segments of a file. */
struct lines_elf {
	Elf64_Phdr ph[LINES_PHDRS_MAX];
	size_t n;
};

static int lines_read_elf(const char *path, struct lines_elf *elf, struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	Elf64_Ehdr eh = { 0 };

	if (fd < 0)
		return err_set(err, ERR_NOT_FOUND, "'%s' cannot be opened", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    pread(fd, &eh, sizeof(eh), 0) != (ssize_t)sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_phentsize != sizeof(Elf64_Phdr) || eh.e_phoff > INT64_MAX)
		return err_set(err, ERR_PARSE, "'%s' is not a 64-bit ELF file", path);
	elf->n = eh.e_phnum < LINES_PHDRS_MAX ? eh.e_phnum : LINES_PHDRS_MAX;
	if (pread(fd, elf->ph, elf->n * sizeof(elf->ph[0]), (off_t)eh.e_phoff) !=
	    (ssize_t)(elf->n * sizeof(elf->ph[0])))
		return err_set(err, ERR_PARSE, "'%s': the program headers are cut off", path);
	return ERR_OK;
}

/* What the file calls the address at this offset. */
static bool lines_vaddr(const struct lines_elf *elf, uint64_t offset, uint64_t *out)
{
	for (size_t i = 0; i < elf->n; i++) {
		const Elf64_Phdr *p = &elf->ph[i];

		if (p->p_type != PT_LOAD || offset < p->p_offset ||
		    offset - p->p_offset >= p->p_filesz)
			continue;
		*out = offset - p->p_offset + p->p_vaddr;
		return true;
	}
	return false;
}

bool lines_parse(const char *text, size_t len, struct lines_answer *out)
{
	static const char note[] = " (discriminator ";
	char number[16];
	uint64_t line;
	size_t n = len, digits = 0;

	for (size_t i = 0; i + sizeof(note) - 1 <= len; i++) {
		if (memcmp(text + i, note, sizeof(note) - 1) == 0)
			n = i;
	}
	while (digits < n && text[n - 1 - digits] >= '0' && text[n - 1 - digits] <= '9')
		digits++;
	if (digits == 0 || digits >= sizeof(number) || n < digits + 2 ||
	    text[n - 1 - digits] != ':' || text[0] == '?')
		return false;
	memcpy(number, text + n - digits, digits);
	number[digits] = '\0';
	if (num_u64(number, &line, NULL) < 0 || line == 0 || line > 100000000)
		return false;
	*out = (struct lines_answer){ .file = xstrndup(text, n - digits - 1),
				      .line = (unsigned)line };
	return true;
}

static int lines_run(struct proc_keeper *k, const struct lines_query *q, const char **argv,
		     struct proc_result *res, struct err *err)
{
	static const char *const changes[] = { "LC_ALL=C", "DEBUGINFOD_URLS", NULL };
	AUTO_FREE const char **envp = proc_env(q->base->envp, changes);
	struct proc_spec spec = { .argv = argv,
				  .envp = envp,
				  .cwd = q->base->cwd,
				  .out = PROC_IO_CAPTURE,
				  .err = PROC_IO_CAPTURE,
				  .capture_max = LINES_OUTPUT_MAX,
				  .timeout_ns = q->timeout_ns,
				  .mounts = q->base->mounts,
				  .n_mounts = q->base->n_mounts,
				  .stop_fd = q->base->stop_fd };
	int r;

	if (!envp)
		return err_set(err, ERR_NOMEM, "no memory for an environment");
	r = proc_run(k, &spec, res, err);
	if (r < 0 && err && (err->sys_errno == ENOENT || err->sys_errno == EACCES))
		return err_set(err, ERR_NOT_FOUND, "addr2line is not installed (GNU binutils)");
	return r;
}

static int lines_read_answers(const struct proc_result *res, size_t n, struct lines_answer *answers,
			      struct err *err)
{
	const char *p = res->out.head, *end = p + res->out.head_len;

	if (res->stopped)
		return err_set(err, ERR_CANCELLED, "stopped");
	if (res->timed_out)
		return err_set(err, ERR_LIMIT, "addr2line took too long");
	if (res->exit_code != 0)
		return err_set(err, ERR_PARSE, "addr2line failed: %.120s", res->err.head);
	for (size_t i = 0; i < n && p < end; i++) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		size_t len = (size_t)((nl ? nl : end) - p);

		(void)lines_parse(p, len, &answers[i]);
		p = nl ? nl + 1 : end;
	}
	return ERR_OK;
}

int lines_ask(struct proc_keeper *k, const struct lines_query *q, struct lines_answer *answers,
	      struct err *err)
{
	const char *argv[LINES_ASK_MAX + 4];
	AUTO_FREE char(*hex)[24] = xcalloc(LINES_ASK_MAX, sizeof(*hex));
	struct lines_elf elf = { 0 };
	struct proc_result res = { 0 };
	struct err why = { 0 };
	size_t n = 0;
	int r;

	for (size_t i = 0; i < q->n; i++)
		answers[i] = (struct lines_answer){ 0 };
	r = lines_read_elf(q->path, &elf, err);
	if (r < 0)
		return r;
	argv[n++] = q->addr2line ? q->addr2line : "addr2line";
	argv[n++] = "-e";
	argv[n++] = q->path;
	for (size_t i = 0; i < q->n; i++) {
		uint64_t vaddr = 0;

		/* an address of no segment is asked for all the same, so that answers stay in step
		 */
		(void)lines_vaddr(&elf, q->offsets[i], &vaddr);
		(void)snprintf(hex[i], sizeof(hex[i]), "0x%llx", (unsigned long long)vaddr);
		argv[n++] = hex[i];
	}
	argv[n] = NULL;
	r = lines_run(k, q, argv, &res, &why);
	if (r == ERR_OK) {
		r = lines_read_answers(&res, q->n, answers, &why);
		proc_result_done(&res);
	}
	if (r < 0 && err)
		*err = why;
	return r;
}
