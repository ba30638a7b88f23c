/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle's objects are no larger than the C library's, and zero bytes are valid initialisers.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
int main(void)
{
	SKIP("compares the two headers, of which this build sees one");
}
#else
#include <heddle.h>

#define SAME(name) _Static_assert(HEDDLE_##name == PTHREAD_##name, #name)

_Static_assert(sizeof(heddle_mutex_t) <= sizeof(pthread_mutex_t), "mutex");
_Static_assert(sizeof(heddle_cond_t) <= sizeof(pthread_cond_t), "cond");
_Static_assert(sizeof(heddle_rwlock_t) <= sizeof(pthread_rwlock_t), "rwlock");
_Static_assert(sizeof(heddle_sem_t) <= sizeof(sem_t), "sem");
_Static_assert(sizeof(heddle_barrier_t) <= sizeof(pthread_barrier_t), "barrier");
_Static_assert(sizeof(heddle_spinlock_t) <= sizeof(pthread_spinlock_t), "spin");
_Static_assert(sizeof(heddle_attr_t) <= sizeof(pthread_attr_t), "attr");
_Static_assert(sizeof(heddle_mutexattr_t) <= sizeof(pthread_mutexattr_t), "mutexattr");
_Static_assert(sizeof(heddle_condattr_t) <= sizeof(pthread_condattr_t), "condattr");
_Static_assert(sizeof(heddle_rwlockattr_t) <= sizeof(pthread_rwlockattr_t), "rwlockattr");
_Static_assert(sizeof(heddle_barrierattr_t) <= sizeof(pthread_barrierattr_t), "barrierattr");
_Static_assert(sizeof(heddle_once_t) <= sizeof(pthread_once_t), "once");
_Static_assert(sizeof(heddle_t) == sizeof(pthread_t), "id");
SAME(CREATE_JOINABLE);
SAME(CREATE_DETACHED);
SAME(INHERIT_SCHED);
SAME(EXPLICIT_SCHED);
SAME(SCOPE_SYSTEM);
SAME(SCOPE_PROCESS);
SAME(PROCESS_PRIVATE);
SAME(PROCESS_SHARED);
SAME(MUTEX_NORMAL);
SAME(MUTEX_RECURSIVE);
SAME(MUTEX_ERRORCHECK);
SAME(MUTEX_DEFAULT);
SAME(MUTEX_STALLED);
SAME(MUTEX_ROBUST);
SAME(PRIO_NONE);
SAME(PRIO_INHERIT);
SAME(PRIO_PROTECT);
SAME(CANCEL_ENABLE);
SAME(CANCEL_DISABLE);
SAME(CANCEL_DEFERRED);
SAME(CANCEL_ASYNCHRONOUS);
SAME(BARRIER_SERIAL_THREAD);

int main(void)
{
	static const heddle_mutex_t mutex = HEDDLE_MUTEX_INITIALIZER;
	static const heddle_cond_t cond = HEDDLE_COND_INITIALIZER;
	static const heddle_rwlock_t lock = HEDDLE_RWLOCK_INITIALIZER;
	static const char zeros[64];
	CHECK_EQ(memcmp(&mutex, zeros, sizeof mutex), 0);
	CHECK_EQ(memcmp(&cond, zeros, sizeof cond), 0);
	CHECK_EQ(memcmp(&lock, zeros, sizeof lock), 0);
	CHECK(HEDDLE_CANCELED == PTHREAD_CANCELED);
	return 0;
}
#endif
