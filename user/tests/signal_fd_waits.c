/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What happens while a thread waits for what a descriptor of signalfd tells it: the descriptor
 * comes into the set, is closed or has another mask, a handler runs that asks, too; and waits that
 * are for something else, which are left alone.
 */
#define _GNU_SOURCE
#include "signal_fd.h"
#include <sys/socket.h>
#include <time.h>

/* It comes into the set that is waited for, or its number is closed, when the wait has begun. */
struct late {
	int fd, set, adds;
	pthread_t thread;
};

static void *changes(void *arg)
{
	struct late *it = arg;

	usleep(20000);
	if (it->adds)
		add(it->set, it->fd, EPOLLIN, 1);
	else
		close(it->fd);
	usleep(1000);
	CHECK_EQ(pthread_kill(it->thread, SIGUSR1), 0);
	return NULL;
}

static void later(void)
{
	struct late it = { .thread = pthread_self() };
	struct signalfd_siginfo info;
	struct pollfd entry = { .events = POLLIN };
	struct epoll_event event;
	sigset_t set;

	for (int way = 0; way < 4; way++) {
		it.fd = make(SIGUSR1, 0);
		it.set = epoll_create1(0);
		it.adds = way < 2;
		entry.fd = it.adds ? it.set : it.fd;
		pthread_t changer = start_thread(changes, &it);
		if (way == 0)
			CHECK_EQ(epoll_wait(it.set, &event, 1, -1), 1);
		else if (way < 3)
			CHECK_EQ(poll(&entry, 1, 60000), 1);
		/* Unless the thread was held up before. */
		else if (read(it.fd, &info, sizeof(info)) != sizeof(info))
			CHECK_EQ(errno, EBADF);
		join_thread(changer);
		if (it.adds)
			take(it.fd, SIGUSR1);
		/* The kernel may have looked at the number that was closed. */
		CHECK_EQ(sigemptyset(&set), 0);
		CHECK_EQ(sigaddset(&set, SIGUSR1), 0);
		sigtimedwait(&set, NULL, &(struct timespec){ 0, 0 });
		if (it.adds)
			close(it.fd);
		close(it.set);
	}
}

static int handled;

static void looks(int signal)
{
	int number = errno, set = epoll_create1(0);
	struct epoll_event event;

	(void)signal;
	CHECK_EQ(epoll_wait(set, &event, 1, 0), 0);
	close(set);
	add_value(&handled, 1);
	errno = number;
}

static void *sends_both(void *arg)
{
	pthread_t thread = *(pthread_t *)arg;

	usleep(5000);
	CHECK_EQ(pthread_kill(thread, SIGWINCH), 0);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	return NULL;
}

/* A handler that runs in the wait asks, too; the read goes on after it. */
static void beside_a_handler(void)
{
	struct sigaction action = { .sa_handler = looks, .sa_flags = SA_RESTART };
	int fd = make(SIGUSR1, 0), before = add_value(&handled, 0);
	pthread_t self = pthread_self();
	sigset_t set;

	CHECK_EQ(sigaction(SIGWINCH, &action, NULL), 0);
	CHECK_EQ(sigemptyset(&set), 0);
	CHECK_EQ(sigaddset(&set, SIGWINCH), 0);
	CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
	for (int i = 0; i < 20; i++) {
		pthread_t sender = start_thread(sends_both, &self);
		take(fd, SIGUSR1);
		join_thread(sender);
	}
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	CHECK(add_value(&handled, 0) > before);
	close(fd);
}

static void *writes_later(void *arg)
{
	usleep(5000);
	CHECK_EQ(write(*(int *)arg, "x", 1), 1);
	return NULL;
}

/* What waits at the number of a set that was closed, or for something else, is left alone. */
static void at_its_number(void)
{
	struct timeval limit = { 0, 20000 }, later = { 60, 0 };
	int fd = make(SIGUSR1, 0), set = epoll_create1(0), ends[2];
	struct pollfd entry = { .fd = fd, .events = POLLPRI };
	char byte;
	sigset_t signals;

	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(poll(&entry, 1, 10), 0);
	close(set);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	CHECK_EQ(recv(ends[0], &byte, 1, 0), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &later, sizeof(later)), 0);
	pthread_t writer = start_thread(writes_later, &ends[1]);
	CHECK_EQ(read(ends[0], &byte, 1), 1);
	join_thread(writer);
	CHECK_EQ(sigemptyset(&signals), 0);
	CHECK_EQ(sigaddset(&signals, SIGUSR1), 0);
	CHECK_EQ(sigwaitinfo(&signals, NULL), SIGUSR1);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

static void *changes_mask(void *fd)
{
	sigset_t set;

	usleep(5000);
	CHECK_EQ(sigemptyset(&set), 0);
	CHECK_EQ(sigaddset(&set, SIGUSR1), 0);
	CHECK_EQ(signalfd(*(int *)fd, &set, 0), *(int *)fd);
	return NULL;
}

static void mask_in_the_wait(void)
{
	int fd = make(SIGUSR2, 0);

	CHECK_EQ(raise(SIGUSR1), 0);
	pthread_t changer = start_thread(changes_mask, &fd);
	struct pollfd entry = { .fd = fd, .events = POLLIN };
	CHECK_EQ(poll(&entry, 1, -1), 1);
	take(fd, SIGUSR1);
	join_thread(changer);
	close(fd);
}

static void *body(void *arg)
{
	later();
	beside_a_handler();
	at_its_number();
	mask_in_the_wait();
	return arg;
}

int main(void)
{
	block_all();
	join_thread(start_thread(body, NULL));
	/* The main thread's are the kernel's. */
	body(NULL);
	return 0;
}
