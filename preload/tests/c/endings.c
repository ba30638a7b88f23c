/* SPDX-License-Identifier: MIT OR Apache-2.0
 * However a thread ends, it is measured: after its own key destructors. */
#define _GNU_SOURCE
#include "own_table.h"
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <threads.h>

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

static void *detached(void *argument)
{
	pthread_setspecific(key, &key);
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

int main(void)
{
	pthread_attr_t attributes;
	const char *table;
	pthread_t thread;
	thrd_t other;
	void *result;
	int number;

	sem_init(&waiting, 0, 0);
	sem_init(&ended, 0, 0);
	CHECK_EQUAL(pthread_key_create(&key, destructor), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, by_exit, (void *)7), 0);
	CHECK_EQUAL(pthread_join(thread, &result), 0);
	CHECK(result == (void *)7);
	cancelled(by_cancel);
	cancelled(by_async_cancel);
	CHECK_EQUAL(thrd_create(&other, by_return_of_c11, (void *)-5), thrd_success);
	CHECK_EQUAL(thrd_join(other, &number), thrd_success);
	CHECK_EQUAL(number, -5);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	CHECK_EQUAL(pthread_create(&thread, &attributes, detached, NULL), 0);
	table = table_map();
	CHECK(table);
	CHECK_EQUAL(table_header(table)->uses_used, 6);
	for (int i = 0; i < 5; i++)
		sem_wait(&ended);
	for (uint32_t use = 1; use < 6; use++) {
		for (int look = 0; look < 10000 && !table_use(table, use)->ended; look++)
			usleep(1000);
		CHECK_EQUAL(table_use(table, use)->ended, 1);
		CHECK(table_use(table, use)->peak > 50000);
	}
	return 0;
}
