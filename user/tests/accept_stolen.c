/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Another process accepts from the same listener, and is often faster: a thread that finds the
 * connection gone waits for the next one. Meanwhile it handles signals, and can be cancelled, as
 * can the threads that wait for the same listener beside it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <gnu/libc-version.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { ROUNDS = 40, BURST = 25, THREADS = 3 };

static int listener, handled, cancelled;
static struct sockaddr_in address = { .sin_family = AF_INET };

static void handle(int number)
{
	(void)number;
	add_value(&handled, 1);
}

/* Its call goes on, and is cancelled then: that was asked for in the middle of the handler. */
static void handle_until_cancelled(int number)
{
	(void)number;
	add_value(&handled, 1);
	await_value(&cancelled, 1);
}

static void *accepts(void *arg)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd >= 0)
			close(fd);
		else
			CHECK_EQ(errno, EINTR);
	}
	return arg;
}

/* Makes connections and takes them itself, if it can; a burst for each byte. */
static void steal(int orders, int reports)
{
	char byte;
	while (read(orders, &byte, 1) == 1) {
		for (int i = 0; i < BURST; i++) {
			int fd = socket(AF_INET, SOCK_STREAM, 0);
			CHECK(fd >= 0);
			CHECK_EQ(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
			struct timeval little = { 0, 1000 };
			fd_set set;
			FD_ZERO(&set);
			FD_SET(listener, &set);
			if (select(listener + 1, &set, NULL, NULL, &little) == 1) {
				/* May sleep, too: the timer ends it, again and again. */
				ualarm(2000, 2000);
				int taken = accept(listener, NULL, NULL);
				ualarm(0, 0);
				if (taken >= 0)
					close(taken);
			}
			close(fd);
		}
		CHECK_EQ(write(reports, &byte, 1), 1);
	}
	_exit(0);
}

static void burst(int orders, int reports)
{
	char byte = 0;
	CHECK_EQ(write(orders, &byte, 1), 1);
	CHECK_EQ(read(reports, &byte, 1), 1);
}

static void send_all(pthread_t *threads, int number)
{
	int before = __atomic_load_n(&handled, __ATOMIC_SEQ_CST);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_kill(threads[i], number), 0);
	await_value(&handled, before + THREADS);
}

static void end_all(pthread_t *threads)
{
	set_value(&cancelled, 0);
	/* Since 2.41 the C library's own threads forget a cancellation of that moment. */
	if (strverscmp(gnu_get_libc_version(), "2.41") < 0)
		send_all(threads, SIGUSR2);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_cancel(threads[i]), 0);
	set_value(&cancelled, 1);
	for (int i = 0; i < THREADS; i++)
		CHECK(join_thread(threads[i]) == PTHREAD_CANCELED);
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle };
	socklen_t length = sizeof(address);
	int orders[2], reports[2];
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(sigaction(SIGALRM, &action, NULL), 0);
	action.sa_handler = handle_until_cancelled;
	action.sa_flags = SA_RESTART;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK_EQ(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_EQ(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	CHECK_EQ(listen(listener, BURST), 0);
	CHECK_EQ(pipe(orders), 0);
	CHECK_EQ(pipe(reports), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(orders[1]);
		steal(orders[0], reports[1]);
	}
	close(reports[1]);
	for (int i = 0; i < ROUNDS; i += 4) {
		pthread_t threads[THREADS];
		for (int j = 0; j < THREADS; j++)
			threads[j] = start_thread(accepts, NULL);
		for (int j = 0; j < 3; j++) {
			burst(orders[1], reports[0]);
			send_all(threads, SIGUSR1);
		}
		burst(orders[1], reports[0]);
		end_all(threads);
	}
	close(orders[1]);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	return 0;
}
