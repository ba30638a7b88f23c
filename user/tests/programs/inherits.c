/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A mutex that is shared and inherits priority, as a process would have made it that heddle does
 * not run. Prints what a thread gets for locking it in three ways, and what the main thread gets
 * for locking and unlocking it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <time.h>

/* Where the C library has the mutex's kind, and what it adds there. */
enum { KIND_AT = 4, INHERITS = 32 };

static pthread_mutex_t mutex;

static void *locks(void *unused)
{
	struct timespec soon = { 1, 0 };
	printf("%d ", pthread_mutex_lock(&mutex));
	printf("%d ", pthread_mutex_trylock(&mutex));
	printf("%d ", pthread_mutex_timedlock(&mutex, &soon));
	return unused;
}

int main(void)
{
	pthread_mutexattr_t shared;
	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&mutex, &shared);
	((int *)&mutex)[KIND_AT] |= INHERITS;
	pthread_t thread;
	pthread_create(&thread, NULL, locks, NULL);
	pthread_join(thread, NULL);
	printf("%d ", pthread_mutex_lock(&mutex));
	printf("%d\n", pthread_mutex_unlock(&mutex));
	return 0;
}
