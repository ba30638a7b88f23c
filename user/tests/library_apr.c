/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The threads of the Apache Portable Runtime: threads with results, mutexes, conditions with a
 * timeout. The library is loaded by name, so that its headers are not needed.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

#define THREADS 8
#define ROUNDS 500

static int (*initialize)(void);
static int (*pool_create)(void **, void *, void *, void *);
static int (*thread_create)(void **, void *, void *(*)(void *, void *), void *, void *);
static int (*thread_join)(int *, void *), (*thread_exit)(void *, int);
static int (*mutex_create)(void **, unsigned, void *);
static int (*mutex_lock)(void *), (*mutex_unlock)(void *);
static int (*cond_create)(void **, void *), (*cond_wait)(void *, void *), (*cond_broadcast)(void *);
static int (*cond_timedwait)(void *, void *, int64_t us);

static const struct { void *place; const char *name; } NAMES[] = {
	{ &initialize, "apr_initialize" },
	{ &pool_create, "apr_pool_create_ex" },
	{ &thread_create, "apr_thread_create" },
	{ &thread_join, "apr_thread_join" },
	{ &thread_exit, "apr_thread_exit" },
	{ &mutex_create, "apr_thread_mutex_create" },
	{ &mutex_lock, "apr_thread_mutex_lock" },
	{ &mutex_unlock, "apr_thread_mutex_unlock" },
	{ &cond_create, "apr_thread_cond_create" },
	{ &cond_wait, "apr_thread_cond_wait" },
	{ &cond_broadcast, "apr_thread_cond_broadcast" },
	{ &cond_timedwait, "apr_thread_cond_timedwait" },
};

static void *lock, *changed;
static int shared, turn;

static void *works(void *thread, void *arg)
{
	int number = (int)(intptr_t)arg;

	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(mutex_lock(lock), 0);
		int seen = shared;
		if (i % 32 == 0)
			sched_yield();
		shared = seen + 1;
		CHECK_EQ(mutex_unlock(lock), 0);
	}
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(mutex_lock(lock), 0);
		while (turn % THREADS != number)
			CHECK_EQ(cond_wait(changed, lock), 0);
		turn++;
		CHECK_EQ(cond_broadcast(changed), 0);
		CHECK_EQ(mutex_unlock(lock), 0);
	}
	thread_exit(thread, 100 + number);
	return NULL;
}

int main(void)
{
	void *library = dlopen("libapr-1.so.0", RTLD_NOW), *threads[THREADS], *pool;

	if (library == NULL)
		SKIP("the Apache Portable Runtime is not installed");
	for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
		*(void **)NAMES[i].place = dlsym(library, NAMES[i].name);
		CHECK(*(void **)NAMES[i].place != NULL);
	}
	CHECK_EQ(initialize(), 0);
	CHECK_EQ(pool_create(&pool, NULL, NULL, NULL), 0);
	CHECK_EQ(mutex_create(&lock, 0, pool), 0);
	CHECK_EQ(cond_create(&changed, pool), 0);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(thread_create(&threads[i], NULL, works, (void *)i, pool), 0);
	for (int i = 0; i < THREADS; i++) {
		int result;
		CHECK_EQ(thread_join(&result, threads[i]), 0);
		CHECK_EQ(result, 100 + i);
	}
	CHECK_EQ(shared, THREADS * ROUNDS);
	CHECK_EQ(mutex_lock(lock), 0);
	CHECK(cond_timedwait(changed, lock, 20000) != 0);
	CHECK_EQ(mutex_unlock(lock), 0);
	return 0;
}
