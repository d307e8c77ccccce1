#include "core/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 4, 0))) static void err_vfill(struct err *err, enum err_code code,
							    int errnum, const char *fmt, va_list ap)
{
	if (!err)
		return;
	err->code = code;
	err->sys_errno = errnum;
	(void)vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
}

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vfill(err, code, 0, fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *err, int errnum, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	err_vfill(err, ERR_SYS, errnum, fmt, ap);
	va_end(ap);
	if (err) {
		const char *desc = strerrordesc_np(errnum);
		size_t n = strlen(err->msg);

		(void)snprintf(err->msg + n, sizeof(err->msg) - n, ": %s",
			       desc ? desc : "unknown error");
	}
	return ERR_SYS;
}

int err_wrap(struct err *err, int code, const char *fmt, ...)
{
	char ctx[sizeof(err->msg)];
	char old[sizeof(err->msg)];
	va_list ap;

	if (!err)
		return code;
	memcpy(old, err->msg, sizeof(old));
	va_start(ap, fmt);
	(void)vsnprintf(ctx, sizeof(ctx), fmt, ap);
	va_end(ap);
	(void)snprintf(err->msg, sizeof(err->msg), "%.200s: %.270s", ctx, old);
	return code;
}
