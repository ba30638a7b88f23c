/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The slow path of our lock.
 *
 * Invariant: a waiter sleeps in the kernel after a short look. A spinning waiter of a higher
 * real-time priority than the holder's would otherwise keep the holder from ever going on. It is
 * the kernel's sleep, whoever takes over system calls by their numbers in front of us: the holder
 * may be what that one would run meanwhile.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOKS_MAX 64
#define BRIEF_LOOKS_MAX 1000

void lock_wait(struct lock *lock)
{
	int error = errno;

	for (int look = 0; look < LOOKS_MAX; look++) {
		if (load(&lock->word) == 0 && lock_try(lock))
			return;
	}
	/* From here on the word says 2: whoever gives the lock wakes one waiter. */
	while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
		REAL(syscall)(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
	errno = error;
}

bool lock_take_briefly(struct lock *lock)
{
	bool taken = lock_try(lock);

	for (int look = 0; look < BRIEF_LOOKS_MAX && !taken; look++) {
		sched_yield();
		taken = lock_try(lock);
	}
	return taken;
}

void lock_wake(struct lock *lock)
{
	int error = errno;

	REAL(syscall)(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	errno = error;
}
