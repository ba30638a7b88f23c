/* Threads that nobody joins: detached by attribute, by others, by themselves. */
#include "program.h"

static int ended;

static void *plain(void *arg)
{
	if (arg != NULL)
		GOOD(pthread_detach(pthread_self()));
	__atomic_add_fetch(&ended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int main(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	GOOD(pthread_attr_init(&attr));
	GOOD(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED));
	for (int at = 0; at < 100; at++) {
		GOOD(pthread_create(&thread, &attr, plain, NULL));
		GOOD(pthread_detach(start(plain, NULL)));
		start(plain, &ended);
	}
	for (int wait = 0; wait < 50000 && __atomic_load_n(&ended, __ATOMIC_SEQ_CST) < 300; wait++)
		sleep_ms(1);
	say_number("ended", __atomic_load_n(&ended, __ATOMIC_SEQ_CST));
	return 0;
}
