/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program for the Mediator's tests: a thread "critical", threads "hog", and commands on
 * standard input. Invariant: every command is answered by one line when it has been done.
 *
 *     busy, rest    the critical thread spins, sleeps
 *     end           the critical thread ends
 *     birth         a hog creates a thread "late", which spins
 *     fork          a hog forks a child that sleeps; answers its pid
 *     own           a hog gives itself SCHED_BATCH and a nice value of 3
 *     nice          a hog gives itself a nice value of 6; answers its number
 *     many          sixty more threads "critical", which sleep
 *     quit
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static atomic_int busy, ended, order;
static atomic_int answer;
static sem_t wake;

static void *late(void *argument)
{
	(void)argument;
	prctl(PR_SET_NAME, "late");
	atomic_store(&answer, gettid());
	for (;;)
		usleep(100);
}

static void obey(int command)
{
	pthread_t thread;
	struct sched_param none = { 0 };
	int child;

	switch (command) {
	case 'b':
		pthread_create(&thread, NULL, late, NULL);
		break;
	case 'f':
		child = fork();
		if (child == 0) {
			sleep(60);
			_exit(0);
		}
		atomic_store(&answer, child);
		break;
	case 'n':
		setpriority(PRIO_PROCESS, 0, 6);
		atomic_store(&answer, gettid());
		break;
	case 'o':
		sched_setscheduler(0, SCHED_BATCH, &none);
		setpriority(PRIO_PROCESS, 0, 3);
		atomic_store(&answer, gettid());
		break;
	}
}

static void *sleeper(void *argument)
{
	prctl(PR_SET_NAME, "critical");
	pause();
	return argument;
}

static void *hog(void *argument)
{
	long first = (long)argument;

	prctl(PR_SET_NAME, "hog");
	for (;;) {
		if (first) {
			int command = atomic_exchange(&order, 0);

			obey(command);
		}
		/* Not all the time: other tests run on this machine. */
		for (volatile int i = 0; i < 100000; i++)
			;
		usleep(2000);
	}
}

static void *critical(void *argument)
{
	(void)argument;
	prctl(PR_SET_NAME, "critical");
	while (!atomic_load(&ended)) {
		if (!atomic_load(&busy)) {
			sem_wait(&wake);
			continue;
		}
		for (volatile int i = 0; i < 100000; i++)
			;
		usleep(500);
	}
	return NULL;
}

static int ask(int command)
{
	atomic_store(&answer, 0);
	atomic_store(&order, command);
	while (!atomic_load(&answer))
		usleep(1000);
	return atomic_load(&answer);
}

int main(int count, char **arguments)
{
	long hogs = count > 1 ? atol(arguments[1]) : 3;
	char line[64];
	pthread_t thread, it;

	alarm(120);
	sem_init(&wake, 0, 0);
	pthread_create(&it, NULL, critical, NULL);
	for (long i = 0; i < hogs; i++)
		pthread_create(&thread, NULL, hog, (void *)(long)(i == 0));
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int result = 0;

		if (!strcmp(line, "busy\n")) {
			atomic_store(&busy, 1);
			sem_post(&wake);
		} else if (!strcmp(line, "rest\n"))
			atomic_store(&busy, 0);
		else if (!strcmp(line, "end\n")) {
			atomic_store(&ended, 1);
			sem_post(&wake);
			pthread_join(it, NULL);
		} else if (!strcmp(line, "birth\n"))
			result = ask('b');
		else if (!strcmp(line, "fork\n"))
			result = ask('f');
		else if (!strcmp(line, "own\n"))
			result = ask('o');
		else if (!strcmp(line, "nice\n"))
			result = ask('n');
		else if (!strcmp(line, "many\n"))
			for (int i = 0; i < 60; i++)
				pthread_create(&thread, NULL, sleeper, NULL);
		else if (!strcmp(line, "quit\n"))
			return 0;
		printf("%d\n", result);
		fflush(stdout);
	}
	return 0;
}
