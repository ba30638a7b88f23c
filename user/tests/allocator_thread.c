/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An allocator of the program's own has a thread of its own, which it makes by the C library's
 * function itself, as it could while that of others allocates; so the first thread that waits is
 * not known. What its wait stands on is made then, and allocates: by that allocator, whose lock
 * another thread has for a moment.
 */
#define _GNU_SOURCE
#include "own_heap.h"
#include <dlfcn.h>

enum { BYTES = 1 << 24 };

static char memory[BYTES] __attribute__((aligned(4096)));
static size_t used;
static int is_locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, own = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;

static void *take(size_t align, size_t bytes)
{
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	size_t start = (used + sizeof(size_t) + align - 1) / align * align;
	CHECK(start + bytes <= sizeof(memory));
	((size_t *)(memory + start))[-1] = bytes;
	used = start + bytes;
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	return memory + start;
}

static void freed(void)
{
}

static void *wait_for_news(void *arg)
{
	struct timespec until;
	while (!__atomic_load_n(&is_locked, __ATOMIC_SEQ_CST))
		usleep(100);
	CHECK_EQ(clock_gettime(CLOCK_REALTIME, &until), 0);
	until.tv_nsec += 400000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	CHECK_EQ(pthread_mutex_lock(&own), 0);
	CHECK_EQ(pthread_cond_timedwait(&news, &own, &until), ETIMEDOUT);
	CHECK_EQ(pthread_mutex_unlock(&own), 0);
	return arg;
}

static void *same(void *arg)
{
	return arg;
}

int main(void)
{
	void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	CHECK(library);
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	*(void **)&create = dlsym(library, "pthread_create");
	CHECK(create);
	pthread_t thread;
	CHECK_EQ(create(&thread, NULL, wait_for_news, NULL), 0);
	CHECK_EQ(pthread_mutex_lock(&lock), 0);
	set_value(&is_locked, 1);
	CHECK_EQ(usleep(200000), 0);
	CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	join_thread(start_thread(same, NULL));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	return 0;
}
