/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The library that constructed.c loads. */
#include <pthread.h>

static void *nothing(void *argument) { return argument; }

int run(void)
{
	pthread_t thread;

	return pthread_create(&thread, 0, nothing, 0) ? 1 : pthread_join(thread, 0);
}
