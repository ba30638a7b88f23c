/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A detached thread cannot be joined: EINVAL.
 */
#define _GNU_SOURCE
#include "check.h"

static sem_t gate;

static void *wait_at_gate(void *arg)
{
	sem_wait(&gate);
	return arg;
}

int main(void)
{
	pthread_t thread;
	pthread_attr_t attr;
	CHECK_EQ(sem_init(&gate, 0, 0), 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	CHECK_EQ(pthread_create(&thread, &attr, wait_at_gate, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), EINVAL);
	if (ON_HEDDLE)
		CHECK_EQ(pthread_tryjoin_np(thread, NULL), EINVAL);

	thread = start_thread(wait_at_gate, NULL);
	CHECK_EQ(pthread_detach(thread), 0);
	CHECK_EQ(pthread_join(thread, NULL), EINVAL);
	CHECK_EQ(pthread_detach(thread), EINVAL);
	sem_post(&gate);
	sem_post(&gate);
	return 0;
}
