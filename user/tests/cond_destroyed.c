/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A condition variable is destroyed as soon as all who wait for it were woken, before they have
 * run: its memory is given back, or used for something else, at once.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

enum { WAITERS = 8, ROUNDS = 600, PAGE = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t offered = PTHREAD_COND_INITIALIZER, back = PTHREAD_COND_INITIALIZER;
static pthread_cond_t *current;
static int waiting, gone, is_over, are_timed;

static void *waits(void *arg)
{
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	for (;;) {
		while (!current && !is_over)
			CHECK_EQ(pthread_cond_wait(&offered, &lock), 0);
		if (is_over)
			break;
		pthread_cond_t *mine = current;
		if (++waiting == WAITERS) {
			current = NULL;
			CHECK_EQ(pthread_cond_signal(&back), 0);
		}
		/* Once: whoever comes here is woken by the broadcast. */
		if (are_timed) {
			struct timespec late;
			CHECK_EQ(clock_gettime(CLOCK_REALTIME, &late), 0);
			late.tv_sec += 100;
			CHECK_EQ(pthread_cond_timedwait(mine, &lock, &late), 0);
		} else {
			CHECK_EQ(pthread_cond_wait(mine, &lock), 0);
		}
		if (++gone == WAITERS)
			CHECK_EQ(pthread_cond_signal(&back), 0);
	}
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	return arg;
}

static void one_round(int is_unmapped)
{
	pthread_cond_t *one = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(one != MAP_FAILED);
	CHECK_EQ(pthread_cond_init(one, NULL), 0);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	waiting = gone = 0;
	current = one;
	CHECK_EQ(pthread_cond_broadcast(&offered), 0);
	while (waiting < WAITERS)
		CHECK_EQ(pthread_cond_wait(&back, &lock), 0);
	CHECK_EQ(pthread_cond_broadcast(one), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	CHECK_EQ(pthread_cond_destroy(one), 0);
	if (is_unmapped)
		CHECK_EQ(munmap(one, PAGE), 0);
	else
		memset(one, 0, PAGE);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	while (gone < WAITERS)
		CHECK_EQ(pthread_cond_wait(&back, &lock), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	if (!is_unmapped)
		CHECK_EQ(munmap(one, PAGE), 0);
}

int main(void)
{
	pthread_t waiters[WAITERS];

	for (int i = 0; i < WAITERS; i++)
		waiters[i] = start_thread(waits, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		are_timed = round / 2 % 2;
		one_round(round % 2);
	}
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	is_over = 1;
	CHECK_EQ(pthread_cond_broadcast(&offered), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	for (int i = 0; i < WAITERS; i++)
		join_thread(waiters[i]);
	return 0;
}
