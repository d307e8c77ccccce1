/* Prints a line and then waits for ever; it does not heed SIGTERM either. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	signal(SIGTERM, SIG_IGN);
	printf("waiting\n");
	fflush(stdout);
	for (;;)
		pause();
}
