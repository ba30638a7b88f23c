/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that wait for each other for ever ("stuck HOW"), or only for long, while others go on and
 * a handler may come: the first argument says which. The former end by an alarm, unless their
 * reader has seen enough; the latter after as many ms as the second argument says, with "done".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

enum { ALARM_S = 100, QUEUE = 5 };

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t bell = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t begun;
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
	CHECK(pthread_setname_np(thread, name) == 0);
	return thread;
}

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

static void on_signal(int signal)
{
	(void)signal;
}

static void *goes_on(void *unused)
{
	for (;;) {
		sleep_ms(1);
	}
	return unused;
}

static void *computes(void *unused)
{
	volatile unsigned long count = 0;
	for (;;) {
		count++;
	}
	return unused;
}

// ---- for ever

static void *takes_second(void *unused)
{
	pthread_mutex_lock(&first_lock);
	pthread_barrier_wait(&begun);
	pthread_mutex_lock(&second_lock);
	return unused;
}

static void *takes_first(void *unused)
{
	pthread_mutex_lock(&second_lock);
	pthread_barrier_wait(&begun);
	pthread_mutex_lock(&first_lock);
	return unused;
}

static void *writes(void *unused)
{
	pthread_rwlock_wrlock(&shelf);
	pthread_barrier_wait(&begun);
	pthread_mutex_lock(&first_lock);
	return unused;
}

static void *reads(void *unused)
{
	pthread_mutex_lock(&first_lock);
	pthread_barrier_wait(&begun);
	pthread_rwlock_rdlock(&shelf);
	return unused;
}

static void *waits_for_first(void *unused)
{
	pthread_mutex_lock(&first_lock);
	return unused;
}

static void *joins(void *thread)
{
	join(*(pthread_t *)thread);
	return NULL;
}

static void *joins_main(void *thread)
{
	pthread_mutex_lock(&first_lock);
	pthread_barrier_wait(&begun);
	return joins(thread);
}

static void *takes_twice(void *unused)
{
	pthread_mutex_lock(&first_lock);
	pthread_mutex_lock(&first_lock);
	return unused;
}

static void *leaves_lock(void *unused)
{
	pthread_mutex_lock(&first_lock);
	return unused;
}

static void stuck(const char *how)
{
	alarm(ALARM_S);
	if (strcmp(how, "two") == 0) {
		started("cook", takes_second, NULL);
		started("gardener", takes_first, NULL);
	} else if (strcmp(how, "lock") == 0) {
		started("reader", reads, NULL);
		started("writer", writes, NULL);
	} else if (strcmp(how, "main") == 0) {
		CHECK(pthread_mutex_lock(&first_lock) == 0);
		pthread_t cook = started("cook", waits_for_first, NULL);
		join(cook);
	} else if (strcmp(how, "three") == 0) {
		static pthread_t cook;
		CHECK(pthread_mutex_lock(&first_lock) == 0);
		cook = started("cook", waits_for_first, NULL);
		pthread_t guest = started("guest", joins, &cook);
		for (int i = 0; i < QUEUE; i++) {
			started("pupil", waits_for_first, NULL);
		}
		join(guest);
	} else if (strcmp(how, "joined") == 0) {
		static pthread_t self;
		self = pthread_self();
		started("cook", joins_main, &self);
		pthread_barrier_wait(&begun);
		pthread_mutex_lock(&first_lock);
	} else if (strcmp(how, "itself") == 0) {
		started("cook", takes_twice, NULL);
	} else if (strcmp(how, "ended") == 0) {
		join(started("guest", leaves_lock, NULL));
		started("cook", waits_for_first, NULL);
		started("cook", waits_for_first, NULL);
	}
	goes_on(NULL);
}

// ---- not for ever

static void *locks_until(void *mutexes)
{
	pthread_mutex_t **both = mutexes;
	CHECK(pthread_mutex_lock(both[0]) == 0);
	pthread_barrier_wait(&begun);
	struct timespec end;
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += wait_ms / 1000;
	end.tv_nsec += both[0] == &first_lock ? 0 : 1000000;
	pthread_mutex_timedlock(both[1], &end);
	pthread_mutex_unlock(both[0]);
	return NULL;
}

static void by_deadline(void)
{
	pthread_mutex_t *one[] = {&first_lock, &second_lock};
	pthread_mutex_t *other[] = {&second_lock, &first_lock};
	pthread_t cook = started("cook", locks_until, one);
	pthread_t gardener = started("gardener", locks_until, other);
	join(cook);
	join(gardener);
}

// A mutex that another thread unlocks: not defined, and done.
static void by_other(void)
{
	pthread_t cook = started("cook", takes_twice, NULL);
	sleep_ms(wait_ms);
	pthread_mutex_unlock(&first_lock);
	join(cook);
}

static _Atomic int is_over;

static void *holds_long(void *unused)
{
	while (!is_over) {
		pthread_mutex_lock(&first_lock);
		pthread_mutex_lock(&second_lock);
		sleep_ms(20);
		pthread_mutex_unlock(&second_lock);
		sleep_ms(1);
		pthread_mutex_unlock(&first_lock);
	}
	return unused;
}

static void by_turns(void)
{
	pthread_t threads[QUEUE];
	for (int i = 0; i < QUEUE; i++) {
		threads[i] = started("cook", holds_long, NULL);
	}
	sleep_ms(wait_ms);
	is_over = 1;
	for (int i = 0; i < QUEUE; i++) {
		join(threads[i]);
	}
}

// Waits for a mutex whose holder waits for a condition.
static void *waits_for_bell(void *unused)
{
	pthread_mutex_lock(&second_lock);
	pthread_mutex_lock(&first_lock);
	pthread_barrier_wait(&begun);
	CHECK(pthread_cond_wait(&bell, &first_lock) == 0);
	pthread_mutex_unlock(&first_lock);
	pthread_mutex_unlock(&second_lock);
	return unused;
}

static void *takes_both(void *unused)
{
	pthread_mutex_lock(&second_lock);
	pthread_mutex_unlock(&second_lock);
	return unused;
}

static void by_bell(void)
{
	pthread_t guest = started("guest", waits_for_bell, NULL);
	pthread_barrier_wait(&begun);
	pthread_t cook = started("cook", takes_both, NULL);
	sleep_ms(wait_ms);
	pthread_mutex_lock(&first_lock);
	CHECK(pthread_cond_signal(&bell) == 0);
	pthread_mutex_unlock(&first_lock);
	join(guest);
	join(cook);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{"deadline", by_deadline},
	{"other", by_other},
	{"turns", by_turns},
	{"bell", by_bell},
};

int main(int count, char **words)
{
	CHECK(count == 3);
	wait_ms = atol(words[2]);
	const struct sigaction action = {.sa_handler = on_signal};
	CHECK(sigaction(SIGINT, &action, NULL) == 0);
	CHECK(pthread_barrier_init(&begun, NULL, 2) == 0);
	started("clock", goes_on, NULL);
	if (strncmp(words[1], "stuck ", 6) == 0) {
		stuck(words[1] + 6);
	}
	if (strncmp(words[1], "busy ", 5) == 0) {
		started("mill", computes, NULL);
		started("mill", computes, NULL);
		stuck(words[1] + 5);
	}
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (strcmp(words[1], ways[i].name) == 0) {
			ways[i].run();
			puts("done");
			return 0;
		}
	}
	CHECK(!"a way");
}
