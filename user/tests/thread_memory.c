/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Short threads, one after the other and some at once, leave nothing behind: what the allocator,
 * getrandom(), strerror(), strsignal() and dlerror() kept for them, thread-local storage and stacks
 * are used again.
 *
 *   thread_memory [THREADS]
 */
#include "resident.h"

#include <dlfcn.h>
#include <sys/random.h>

/* Before the first look everything has been as large as it gets, but for the stacks that a worker
 * keeps at hand: of up to 256 threads, of which each has touched three pages. */
enum { THREADS = 150000, AT_ONCE = 20, WARM_PERCENT = 20 };
enum { KEPT_KB = 256 * 12, GROWTH_KB_MAX = 3072 };

/* No error and no signal: the text is made for the thread that asks. */
#define NO_NUMBER 99999
#define NO_NUMBER_TEXT "99999"

static __thread char *own;
static pthread_key_t key;

static void *allocate(void *arg)
{
	char *blocks[8];
	uintptr_t number = (uintptr_t)arg;
	for (int i = 0; i < 8; i++) {
		blocks[i] = malloc(24 << (number + i) % 8);
		CHECK(blocks[i]);
		*blocks[i] = 1;
	}
	CHECK_EQ(getrandom(blocks[7], 8, 0), 8);
	CHECK(strstr(strerror(NO_NUMBER), NO_NUMBER_TEXT));
	CHECK(strstr(strsignal(NO_NUMBER), NO_NUMBER_TEXT));
	CHECK(!dlerror() && !dlsym(RTLD_DEFAULT, "no such name"));
	own = blocks[0];
	CHECK_EQ(pthread_setspecific(key, blocks[1]), 0);
	for (int i = 2; i < 8; i++)
		free(blocks[i]);
	free(own);
	return arg;
}

static void run(long count)
{
	pthread_t threads[AT_ONCE];
	for (long done = 0; done < count; done += AT_ONCE) {
		for (long i = 0; i < AT_ONCE; i++)
			threads[i] = start_thread(allocate, (void *)(uintptr_t)(done + i));
		for (long i = 0; i < AT_ONCE; i++)
			join_thread(threads[i]);
	}
}

static long workers(void)
{
	const char *said = getenv("HEDDLE_WORKERS");
	return said ? atol(said) : sysconf(_SC_NPROCESSORS_ONLN);
}

int main(int count, char **words)
{
	long threads = count > 1 ? atol(words[1]) : THREADS;
	CHECK_EQ(pthread_key_create(&key, free), 0);
	run(threads * WARM_PERCENT / 100);
	long before = resident_kb();
	run(threads - threads * WARM_PERCENT / 100);
	long after = resident_kb();
	printf("%ld threads: %ld KiB, then %ld KiB\n", threads, before, after);
	CHECK(after - before < GROWTH_KB_MAX + workers() * KEPT_KB);
	return 0;
}
