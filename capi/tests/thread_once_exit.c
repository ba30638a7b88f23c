/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A routine of a once that ends its thread by pthread_exit leaves the once as if never called.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int entered;

static void initialise(void)
{
	if (add_value(&entered, 1) == 1)
		pthread_exit((void *)3);
}

static void *call(void *arg)
{
	CHECK_EQ(pthread_once(&once, initialise), 0);
	return arg;
}

int main(void)
{
	CHECK_EQ((intptr_t)join_thread(start_thread(call, NULL)), 3);
	CHECK_EQ((intptr_t)join_thread(start_thread(call, (void *)4)), 4);
	CHECK_EQ(entered, 2);
	return 0;
}
