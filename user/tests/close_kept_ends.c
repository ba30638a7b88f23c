/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The file for which a call waits, and whose number another thread has closed meanwhile, is open
 * until the call ends, however it ends: the other end sees the end of the file then, and not
 * before. A handler after which the call is made again has it find the number as that is by then.
 * A child that is forked meanwhile has no part in it.
 */
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { TURNS = 6, MANY = 8 };
/* How a wait may end. Who has begun it too late finds no file. */
enum { RIGHT, LATE };

static int ready;
static int ends[2], others[2];

/* Whether all copies of an end's other end are closed, soon. */
static int has_ended(int fd)
{
	struct pollfd entry = { fd, POLLIN, 0 };

	for (int i = 0; i < 200; i++) {
		entry.revents = 0;
		CHECK(poll(&entry, 1, 0) >= 0);
		if (entry.revents & (POLLHUP | POLLERR))
			return 1;
		sleep_ms(10);
	}
	return 0;
}

static void open_connection(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

/* ---- how a wait may end */

static void handles(int signal)
{
	(void)signal;
}

static sigjmp_buf place;

static void jumps(int signal)
{
	(void)signal;
	siglongjmp(place, 1);
}

static void install(void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

static int by_time(int fd)
{
	struct timeval limit = { 0, 100000 };
	char byte;
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	set_value(&ready, 1);
	CHECK_EQ(recv(fd, &byte, 1, 0), -1);
	CHECK(errno == EAGAIN || errno == EBADF);
	return errno == EAGAIN ? RIGHT : LATE;
}

static int by_handler(int fd)
{
	char byte;
	install(handles, 0);
	set_value(&ready, 1);
	CHECK_EQ(read(fd, &byte, 1), -1);
	CHECK(errno == EINTR || errno == EBADF);
	return errno == EINTR ? RIGHT : LATE;
}

/* The call is made again, with the number. */
static int by_restart(int fd)
{
	char byte;
	install(handles, SA_RESTART);
	set_value(&ready, 1);
	CHECK_ERRNO(read(fd, &byte, 1), EBADF);
	return RIGHT;
}

static int by_jump(int fd)
{
	char byte;
	install(jumps, SA_RESTART);
	if (sigsetjmp(place, 1) == 0) {
		set_value(&ready, 1);
		if (read(fd, &byte, 1) == -1)
			return LATE;
		CHECK(!"jumped");
	}
	return RIGHT;
}

static int by_cancel(int fd)
{
	char byte;
	set_value(&ready, 1);
	read(fd, &byte, 1);
	return pause();
}

static int by_poll_time(int fd)
{
	struct pollfd entry = { fd, POLLIN, 0 };
	set_value(&ready, 1);
	int got = poll(&entry, 1, 100);
	CHECK(got == 0 || (got == 1 && entry.revents == POLLNVAL));
	return got == 1 ? RIGHT : LATE;
}

static int by_poll_cancel(int fd)
{
	struct pollfd entries[] = { { others[0], POLLIN, 0 }, { fd, POLLIN, 0 } };
	set_value(&ready, 1);
	poll(entries, 2, -1);
	return pause();
}

static const struct {
	int (*wait)(int fd);
	int is_signalled, is_cancelled;
} ways[] = {
	{ by_time, 0, 0 },  { by_poll_time, 0, 0 }, { by_handler, 1, 0 },    { by_restart, 1, 0 },
	{ by_jump, 1, 0 },  { by_cancel, 0, 1 },    { by_poll_cancel, 0, 1 },
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void *waits_so(void *way)
{
	return (void *)(intptr_t)ways[(intptr_t)way].wait(ends[0]);
}

static void *ends_waits(void *arg)
{
	for (intptr_t way = 0; way < WAYS; way++) {
		int late = 0;
		for (int turn = 0; turn < TURNS; turn++) {
			void *ended;
			open_connection();
			set_value(&ready, 0);
			pthread_t thread = start_thread(waits_so, (void *)way);
			await_value(&ready, 1);
			sleep_ms(4 + 3 * turn);
			CHECK_EQ(close(ends[0]), 0);
			struct pollfd entry = { ends[1], POLLIN, 0 };
			late += poll(&entry, 1, 0) != 0;
			if (ways[way].is_signalled)
				CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
			if (ways[way].is_cancelled)
				CHECK_EQ(pthread_cancel(thread), 0);
			CHECK_EQ(pthread_join(thread, &ended), 0);
			late += (intptr_t)ended == LATE;
			CHECK(has_ended(ends[1]));
			CHECK_EQ(close(ends[1]), 0);
		}
		if (late > TURNS / 2)
			fprintf(stderr, "way %ld: %d late\n", (long)way, late);
		CHECK(late <= TURNS / 2);
	}
	return arg;
}

/* ---- several who wait, and a child */

static void *reads_one(void *fd)
{
	char byte = 0;
	add_value(&ready, 1);
	return (void *)(intptr_t)(read((int)(intptr_t)fd, &byte, 1) == 1 && byte == 'd');
}

/* Each byte is one thread's; how many got theirs. The child has no part in what they wait for. */
static int many_read(int with_child)
{
	pthread_t threads[MANY];
	int got = 0;
	pid_t child = 0;

	open_connection();
	set_value(&ready, 0);
	for (int i = 0; i < MANY; i++)
		threads[i] = start_thread(reads_one, (void *)(intptr_t)ends[0]);
	await_value(&ready, MANY);
	sleep_ms(10);
	CHECK_EQ(close(ends[0]), 0);
	sleep_ms(2);
	if (with_child) {
		child = fork();
		CHECK(child >= 0);
		if (child == 0) {
			pause();
			_exit(0);
		}
	}
	for (int i = 0; i < MANY; i++) {
		if (send(ends[1], "d", 1, MSG_NOSIGNAL) != 1)
			break;
		sleep_ms(1);
	}
	for (int i = 0; i < MANY; i++)
		got += join_thread(threads[i]) != NULL;
	CHECK(has_ended(ends[1]));
	CHECK_EQ(close(ends[1]), 0);
	if (with_child) {
		CHECK_EQ(kill(child, SIGKILL), 0);
		CHECK_EQ(waitpid(child, NULL, 0), child);
	}
	return got;
}

static void *reads_many(void *arg)
{
	for (int with_child = 0; with_child < 2; with_child++) {
		int all = 0;
		for (int turn = 0; turn < TURNS; turn++)
			all += many_read(with_child) == MANY;
		CHECK(all >= TURNS / 2);
	}
	return arg;
}

int main(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
	join_thread(start_thread(ends_waits, NULL));
	ends_waits(NULL);
	join_thread(start_thread(reads_many, NULL));
	reads_many(NULL);
	return 0;
}
