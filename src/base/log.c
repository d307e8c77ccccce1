#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static atomic_int log_fd = STDERR_FILENO;
static atomic_int log_max = LOG_INFO;

void log_init(int fd, enum log_level level)
{
	log_fd = fd;
	log_max = (int)level;
}

void log_line(enum log_level level, const char *module, const char *file, int line, const char *fmt,
	      ...)
{
	static const char *const names[] = { "error", "warning", "info", "debug" };
	const char *base = strrchr(file, '/');
	char text[1024], out[4 * sizeof(text) + 128];
	size_t n;
	va_list ap;

	if ((int)level > log_max)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (log_max >= LOG_DEBUG)
		n = (size_t)snprintf(out, 128, "%s: %s:%.40s:%d: ", names[level], module,
				     base ? base + 1 : file, line);
	else
		n = (size_t)snprintf(out, 128, "rocbudai: %s%s",
				     level == LOG_INFO ? "" : names[level],
				     level == LOG_INFO ? "" : ": ");
	if (n > 127)
		n = 127;
	for (const char *p = text; *p; p++) {
		unsigned char c = (unsigned char)*p;

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			n += (size_t)snprintf(out + n, 5, "\\x%02x", c);
		else
			out[n++] = (char)c;
	}
	out[n++] = '\n';
	(void)!write(log_fd, out, n);
}
