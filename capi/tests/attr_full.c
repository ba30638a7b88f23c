/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A full thread has errno, thread_local variables and values of the C library's keys of its own.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
#include <stdlib.h>
#undef pthread_key_t
#undef pthread_key_create
#undef pthread_setspecific
#undef pthread_getspecific
#undef pthread_self
#include <dlfcn.h>

#define THREADS 20
#define ROUNDS 50

static _Thread_local long local = 5;
static unsigned key;
static int destroyed;
static int (*set_specific)(unsigned, const void *);
static void *(*get_specific)(unsigned);
static unsigned long (*self)(void);

static void destroy(void *value)
{
	/* A join that did not wait for this would be over. */
	usleep(2000);
	__atomic_fetch_add(&destroyed, 1, __ATOMIC_SEQ_CST);
	free(value);
}

static void *use_locals(void *arg)
{
	long number = (long)arg;
	unsigned long me = self();
	CHECK_EQ(local, 5);
	local = number;
	CHECK_EQ(set_specific(key, malloc(number + 1)), 0);
	void *value = get_specific(key);
	for (int i = 0; i < ROUNDS; i++) {
		errno = (int)number;
		sched_yield();
		CHECK_EQ(errno, number);
		CHECK_EQ(local, number);
		CHECK(get_specific(key) == value);
		CHECK(self() == me);
	}
	return arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("the attribute is heddle's");
#else
	int (*make_key)(unsigned *, void (*)(void *));
	pthread_attr_t attr;
	pthread_t threads[THREADS];
	int full = -1;
	*(void **)&make_key = dlsym(RTLD_DEFAULT, "pthread_key_create");
	*(void **)&set_specific = dlsym(RTLD_DEFAULT, "pthread_setspecific");
	*(void **)&get_specific = dlsym(RTLD_DEFAULT, "pthread_getspecific");
	*(void **)&self = dlsym(RTLD_DEFAULT, "pthread_self");
	CHECK_EQ(make_key(&key, destroy), 0);
	CHECK_EQ(pthread_attr_init(&attr), 0);
	CHECK_EQ(heddle_attr_getfull_np(&attr, &full), 0);
	CHECK_EQ(full, 0);
	CHECK_EQ(heddle_attr_setfull_np(&attr, 2), EINVAL);
	CHECK_EQ(heddle_attr_setfull_np(&attr, 1), 0);
	CHECK_EQ(heddle_attr_getfull_np(&attr, &full), 0);
	CHECK_EQ(full, 1);
	for (long i = 0; i < THREADS; i++) {
		int error = pthread_create(&threads[i], &attr, use_locals, (void *)(i + 100));
		if (error == ENOTSUP)
			SKIP("full threads are not possible here");
		CHECK_EQ(error, 0);
	}
	for (long i = 0; i < THREADS; i++) {
		void *result;
		CHECK_EQ(pthread_join(threads[i], &result), 0);
		CHECK_EQ((long)result, i + 100);
	}
	const char *backend = getenv("HEDDLE_BACKEND");
	/* A kernel thread may run them after its end was reported. */
	int native = backend && !strcmp(backend, "native");
	while (native && __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST) != THREADS)
		usleep(100);
	CHECK_EQ(__atomic_load_n(&destroyed, __ATOMIC_SEQ_CST), THREADS);
	return 0;
#endif
}
