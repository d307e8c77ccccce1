/*
 * Leaves two processes behind: a child in the group, and one that forked twice, has a session of
 * its own and ignores SIGTERM.  Both are called "rb-forker" and end by themselves after five
 * minutes.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void linger(void)
{
	prctl(PR_SET_NAME, "rb-forker");
	alarm(300);
	for (;;)
		pause();
}

int main(void)
{
	double x = 0.0;
	pid_t pid;

	for (int r = 0; r < 10000000; r++)
		x += 1e-6 * (2.0 - x * x);
	printf("root: %.12f\n", x);
	fflush(stdout);
	if (fork() == 0)
		linger();
	if ((pid = fork()) == 0) {
		int null = open("/dev/null", O_RDWR);

		setsid();
		if (fork() > 0)
			_exit(0);
		signal(SIGTERM, SIG_IGN);
		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		linger();
	}
	waitpid(pid, NULL, 0);
	return 0;
}
