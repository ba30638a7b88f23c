/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Destructors that set values are called again, PTHREAD_DESTRUCTOR_ITERATIONS times and no more.
 */
#define _GNU_SOURCE
#include "check.h"

#include <limits.h>

static pthread_key_t stubborn, chained;
static int stubborn_calls, chained_calls;

static void set_again(void *value)
{
	stubborn_calls++;
	CHECK_EQ(pthread_setspecific(stubborn, value), 0);
}

static void set_twice(void *value)
{
	if (++chained_calls < 2)
		CHECK_EQ(pthread_setspecific(chained, value), 0);
}

static void *ends(void *arg)
{
	CHECK_EQ(pthread_setspecific(stubborn, arg), 0);
	CHECK_EQ(pthread_setspecific(chained, arg), 0);
	return NULL;
}

int main(void)
{
	CHECK_EQ(pthread_key_create(&stubborn, set_again), 0);
	CHECK_EQ(pthread_key_create(&chained, set_twice), 0);
	join_thread(start_thread(ends, (void *)1));
	CHECK_EQ(stubborn_calls, PTHREAD_DESTRUCTOR_ITERATIONS);
	CHECK_EQ(chained_calls, 2);
	return 0;
}
