/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who gives the CPU up while it holds a lock, and takes it again right after it has given it up,
 * does not have it alone: another thread that wants it gets it, though it finds it held at each of
 * its turns. So it is with locks of all kinds, those of the program's own making among them.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 2, ENOUGH = 20 };

struct kind {
	void (*take)(void);
	void (*give)(void);
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static int word; /* 0 = free, 1 = held, 2 = held and awaited */
static const struct kind *kind;
static int counts[THREADS], end;

static void take_mutex(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
}

static void give_mutex(void)
{
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void take_to_write(void)
{
	CHECK_EQ(pthread_rwlock_wrlock(&lock), 0);
}

static void give_lock(void)
{
	CHECK_EQ(pthread_rwlock_unlock(&lock), 0);
}

static void take_semaphore(void)
{
	CHECK_EQ(sem_wait(&semaphore), 0);
}

static void give_semaphore(void)
{
	CHECK_EQ(sem_post(&semaphore), 0);
}

static void take_word(void)
{
	int seen = 0;
	if (__atomic_compare_exchange_n(&word, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE) != 0)
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void give_word(void)
{
	if (__atomic_exchange_n(&word, 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int all_have_enough(void)
{
	for (int i = 0; i < THREADS; i++)
		if (counts[i] < ENOUGH)
			return 0;
	return 1;
}

static void *takes_it(void *arg)
{
	int *count = arg;

	for (int is_over = 0; !is_over;) {
		kind->take();
		sched_yield();
		++*count;
		is_over = end |= all_have_enough();
		kind->give();
	}
	return arg;
}

int main(void)
{
	static const struct kind kinds[] = {
		{ take_mutex, give_mutex },
		{ take_to_write, give_lock },
		{ take_semaphore, give_semaphore },
		{ take_word, give_word },
	};
	pthread_t threads[THREADS];

	CHECK_EQ(sem_init(&semaphore, 0, 1), 0);
	for (size_t each = 0; each < sizeof(kinds) / sizeof(*kinds); each++) {
		long begun = now_ms();

		kind = &kinds[each];
		end = 0;
		for (int i = 0; i < THREADS; i++)
			counts[i] = 0;
		for (int i = 0; i < THREADS; i++)
			threads[i] = start_thread(takes_it, &counts[i]);
		for (int i = 0; i < THREADS; i++)
			join_thread(threads[i]);
		CHECK(now_ms() - begun < 20000);
	}
	return 0;
}
