/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that joins one that only the kernel can make handles signals meanwhile, can give up by
 * time or be cancelled, and gets the result.
 */
#define _GNU_SOURCE
#include "own_stack.h"
#include <signal.h>

static int handled, joins;
static sem_t go;
static pthread_t target;

static void handle(int number)
{
	(void)number;
	add_value(&handled, 1);
}

static void *wait_for_go(void *arg)
{
	while (sem_wait(&go) != 0)
		CHECK_EQ(errno, EINTR);
	return arg;
}

static void *exits(void *arg)
{
	wait_for_go(NULL);
	pthread_exit(arg);
}

static void *join_it(void *arg)
{
	void *result = NULL;
	set_value(&joins, 1);
	CHECK_EQ(pthread_join(target, &result), 0);
	CHECK(result == &go);
	return arg;
}

static void *join_in_time(void *arg)
{
	struct timespec until = moment(CLOCK_MONOTONIC, 30);
	void *result = NULL;
	CHECK_EQ(pthread_clockjoin_np(target, NULL, CLOCK_MONOTONIC, &until), ETIMEDOUT);
	until = moment(CLOCK_REALTIME, 30);
	CHECK_EQ(pthread_timedjoin_np(target, NULL, &until), ETIMEDOUT);
	CHECK_EQ(pthread_tryjoin_np(target, NULL), EBUSY);
	CHECK_EQ(sem_post(&go), 0);
	until = moment(CLOCK_REALTIME, 20000);
	CHECK_EQ(pthread_timedjoin_np(target, &result, &until), 0);
	CHECK(result == &go);
	return arg;
}

static pthread_t start_joiner(void *(*start)(void *))
{
	set_value(&joins, 0);
	target = start_on_own_stack(start, &go);
	pthread_t joiner = start_thread(join_it, NULL);
	await_value(&joins, 1);
	sleep_ms(20);
	return joiner;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sem_init(&go, 0, 0), 0);

	pthread_t joiner = start_joiner(wait_for_go);
	CHECK_EQ(pthread_kill(joiner, SIGUSR1), 0);
	await_value(&handled, 1);
	CHECK_EQ(sem_post(&go), 0);
	join_thread(joiner);

	joiner = start_joiner(exits);
	CHECK_EQ(pthread_cancel(joiner), 0);
	CHECK(join_thread(joiner) == PTHREAD_CANCELED);
	CHECK_EQ(sem_post(&go), 0);
	CHECK(join_thread(target) == &go);

	target = start_on_own_stack(wait_for_go, &go);
	join_thread(start_thread(join_in_time, NULL));
	return 0;
}
