/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Before its first thread the program limits its address space, to as many MiB as the argument
 * says: below that there is room for what it needs, and for threads that wait for each other.
 * Whether they are kernel threads is printed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The C library reserves 64 MiB for each thread that allocates, while there is room. */
enum { THREADS = 4, ROUNDS = 1000, NEEDED_BYTES = 100 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns = PTHREAD_COND_INITIALIZER;
static int turn, is_user_level;

/* Each in its turn. */
static void *take_turns(void *number)
{
	pthread_mutex_lock(&lock);
	/* Above all numbers that the kernel gives. */
	is_user_level |= gettid() > 1 << 22;
	for (int i = 0; i < ROUNDS; i++) {
		while (turn % THREADS != *(int *)number)
			pthread_cond_wait(&turns, &lock);
		turn++;
		pthread_cond_broadcast(&turns);
	}
	pthread_mutex_unlock(&lock);
	return number;
}

static int has_room(void)
{
	void *volatile needed = malloc(NEEDED_BYTES);
	int has = needed != NULL;

	free(needed);
	return has;
}

static int run_threads(void)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];

	turn = 0;
	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, take_turns, &numbers[i]) != 0)
			return 1;
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_join(threads[i], NULL) != 0)
			return 2;
	return turn == THREADS * ROUNDS ? 0 : 3;
}

int main(int count, char **arguments)
{
	rlim_t bytes = count == 2 ? strtoul(arguments[1], NULL, 10) << 20 : 0;
	const struct rlimit limit = { bytes, bytes };
	int status, wrong;

	if (setrlimit(RLIMIT_AS, &limit) != 0 || !has_room())
		return 11;
	wrong = run_threads();
	if (wrong)
		return wrong;
	if (!has_room())
		return 12;
	pid_t child = fork();
	if (child == 0)
		_exit(has_room() ? run_threads() : 12);
	if (waitpid(child, &status, 0) != child || status != 0)
		return 13;
	puts(is_user_level ? "user" : "kernel");
	return 0;
}
