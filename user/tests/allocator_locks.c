/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An allocator with locks, as jemalloc has them: a thread's first wait ever is in the middle of
 * malloc, which must not be entered again from there.
 */
#include "own_heap.h"
#include "own_stack.h"
#include <stdalign.h>

#define ROUNDS 20
#define HEAP_BYTES (64 << 20)

static alignas(64) char heap[HEAP_BYTES];
static size_t used;
static pthread_mutex_t whole = PTHREAD_MUTEX_INITIALIZER;
/* Whoever comes here again with its own one in hand waits for itself. */
static __thread pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
static int is_over;

static void *take(size_t align, size_t bytes)
{
	pthread_mutex_lock(&own);
	pthread_mutex_lock(&whole);
	if (align < 16)
		align = 16;
	size_t *at = (size_t *)(heap + (used + sizeof(*at) + align - 1) / align * align);
	at[-1] = bytes;
	used = (size_t)((char *)at - heap) + bytes;
	int is_full = used > sizeof(heap);
	pthread_mutex_unlock(&whole);
	pthread_mutex_unlock(&own);
	return is_full ? NULL : at;
}

static void freed(void)
{
}

/* Has the lock nearly all the time. */
static void *holds(void *arg)
{
	while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
		CHECK_EQ(pthread_mutex_lock(&whole), 0);
		usleep(2000);
		CHECK_EQ(pthread_mutex_unlock(&whole), 0);
		usleep(20);
	}
	return arg;
}

static void *allocates(void *arg)
{
	for (int i = 0; i < 10; i++) {
		char *volatile bytes = malloc(100);
		CHECK(bytes);
		memset(bytes, i, 100);
		free(bytes);
	}
	return arg;
}

int main(void)
{
	pthread_t holder = start_thread(holds, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t threads[2] = { start_on_own_stack(allocates, NULL), start_thread(allocates, NULL) };
		join_thread(threads[0]);
		join_thread(threads[1]);
	}
	set_value(&is_over, 1);
	join_thread(holder);
	return 0;
}
