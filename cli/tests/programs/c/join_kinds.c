/* Every way to join, errors included, and keys whose destructors start threads. */
#include "program.h"

static pthread_key_t key;
static int destroyed, tried;

static void destroy(void *value)
{
	if (value != &destroyed)
		return;
	__atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST);
	MUST(threads(2) == 2);
}

static void *keyed(void *arg)
{
	GOOD(pthread_setspecific(key, &destroyed));
	while (arg && !__atomic_load_n(&tried, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	return arg;
}

int main(void)
{
	struct timespec soon;
	void *result;

	GOOD(pthread_key_create(&key, destroy));
	pthread_t thread = start(keyed, (void *)(uintptr_t)50);
	say_number("try", pthread_tryjoin_np(thread, &result) == EBUSY);
	clock_gettime(CLOCK_REALTIME, &soon);
	say_number("timed", pthread_timedjoin_np(thread, &result, &soon) == ETIMEDOUT);
	__atomic_store_n(&tried, 1, __ATOMIC_SEQ_CST);
	soon.tv_sec += 50;
	GOOD(pthread_timedjoin_np(thread, &result, &soon));
	say_number("result", (long)(uintptr_t)result);
	thread = start(keyed, NULL);
	clock_gettime(CLOCK_MONOTONIC, &soon);
	soon.tv_sec += 50;
	GOOD(pthread_clockjoin_np(thread, &result, CLOCK_MONOTONIC, &soon));
	say_number("self", pthread_join(pthread_self(), NULL) == EDEADLK);
	say_number("destroyed", destroyed);
	return 0;
}
