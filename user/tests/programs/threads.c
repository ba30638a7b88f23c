/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Eight threads add to a sum; it is printed, and whether they were kernel threads.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int sum, is_user_level;

static void *add(void *number)
{
	pthread_mutex_lock(&lock);
	sum += *(int *)number;
	/* Above all numbers that the kernel gives. */
	is_user_level |= gettid() > 1 << 22;
	pthread_mutex_unlock(&lock);
	return number;
}

int main(void)
{
	pthread_t threads[8];
	int numbers[8];

	for (int i = 0; i < 8; i++) {
		numbers[i] = i + 1;
		if (pthread_create(&threads[i], NULL, add, &numbers[i]) != 0)
			return 1;
	}
	for (int i = 0; i < 8; i++)
		if (pthread_join(threads[i], NULL) != 0)
			return 2;
	printf("%d, %s\n", sum, is_user_level ? "user" : "kernel");
	return 0;
}
