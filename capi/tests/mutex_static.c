/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Mutexes may be initialised statically, also the recursive and error-checking ones.
 */
#define _GNU_SOURCE
#include "check.h"

static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

int main(void)
{
	pthread_mutex_t local = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_t assigned;
	assigned = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	CHECK_EQ(pthread_mutex_lock(&plain), 0);
	CHECK_EQ(pthread_mutex_unlock(&plain), 0);
	CHECK_EQ(pthread_mutex_lock(&local), 0);
	CHECK_EQ(pthread_mutex_unlock(&local), 0);
	CHECK_EQ(pthread_mutex_lock(&assigned), 0);
	CHECK_EQ(pthread_mutex_unlock(&assigned), 0);
	CHECK_EQ(pthread_mutex_lock(&recursive), 0);
	CHECK_EQ(pthread_mutex_lock(&recursive), 0);
	CHECK_EQ(pthread_mutex_unlock(&recursive), 0);
	CHECK_EQ(pthread_mutex_unlock(&recursive), 0);
	CHECK_EQ(pthread_mutex_lock(&checking), 0);
	CHECK_EQ(pthread_mutex_lock(&checking), EDEADLK);
	CHECK_EQ(pthread_mutex_unlock(&checking), 0);
	CHECK_EQ(pthread_mutex_destroy(&plain), 0);
	return 0;
}
