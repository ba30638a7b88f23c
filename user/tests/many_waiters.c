/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * As many threads as like wait in calls that have no descriptor, for what another thread does by
 * such a call, and all of them are let go.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/ipc.h>
#include <sys/sem.h>

enum { THREADS = 560 };

static int set, waiting;

static int change(short by)
{
	struct sembuf operation = { .sem_num = 0, .sem_op = by, .sem_flg = 0 };
	return semop(set, &operation, 1);
}

static void *takes(void *arg)
{
	__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
	CHECK_EQ(change(-1), 0);
	return arg;
}

static void *gives(void *arg)
{
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(change(1), 0);
	return arg;
}

int main(void)
{
	static pthread_t threads[THREADS];
	set = semget(IPC_PRIVATE, 1, 0600);
	if (set < 0)
		SKIP("there are no semaphores of System V");
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(takes, NULL);
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < THREADS)
		usleep(1000);
	usleep(300000);
	pthread_t giver = start_thread(gives, NULL);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	join_thread(giver);
	CHECK_EQ(semctl(set, 0, IPC_RMID), 0);
	return 0;
}
