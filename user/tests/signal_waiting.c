/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A signal to a thread runs its handler there, whatever the thread waits in: a collector stops all
 * threads so, and what one of them waits for may be held by another that it has stopped already.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>

enum { KINDS = 8, ROUNDS = 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t read_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t write_lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t stopped, go, gone_on, sem, holds, end;
static int word, is_over;
static pthread_t threads[KINDS + 1];

static void on_stop(int number)
{
	(void)number;
	int saved = errno;
	CHECK_EQ(sem_post(&stopped), 0);
	while (sem_wait(&go) != 0)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(sem_post(&gone_on), 0);
	errno = saved;
}

static void let_all_go(void)
{
	while (sem_wait(&end) != 0)
		CHECK_EQ(errno, EINTR);
}

/* Has what the others wait for. */
static void *hold(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	CHECK_EQ(pthread_rwlock_wrlock(&read_lock), 0);
	CHECK_EQ(pthread_rwlock_rdlock(&write_lock), 0);
	CHECK_EQ(sem_post(&holds), 0);
	CHECK_EQ(pthread_once(&once, let_all_go), 0);
	CHECK_EQ(pthread_rwlock_unlock(&write_lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&read_lock), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	return arg;
}

static void wait_for_cond(void)
{
	CHECK_EQ(pthread_mutex_lock(&second), 0);
	while (!is_over)
		CHECK_EQ(pthread_cond_wait(&cond, &second), 0);
	CHECK_EQ(pthread_mutex_unlock(&second), 0);
}

static void wait_for_word(void)
{
	while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0)
		if (syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) != 0)
			CHECK(errno == EINTR || errno == EAGAIN);
}

static void *wait_in(void *arg)
{
	switch ((intptr_t)arg) {
	case 0:
		CHECK_EQ(pthread_mutex_lock(&lock), 0);
		CHECK_EQ(pthread_mutex_unlock(&lock), 0);
		break;
	case 1:
		CHECK_EQ(pthread_rwlock_rdlock(&read_lock), 0);
		CHECK_EQ(pthread_rwlock_unlock(&read_lock), 0);
		break;
	case 2:
		CHECK_EQ(pthread_rwlock_wrlock(&write_lock), 0);
		CHECK_EQ(pthread_rwlock_unlock(&write_lock), 0);
		break;
	case 3:
		pthread_barrier_wait(&barrier);
		break;
	case 4:
		CHECK_EQ(pthread_once(&once, let_all_go), 0);
		break;
	case 5:
		wait_for_cond();
		break;
	case 6:
		wait_for_word();
		break;
	default:
		while (sem_wait(&sem) != 0)
			CHECK_EQ(errno, EINTR);
	}
	return arg;
}

static void await(sem_t *it)
{
	struct timespec at = moment(CLOCK_REALTIME, 50000);
	CHECK_EQ(sem_timedwait(it, &at), 0);
}

/* All stop, then all go on: by then each waits in what it is for, or is about to. */
static void stop_all(void)
{
	for (int i = 0; i <= KINDS; i++)
		CHECK_EQ(pthread_kill(threads[i], SIGUSR1), 0);
	for (int i = 0; i <= KINDS; i++)
		await(&stopped);
	for (int i = 0; i <= KINDS; i++)
		CHECK_EQ(sem_post(&go), 0);
	for (int i = 0; i <= KINDS; i++)
		await(&gone_on);
	sleep_ms(2);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_stop, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	sem_t *sems[] = { &stopped, &go, &gone_on, &sem, &holds, &end };
	for (int i = 0; i < 6; i++)
		CHECK_EQ(sem_init(sems[i], 0, 0), 0);
	threads[KINDS] = start_thread(hold, NULL);
	await(&holds);
	for (intptr_t i = 0; i < KINDS; i++)
		threads[i] = start_thread(wait_in, (void *)i);
	for (int i = 0; i < ROUNDS; i++)
		stop_all();
	/* Nobody was let go by a signal. */
	CHECK_EQ(sem_post(&end), 0);
	set_value(&word, 1);
	syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	CHECK_EQ(pthread_mutex_lock(&second), 0);
	is_over = 1;
	CHECK_EQ(pthread_cond_broadcast(&cond), 0);
	CHECK_EQ(pthread_mutex_unlock(&second), 0);
	CHECK_EQ(sem_post(&sem), 0);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i <= KINDS; i++)
		join_thread(threads[i]);
	return 0;
}
