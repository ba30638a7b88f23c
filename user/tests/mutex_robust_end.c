/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that ends leaves its robust mutexes: who waits for one, or comes later, is told so, and
 * goes on with them when it has made them consistent.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/syscall.h>

enum { MUTEXES = 3 };
static pthread_mutex_t mutexes[MUTEXES];
static int locked;

static void *ends(void *late)
{
	size_t bytes = 0;
	void *head = NULL;
	if (syscall(SYS_get_robust_list, 0, &head, &bytes) == 0)
		CHECK(head != NULL && bytes == 3 * sizeof(void *));
	for (int i = 0; i < MUTEXES; i++)
		CHECK_EQ(pthread_mutex_lock(&mutexes[i]), 0);
	/* This one is given up. */
	CHECK_EQ(pthread_mutex_unlock(&mutexes[1]), 0);
	set_value(&locked, 1);
	if (late)
		sleep_ms(30);
	return NULL;
}

static void *takes(void *mutex)
{
	CHECK_EQ(pthread_mutex_lock(mutex), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(mutex), 0);
	return NULL;
}

static void try(int is_shared, int is_late)
{
	pthread_mutexattr_t it;
	CHECK_EQ(pthread_mutexattr_init(&it), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&it, is_shared), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&it, PTHREAD_MUTEX_ROBUST), 0);
	for (int i = 0; i < MUTEXES; i++)
		CHECK_EQ(pthread_mutex_init(&mutexes[i], &it), 0);
	locked = 0;
	pthread_t one = start_thread(ends, is_late ? &locked : NULL);
	await_value(&locked, 1);
	if (!is_late)
		join_thread(one);
	pthread_t other = start_thread(takes, &mutexes[2]);
	takes(&mutexes[0]);
	join_thread(other);
	if (is_late)
		join_thread(one);
	for (int i = 0; i < MUTEXES; i++) {
		CHECK_EQ(pthread_mutex_lock(&mutexes[i]), 0);
		CHECK_EQ(pthread_mutex_unlock(&mutexes[i]), 0);
		CHECK_EQ(pthread_mutex_destroy(&mutexes[i]), 0);
	}
}

int main(void)
{
	for (int i = 0; i < 4; i++)
		try(i & 1 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE, i & 2);
	return 0;
}
