/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The routine of a once runs once, and every caller returns after it has run.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int runs, done, started;

static void initialise(void)
{
	add_value(&runs, 1);
	sleep_ms(20);
	set_value(&done, 1);
}

static void *call(void *arg)
{
	add_value(&started, 1);
	CHECK_EQ(pthread_once(&once, initialise), 0);
	CHECK_EQ(__atomic_load_n(&done, __ATOMIC_SEQ_CST), 1);
	return arg;
}

int main(void)
{
	pthread_t threads[16];
	for (int i = 0; i < 16; i++)
		threads[i] = start_thread(call, NULL);
	for (int i = 0; i < 16; i++)
		join_thread(threads[i]);
	CHECK_EQ(pthread_once(&once, initialise), 0);
	CHECK_EQ(runs, 1);
	return 0;
}
