/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cleanup handlers come before the destructors of thread-specific data.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_key_t key;
static char order[8];

static void destroy(void *arg)
{
	strcat(order, arg);
}

static void note(void *arg)
{
	/* The value is still there. */
	CHECK(pthread_getspecific(key) != NULL);
	strcat(order, arg);
}

static void *exits(void *arg)
{
	CHECK_EQ(pthread_setspecific(key, "k"), 0);
	pthread_cleanup_push(note, "h");
	pthread_exit(NULL);
	pthread_cleanup_pop(0);
	return arg;
}

int main(void)
{
	CHECK_EQ(pthread_key_create(&key, destroy), 0);
	join_thread(start_thread(exits, NULL));
	CHECK_EQ(strcmp(order, "hk"), 0);
	return 0;
}
