/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A process whose threads wait, one of them for another process, uses next to no CPU: nobody in it
 * wakes all the time. Those that wait for time and events go on when these come.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

enum { SETTLE_MS = 500, IDLE_MS = 1500, SLEEP_MS = 700, LATE_MS = 400, WAKES_MAX = 200 };

struct shared {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int is_over;
};

static struct shared *shared;
static int ends[2], answers[2];

static void *waits_for_process(void *unused)
{
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
	while (!shared->is_over)
		CHECK_EQ(pthread_cond_wait(&shared->cond, &shared->mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
	return unused;
}

static void *answers_bytes(void *unused)
{
	char byte;

	while (read(ends[0], &byte, 1) == 1)
		CHECK_EQ(write(answers[1], &byte, 1), 1);
	return unused;
}

/* ---- for a thread of the same process, as often as it says */

enum { TURNS = 5, TURN_MS = 250, TURN_LATE_MS = 25 };

static pthread_mutex_t own_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t own_cond = PTHREAD_COND_INITIALIZER;
static int said, heard;

static void *waits_for_thread(void *unused)
{
	for (int turn = 1; turn <= TURNS; turn++) {
		CHECK_EQ(pthread_mutex_lock(&own_mutex), 0);
		while (said < turn)
			CHECK_EQ(pthread_cond_wait(&own_cond, &own_mutex), 0);
		CHECK_EQ(pthread_mutex_unlock(&own_mutex), 0);
		__atomic_store_n(&heard, turn, __ATOMIC_RELEASE);
	}
	return unused;
}

/* The least time until it is heard: how late an idle process is, whatever else a machine does. */
static long say(void)
{
	long least = 1000;

	for (int turn = 1; turn <= TURNS; turn++) {
		sleep_ms(TURN_MS);
		long start = now_ms();
		CHECK_EQ(pthread_mutex_lock(&own_mutex), 0);
		said = turn;
		CHECK_EQ(pthread_cond_signal(&own_cond), 0);
		CHECK_EQ(pthread_mutex_unlock(&own_mutex), 0);
		while (__atomic_load_n(&heard, __ATOMIC_ACQUIRE) < turn)
			usleep(100);
		long late = now_ms() - start;
		least = late < least ? late : least;
	}
	return least;
}

static void *sleeps(void *unused)
{
	long start = now_ms();

	sleep_ms(SLEEP_MS);
	CHECK(now_ms() - start < SLEEP_MS + LATE_MS);
	return unused;
}

static long wakes(void)
{
	struct rusage usage;

	CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_nvcsw;
}

/* ---- and a thread that wakes now and then */

enum { NAPS = 15, NAP_MS = 100, WAKES_PER_NAP_MAX = 20 };

static void *naps(void *unused)
{
	for (int nap = 0; nap < NAPS; nap++)
		sleep_ms(NAP_MS);
	return unused;
}

static void make_shared(void)
{
	pthread_mutexattr_t mutexes;
	pthread_condattr_t conds;

	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	CHECK_EQ(pthread_mutexattr_init(&mutexes), 0);
	CHECK_EQ(pthread_mutexattr_setpshared(&mutexes, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_mutex_init(&shared->mutex, &mutexes), 0);
	CHECK_EQ(pthread_condattr_init(&conds), 0);
	CHECK_EQ(pthread_condattr_setpshared(&conds, PTHREAD_PROCESS_SHARED), 0);
	CHECK_EQ(pthread_cond_init(&shared->cond, &conds), 0);
}

static void ask(void)
{
	long start = now_ms();
	char byte;

	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK_EQ(read(answers[0], &byte, 1), 1);
	CHECK(now_ms() - start < LATE_MS);
}

int main(void)
{
	pthread_t waiting, answering, sleeping, hearing, napping;

	make_shared();
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(pipe(answers), 0);
	CHECK_EQ(pthread_create(&answering, NULL, answers_bytes, NULL), 0);
	CHECK_EQ(pthread_create(&hearing, NULL, waits_for_thread, NULL), 0);
	CHECK_EQ(pthread_create(&waiting, NULL, waits_for_process, NULL), 0);
	ask();
	sleep_ms(SETTLE_MS);
	long before = wakes();
	sleep_ms(IDLE_MS);
	long count = wakes() - before;
	printf("%ld wakes in %d ms\n", count, IDLE_MS);
	CHECK(count < WAKES_MAX);
	before = wakes();
	CHECK_EQ(pthread_create(&napping, NULL, naps, NULL), 0);
	CHECK_EQ(pthread_join(napping, NULL), 0);
	count = wakes() - before;
	printf("%ld wakes in %d naps\n", count, NAPS);
	CHECK(count < NAPS * WAKES_PER_NAP_MAX);
	CHECK(say() <= TURN_LATE_MS);
	CHECK_EQ(pthread_join(hearing, NULL), 0);
	ask();
	CHECK_EQ(pthread_create(&sleeping, NULL, sleeps, NULL), 0);
	CHECK_EQ(pthread_join(sleeping, NULL), 0);
	ask();
	CHECK_EQ(pthread_mutex_lock(&shared->mutex), 0);
	shared->is_over = 1;
	CHECK_EQ(pthread_cond_signal(&shared->cond), 0);
	CHECK_EQ(pthread_mutex_unlock(&shared->mutex), 0);
	CHECK_EQ(pthread_join(waiting, NULL), 0);
	CHECK_EQ(close(ends[1]), 0);
	CHECK_EQ(pthread_join(answering, NULL), 0);
	return 0;
}
