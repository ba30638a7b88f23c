/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread in the middle of this library's calls, and one that wants its worker. Prints how often
 * the first one was left there: "calls LEFT of CALLS, program LEFT of TIMES". In its own code it is
 * left, which shows that the other one does want the worker.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TIMES 20
#define MS 40 /* of the process's CPU time: on a busy machine everybody comes late */

extern volatile long between_turns, between_calls, between_left;
extern volatile int between_slow;
static volatile int is_over;

static void *turns(void *arg)
{
	while (!is_over)
		between_turns++;
	return arg;
}

static long ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *calls(void *arg)
{
	int fds[2], left = 0;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0)
		return NULL;
	between_slow = 1;
	for (int i = 0; i < TIMES; i++) {
		/* The try is in vain, and the descriptor is asked whether the call may wait. */
		if (recv(fds[1], &byte, 1, 0) != -1 || errno != EAGAIN)
			return NULL;
	}
	between_slow = 0;
	for (int i = 0; i < TIMES; i++) {
		long before = between_turns, end = ms() + MS;
		while (ms() < end)
			;
		left += between_turns != before;
	}
	printf("calls %ld of %ld, program %d of %d\n", between_left, between_calls, left, TIMES);
	is_over = 1;
	return arg;
}

int main(void)
{
	pthread_t one, other;
	if (pthread_create(&other, NULL, turns, NULL) != 0 ||
	    pthread_create(&one, NULL, calls, &one) != 0)
		return 1;
	void *result = NULL;
	pthread_join(one, &result);
	is_over = 1;
	pthread_join(other, NULL);
	return result == NULL;
}
