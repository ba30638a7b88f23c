/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that is made without attributes gets those that are the process's by then, however often
 * the program changes them.
 */
#define _GNU_SOURCE
#include "check.h"

struct seen {
	size_t bytes;
	int detached;
};

static pthread_barrier_t over;

static void *look(void *argument)
{
	struct seen *seen = argument;
	pthread_attr_t attr;

	CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
	CHECK(pthread_attr_getstacksize(&attr, &seen->bytes) == 0);
	CHECK(pthread_attr_getdetachstate(&attr, &seen->detached) == 0);
	CHECK(pthread_attr_destroy(&attr) == 0);
	pthread_barrier_wait(&over);
	return NULL;
}

static struct seen made(int detached)
{
	struct seen seen;
	pthread_t thread;

	CHECK(pthread_create(&thread, NULL, look, &seen) == 0);
	pthread_barrier_wait(&over);
	if (!detached)
		CHECK(pthread_join(thread, NULL) == 0);
	return seen;
}

int main(void)
{
	pthread_attr_t before, attr;
	struct seen first, small, large, detached;

	CHECK(pthread_barrier_init(&over, NULL, 2) == 0);
	first = made(0);
	CHECK(first.detached == PTHREAD_CREATE_JOINABLE);

	CHECK(pthread_getattr_default_np(&before) == 0);
	CHECK(pthread_attr_init(&attr) == 0);
	CHECK(pthread_attr_setstacksize(&attr, 128 << 10) == 0);
	CHECK(pthread_setattr_default_np(&attr) == 0);
	small = made(0);
	CHECK(small.bytes < first.bytes);

	CHECK(pthread_attr_setstacksize(&attr, 3 << 20) == 0);
	CHECK(pthread_setattr_default_np(&attr) == 0);
	large = made(0);
	CHECK(large.bytes > small.bytes && large.bytes > 2 << 20);

	CHECK(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0);
	CHECK(pthread_setattr_default_np(&attr) == 0);
	detached = made(1);
	CHECK(detached.detached == PTHREAD_CREATE_DETACHED);

	CHECK(pthread_setattr_default_np(&before) == 0);
	CHECK(made(0).bytes == first.bytes);
	return 0;
}
