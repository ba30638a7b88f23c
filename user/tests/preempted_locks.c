/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that are preempted wherever they are, also in what makes a new worker (the allocator, the
 * table of names), while others need the same: all of them go on to the end.
 */
#define _GNU_SOURCE
#include "check.h"

#define THREADS 24
#define MS 700

static volatile int sink;
static char *shared_blocks[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *works(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	long end = now_ms() + MS;
	char name[16];

	for (int round = 0; now_ms() < end; round++) {
		for (int i = 0; i < 500; i++) {
			snprintf(name, sizeof(name), "a name of %d", (round + i) % 100);
			CHECK_EQ(pthread_setname_np(pthread_self(), name), 0);
		}
		for (int i = 0; i < 50; i++) {
			size_t bytes = 16u << (rand_r(&seed) % 12);
			char *block = malloc(bytes), *old;
			CHECK(block);
			memset(block, i, bytes);
			pthread_mutex_lock(&lock);
			old = shared_blocks[i];
			shared_blocks[i] = block;
			pthread_mutex_unlock(&lock);
			free(old);
		}
		sink += random();
		/* Long enough to be preempted in user code, too. */
		for (int i = 0; i < 20000; i++)
			sink++;
	}
	return arg;
}

int main(void)
{
	pthread_t thread[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, works, (void *)i), 0);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	return 0;
}
