/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread's first robust mutex, in the middle of the loader: in a constructor, in a destructor, in
 * what dl_iterate_phdr calls, or beside a thread that is there and waits for it. The loader's locks
 * know who holds them; afterwards that thread and others load libraries as ever.
 */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <link.h>

static pthread_mutex_t mutex;
static int is_there, has_locked;

static void use_loader(void)
{
	void *library = dlopen("libresolv.so.2", RTLD_NOW);
	CHECK(library);
	CHECK_EQ(dlclose(library), 0);
}

static void use_mutex(void)
{
	CHECK_EQ(pthread_mutex_lock(&mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(&mutex), 0);
}

static void *loads(void *place)
{
	void *library = dlopen(PARTS "locks.so", RTLD_NOW);
	CHECK(library);
	use_loader();
	*(void **)place = library;
	return NULL;
}

static void *closes(void *library)
{
	CHECK_EQ(dlclose(library), 0);
	use_loader();
	return NULL;
}

static int sees(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)info, (void)bytes, (void)arg;
	use_mutex();
	return 1;
}

static int calls_itself(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)info, (void)bytes, (void)arg;
	use_mutex();
	CHECK_EQ(dl_iterate_phdr(sees, NULL), 1);
	return 1;
}

static void *looks(void *arg)
{
	CHECK_EQ(dl_iterate_phdr(calls_itself, NULL), 1);
	use_loader();
	return arg;
}

static int waits(struct dl_phdr_info *info, size_t bytes, void *arg)
{
	(void)info, (void)bytes, (void)arg;
	set_value(&is_there, 1);
	await_value(&has_locked, 1);
	return 1;
}

static void *is_in_loader(void *arg)
{
	CHECK_EQ(dl_iterate_phdr(waits, NULL), 1);
	return arg;
}

static void *locks_beside(void *arg)
{
	await_value(&is_there, 1);
	use_mutex();
	set_value(&has_locked, 1);
	use_loader();
	return arg;
}

int main(void)
{
	pthread_mutexattr_t it;
	void *library;
	CHECK_EQ(pthread_mutexattr_init(&it), 0);
	CHECK_EQ(pthread_mutexattr_setrobust(&it, PTHREAD_MUTEX_ROBUST), 0);
	CHECK_EQ(pthread_mutex_init(&mutex, &it), 0);

	/* One is made before the other is in there: to make a thread may take the loader's lock. */
	pthread_t beside = start_thread(locks_beside, NULL);
	join_thread(start_thread(is_in_loader, NULL));
	join_thread(beside);
	join_thread(start_thread(loads, &library));
	join_thread(start_thread(closes, library));
	join_thread(start_thread(looks, NULL));
	use_loader();
	return 0;
}
