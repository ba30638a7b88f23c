/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The one who was waited for may be the last to know: a semaphore may be freed once its last
 * wait returned.
 */
#define _GNU_SOURCE
#include "check.h"

static void *posts(void *arg)
{
	CHECK_EQ(sem_post(arg), 0);
	return NULL;
}

int main(void)
{
	for (int i = 0; i < 300; i++) {
		sem_t *sem = malloc(sizeof *sem);
		CHECK_EQ(sem_init(sem, 0, 0), 0);
		pthread_t thread = start_thread(posts, sem);
		CHECK_EQ(sem_wait(sem), 0);
		CHECK_EQ(sem_destroy(sem), 0);
		memset(sem, 0xee, sizeof *sem);
		free(sem);
		join_thread(thread);
	}
	return 0;
}
