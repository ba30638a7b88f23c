/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A wait for a condition variable that is shared with other processes is a point of cancellation:
 * the thread has the mutex again when its cleanup handlers run, whenever the request came, and who
 * else waits there loses no signal by it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 60, WAITERS = 3 };

struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int tokens, taken;
};

static struct shared *shared;
static int waits, cleaned, handled;

static void lock(void)
{
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
}

static void unlock(void)
{
	CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
}

/* Only who has an error-checking mutex can unlock it. */
static void cleans(void *arg)
{
	(void)arg;
	add_value(&cleaned, 1);
	unlock();
}

static void handles(int number)
{
	(void)number;
	sleep_ms(1);
	add_value(&handled, 1);
}

static void *waits_long(void *timed)
{
	struct timespec at = moment(CLOCK_REALTIME, 100000);
	lock();
	pthread_cleanup_push(cleans, NULL);
	set_value(&waits, 1);
	for (;;)
		if (timed)
			CHECK_EQ(pthread_cond_timedwait(&shared->cond, &shared->mutex, &at), 0);
		else
			CHECK_EQ(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Takes one token. */
static void *takes(void *arg)
{
	lock();
	pthread_cleanup_push(cleans, NULL);
	add_value(&waits, 1);
	while (shared->tokens == 0)
		CHECK_EQ(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
	shared->tokens--;
	shared->taken++;
	pthread_cleanup_pop(0);
	unlock();
	return arg;
}

/* With the cancellation disabled the wait goes on; enabled, it ends at its next point. */
static void *takes_first(void *arg)
{
	int before;
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before), 0);
	takes(arg);
	CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before), 0);
	lock();
	pthread_cleanup_push(cleans, NULL);
	pthread_cond_wait(&shared->cond, &shared->mutex);
	CHECK(0);
	pthread_cleanup_pop(0);
	return arg;
}

static void gives(int tokens)
{
	lock();
	shared->tokens += tokens;
	while (tokens-- > 0)
		CHECK_EQ(pthread_cond_signal(&shared->cond), 0);
	unlock();
}

static void is_cancelled(pthread_t thread)
{
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	/* It has unlocked it. */
	CHECK_EQ(pthread_mutex_trylock(&shared->mutex), 0);
	unlock();
}

static void cancelled_in_it(void *timed)
{
	set_value(&waits, 0);
	set_value(&cleaned, 0);
	set_value(&handled, 0);
	pthread_t thread = start_thread(waits_long, timed);
	await_value(&waits, 1);
	sleep_ms(20);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	await_value(&handled, 1);
	is_cancelled(thread);
	CHECK_EQ(cleaned, 1);
}

/* It waits for the mutex, which somebody else has. */
static void cancelled_while_locked(void)
{
	set_value(&waits, 0);
	set_value(&cleaned, 0);
	pthread_t thread = start_thread(waits_long, NULL);
	await_value(&waits, 1);
	lock();
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(30);
	CHECK_EQ(cleaned, 0);
	unlock();
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(cleaned, 1);
}

static void cancelled_later(void)
{
	set_value(&waits, 0);
	pthread_t thread = start_thread(takes_first, NULL);
	await_value(&waits, 1);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(20);
	gives(1);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(shared->tokens, 0);
}

/* A moment that has passed ends a wait, whatever it is. */
static void timed_out(void)
{
	struct timespec past[] = { { 0, 0 }, { 0, 1 }, moment(CLOCK_REALTIME, -1000) };
	lock();
	for (int i = 0; i < 3; i++)
		CHECK_EQ(pthread_cond_timedwait(&shared->cond, &shared->mutex, &past[i]), ETIMEDOUT);
	unlock();
}

static void *times_out(void *arg)
{
	timed_out();
	return arg;
}

/* At any moment: before it waits, in the middle, while it is woken. */
static void cancelled_at_any_moment(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		int cancelled = 0;
		pthread_t threads[WAITERS];
		set_value(&waits, 0);
		set_value(&cleaned, 0);
		shared->tokens = shared->taken = 0;
		for (int i = 0; i < WAITERS; i++)
			threads[i] = start_thread(takes, NULL);
		if (round % 4 != 3)
			await_value(&waits, WAITERS);
		for (volatile int spin = 0; spin < round * 37 % 4001; spin++)
			;
		if (round % 2)
			gives(2);
		CHECK_EQ(pthread_cancel(threads[round % WAITERS]), 0);
		if (round % 2 == 0)
			gives(2);
		cancelled = join_thread(threads[round % WAITERS]) == PTHREAD_CANCELED;
		/* One for each of the others. */
		if (!cancelled)
			gives(1);
		for (int i = 1; i < WAITERS; i++)
			join_thread(threads[(round + i) % WAITERS]);
		CHECK_EQ(shared->taken, WAITERS - cancelled);
		CHECK_EQ(shared->tokens, 0);
		CHECK_EQ(pthread_mutex_trylock(&shared->mutex), 0);
		unlock();
	}
}

/* Another process signals. */
static void signalled_by_a_child(void)
{
	int status;
	set_value(&waits, 0);
	shared->tokens = 0;
	pthread_t threads[2] = { start_thread(takes, NULL), start_thread(takes, NULL) };
	await_value(&waits, 2);
	sleep_ms(10);
	CHECK_EQ(pthread_cancel(threads[0]), 0);
	CHECK(join_thread(threads[0]) == PTHREAD_CANCELED);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		gives(1);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	join_thread(threads[1]);
}

int main(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	struct sigaction action = { .sa_handler = handles };

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(pthread_mutexattr_init(&mutex), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_ERRORCHECK), 0);
	CHECK_EQ(pthread_mutex_init(&shared->mutex, &mutex), 0);
	CHECK_EQ(pthread_condattr_init(&cond), 0);
	CHECK_EQ(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_cond_init(&shared->cond, &cond), 0);
	cancelled_in_it(NULL);
	cancelled_in_it(&shared);
	cancelled_while_locked();
	cancelled_later();
	timed_out();
	join_thread(start_thread(times_out, NULL));
	cancelled_at_any_moment();
	signalled_by_a_child();
	return 0;
}
