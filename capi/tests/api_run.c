/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle_run runs a function as a thread and returns its result; exit and cancellation give 0.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
static void *tells(void *arg)
{
	(void)arg;
	return (void *)pthread_self();
}

static int body(void *arg)
{
	CHECK(strncmp(heddle_version(), "0.1.", 4) == 0);
	pthread_t thread = start_thread(tells, NULL);
	CHECK(pthread_equal((pthread_t)join_thread(thread), thread));
	return *(int *)arg;
}

static int exits(void *arg)
{
	heddle_exit(arg);
}

static int cancels(void *arg)
{
	heddle_cancel(heddle_self());
	heddle_testcancel();
	return *(int *)arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("heddle_run is heddle's");
#else
	int value = 37;
	CHECK_EQ(heddle_run(body, &value), 37);
	CHECK_EQ(heddle_run(exits, &value), 0);
	CHECK_EQ(heddle_run(cancels, &value), 0);
	return 0;
#endif
}
