/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Functions found by a handle of the C library, as foreign-function interfaces find them (ctypes,
 * JNA), together with those that the program calls by their names: either wakes who waits in the
 * other, and a mutex locked by one is held for the other.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <errno.h>
#include <gnu/lib-names.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

enum { ROUNDS = 200 };

static void *library;

static void *by_handle(const char *name)
{
	dlerror();
	void *found = dlsym(library, name);
	const char *why = dlerror();
	if (why)
		fprintf(stderr, "%s: %s\n", name, why);
	CHECK(found && !why);
	return found;
}

static sem_t there, back;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t nested;
static int turn;

static int (*post)(sem_t *);
static int (*await)(sem_t *);
static int (*signal_cond)(pthread_cond_t *);
static int (*wait_cond)(pthread_cond_t *, pthread_mutex_t *);
static int (*lock_mutex)(pthread_mutex_t *);
static int (*unlock_mutex)(pthread_mutex_t *);

/* All that this one calls was found by the handle. */
static void *answers(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(await(&there), 0);
		CHECK_EQ(post(&back), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(lock_mutex(&lock), 0);
		while (turn != 1)
			CHECK_EQ(wait_cond(&changed, &lock), 0);
		turn = 0;
		CHECK_EQ(signal_cond(&changed), 0);
		CHECK_EQ(unlock_mutex(&lock), 0);
	}
	return arg;
}

static void *sleeps(void *arg)
{
	int (*const sleep_long)(useconds_t) = (int (*)(useconds_t))by_handle("usleep");
	for (int i = 0; i < 3; i++)
		CHECK_EQ(sleep_long(1000), 0);
	return arg;
}

static void check_names(void)
{
	CHECK(by_handle("sem_post") == (void *)sem_post);
	CHECK(by_handle("pthread_mutex_lock") == (void *)pthread_mutex_lock);
	CHECK(by_handle("poll") == dlsym(RTLD_DEFAULT, "poll"));
	/* What libheddle-preload has in both, which is alone with kernel threads. */
	if (dlsym(RTLD_DEFAULT, "heddle_debugger"))
		CHECK(by_handle("pthread_create") == (void *)pthread_create);
	CHECK(by_handle("strlen"));
	CHECK(!dlsym(library, "heddle_has_no_such_function"));
	const char *why = dlerror();
	CHECK(why && strstr(why, "heddle_has_no_such_function"));
	CHECK(!dlerror());
}

/* Of a function with several versions there is a newest, which the program calls. */
static void check_versions(void)
{
	void *newest = (void *)pthread_cond_wait;
	CHECK(dlvsym(library, "pthread_cond_wait", "GLIBC_2.3.2") == newest);
	CHECK(dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.3.2") == newest);
	void *oldest = dlvsym(library, "pthread_cond_wait", "GLIBC_2.2.5");
	CHECK(oldest && oldest != newest);
	CHECK(dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.2.5") == oldest);
	CHECK(!dlerror());
	CHECK(!dlvsym(library, "pthread_cond_wait", "GLIBC_2.1"));
	CHECK(dlerror());
}

int main(void)
{
	CHECK(!dlerror());
	library = dlopen(LIBC_SO, RTLD_NOW);
	CHECK(library);
	check_names();
	check_versions();
	post = (int (*)(sem_t *))by_handle("sem_post");
	await = (int (*)(sem_t *))by_handle("sem_wait");
	signal_cond = (int (*)(pthread_cond_t *))by_handle("pthread_cond_signal");
	wait_cond = (int (*)(pthread_cond_t *, pthread_mutex_t *))by_handle("pthread_cond_wait");
	lock_mutex = (int (*)(pthread_mutex_t *))by_handle("pthread_mutex_lock");
	unlock_mutex = (int (*)(pthread_mutex_t *))by_handle("pthread_mutex_unlock");
	CHECK_EQ(sem_init(&there, 0, 0), 0);
	CHECK_EQ(sem_init(&back, 0, 0), 0);

	pthread_mutexattr_t kind;
	CHECK_EQ(pthread_mutexattr_init(&kind), 0);
	CHECK_EQ(pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE), 0);
	CHECK_EQ(pthread_mutex_init(&nested, &kind), 0);
	CHECK_EQ(pthread_mutex_lock(&nested), 0);
	CHECK_EQ(lock_mutex(&nested), 0);
	CHECK_EQ(unlock_mutex(&nested), 0);
	CHECK_EQ(pthread_mutex_unlock(&nested), 0);
	CHECK_EQ(pthread_mutex_destroy(&nested), 0);

	/* A thread that was made by what the handle leads to is one like all others. */
	int (*const create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(__typeof__(create))by_handle("pthread_create");
	pthread_t thread, sleeper;
	CHECK_EQ(create(&thread, NULL, answers, &turn), 0);
	CHECK_EQ(create(&sleeper, NULL, sleeps, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(sem_post(&there), 0);
		CHECK_EQ(sem_wait(&back), 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		CHECK_EQ(pthread_mutex_lock(&lock), 0);
		turn = 1;
		CHECK_EQ(pthread_cond_signal(&changed), 0);
		while (turn != 0)
			CHECK_EQ(pthread_cond_wait(&changed, &lock), 0);
		CHECK_EQ(pthread_mutex_unlock(&lock), 0);
	}
	void *result;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == &turn);
	join_thread(sleeper);
	CHECK_EQ(dlclose(library), 0);
	return 0;
}
