/* Threads of the C standard: thrd_create, thrd_exit, thread-specific storage with destructors. */
#include "program.h"

#include <threads.h>

static mtx_t lock;
static tss_t key;
static int destroyed, count;

static void destroy(void *value)
{
	(void)value;
	mtx_lock(&lock);
	destroyed++;
	mtx_unlock(&lock);
}

static int work(void *arg)
{
	MUST(tss_set(key, arg) == thrd_success);
	mtx_lock(&lock);
	count++;
	mtx_unlock(&lock);
	if ((uintptr_t)arg % 2 != 0)
		thrd_exit((int)(uintptr_t)arg);
	return (int)(uintptr_t)arg * 10;
}

int main(void)
{
	thrd_t all[16];
	int result, sum = 0;

	MUST(mtx_init(&lock, mtx_plain) == thrd_success);
	MUST(tss_create(&key, destroy) == thrd_success);
	for (uintptr_t at = 0; at < 16; at++)
		MUST(thrd_create(&all[at], work, (void *)(at + 1)) == thrd_success);
	for (int at = 0; at < 16; at++) {
		MUST(thrd_join(all[at], &result) == thrd_success);
		sum += result;
	}
	say_number("sum", sum);
	say_number("count", count);
	say_number("destroyed", destroyed);
	return 0;
}
