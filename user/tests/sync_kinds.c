/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every kind of mutex goes with every kind of condition variable: waits end by a signal, a
 * broadcast, their moment on whichever clock, a cancellation, and go on after a handler; who has
 * waited has the mutex. Kinds that differ in what an unlock says are tried with half of the
 * variables. With an argument, says what is tried.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>

enum { WAITERS = 2, SHORT_MS = 3, LONG_MS = 100000 };
enum how { WAIT, TIMED, CLOCK_REAL, CLOCK_MONO, HOWS };
enum event { SIGNALLED, BROADCAST, OVER, CANCELLED, HANDLED, EVENTS };

struct kind {
	const char *name;
	int type, protocol, is_shared, is_robust;
};

static const struct kind kinds[] = {
	{ "normal", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 0, 0 },
	{ "recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 0, 0 },
	{ "error-checking", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 0, 0 },
	{ "adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, 0, 0 },
	{ "inheriting", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0, 0 },
	{ "inheriting, error-checking", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, 0, 0 },
	{ "shared", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1, 0 },
	{ "shared, error-checking", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, 1, 0 },
	{ "shared, recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, 1, 0 },
	{ "robust", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 0, 1 },
	{ "shared, robust", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, 1, 1 },
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static pthread_mutex_t mutex;
static pthread_cond_t cond;
static clockid_t own_clock;
static enum how how;
static enum event event;
static int waiting, go, cleaned, handled, is_recursive;

static void make_mutex(const struct kind *kind)
{
	pthread_mutexattr_t it;
	CHECK_EQ(pthread_mutexattr_init(&it), 0);
	CHECK_EQ(pthread_mutexattr_settype(&it, kind->type), 0);
	CHECK_EQ(pthread_mutexattr_setprotocol(&it, kind->protocol), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&it, kind->is_shared), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&it, kind->is_robust), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &it), 0);
	CHECK_EQ(pthread_mutexattr_destroy(&it), 0);
	is_recursive = kind->type == PTHREAD_MUTEX_RECURSIVE;
}

static void make_cond(int is_shared)
{
	pthread_condattr_t it;
	CHECK_EQ(pthread_condattr_init(&it), 0);
	CHECK_EQ(pthread_condattr_setclock(&it, own_clock), 0);
	CHECK_EQ(pthread_condattr_setpshared(&it, is_shared), 0);
	CHECK_EQ(pthread_cond_init(&cond, &it), 0);
	CHECK_EQ(pthread_condattr_destroy(&it), 0);
}

static int wait_once(void)
{
	clockid_t clock = how == TIMED	      ? own_clock
			  : how == CLOCK_REAL ? CLOCK_REALTIME
					      : CLOCK_MONOTONIC;
	struct timespec at = moment(clock, event == OVER ? SHORT_MS : LONG_MS);
	switch (how) {
	case WAIT:
		return pthread_cond_wait(&cond, &mutex);
	case TIMED:
		return pthread_cond_timedwait(&cond, &mutex, &at);
	default:
		return pthread_cond_clockwait(&cond, &mutex, clock, &at);
	}
}

/* Whoever has the mutex finds it locked, and can unlock it. */
static void has_mutex(void)
{
	int error = pthread_mutex_trylock(&mutex);
	CHECK(is_recursive ? error == 0 : error == EBUSY || error == EDEADLK);
	if (is_recursive)
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void cleans(void *arg)
{
	(void)arg;
	has_mutex();
	cleaned++;
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void handles(int number)
{
	(void)number;
	add_value(&handled, 1);
}

static void *waits(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	pthread_cleanup_push(cleans, NULL);
	waiting++;
	int result = 0;
	while (!go && result == 0)
		result = wait_once();
	CHECK_EQ(result, event == OVER ? ETIMEDOUT : 0);
	CHECK(event != CANCELLED);
	has_mutex();
	waiting--;
	pthread_cleanup_pop(0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	return arg;
}

/* Has the mutex when so many wait. */
static void lock_when_waiting(int count)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	while (waiting != count) {
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		sched_yield();
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	}
}

static void wake(int count)
{
	go = 1;
	if (event == SIGNALLED)
		for (int i = 0; i < count; i++)
			CHECK_EQ(pthread_cond_signal(&cond), 0);
	else
		CHECK_EQ(pthread_cond_broadcast(&cond), 0);
	/* They come for the mutex while it is held. */
	for (int i = 0; i < 3; i++)
		sched_yield();
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void *wakes(void *arg)
{
	lock_when_waiting(1);
	wake(1);
	return arg;
}

static void try(void)
{
	pthread_t waiters[WAITERS];
	go = waiting = cleaned = handled = 0;
	for (int i = 0; i < WAITERS; i++)
		waiters[i] = start_thread(waits, NULL);
	if (event != OVER) {
		lock_when_waiting(WAITERS);
		if (event == HANDLED || event == CANCELLED)
			CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		for (int i = 0; i < WAITERS && event == HANDLED; i++)
			CHECK_EQ(pthread_kill(waiters[i], SIGUSR1), 0);
		for (int i = 0; i < WAITERS && event == CANCELLED; i++)
			CHECK_EQ(pthread_cancel(waiters[i]), 0);
		if (event == HANDLED) {
			await_value(&handled, WAITERS);
			CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		}
		if (event != CANCELLED)
			wake(WAITERS);
	}
	void *expected = event == CANCELLED ? PTHREAD_CANCELED : NULL;
	for (int i = 0; i < WAITERS; i++)
		CHECK(join_thread(waiters[i]) == expected);
	CHECK_EQ(cleaned, event == CANCELLED ? WAITERS : 0);
	CHECK_EQ(pthread_mutex_trylock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
	if (event == CANCELLED || event == HANDLED)
		return;
	/* The main thread waits. */
	go = waiting = 0;
	pthread_t waker = event == OVER ? pthread_self() : start_thread(wakes, NULL);
	waits(NULL);
	if (event != OVER)
		join_thread(waker);
}

int main(int count, char **arguments)
{
	struct sigaction action = { .sa_handler = handles };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	int only = count > 2 ? atoi(arguments[2]) : -1;
	for (int kind = 0; kind < KINDS; kind++)
		for (int conds = 0; conds < 4; conds++) {
			int is_own = kinds[kind].type == PTHREAD_MUTEX_NORMAL;
			if ((only >= 0 && kind != only) || (!is_own && (conds == 1 || conds == 2)))
				continue;
			own_clock = conds & 1 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
			make_mutex(&kinds[kind]);
			make_cond(conds & 2 ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE);
			for (event = SIGNALLED; event < EVENTS; event++) {
				how = (enum how)((int)event + conds + kind) % HOWS;
				if (event == OVER && how == WAIT)
					how = TIMED;
				if (count > 1)
					fprintf(stderr, "%s, cond %d, how %d, event %d\n",
						kinds[kind].name, conds, how, event);
				try();
			}
			CHECK_EQ(pthread_cond_destroy(&cond), 0);
			CHECK_EQ(pthread_mutex_destroy(&mutex), 0);
		}
	return 0;
}
