/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whatever way a process ends in, the robust mutexes that its threads hold go to other processes,
 * which are told. And threads of two processes are never taken for one.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { THREADS = 4, MUTEXES = 3 };
enum { EXITS, EXITS_AT_ONCE, RETURNS, LAST_EXITS, IS_KILLED, EXECS, WAYS };

struct shared {
	/* Those of each thread; the last one is given up before the end. */
	pthread_mutex_t robust[THREADS][MUTEXES];
	pthread_mutex_t recursive, checked;
	pthread_rwlock_t rwlock;
	int held, waits, go;
};

static struct shared *shared;

static void make(int kind, int robust, pthread_mutex_t *mutex)
{
	pthread_mutexattr_t it;
	CHECK_EQ(pthread_mutexattr_init(&it), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&it, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_mutexattr_settype(&it, kind), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&it, robust), 0);
	CHECK_EQ(pthread_mutex_init(mutex, &it), 0);
}

static void make_all(void)
{
	pthread_rwlockattr_t it;
	memset(shared, 0, sizeof *shared);
	for (int i = 0; i < THREADS * MUTEXES; i++)
		make(i % 3, PTHREAD_MUTEX_ROBUST, &shared->robust[0][0] + i);
	make(PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, &shared->recursive);
	make(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_STALLED, &shared->checked);
	CHECK_EQ(pthread_rwlockattr_init(&it), 0);
	CHECK_EQ(pthread_rwlockattr_setpshared(&it, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_rwlock_init(&shared->rwlock, &it), 0);
}

static void *holds(void *mutexes)
{
	pthread_mutex_t *mutex = mutexes;
	for (int i = 0; i < MUTEXES; i++)
		CHECK_EQ(pthread_mutex_lock(&mutex[i]), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex[MUTEXES - 1]), 0);
	add_value(&shared->held, 1);
	for (;;)
		sleep_ms(1000);
}

static void *holds_one(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&shared->robust[0][0]), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->robust[0][0]), 0);
	return arg;
}

static void *ends_process(void *arg)
{
	sleep_ms(20);
	exit(0);
	return arg;
}

/* The process that is to end; the answer is its exit status. */
static int hold(int way)
{
	/* What these leave behind is used again. */
	for (int i = 0; i < THREADS; i++)
		join_thread(start_thread(holds_one, NULL));
	for (int i = 0; i < THREADS; i++)
		start_thread(holds, shared->robust[i]);
	await_value(&shared->held, THREADS);
	await_value(&shared->waits, 2);
	/* The others are waiting by now, or will come later: both must do. */
	sleep_ms(10);
	switch (way) {
	case EXITS:
		exit(0);
	case EXITS_AT_ONCE:
		_exit(0);
	case LAST_EXITS:
		start_thread(ends_process, NULL);
		pthread_exit(NULL);
	case IS_KILLED:
		kill(getpid(), SIGKILL);
		break;
	case EXECS:
		execl("/bin/true", "true", NULL);
		break;
	}
	return 0;
}

static void take(pthread_mutex_t *mutex)
{
	struct timespec at = moment(CLOCK_REALTIME, 30000);
	CHECK_EQ(pthread_mutex_timedlock(mutex, &at), EOWNERDEAD);
	CHECK_EQ(pthread_mutex_consistent(mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(mutex), 0);
}

static void *takes(void *mutex)
{
	add_value(&shared->waits, 1);
	take(mutex);
	return NULL;
}

/* A process that waits, with a thread. */
static int wait_for_end(void)
{
	await_value(&shared->held, THREADS);
	join_thread(start_thread(takes, &shared->robust[0][0]));
	return 0;
}

static void await_process(pid_t process, int killed)
{
	int status = 0;
	CHECK_EQ(waitpid(process, &status, 0), process);
	if (killed)
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	else
		CHECK_EQ(status, 0);
}

static pid_t start_process(int (*body)(void))
{
	pid_t process = fork();
	CHECK(process >= 0);
	if (process == 0)
		exit(body());
	return process;
}

static void try(int way)
{
	make_all();
	pid_t holder = fork();
	CHECK(holder >= 0);
	if (holder == 0)
		exit(hold(way));
	pid_t waiter = start_process(wait_for_end);
	await_value(&shared->held, THREADS);
	add_value(&shared->waits, 1);
	for (int i = 0; i < THREADS; i++) {
		if (i)
			take(&shared->robust[i][0]);
		take(&shared->robust[i][1]);
		CHECK_EQ(pthread_mutex_lock(&shared->robust[i][2]), 0);
		CHECK_EQ(pthread_mutex_unlock(&shared->robust[i][2]), 0);
	}
	await_process(holder, way == IS_KILLED);
	await_process(waiter, 0);
}

static void *has_all(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&shared->recursive), 0);
	CHECK_EQ(pthread_mutex_lock(&shared->recursive), 0);
	CHECK_EQ(pthread_mutex_lock(&shared->checked), 0);
	CHECK_EQ(pthread_mutex_lock(&shared->checked), EDEADLK);
	CHECK_EQ(pthread_mutex_lock(&shared->robust[0][0]), 0);
	CHECK_EQ(pthread_rwlock_wrlock(&shared->rwlock), 0);
	set_value(&shared->held, 1);
	await_value(&shared->go, 1);
	CHECK_EQ(pthread_rwlock_unlock(&shared->rwlock), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->robust[0][0]), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->checked), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->checked), EPERM);
	CHECK_EQ(pthread_mutex_unlock(&shared->recursive), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->recursive), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->recursive), EPERM);
	return arg;
}

static void *has_none(void *arg)
{
	struct timespec past = moment(CLOCK_REALTIME, -1000);
	CHECK_EQ(pthread_mutex_trylock(&shared->recursive), EBUSY);
	CHECK_EQ(pthread_mutex_timedlock(&shared->recursive, &past), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_unlock(&shared->recursive), EPERM);
	CHECK_EQ(pthread_mutex_timedlock(&shared->checked, &past), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_unlock(&shared->checked), EPERM);
	CHECK_EQ(pthread_mutex_trylock(&shared->robust[0][0]), EBUSY);
	CHECK_EQ(pthread_mutex_unlock(&shared->robust[0][0]), EPERM);
	CHECK_EQ(pthread_rwlock_timedwrlock(&shared->rwlock, &past), ETIMEDOUT);
	CHECK_EQ(pthread_rwlock_timedrdlock(&shared->rwlock, &past), ETIMEDOUT);
	return arg;
}

static int have_all(void)
{
	join_thread(start_thread(has_all, NULL));
	return 0;
}

static int have_none(void)
{
	await_value(&shared->held, 1);
	join_thread(start_thread(has_none, NULL));
	return 0;
}

/* The first thread of one process and that of another. */
static void try_two(void)
{
	make_all();
	pid_t first = start_process(have_all), second = start_process(have_none);
	await_process(second, 0);
	set_value(&shared->go, 1);
	await_process(first, 0);
}

int main(void)
{
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	for (int way = 0; way < WAYS; way++)
		try(way);
	try_two();
	return 0;
}
