/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that ends by exit(2), called by number, runs nothing of its own any more, neither
 * cleanup handlers nor destructors; it may be joined, and leaves its robust mutexes.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/syscall.h>

/* More keys than a thread has values in its own block. */
enum { KEYS = 40, ROUNDS = 50 };

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *object, void *library);
extern void *__dso_handle;

static pthread_key_t keys[KEYS];
static pthread_mutex_t mutex;
static int destroyed;
static __thread int own = 7;

static void destroys(void *object)
{
	(void)object;
	add_value(&destroyed, 1);
}

static void *ends(void *by_number)
{
	CHECK_EQ(own, 7);
	own = 8;
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(destroys, NULL);
	CHECK_EQ(__cxa_thread_atexit_impl(destroys, &own, &__dso_handle), 0);
	for (int i = 0; i < KEYS; i++)
		CHECK_EQ(pthread_setspecific(keys[i], &own), 0);
	if (by_number)
		syscall(SYS_exit, 0);
	pthread_cleanup_pop(0);
	return by_number;
}

static void recover(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

int main(void)
{
	pthread_mutexattr_t it;
	CHECK_EQ(pthread_mutexattr_init(&it), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&it, PTHREAD_MUTEX_ROBUST), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &it), 0);
	for (int i = 0; i < KEYS; i++)
		CHECK_EQ(pthread_key_create(&keys[i], destroys), 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK(join_thread(start_thread(ends, &own)) == NULL);
		CHECK_EQ(destroyed, 0);
		recover();
	}
	/* One that returns runs them all. */
	join_thread(start_thread(ends, NULL));
	CHECK_EQ(destroyed, KEYS + 1);
	recover();
	return 0;
}
