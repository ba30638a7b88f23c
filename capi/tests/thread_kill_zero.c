/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Signal 0 tells whether a thread exists; a bad signal number is EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>

static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

int main(void)
{
	sem_init(&gate, 0, 0);
	pthread_t thread = start_thread(wait_at_gate, NULL);
	CHECK_EQ(pthread_kill(thread, 0), 0);
	CHECK_EQ(pthread_kill(thread, 12345), EINVAL);
	if (ON_HEDDLE)
		CHECK_EQ(pthread_kill(thread, SIGUSR1), ENOTSUP);
	CHECK_EQ(pthread_kill(pthread_self(), 0), 0);
	sem_post(&gate);
	join_thread(thread);
	return 0;
}
