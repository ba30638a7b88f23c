/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The one who gets a mutex last may free its memory at once: unlock does not touch it
 * afterwards.
 */
#define _GNU_SOURCE
#include "check.h"

struct shared {
	pthread_mutex_t mutex;
	int users;
};

static void *leaves(void *arg)
{
	struct shared *shared = arg;
	pthread_mutex_lock(&shared->mutex);
	int left = --shared->users;
	pthread_mutex_unlock(&shared->mutex);
	if (left == 0) {
		CHECK_EQ(pthread_mutex_destroy(&shared->mutex), 0);
		memset(shared, 0xee, sizeof *shared);
		free(shared);
	}
	return NULL;
}

int main(void)
{
	for (int round = 0; round < 300; round++) {
		struct shared *shared = malloc(sizeof *shared);
		CHECK_EQ(pthread_mutex_init(&shared->mutex, NULL), 0);
		shared->users = 3;
		pthread_t a = start_thread(leaves, shared), b = start_thread(leaves, shared);
		leaves(shared);
		join_thread(a);
		join_thread(b);
	}
	return 0;
}
