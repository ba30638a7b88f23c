/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * There is no more memory to be had: threads cannot be made, time after time, and the process goes
 * on. When there is some again they can.
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <sys/resource.h>

enum { TRIES = 4000, PIECE = 256 };

struct piece {
	struct piece *next;
	char rest[PIECE];
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_t threads[TRIES];

static void *wait_at_gate(void *arg)
{
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return arg;
}

static int try_to_make(pthread_t *thread)
{
	int error = pthread_create(thread, NULL, wait_at_gate, NULL);
	if (error != 0)
		CHECK_EQ(error, EAGAIN);
	return error;
}

int main(void)
{
	struct rlimit none = { 1, RLIM_INFINITY }, all = { RLIM_INFINITY, RLIM_INFINITY };
	struct piece *first = NULL, *piece;
	int made = 0;
	CHECK_EQ(try_to_make(&threads[0]), 0);
	CHECK_EQ(pthread_join(threads[0], NULL), 0);
	pthread_mutex_lock(&gate);
	CHECK_EQ(setrlimit(RLIMIT_AS, &none), 0);
	while ((piece = malloc(sizeof *piece)) != NULL) {
		piece->next = first;
		first = piece;
	}
	for (int i = 0; i < TRIES; i++)
		made += try_to_make(&threads[made]) == 0;
	CHECK_EQ(setrlimit(RLIMIT_AS, &all), 0);
	while ((piece = first) != NULL) {
		first = piece->next;
		free(piece);
	}
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < made; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(try_to_make(&threads[0]), 0);
	CHECK_EQ(pthread_join(threads[0], NULL), 0);
	return 0;
}
