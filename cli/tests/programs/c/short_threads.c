/* Ten thousand short threads: joined one by one, in heaps, and detached. */
#include "program.h"

#include <semaphore.h>

static sem_t done;

static void *detached(void *arg)
{
	(void)arg;
	sem_post(&done);
	return NULL;
}

int main(void)
{
	pthread_attr_t attr;
	unsigned long sum = 0;

	MUST(sem_init(&done, 0, 0) == 0);
	for (int at = 0; at < 4000; at++)
		sum += (uintptr_t)join(start(twice, (void *)(uintptr_t)at));
	for (int heap = 0; heap < 40; heap++)
		sum += threads(100);
	GOOD(pthread_attr_init(&attr));
	GOOD(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED));
	for (int at = 0; at < 2000; at++) {
		pthread_t thread;

		GOOD(pthread_create(&thread, &attr, detached, NULL));
		while (sem_wait(&done) != 0)
			MUST(errno == EINTR);
	}
	say_number("sum", (long)sum);
	return 0;
}
