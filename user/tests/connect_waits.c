/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A connect within this machine waits while the listener has no room, and lets others go on. A
 * cancellation ends it, and a handler without SA_RESTART; a connection that was interrupted is made
 * all the same, and poll tells when.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { WAITING = 12 };

static struct sockaddr_un local;
static struct sockaddr_in remote = { .sin_family = AF_INET };
static socklen_t local_length;
static int kind, crowded, waiting, connected, turns, over, interrupted;

/* A listener of AF_UNIX that has as many connections as it takes. */
static void make_crowd(void)
{
	int first = socket(AF_UNIX, kind, 0);
	crowded = socket(AF_UNIX, kind, 0);
	local.sun_family = AF_UNIX;
	CHECK_EQ(bind(crowded, (struct sockaddr *)&local, sizeof(sa_family_t)), 0);
	local_length = sizeof local;
	CHECK_EQ(getsockname(crowded, (struct sockaddr *)&local, &local_length), 0);
	CHECK_EQ(listen(crowded, 0), 0);
	CHECK_EQ(connect(first, (struct sockaddr *)&local, local_length), 0);
}

static void *connects(void *arg)
{
	int fd = socket(AF_UNIX, kind, 0);
	add_value(&waiting, 1);
	CHECK_EQ(connect(fd, (struct sockaddr *)&local, local_length), 0);
	add_value(&connected, 1);
	close(fd);
	return arg;
}

static void *goes_on(void *arg)
{
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		add_value(&turns, 1);
		sleep_ms(1);
	}
	return arg;
}

static void others_go_on(void)
{
	set_value(&waiting, 0);
	set_value(&connected, 0);
	set_value(&over, 0);
	pthread_t threads[WAITING], other, cancelled = start_thread(connects, NULL);
	for (int i = 0; i < WAITING; i++)
		threads[i] = start_thread(connects, NULL);
	await_value(&waiting, WAITING + 1);
	other = start_thread(goes_on, NULL);
	for (int before = turns; __atomic_load_n(&turns, __ATOMIC_SEQ_CST) < before + 20;)
		sleep_ms(1);
	CHECK_EQ(pthread_cancel(cancelled), 0);
	CHECK(join_thread(cancelled) == PTHREAD_CANCELED);
	CHECK_EQ(connected, 0);
	for (int i = 0; i < WAITING + 1; i++)
		close(accept(crowded, NULL, NULL));
	for (int i = 0; i < WAITING; i++)
		join_thread(threads[i]);
	CHECK_EQ(connected, WAITING);
	set_value(&over, 1);
	join_thread(other);
}

static void on_signal(int number)
{
	(void)number;
}

static void *is_interrupted(void *arg)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), error = -1;
	socklen_t size = sizeof error;
	struct pollfd entry = { .fd = fd, .events = POLLOUT };
	add_value(&waiting, 1);
	CHECK_ERRNO(connect(fd, (struct sockaddr *)&remote, sizeof remote), EINTR);
	set_value(&interrupted, 1);
	while (poll(&entry, 1, 20000) != 1)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size), 0);
	CHECK_EQ(error, 0);
	size = sizeof remote;
	CHECK_EQ(getpeername(fd, (struct sockaddr *)&remote, &size), 0);
	close(fd);
	return arg;
}

/* A listener of TCP without room: the kernel takes no notice of who comes, who asks again after a
 * second. */
static void goes_on_connecting(void)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), first[2], got = 0;
	socklen_t size = sizeof remote;
	remote.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(listener, (struct sockaddr *)&remote, size), 0);
	CHECK_EQ(listen(listener, 0), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&remote, &size), 0);
	for (int i = 0; i < 2; i++) {
		first[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(first[i], (struct sockaddr *)&remote, size);
	}
	set_value(&waiting, 0);
	pthread_t thread = start_thread(is_interrupted, NULL);
	await_value(&waiting, 1);
	kill_until(thread, SIGUSR1, &interrupted, 1);
	CHECK_EQ(fcntl(listener, F_SETFL, O_NONBLOCK), 0);
	for (long end = now_ms() + 20000; got < 2 && now_ms() < end; sleep_ms(1))
		got += accept(listener, NULL, NULL) >= 0;
	join_thread(thread);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	const int kinds[] = { SOCK_STREAM, SOCK_SEQPACKET };
	for (int i = 0; i < 2; i++) {
		kind = kinds[i];
		make_crowd();
		others_go_on();
	}
	goes_on_connecting();
	return 0;
}
