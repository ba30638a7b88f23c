/* Threads that wait, and one that computes, until a line comes: to be looked at. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

static sem_t over;
static volatile int is_over;

static void *waits(void *number)
{
	char name[16], deep[20000];

	snprintf(name, sizeof name, "waiter %d", *(int *)number);
	pthread_setname_np(pthread_self(), name);
	memset(deep, 1, sizeof deep);
	__asm__ volatile("" ::"r"(deep) : "memory");
	sem_wait(&over);
	return NULL;
}

static void *computes(void *unused)
{
	while (!is_over)
		;
	return unused;
}

int main(void)
{
	enum { WAITING = 3 };
	pthread_t threads[WAITING + 1];
	/* What lies behind an argument may tell kinds apart: nothing does here. */
	static int numbers[WAITING + 8];

	for (int i = 0; i < WAITING; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, waits, &numbers[i]);
	}
	pthread_create(&threads[WAITING], NULL, computes, NULL);
	puts("up");
	fflush(stdout);
	getchar();
	is_over = 1;
	for (int i = 0; i < WAITING; i++)
		sem_post(&over);
	for (int i = 0; i <= WAITING; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
