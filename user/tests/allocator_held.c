/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread is parked while it holds the lock of the program's allocator, and others wait in the
 * kernel, unseen, for what it does next: most of them where they can be made to leave, one in the
 * C library, where it can't. To make a kernel thread takes that lock, too (for its thread-local
 * storage), so whoever finds a worker for the holder must not have to make one.
 */
#include "check.h"
#include "own_heap.h"
#include "unseen.h"
#include <stdalign.h>
#include <string.h>
#include <sys/prctl.h>

#define HEAP_BYTES (64 << 20)
#define ROUNDS 4
/* After which the kernel threads of spare workers have left that nobody needs. */
#define CALM_MS 1500
#define LATE_MS 200
/* More than there are spare workers in advance. */
#define WAITERS 24

static alignas(64) char heap[HEAP_BYTES];
static size_t used;
static pthread_mutex_t whole = PTHREAD_MUTEX_INITIALIZER;
/* The thread is one of the program's, and not a library's. */
static __thread int is_ours;

/* Whether the kernel thread that finds a worker for the holder comes here. */
static int is_monitor(void)
{
	char name[16];
	return !is_ours && prctl(PR_GET_NAME, name) == 0 && strcmp(name, "heddle-monitor") == 0;
}

static void *take(size_t align, size_t bytes)
{
	/* As on a busy machine: late. */
	for (long begun = now_ms(); is_monitor() && now_ms() < begun + LATE_MS;)
		continue;
	pthread_mutex_lock(&whole);
	if (align < 16)
		align = 16;
	size_t *at = (size_t *)(heap + (used + sizeof(*at) + align - 1) / align * align);
	at[-1] = bytes;
	used = (size_t)((char *)at - heap) + bytes;
	int is_full = used > sizeof(heap);
	pthread_mutex_unlock(&whole);
	return is_full ? NULL : at;
}

/* As allocators do: under the lock. */
static void freed(void)
{
	pthread_mutex_lock(&whole);
	pthread_mutex_unlock(&whole);
}

static int is_held, waiting, pipes[WAITERS][2];
/* Of the first one, unbuffered, as the buffer would be allocated. */
static FILE *stream;

static void *holds(void *arg)
{
	is_ours = 1;
	CHECK_EQ(pthread_mutex_lock(&whole), 0);
	set_value(&is_held, 1);
	/* Until all others are in the kernel, or about to be. */
	while (value_of(&waiting) < WAITERS)
		sched_yield();
	set_value(&is_held, 0);
	CHECK_EQ(pthread_mutex_unlock(&whole), 0);
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(write(pipes[i][1], "x", 1), 1);
	return arg;
}

static void *waits(void *arg)
{
	int *mine = arg;
	char byte;
	is_ours = 1;
	while (!value_of(&is_held))
		sched_yield();
	__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
	if (mine == pipes[0])
		CHECK_EQ(getc(stream), 'x');
	else
		CHECK_EQ(read_unseen(mine[0], &byte, 1), 1);
	return arg;
}

/* All block while nobody holds the lock: as many workers are made as they need. */
static void block_all(void)
{
	pthread_t threads[WAITERS];
	set_value(&waiting, 0);
	set_value(&is_held, 1);
	for (int i = 0; i < WAITERS; i++)
		threads[i] = start_thread(waits, pipes[i]);
	while (value_of(&waiting) < WAITERS)
		usleep(1000);
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(write(pipes[i][1], "x", 1), 1);
	for (int i = 0; i < WAITERS; i++)
		join_thread(threads[i]);
	set_value(&is_held, 0);
}

int main(void)
{
	is_ours = 1;
	for (int i = 0; i < WAITERS; i++)
		CHECK_EQ(pipe(pipes[i]), 0);
	stream = fdopen(pipes[0][0], "r");
	CHECK(stream);
	CHECK_EQ(setvbuf(stream, NULL, _IONBF, 0), 0);
	for (int round = 0; round < ROUNDS; round++) {
		/* The last time those that have left have to come back. */
		if (round == ROUNDS - 1) {
			block_all();
			usleep(CALM_MS * 1000);
		}
		pthread_t threads[WAITERS];
		set_value(&waiting, 0);
		for (int i = 0; i < WAITERS; i++)
			threads[i] = start_thread(waits, pipes[i]);
		pthread_t holder = start_thread(holds, NULL);
		for (int i = 0; i < WAITERS; i++)
			join_thread(threads[i]);
		join_thread(holder);
	}
	return 0;
}
