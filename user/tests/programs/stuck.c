/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that wait for each other for ever ("stuck HOW"), or for something that still comes: the
 * first argument says for which. The former end by an alarm, unless their reader has seen enough.
 * The latter get it after as many ms as the second argument says, and print "done" then.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hide_memory.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

enum { ALARM_S = 100 };

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t gate;
static sem_t empty;
static long wait_ms;

static void sleep_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&left, &left) != 0) {
	}
}

static pthread_t started(const char *name, void *(*start)(void *), void *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, start, argument) == 0);
	CHECK(name == NULL || pthread_setname_np(thread, name) == 0);
	return thread;
}

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

// ---- stuck: nothing can wake any of them

static void *takes_second(void *begun)
{
	pthread_mutex_lock(&first_lock);
	pthread_barrier_wait(begun);
	pthread_mutex_lock(&second_lock);
	return NULL;
}

static void *takes_first(void *begun)
{
	prctl(PR_SET_NAME, "gardener");
	pthread_mutex_lock(&second_lock);
	pthread_barrier_wait(begun);
	pthread_mutex_lock(&first_lock);
	return NULL;
}

static void *waits_for_condition(void *unused)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	while (pthread_cond_wait(&never, &lock) == 0) {
	}
	return unused;
}

static void *waits_for_semaphore(void *unused)
{
	sem_wait(&empty);
	return unused;
}

static void *waits_at_gate(void *unused)
{
	pthread_barrier_wait(&gate);
	return unused;
}

static void *writes(void *unused)
{
	pthread_rwlock_wrlock(&shelf);
	return unused;
}

static void *reads(void *unused)
{
	pthread_rwlock_rdlock(&shelf);
	return unused;
}

static void *locks(void *lock)
{
	CHECK(pthread_mutex_lock(lock) == 0);
	return NULL;
}

// A thread waits for a mutex, and then its memory is given back.
static void give_back(void)
{
	const size_t bytes = 4096;
	pthread_mutex_t *lock =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(lock != MAP_FAILED && pthread_mutex_lock(lock) == 0);
	started("loser", locks, lock);
	// What a mutex says that somebody waits for; the wait begins within an instant.
	while (__atomic_load_n(&lock->__data.__lock, __ATOMIC_RELAXED) != 2) {
		sleep_ms(1);
	}
	sleep_ms(1500);
	CHECK(munmap(lock, bytes) == 0);
}

static pthread_mutex_t orphan = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lost = PTHREAD_RWLOCK_INITIALIZER;

static void *leaves_locks(void *unused)
{
	CHECK(pthread_mutex_lock(&orphan) == 0);
	CHECK(pthread_rwlock_wrlock(&lost) == 0);
	return unused;
}

static void *wants_mutex(void *unused)
{
	pthread_mutex_lock(&orphan);
	return unused;
}

static void *wants_lock(void *unused)
{
	pthread_rwlock_rdlock(&lost);
	return unused;
}

static void make_robust(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
	CHECK(pthread_mutex_init(lock, &attributes) == 0);
}

// What its worker had to wake for before is over.
static void *sleeps_and_locks(void *lock)
{
	sleep_ms(50);
	return locks(lock);
}

static void *holds_file(void *begun)
{
	flockfile(stdout);
	pthread_barrier_wait(begun);
	sem_wait(&empty);
	return NULL;
}

static void *prints(void *unused)
{
	puts("never");
	return unused;
}

static void stuck(const char *how)
{
	static pthread_barrier_t begun;
	alarm(ALARM_S);
	if (strcmp(how, "robust") == 0) {
		make_robust(&first_lock);
		make_robust(&second_lock);
	}
	CHECK(pthread_barrier_init(&begun, NULL, 2) == 0);
	CHECK(pthread_barrier_init(&gate, NULL, 2) == 0);
	CHECK(sem_init(&empty, 0, 0) == 0);
	pthread_t cook = started("cook", takes_second, &begun);
	if (strcmp(how, "others") == 0) {
		started("reader", waits_for_condition, NULL);
		started("porter", waits_for_semaphore, NULL);
		started("guest", waits_at_gate, NULL);
		CHECK(pthread_rwlock_rdlock(&shelf) == 0);
		started("scribe", writes, NULL);
	} else if (strcmp(how, "orphan") == 0) {
		// One of those that come later gets what the first one had of heddle.
		join(started(NULL, leaves_locks, NULL));
		for (int i = 0; i < 6; i++) {
			started("heir", i % 2 ? wants_mutex : wants_lock, NULL);
		}
	} else if (strcmp(how, "robust") == 0) {
		started("late", sleeps_and_locks, &first_lock);
	} else if (strcmp(how, "file") == 0) {
		static pthread_barrier_t kept;
		CHECK(pthread_barrier_init(&kept, NULL, 2) == 0);
		started("herald", holds_file, &kept);
		pthread_barrier_wait(&kept);
		started("crier", prints, NULL);
	} else if (strcmp(how, "many") == 0) {
		CHECK(pthread_rwlock_wrlock(&shelf) == 0);
		for (int i = 0; i < 40; i++) {
			started("pupil", reads, NULL);
		}
	}
	started(NULL, takes_first, &begun);
	if (strcmp(how, "lock") == 0) {
		// Not before the others have both: the second is never given back.
		while (pthread_mutex_trylock(&second_lock) == 0) {
			pthread_mutex_unlock(&second_lock);
			sleep_ms(1);
		}
		pthread_mutex_lock(&second_lock);
	} else if (strcmp(how, "semaphore") == 0) {
		sem_wait(&empty);
	} else if (strcmp(how, "condition") == 0) {
		waits_for_condition(NULL);
	} else if (strcmp(how, "late") == 0) {
		sleep_ms(1500);
	} else if (strcmp(how, "gone") == 0) {
		give_back();
	}
	join(cook);
}

#include "stuck_alive.h"

int main(int count, char **words)
{
	CHECK(count == 3);
	wait_ms = atol(words[2]);
	if (strncmp(words[1], "stuck ", 6) == 0) {
		stuck(words[1] + 6);
	} else {
		alive(words[1]);
	}
	return 0;
}
