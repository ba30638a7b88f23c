/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Locks a robust mutex while it is loaded, and another while it is closed.
 */
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t first, second;

static void make(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t it;
	if (pthread_mutexattr_init(&it) || pthread_mutexattr_setrobust(&it, PTHREAD_MUTEX_ROBUST) ||
	    pthread_mutex_init(mutex, &it))
		abort();
}

static void use(pthread_mutex_t *mutex)
{
	if (pthread_mutex_lock(mutex) || pthread_mutex_unlock(mutex))
		abort();
}

__attribute__((constructor)) static void begins(void)
{
	make(&first);
	make(&second);
	use(&first);
}

__attribute__((destructor)) static void ends(void)
{
	use(&second);
}
