/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The child of a thread goes on when it has made more threads than the C library keeps stacks of,
 * and computes then: what the kernel writes for its one thread lies in nobody else's memory.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/wait.h>

enum { CHILDREN = 6, ROUNDS = 3, THREADS = 8, COMPUTES_MS = 300 };

static void *starts(void *arg)
{
	sleep_ms(1);
	return arg;
}

static void *forks(void *arg)
{
	pthread_t threads[THREADS];
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		for (int round = 0; round < ROUNDS; round++) {
			for (int i = 0; i < THREADS; i++)
				threads[i] = start_thread(starts, NULL);
			for (int i = 0; i < THREADS; i++)
				join_thread(threads[i]);
		}
		long begin = cpu_ms();
		while (cpu_ms() - begin < COMPUTES_MS)
			;
		_exit(3);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 3 << 8);
	return arg;
}

int main(void)
{
	pthread_t threads[CHILDREN];
	for (int i = 0; i < CHILDREN; i++)
		threads[i] = start_thread(forks, NULL);
	for (int i = 0; i < CHILDREN; i++)
		join_thread(threads[i]);
	return 0;
}
