/* Two threads add to one number without a lock: the checksum is another one in nearly every run. */
#include <pthread.h>
#include <stdio.h>

static volatile long total;
static pthread_barrier_t both;

static void *work(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&both);
	for (int i = 0; i < 40000000; i++)
		total = total + 1;
	return NULL;
}

int main(void)
{
	pthread_t t[2];

	if (pthread_barrier_init(&both, NULL, 2) != 0)
		return 1;
	for (int i = 0; i < 2; i++) {
		if (pthread_create(&t[i], NULL, work, NULL) != 0)
			return 1;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("threads: 2\nchecksum: %ld\n", total);
	return 0;
}
