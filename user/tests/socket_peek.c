/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A receive that only looks (MSG_PEEK) and asks for all (MSG_WAITALL) waits until all is there,
 * and leaves it; less is what it finds where the stream ends, its timeout is over or a handler has
 * run; and a cancellation ends it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { ALL = 30, PART = 10 };

static const char tens[] = "012345678901234567890123456789";
static int ends[2], handled;

static void open_ends(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	CHECK_EQ(listen(listener, 1), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK_EQ(connect(ends[0], (struct sockaddr *)&address, sizeof address), 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0);
	close(listener);
}

static void close_ends(void)
{
	close(ends[0]);
	close(ends[1]);
}

static void send_part(void)
{
	CHECK_EQ(send(ends[1], tens, PART, 0), PART);
}

static long looks(char *buffer, int flags)
{
	return recv(ends[0], buffer, ALL, MSG_PEEK | MSG_WAITALL | flags);
}

static long looks_from(char *buffer, int flags)
{
	return recvfrom(ends[0], buffer, ALL, MSG_PEEK | MSG_WAITALL | flags, NULL, NULL);
}

static long looks_at_message(char *buffer, int flags)
{
	struct sockaddr_storage name;
	struct iovec parts[] = { { buffer, 7 }, { buffer + 7, 0 }, { buffer + 7, 23 } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 3,
				  .msg_name = &name, .msg_namelen = sizeof name };
	long got = recvmsg(ends[0], &message, MSG_PEEK | MSG_WAITALL | flags);
	CHECK_EQ(parts[0].iov_len, 7);
	CHECK_EQ(message.msg_iovlen, 3);
	return got;
}

static long (*const calls[])(char *, int) = { looks, looks_from, looks_at_message };
static long (*look)(char *, int);

static void *finds_all(void *arg)
{
	char buffer[ALL + 1] = "";
	for (int i = 0; i < 2; i++) {
		memset(buffer, 0, sizeof buffer);
		CHECK_EQ(look(buffer, 0), ALL);
		CHECK_EQ(strcmp(buffer, tens), 0);
	}
	/* And it is there still. */
	CHECK_EQ(recv(ends[0], buffer, ALL, 0), ALL);
	return arg;
}

static void *finds_a_part(void *arg)
{
	char buffer[ALL];
	CHECK_EQ(look(buffer, (int)(intptr_t)arg), PART);
	CHECK_EQ(memcmp(buffer, tens, PART), 0);
	CHECK_EQ(recv(ends[0], buffer, ALL, 0), PART);
	return NULL;
}

static void *waits_for_ever(void *arg)
{
	char buffer[ALL];
	look(buffer, 0);
	return arg;
}

static void comes_slowly(void)
{
	open_ends();
	pthread_t thread = start_thread(finds_all, NULL);
	for (int i = 0; i < ALL / PART; i++) {
		sleep_ms(20);
		send_part();
	}
	join_thread(thread);
	close_ends();
}

static void stream_ends(void)
{
	open_ends();
	pthread_t thread = start_thread(finds_a_part, NULL);
	send_part();
	sleep_ms(30);
	CHECK_EQ(shutdown(ends[1], SHUT_WR), 0);
	join_thread(thread);
	close_ends();
}

static void time_is_over(void)
{
	struct timeval limit = { 0, 50000 };
	open_ends();
	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	send_part();
	join_thread(start_thread(finds_a_part, NULL));
	close_ends();
}

static void does_not_wait(void)
{
	open_ends();
	send_part();
	join_thread(start_thread(finds_a_part, (void *)(intptr_t)MSG_DONTWAIT));
	CHECK_EQ(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	send_part();
	join_thread(start_thread(finds_a_part, NULL));
	close_ends();
}

static void on_signal(int number)
{
	(void)number;
	set_value(&handled, 1);
}

static void handler_runs(int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	set_value(&handled, 0);
	open_ends();
	pthread_t thread = start_thread(finds_a_part, NULL);
	send_part();
	sleep_ms(30);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	join_thread(thread);
	CHECK_EQ(handled, 1);
	close_ends();
}

static void is_cancelled(void)
{
	void *result;
	open_ends();
	send_part();
	pthread_t thread = start_thread(waits_for_ever, NULL);
	sleep_ms(20);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	close_ends();
}

/* What is no message is an error, not a fault. */
static void *refuses_no_message(void *arg)
{
	CHECK_ERRNO(recvmsg(ends[0], (void *)8, MSG_PEEK), EFAULT);
	CHECK_ERRNO(recvmsg(ends[0], (void *)8, 0), EFAULT);
	return arg;
}

static void message_is_none(void)
{
	open_ends();
	send_part();
	join_thread(start_thread(refuses_no_message, NULL));
	close_ends();
}

int main(void)
{
	message_is_none();
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		look = calls[i];
		comes_slowly();
		stream_ends();
		time_is_over();
		does_not_wait();
		handler_runs(0);
		handler_runs(SA_RESTART);
		is_cancelled();
	}
	return 0;
}
