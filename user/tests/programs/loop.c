/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An event loop in a thread that waits for each of its events.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 300 };

static int event, done;

static void *serve(void *arg)
{
	int set = epoll_create1(0);
	struct epoll_event wanted = { .events = EPOLLIN }, found;

	epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted);
	for (int i = 0; i < EVENTS; i++) {
		uint64_t count;

		if (epoll_wait(set, &found, 1, -1) != 1 || read(event, &count, sizeof count) < 0)
			_exit(1);
		__atomic_store_n(&done, i + 1, __ATOMIC_SEQ_CST);
	}
	return arg;
}

int main(void)
{
	pthread_t thread;
	const struct timespec pause = { .tv_nsec = 1000000 };

	event = eventfd(0, 0);
	pthread_create(&thread, NULL, serve, NULL);
	for (int i = 0; i < EVENTS; i++) {
		/* The loop waits by now. */
		nanosleep(&pause, NULL);
		eventfd_write(event, 1);
		while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) <= i)
			nanosleep(&pause, NULL);
	}
	return pthread_join(thread, NULL);
}
