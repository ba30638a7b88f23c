/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that has asked in vain many times what is ready, by poll or by epoll_wait, is told all
 * the same what each further call has to tell at once: that something is ready by now, that the
 * time is over, what is wrong with the arguments, that a handler has run.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

/* More than a thread asks in vain before it leaves asks out, and more than it leaves out. */
enum { VAIN = 30, FOUND = 40, WAIT_MS = 10000 };

static int event, set;

/* The two calls, about the same descriptor. */
static int by_poll(int timeout_ms)
{
	struct pollfd entry = { .fd = event, .events = POLLIN };
	int ready = poll(&entry, 1, timeout_ms);

	CHECK_EQ(entry.revents, ready > 0 ? POLLIN : 0);
	return ready;
}

static int by_epoll(int timeout_ms)
{
	struct epoll_event found = { 0 };
	int ready = epoll_wait(set, &found, 1, timeout_ms);

	CHECK_EQ(found.events, ready > 0 ? EPOLLIN : 0);
	return ready;
}

static int (*const WAYS[])(int) = { by_poll, by_epoll };

static void take(void)
{
	uint64_t count;
	CHECK_EQ(read(event, &count, sizeof count), sizeof count);
}

static void *gives(void *arg)
{
	sleep_ms(1);
	CHECK_EQ(eventfd_write(event, 1), 0);
	return arg;
}

/* Each call waits. */
static void in_vain(int (*ready)(int))
{
	for (int i = 0; i < VAIN; i++) {
		pthread_t giver = start_thread(gives, NULL);
		CHECK_EQ(ready(WAIT_MS), 1);
		take();
		join_thread(giver);
	}
}

/* Each call finds something at once, or nothing in its time. */
static void at_once(int (*ready)(int))
{
	for (int i = 0; i < FOUND; i++) {
		in_vain(ready);
		CHECK_EQ(eventfd_write(event, 1), 0);
		for (int again = 0; again <= i % 4; again++) {
			CHECK_EQ(ready(-1), 1);
			CHECK_EQ(ready(0), 1);
			CHECK_EQ(ready(1), 1);
		}
		take();
		double begin = now_ms();
		CHECK_EQ(ready(0), 0);
		CHECK_EQ(ready(2), 0);
		CHECK(now_ms() - begin >= 2);
	}
}

static void *waits(void *arg)
{
	at_once(by_poll);
	at_once(by_epoll);
	return arg;
}

/* Not known to the compiler, which would warn of them. */
static volatile int BAD_COUNTS[] = { 0, -1, INT32_MAX };

static void *is_told_of_bad_arguments(void *arg)
{
	struct epoll_event found;
	int kept = event;
	long page = sysconf(_SC_PAGESIZE);
	void *nowhere = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(nowhere != MAP_FAILED);
	in_vain(by_epoll);
	for (int i = 0; i < 3; i++)
		CHECK_ERRNO(epoll_wait(set, &found, BAD_COUNTS[i], -1), EINVAL);
	CHECK_ERRNO(epoll_wait(set, (void *)(UINTPTR_MAX - 4095), 1, -1), EFAULT);
	in_vain(by_epoll);
	CHECK_EQ(eventfd_write(event, 1), 0);
	CHECK_ERRNO(epoll_wait(set, nowhere, 1, -1), EFAULT);
	take();
	in_vain(by_epoll);
	CHECK_EQ(close(set), 0);
	CHECK_ERRNO(epoll_wait(set, &found, 1, -1), EBADF);

	in_vain(by_poll);
	CHECK_ERRNO(poll(nowhere, 1, -1), EFAULT);
	CHECK_ERRNO(poll((void *)(UINTPTR_MAX - 4095), 1, -1), EFAULT);
	in_vain(by_poll);
	CHECK_EQ(close(event), 0);
	struct pollfd entry = { .fd = kept, .events = POLLIN };
	CHECK_EQ(poll(&entry, 1, -1), 1);
	CHECK_EQ(entry.revents, POLLNVAL);
	CHECK_EQ(munmap(nowhere, page), 0);
	return arg;
}

static volatile sig_atomic_t handled;
static _Atomic int is_waiting;

static void handler(int number)
{
	handled = number;
}

static void *is_interrupted(void *way)
{
	int (*ready)(int) = *(int (*const *)(int))way;

	in_vain(ready);
	for (int i = 0; i < FOUND; i++) {
		handled = 0;
		is_waiting = 1;
		CHECK_ERRNO(ready(WAIT_MS), EINTR);
		is_waiting = 0;
		CHECK_EQ(handled, SIGUSR1);
	}
	is_waiting = -1;
	return NULL;
}

static void interrupt(int way)
{
	struct sigaction action = { .sa_handler = handler };

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	is_waiting = 0;
	pthread_t thread = start_thread(is_interrupted, (void *)&WAYS[way]);
	while (is_waiting != -1) {
		/* It may not wait yet, or not any more: then it is called again. */
		sleep_ms(1);
		if (is_waiting == 1)
			CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	}
	join_thread(thread);
}

int main(void)
{
	event = eventfd(0, EFD_CLOEXEC);
	set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(event != -1 && set != -1);
	struct epoll_event wanted = { .events = EPOLLIN };
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, event, &wanted), 0);
	join_thread(start_thread(waits, NULL));
	interrupt(0);
	interrupt(1);
	join_thread(start_thread(is_told_of_bad_arguments, NULL));
	return 0;
}
