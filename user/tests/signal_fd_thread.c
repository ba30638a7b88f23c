/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A descriptor of signalfd tells a thread of the signals that were sent to it, and no other thread:
 * by read, by poll and select, and by the epoll sets that it is in.
 */
#define _GNU_SOURCE
#include "signal_fd.h"
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

enum { ROUNDS = 200 };

static pthread_t asker;
static int asks, all[2];

static void *sends(void *signal)
{
	for (int round = 0; round < ROUNDS; round++) {
		while (add_value(&asks, 0) <= round)
			sched_yield();
		/* It sleeps, or is about to. */
		if (round % 2)
			usleep(1000);
		CHECK_EQ(pthread_kill(asker, (int)(long)signal), 0);
	}
	return NULL;
}

/* Another one sends to the calling thread; `wait` waits for the descriptor. */
static void sent_to(int fd, int signal, void (*wait)(int fd, int set), int set)
{
	asks = 0;
	asker = pthread_self();
	pthread_t sender = start_thread(sends, (void *)(long)signal);
	for (int round = 0; round < ROUNDS; round++) {
		add_value(&asks, 1);
		wait(fd, set);
		take(fd, signal);
	}
	join_thread(sender);
}

static void by_read(int fd, int set)
{
	(void)fd, (void)set;
}

static void by_poll(int fd, int set)
{
	struct pollfd entry = { .fd = fd, .events = POLLIN };

	(void)set;
	CHECK_EQ(poll(&entry, 1, -1), 1);
	CHECK_EQ(entry.revents, POLLIN);
}

static void by_poll_of_several(int fd, int set)
{
	struct pollfd entries[] = { { .fd = all[0], .events = POLLIN },
				    { .fd = fd, .events = POLLIN | POLLPRI } };

	(void)set;
	CHECK_EQ(poll(entries, 2, 60000), 1);
	CHECK_EQ(entries[0].revents, 0);
	CHECK_EQ(entries[1].revents, POLLIN);
}

static void by_select(int fd, int set)
{
	fd_set readable;

	(void)set;
	FD_ZERO(&readable);
	FD_SET(fd, &readable);
	FD_SET(all[0], &readable);
	int most = fd > all[0] ? fd : all[0];
	CHECK_EQ(select(most + 1, &readable, NULL, NULL, NULL), 1);
	CHECK(FD_ISSET(fd, &readable));
	CHECK(!FD_ISSET(all[0], &readable));
}

static void by_epoll(int fd, int set)
{
	struct epoll_event events[4];

	CHECK_EQ(epoll_wait(set, events, 4, -1), 1);
	CHECK_EQ(events[0].events, EPOLLIN);
	CHECK_EQ(events[0].data.u64, 0x100000000 + fd);
	/* It stays ready. */
	CHECK_EQ(epoll_wait(set, events, 1, 0), 1);
}

static void by_set_in_set(int fd, int set)
{
	struct epoll_event event;

	(void)fd;
	CHECK_EQ(epoll_wait(set, &event, 1, 60000), 1);
	CHECK_EQ(event.data.fd, 4711);
}

static void waits(int signal)
{
	int fd = make(signal, 0), copy = dup(fd), set = epoll_create1(0), outer = epoll_create1(0);

	add(set, all[0], EPOLLIN, all[0]);
	add(set, fd, EPOLLIN, 0x100000000 + fd);
	add(outer, set, EPOLLIN, 4711);
	sent_to(fd, signal, by_read, -1);
	sent_to(copy, signal, by_read, -1);
	sent_to(fd, signal, by_poll, -1);
	sent_to(fd, signal, by_poll_of_several, -1);
	sent_to(fd, signal, by_select, -1);
	sent_to(fd, signal, by_epoll, set);
	sent_to(fd, signal, by_set_in_set, outer);
	close(outer);
	close(set);
	close(copy);
	close(fd);
}

static void *finds_nothing(void *fd)
{
	struct pollfd entry = { .fd = *(int *)fd, .events = POLLIN };
	struct signalfd_siginfo info;

	CHECK_EQ(poll(&entry, 1, 0), 0);
	CHECK_EQ(read(entry.fd, &info, sizeof(info)), -1);
	CHECK_EQ(errno, EAGAIN);
	return NULL;
}

static void only_its_own(void)
{
	int fd = make(SIGUSR1, SFD_NONBLOCK), other = make(SIGUSR2, SFD_NONBLOCK);
	struct pollfd entries[] = { { .fd = fd, .events = POLLOUT },
				    { .fd = other, .events = POLLIN } };
	struct signalfd_siginfo info;
	char small[sizeof(info) - 1];
	sigset_t set;

	finds_nothing(&fd);
	CHECK_EQ(raise(SIGUSR1), 0);
	join_thread(start_thread(finds_nothing, &fd));
	/* It is not what these ask for. */
	CHECK_EQ(poll(entries, 2, 0), 0);
	finds_nothing(&other);
	CHECK_EQ(read(fd, small, sizeof(small)), -1);
	CHECK_EQ(errno, EINVAL);
	take(fd, SIGUSR1);
	finds_nothing(&fd);
	/* It tells of another one from now on. */
	CHECK_EQ(sigemptyset(&set), 0);
	CHECK_EQ(sigaddset(&set, SIGUSR2), 0);
	CHECK_EQ(signalfd(fd, &set, 0), fd);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(raise(SIGUSR2), 0);
	take(fd, SIGUSR2);
	finds_nothing(&fd);
	/* By number; who waits for the signal gets it. */
	int by_number = syscall(SYS_signalfd4, -1, &set, 8, SFD_NONBLOCK);
	CHECK(by_number >= 0);
	CHECK_EQ(raise(SIGUSR2), 0);
	take(by_number, SIGUSR2);
	CHECK_EQ(sigaddset(&set, SIGUSR1), 0);
	CHECK_EQ(sigwaitinfo(&set, NULL), SIGUSR1);
	/* What stands at its number later is something else. */
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(dup2(all[0], by_number), by_number);
	CHECK_EQ(read(by_number, &info, sizeof(info)), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(sigwaitinfo(&set, NULL), SIGUSR1);
	close(by_number);
	close(other);
	close(fd);
}

static void several(void)
{
	struct signalfd_siginfo infos[4];
	int fd = make(SIGRTMIN + 1, SFD_NONBLOCK);

	for (int i = 0; i < 3; i++) {
		union sigval value = { .sival_ptr = (void *)(0x700000000 + i) };
		CHECK_EQ(pthread_sigqueue(pthread_self(), SIGRTMIN + 1, value), 0);
	}
	CHECK_EQ(read(fd, infos, 2 * sizeof(infos[0]) + 5), 2 * sizeof(infos[0]));
	CHECK_EQ(read(fd, &infos[2], 2 * sizeof(infos[0])), sizeof(infos[0]));
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(infos[i].ssi_signo, SIGRTMIN + 1);
		CHECK_EQ(infos[i].ssi_code, SI_QUEUE);
		CHECK_EQ(infos[i].ssi_pid, getpid());
		CHECK_EQ(infos[i].ssi_int, i);
		CHECK_EQ(infos[i].ssi_ptr, 0x700000000 + i);
	}
	close(fd);
}

static void once(void)
{
	int fd = make(SIGUSR1, 0), set = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };

	add(set, fd, EPOLLIN | EPOLLONESHOT, 1);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(epoll_wait(set, &event, 1, -1), 1);
	CHECK_EQ(event.data.u64, 1);
	CHECK_EQ(epoll_wait(set, &event, 1, 0), 0);
	event = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 2 };
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
	CHECK_EQ(epoll_wait(set, &event, 1, 0), 1);
	CHECK_EQ(event.data.u64, 2);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), 0);
	CHECK_EQ(epoll_wait(set, &event, 1, 0), 0);
	take(fd, SIGUSR1);
	close(set);
	close(fd);
}

/* What changes is told of once, and what is busy leaves room. */
static void beside(void)
{
	int fd = make(SIGUSR1, 0), busy = eventfd(1, 0), set = epoll_create1(0), found = 0;
	struct epoll_event event;

	add(set, fd, EPOLLIN | EPOLLET, 1);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(epoll_wait(set, &event, 1, -1), 1);
	CHECK_EQ(epoll_wait(set, &event, 1, 0), 0);
	take(fd, SIGUSR1);
	CHECK_EQ(raise(SIGUSR1), 0);
	CHECK_EQ(epoll_wait(set, &event, 1, -1), 1);
	event = (struct epoll_event){ .events = EPOLLIN, .data.u64 = 1 };
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event), 0);
	add(set, busy, EPOLLIN, 2);
	for (int i = 0; i < 100; i++) {
		CHECK_EQ(epoll_wait(set, &event, 1, -1), 1);
		found += event.data.u64 == 1;
	}
	CHECK(found > 20 && found < 80);
	take(fd, SIGUSR1);
	close(set);
	close(busy);
	close(fd);
}

static void in_parts(void)
{
	struct signalfd_siginfo infos[2];
	struct iovec parts[] = { { infos, 100 }, { NULL, 0 }, { (char *)infos + 100, 156 } };
	int fd = make(SIGUSR1, 0);

	CHECK_EQ(raise(SIGUSR1), 0);
	/* Older kernels read each part by itself. */
	if (readv(fd, parts, 3) < 0) {
		CHECK_EQ(errno, EINVAL);
		take(fd, SIGUSR1);
	} else {
		CHECK_EQ(infos[0].ssi_signo, SIGUSR1);
		CHECK_EQ(infos[0].ssi_uid, getuid());
	}
	close(fd);
}

/* A call by number goes on, and keeps its time, when signals come that the thread blocks. */
static void sleeps_by_number(void)
{
	struct timespec time = { 0, 200000000 }, begin, end;
	struct itimerspec each = { { 0, 20000000 }, { 0, 20000000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
	struct pollfd entry = { .fd = make(SIGUSR1, 0), .events = POLLIN };
	timer_t timer;

	event._sigev_un._tid = gettid();
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &each, NULL), 0);
	CHECK_EQ(poll(&entry, 1, 50), 0);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	CHECK_EQ(syscall(SYS_nanosleep, &time, NULL), 0);
	clock_gettime(CLOCK_MONOTONIC, &end);
	long ms = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000;
	CHECK(ms >= 199 && ms < 10000);
	CHECK_EQ(timer_delete(timer), 0);
	close(entry.fd);
}

static void of_a_timer(void)
{
	int fd = make(SIGUSR2, 0);
	struct signalfd_siginfo info;
	struct itimerspec time = { .it_value = { 0, 2000000 } };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR2 };
	timer_t timer;

	event.sigev_value.sival_int = 42;
	event._sigev_un._tid = gettid();
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(timer_settime(timer, 0, &time, NULL), 0);
		CHECK_EQ(read(fd, &info, sizeof(info)), sizeof(info));
		CHECK_EQ(info.ssi_signo, SIGUSR2);
		CHECK_EQ(info.ssi_code, SI_TIMER);
		CHECK_EQ(info.ssi_int, 42);
		CHECK_EQ(info.ssi_overrun, 0);
	}
	CHECK_EQ(timer_delete(timer), 0);
	close(fd);
}

static void *body(void *arg)
{
	waits(SIGUSR1);
	waits(SIGRTMIN);
	only_its_own();
	several();
	once();
	beside();
	in_parts();
	of_a_timer();
	sleeps_by_number();
	return arg;
}

int main(void)
{
	block_all();
	CHECK_EQ(pipe2(all, O_NONBLOCK), 0);
	join_thread(start_thread(body, NULL));
	/* The main thread's are the kernel's. */
	body(NULL);
	return 0;
}
