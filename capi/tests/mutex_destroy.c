/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Destroying a locked mutex is EBUSY; after a destroy, init makes a new one.
 */
#define _GNU_SOURCE
#include "check.h"

int main(void)
{
	pthread_mutex_t mutex;
	CHECK_EQ(pthread_mutex_init(&mutex, NULL), 0);
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_destroy(&mutex), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, NULL), 0);
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
	return 0;
}
