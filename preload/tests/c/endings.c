/* SPDX-License-Identifier: MIT OR Apache-2.0
 * However a thread ends, it is measured: after its own destructors, of keys and of thread_local
 * objects. Once before the library has learned to tell whether there are any, and once after. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <threads.h>

/* What the destructors use, less the frames above the start function, from which peaks count. */
#define DEEP_BYTES 49000u

static pthread_key_t key;
static sem_t waiting, ended;

static void destructor(void *value)
{
	(void)value;
	/* Deeper than what the thread itself used. */
	(void)use_stack(50000);
	sem_post(&ended);
}

static void *by_exit(void *argument)
{
	pthread_setspecific(key, &key);
	pthread_exit(argument);
}

static void *by_cancel(void *argument)
{
	pthread_setspecific(key, &key);
	sem_post(&waiting);
	for (;;)
		pause();
	return argument;
}

static void *by_async_cancel(void *argument)
{
	int before;

	pthread_setspecific(key, &key);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	sem_post(&waiting);
	for (;;)
		__asm__ volatile("");
	return argument;
}

static int by_return_of_c11(void *argument)
{
	pthread_setspecific(key, &key);
	return (int)(long)argument;
}

static void *by_return(void *argument)
{
	pthread_setspecific(key, &key);
	return argument;
}

/* As the compilers have it done for thread_local objects; musl has none of it. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));

static void *with_object(void *argument)
{
	if (__cxa_thread_atexit_impl)
		__cxa_thread_atexit_impl(destructor, NULL, (void *)&with_object);
	else
		pthread_setspecific(key, &key);
	return argument;
}

static void *shallow(void *argument) { return argument; }

static void *detached(void *argument)
{
	pthread_setspecific(key, &key);
	return argument;
}

/* At the forked child's end: its only thread but the first has ended once. */
static void check_child(void)
{
	const char *table = table_map();

	CHECK(table);
	CHECK_EQUAL(table_header(table)->uses_used, 2);
	CHECK_EQUAL(table_use(table, 1)->created, 1);
	CHECK_EQUAL(table_use(table, 1)->ended, 1);
	CHECK_EQUAL(table_use(table, 0)->ended, 0);
}

/* The child goes on where the thread was, has threads of its own, and returns. */
static void *forks(void *argument)
{
	pthread_t thread;
	int status;
	pid_t child = fork();

	if (child == 0) {
		CHECK_EQUAL(pthread_create(&thread, NULL, shallow, NULL), 0);
		CHECK_EQUAL(pthread_join(thread, NULL), 0);
		CHECK_EQUAL(atexit(check_child), 0);
		return argument;
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return argument;
}

static void cancelled(void *(*start)(void *))
{
	pthread_t thread;
	void *result;

	CHECK_EQUAL(pthread_create(&thread, NULL, start, NULL), 0);
	sem_wait(&waiting);
	CHECK_EQUAL(pthread_cancel(thread), 0);
	CHECK_EQUAL(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
}

static void joined(void *(*start)(void *))
{
	pthread_t thread;
	void *result;

	CHECK_EQUAL(pthread_create(&thread, NULL, start, (void *)7), 0);
	CHECK_EQUAL(pthread_join(thread, &result), 0);
	CHECK(result == (void *)7);
}

/* The kinds of threads whose destructors go deep; two more have none. */
#define DEEP_KINDS 7u

static void all_ways(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	thrd_t other;
	int number;

	joined(by_exit);
	cancelled(by_cancel);
	cancelled(by_async_cancel);
	CHECK_EQUAL(thrd_create(&other, by_return_of_c11, (void *)-5), thrd_success);
	CHECK_EQUAL(thrd_join(other, &number), thrd_success);
	CHECK_EQUAL(number, -5);
	joined(by_return);
	joined(with_object);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	CHECK_EQUAL(pthread_create(&thread, &attributes, detached, NULL), 0);
	for (uint32_t i = 0; i < DEEP_KINDS; i++)
		sem_wait(&ended);
	joined(shallow);
	joined(forks);
}

int main(void)
{
	const char *table;

	sem_init(&waiting, 0, 0);
	sem_init(&ended, 0, 0);
	CHECK_EQUAL(pthread_key_create(&key, destructor), 0);
	for (uint32_t round = 1; round <= 2; round++) {
		all_ways();
		table = table_map();
		CHECK(table);
		CHECK_EQUAL(table_header(table)->uses_used, DEEP_KINDS + 3);
		for (uint32_t use = 1; use < DEEP_KINDS + 3; use++) {
			const struct heddle_use *it = table_use(table, use);

			for (int look = 0; look < 10000 && it->ended < round; look++)
				usleep(1000);
			CHECK_EQUAL(it->ended, round);
			CHECK(use > DEEP_KINDS || it->peak > DEEP_BYTES);
			CHECK(use != DEEP_KINDS + 1 || it->peak < DEEP_BYTES);
		}
	}
	return 0;
}
