/* Cancellation: deferred in a wait, asynchronous in a loop, by a handler, of a thread not begun. */
#include "program.h"

static int cleaned, begun, cancelled;

static void begins(void)
{
	__atomic_store_n(&begun, 1, __ATOMIC_SEQ_CST);
}

static void clean(void *arg)
{
	__atomic_add_fetch(&cleaned, (int)(uintptr_t)arg, __ATOMIC_SEQ_CST);
}

static void *waits(void *arg)
{
	pthread_cleanup_push(clean, arg);
	begins();
	for (;;)
		sleep_ms(1000);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *computes(void *arg)
{
	int old;

	pthread_cleanup_push(clean, arg);
	begins();
	GOOD(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old));
	for (volatile unsigned long count = 0;; count++)
		;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *refuses(void *arg)
{
	int old;

	GOOD(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
	begins();
	while (!__atomic_load_n(&cancelled, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	GOOD(pthread_setcancelstate(old, &old));
	pthread_testcancel();
	return arg;
}

int main(void)
{
	void *(*kinds[])(void *) = { waits, computes, refuses };

	for (int round = 0; round < 20; round++) {
		for (unsigned at = 0; at < 3; at++) {
			begun = cancelled = 0;
			pthread_t thread = start(kinds[at], (void *)(uintptr_t)1);

			while (round % 2 != 0 && !__atomic_load_n(&begun, __ATOMIC_SEQ_CST))
				sleep_ms(1);
			GOOD(pthread_cancel(thread));
			__atomic_store_n(&cancelled, 1, __ATOMIC_SEQ_CST);
			MUST(join(thread) == PTHREAD_CANCELED);
		}
	}
	/* Those that had not begun when they were cancelled had nothing to clean. */
	say_number("cleaned enough", cleaned >= 20);
	say_number("sum", threads(4));
	return 0;
}
