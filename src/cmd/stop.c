#include "cmd/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

#include "core/err.h"

int stop_open(struct err *err)
{
	sigset_t set;
	int fd;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	/* never read from: a pending signal keeps it readable for everybody who waits */
	if ((fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_sys(err, errno, "watch for interruption");
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(err, errno, "watch for interruption");
	return fd;
}

bool stop_asked(int stop_fd)
{
	struct pollfd p = { .fd = stop_fd, .events = POLLIN };

	return stop_fd >= 0 && poll(&p, 1, 0) > 0;
}

int stop_exit_code(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t pending;

	(void)sigemptyset(&pending);
	(void)sigpending(&pending);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (sigismember(&pending, signals[i]) == 1)
			return 128 + signals[i];
	}
	return 128 + SIGINT;
}
