/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Sleeping threads do not hold each other up: two hundred sleep in the time of one.
 */
#define _GNU_SOURCE
#include "check.h"

static void *sleeps(void *arg)
{
	sleep_ms(300);
	return arg;
}

int main(void)
{
	static pthread_t threads[200];
	long start = now_ms();
	for (int i = 0; i < 200; i++)
		threads[i] = start_thread(sleeps, NULL);
	for (int i = 0; i < 200; i++)
		join_thread(threads[i]);
	long took = now_ms() - start;
	CHECK(took >= 299);
	/* One after the other they would take a minute. */
	CHECK(took < 40000);
	return 0;
}
