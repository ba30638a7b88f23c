/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The threads of GLib, whose locks wait by futex calls of its own: threads, mutexes, conditions
 * with a deadline, once, private values, and a queue between them. The library is loaded by name,
 * so that its headers are not needed.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

#define THREADS 8
#define ROUNDS 500

/* As glib.h has them. */
typedef struct { void *p; } mutex;
typedef struct { void *p; unsigned i[2]; } cond;
typedef struct { void *p; void *notify; void *reserved[2]; } private;

static void *(*thread_new)(const char *name, void *(*start)(void *), void *arg);
static void *(*thread_join)(void *thread);
static void (*mutex_lock)(mutex *), (*mutex_unlock)(mutex *);
static void (*cond_wait)(cond *, mutex *), (*cond_broadcast)(cond *);
static int (*cond_wait_until)(cond *, mutex *, int64_t end);
static int64_t (*monotonic_time)(void);
static void *(*queue_new)(void), *(*queue_pop)(void *);
static void (*queue_push)(void *, void *);
static int (*once_enter)(void *);
static void (*once_leave)(void *, size_t);
static void (*private_set)(private *, void *), *(*private_get)(private *);

static mutex lock;
static cond changed;
static private own;
static int shared, turn;
static void *queue;
static size_t once;

static const struct { void *place; const char *name; } NAMES[] = {
	{ &thread_new, "g_thread_new" },
	{ &thread_join, "g_thread_join" },
	{ &mutex_lock, "g_mutex_lock" },
	{ &mutex_unlock, "g_mutex_unlock" },
	{ &cond_wait, "g_cond_wait" },
	{ &cond_broadcast, "g_cond_broadcast" },
	{ &cond_wait_until, "g_cond_wait_until" },
	{ &monotonic_time, "g_get_monotonic_time" },
	{ &queue_new, "g_async_queue_new" },
	{ &queue_pop, "g_async_queue_pop" },
	{ &queue_push, "g_async_queue_push" },
	{ &once_enter, "g_once_init_enter" },
	{ &once_leave, "g_once_init_leave" },
	{ &private_set, "g_private_set" },
	{ &private_get, "g_private_get" },
};

static void *works(void *arg)
{
	int number = (int)(intptr_t)arg;

	if (once_enter(&once)) {
		usleep(2000);
		once_leave(&once, 1);
	}
	CHECK_EQ(once, 1);
	private_set(&own, (void *)(intptr_t)(number + 1));
	for (int i = 0; i < ROUNDS; i++) {
		mutex_lock(&lock);
		int seen = shared;
		if (i % 32 == 0)
			sched_yield();
		shared = seen + 1;
		mutex_unlock(&lock);
	}
	for (int i = 0; i < 20; i++) {
		mutex_lock(&lock);
		while (turn % THREADS != number)
			cond_wait(&changed, &lock);
		turn++;
		cond_broadcast(&changed);
		mutex_unlock(&lock);
	}
	for (int i = 0; i < ROUNDS; i++)
		queue_push(queue, (void *)(intptr_t)(i + 1));
	CHECK_EQ((intptr_t)private_get(&own), number + 1);
	return arg;
}

int main(void)
{
	void *library = dlopen("libglib-2.0.so.0", RTLD_NOW), *threads[THREADS];
	long sum = 0;

	if (library == NULL)
		SKIP("GLib is not installed");
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
		*(void **)NAMES[i].place = dlsym(library, NAMES[i].name);
		CHECK(*(void **)NAMES[i].place != NULL);
	}
	queue = queue_new();
	for (intptr_t i = 0; i < THREADS; i++)
		threads[i] = thread_new("works", works, (void *)i);
	for (int i = 0; i < THREADS * ROUNDS; i++)
		sum += (intptr_t)queue_pop(queue);
	CHECK_EQ(sum, (long)THREADS * ROUNDS * (ROUNDS + 1) / 2);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK_EQ((intptr_t)thread_join(threads[i]), i);
	CHECK_EQ(shared, THREADS * ROUNDS);
	CHECK_EQ(turn, THREADS * 20);
	mutex_lock(&lock);
	CHECK_EQ(cond_wait_until(&changed, &lock, monotonic_time() + 20000), 0);
	mutex_unlock(&lock);
	return 0;
}
