/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread whose values' destructors run takes signals: its handler runs there while it waits for
 * a mutex, a semaphore or a time, and while it computes.
 */
#define _GNU_SOURCE
#include <signal.h>

#include "check.h"

enum { MUTEX, SEMAPHORE, SLEEP, SPIN, KINDS };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static sem_t go;
static int inside, handled, kind, stop;

static void on_signal(int number)
{
	CHECK_EQ(number, SIGUSR1);
	add_value(&handled, 1);
}

static void destroy(void *value)
{
	CHECK(value == &key);
	set_value(&inside, 1);
	switch (kind) {
	case MUTEX:
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		break;
	case SEMAPHORE:
		while (sem_wait(&go) != 0)
			CHECK_EQ(errno, EINTR);
		break;
	case SLEEP:
		while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
			sleep_ms(1000);
		break;
	default:
		while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
			;
	}
}

static void *start(void *arg)
{
	CHECK_EQ(pthread_setspecific(key, &key), 0);
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sem_init(&go, 0, 0), 0);
	CHECK_EQ(pthread_key_create(&key, destroy), 0);
	for (kind = 0; kind < KINDS; kind++) {
		inside = stop = 0;
		CHECK_EQ(pthread_mutex_lock(&mutex), 0);
		pthread_t thread = start_thread(start, NULL);
		await_value(&inside, 1);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		await_value(&handled, kind + 1);
		CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
		CHECK_EQ(sem_post(&go), 0);
		set_value(&stop, 1);
		join_thread(thread);
		if (kind != SEMAPHORE)
			CHECK_EQ(sem_wait(&go), 0);
	}
	return 0;
}
