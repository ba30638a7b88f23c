/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that count with a lock held and, with an argument, also without: a race.
 */
#include <check.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long guarded, bare;

static void *counts(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&lock);
		guarded++;
		pthread_mutex_unlock(&lock);
		if (arg != NULL)
			bare++;
		if (i % 100 == 0)
			sched_yield();
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		threads[i] = start_thread(counts, count > 1 ? words : NULL);
	for (int i = 0; i < 8; i++)
		join_thread(threads[i]);
	CHECK_EQ(guarded, 16000);
	return 0;
}
