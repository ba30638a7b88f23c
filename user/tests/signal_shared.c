/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that wait for what is shared with other processes, or robust, handle signals meanwhile;
 * sem_wait fails then if the handler does not ask for it to go on, and can be cancelled.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct shared {
	pthread_mutex_t mutex, robust;
	pthread_cond_t cond;
	pthread_rwlock_t lock;
	pthread_barrier_t barrier;
	sem_t sem;
	int word, go;
};

enum { SIGNALS = 5 };

static struct shared *shared;
static int handled, waits;

static void handle(int number)
{
	(void)number;
	/* A wait in its middle, in which the thread may be left. */
	sleep_ms(1);
	add_value(&handled, 1);
}

static void *takes_mutex(void *mutex)
{
	set_value(&waits, 1);
	CHECK_EQ(pthread_mutex_lock(mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(mutex), 0);
	return NULL;
}

static void *takes_mutex_in_time(void *mutex)
{
	struct timespec at = moment(CLOCK_REALTIME, 60000);
	set_value(&waits, 1);
	CHECK_EQ(pthread_mutex_timedlock(mutex, &at), 0);
	CHECK_EQ(pthread_mutex_unlock(mutex), 0);
	return NULL;
}

static void *waits_for_cond(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
	set_value(&waits, 1);
	while (!shared->go)
		CHECK_EQ(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
	return arg;
}

static void *reads(void *arg)
{
	set_value(&waits, 1);
	CHECK_EQ(pthread_rwlock_rdlock(&shared->lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&shared->lock), 0);
	return arg;
}

static void *writes(void *arg)
{
	set_value(&waits, 1);
	CHECK_EQ(pthread_rwlock_wrlock(&shared->lock), 0);
	CHECK_EQ(pthread_rwlock_unlock(&shared->lock), 0);
	return arg;
}

static void *meets(void *arg)
{
	set_value(&waits, 1);
	pthread_barrier_wait(&shared->barrier);
	return arg;
}

static void *waits_for_post(void *arg)
{
	set_value(&waits, 1);
	CHECK_EQ(sem_wait(&shared->sem), 0);
	return arg;
}

static void *is_interrupted(void *arg)
{
	set_value(&waits, 1);
	CHECK_ERRNO(sem_wait(&shared->sem), EINTR);
	set_value(&waits, 2);
	return arg;
}

static void *is_interrupted_in_futex(void *arg)
{
	set_value(&waits, 1);
	CHECK_ERRNO(syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, NULL, NULL, 0), EINTR);
	set_value(&waits, 2);
	return arg;
}

static void *waits_by_futex(void *arg)
{
	struct timespec timeout = { 60, 0 };
	set_value(&waits, 1);
	while (__atomic_load_n(&shared->word, __ATOMIC_SEQ_CST) == 0)
		syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &timeout, NULL, 0);
	return arg;
}

/* The thread's handler runs so often while it waits, and the wait goes on until `end`. */
static void interrupted(void *(*body)(void *), void *arg, int number, int times, void (*end)(void))
{
	set_value(&waits, 0);
	set_value(&handled, 0);
	pthread_t thread = start_thread(body, arg);
	await_value(&waits, 1);
	sleep_ms(20);
	for (int i = 1; i <= times; i++) {
		CHECK_EQ(pthread_kill(thread, number), 0);
		await_value(&handled, i);
	}
	end();
	join_thread(thread);
}

static void ended_by_signal(void *(*body)(void *))
{
	set_value(&waits, 0);
	pthread_t thread = start_thread(body, NULL);
	await_value(&waits, 1);
	sleep_ms(20);
	kill_until(thread, SIGUSR1, &waits, 2);
	join_thread(thread);
}

static void unlock_mutex(void)
{
	CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
}

static void unlock_robust(void)
{
	CHECK_EQ(pthread_mutex_unlock(&shared->robust), 0);
}

static void signal_cond(void)
{
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
	shared->go = 1;
	CHECK_EQ(pthread_cond_signal(&shared->cond), 0);
	unlock_mutex();
}

static void unlock(void)
{
	CHECK_EQ(pthread_rwlock_unlock(&shared->lock), 0);
}

static void meet(void)
{
	pthread_barrier_wait(&shared->barrier);
}

static void wake(void)
{
	set_value(&shared->word, 1);
	syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Another process does it. */
static void post(void)
{
	int status;
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0)
		_exit(sem_post(&shared->sem));
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
}

static void *posted(void *arg)
{
	struct timespec at = moment(CLOCK_REALTIME, 20);
	CHECK_ERRNO(sem_timedwait(&shared->sem, &at), ETIMEDOUT);
	return waits_for_post(arg);
}

static void cancelled_while_it_waits(void)
{
	set_value(&waits, 0);
	pthread_t thread = start_thread(waits_for_post, NULL);
	await_value(&waits, 1);
	sleep_ms(20);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
}

static void set_up(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;
	pthread_rwlockattr_t lock;
	pthread_barrierattr_t barrier;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK_EQ(pthread_mutexattr_init(&mutex), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_mutex_init(&shared->mutex, &mutex), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST), 0);
	CHECK_EQ(pthread_mutex_init(&shared->robust, &mutex), 0);
	CHECK_EQ(pthread_condattr_init(&cond), 0);
	CHECK_EQ(pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_cond_init(&shared->cond, &cond), 0);
	CHECK_EQ(pthread_rwlockattr_init(&lock), 0);
	CHECK_EQ(pthread_rwlockattr_setpshared(&lock, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_rwlock_init(&shared->lock, &lock), 0);
	CHECK_EQ(pthread_barrierattr_init(&barrier), 0);
	CHECK_EQ(pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_barrier_init(&shared->barrier, &barrier, 2), 0);
	CHECK_EQ(sem_init(&shared->sem, 1, 0), 0);
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_flags = SA_RESTART;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	set_up();
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
	interrupted(takes_mutex, &shared->mutex, SIGUSR1, SIGNALS, unlock_mutex);
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
	interrupted(takes_mutex_in_time, &shared->mutex, SIGUSR1, SIGNALS, unlock_mutex);
	CHECK_EQ(pthread_mutex_lock(&shared->robust), 0);
	interrupted(takes_mutex, &shared->robust, SIGUSR1, SIGNALS, unlock_robust);
	interrupted(waits_for_cond, NULL, SIGUSR1, SIGNALS, signal_cond);
	CHECK_EQ(pthread_rwlock_wrlock(&shared->lock), 0);
	interrupted(reads, NULL, SIGUSR1, SIGNALS, unlock);
	CHECK_EQ(pthread_rwlock_wrlock(&shared->lock), 0);
	interrupted(writes, NULL, SIGUSR1, SIGNALS, unlock);
	interrupted(meets, NULL, SIGUSR1, SIGNALS, meet);
	ended_by_signal(is_interrupted_in_futex);
	interrupted(waits_by_futex, NULL, SIGUSR2, SIGNALS, wake);
	ended_by_signal(is_interrupted);
	interrupted(waits_for_post, NULL, SIGUSR2, SIGNALS, post);
	cancelled_while_it_waits();
	interrupted(posted, NULL, SIGUSR2, 0, post);
	return 0;
}
