/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Joining oneself is EDEADLK.
 */
#define _GNU_SOURCE
#include "check.h"

static void *join_self(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)pthread_join(pthread_self(), NULL);
}

int main(void)
{
	CHECK_EQ((intptr_t)join_thread(start_thread(join_self, NULL)), EDEADLK);
	CHECK_EQ(pthread_join(pthread_self(), NULL), EDEADLK);
	return 0;
}
