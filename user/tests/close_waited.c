/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that waits for a descriptor is told what has come for it before another thread closes
 * that, or puts another file there: the end of a connection that was shut down, or data; and
 * nothing of the file that gets the number next. Who closes that one waits for nobody, although
 * threads still wait for the first.
 */
#define _GNU_SOURCE
#include "number_waits.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { TURNS = 12 };

static int ready;
static int ends[2];

static int by_recv(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, 0);
	return got == 0 ? RIGHT : LATE;
}

static int by_read(int fd)
{
	char byte;
	ssize_t got = read(fd, &byte, 1);
	return got == 0 ? RIGHT : LATE;
}

static int by_accept(int fd)
{
	return accept(fd, NULL, NULL) < 0 && errno == EINVAL ? RIGHT : LATE;
}

static int by_data(int fd)
{
	char byte = 0;
	ssize_t got = read(fd, &byte, 1);
	return got == 1 && byte == 'd' ? RIGHT : LATE;
}

static void open_connection(void)
{
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
}

static void open_listener(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(ends[0] >= 0);
	CHECK_EQ(bind(ends[0], (struct sockaddr *)&any, sizeof any), 0);
	CHECK_EQ(listen(ends[0], 1), 0);
	ends[1] = dup(0);
}

static void shut_down(void)
{
	CHECK_EQ(shutdown(ends[0], SHUT_RDWR), 0);
}

static void send_data(void)
{
	CHECK_EQ(write(ends[1], "d", 1), 1);
}

static const struct {
	void (*open)(void);
	int (*wait)(int fd);
	void (*end)(void);
} kinds[] = {
	{ open_connection, by_recv, shut_down },   { open_connection, by_read, shut_down },
	{ open_connection, by_poll, shut_down },   { open_connection, by_poll_of_two, shut_down },
	{ open_connection, by_select, shut_down }, { open_connection, by_select_of_two, shut_down },
	{ open_listener, by_accept, shut_down },   { open_connection, by_data, send_data },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void *waits(void *kind)
{
	int fd = ends[0];
	set_value(&ready, 1);
	return (void *)(intptr_t)kinds[(intptr_t)kind].wait(fd);
}

static void *closes(void *arg)
{
	for (intptr_t kind = 0; kind < KINDS; kind++) {
		int late = 0;
		for (int turn = 0; turn < TURNS; turn++) {
			void *ended;
			int next[2];
			kinds[kind].open();
			CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, next), 0);
			CHECK_EQ(write(next[1], "n", 1), 1);
			set_value(&ready, 0);
			pthread_t thread = start_thread(waits, (void *)kind);
			await_value(&ready, 1);
			sleep_ms(2 + turn);
			int number = ends[0];
			kinds[kind].end();
			if (turn % 3 != 2)
				CHECK_EQ(close(number), 0);
			if (turn % 3 == 0)
				CHECK_EQ(dup3(next[0], number, O_CLOEXEC), number);
			else
				CHECK_EQ(dup2(next[0], number), number);
			CHECK_EQ(pthread_join(thread, &ended), 0);
			late += (intptr_t)ended == LATE;
			close(number);
			close(next[0]);
			close(next[1]);
			close(ends[1]);
		}
		CHECK(late <= TURNS / 2);
	}
	return arg;
}

static void *waits_on(void *fd)
{
	set_value(&ready, 1);
	by_recv((int)(intptr_t)fd);
	return fd;
}

/* How long to close takes while a thread waits on in the first file, and the next one, of the same
 * number, is ready. */
static long close_again_ms(void)
{
	open_connection();
	set_value(&ready, 0);
	start_thread(waits_on, (void *)(intptr_t)ends[0]);
	await_value(&ready, 1);
	sleep_ms(20);
	CHECK_EQ(close(ends[0]), 0);
	CHECK_EQ(open("/dev/zero", O_RDONLY), ends[0]);
	long before = now_ms();
	CHECK_EQ(close(ends[0]), 0);
	return now_ms() - before;
}

/* On a busy machine one may take long, but not all. */
static void *closes_again(void *arg)
{
	for (int i = 0; i < 5; i++)
		if (close_again_ms() < 500)
			return arg;
	CHECK(!"closed soon");
	return arg;
}

static void *reads_one(void *fd)
{
	char byte;

	set_value(&ready, 1);
	CHECK_EQ(read((int)(intptr_t)fd, &byte, 1), 1);
	return NULL;
}

/* A copy that is not made closes nothing. */
static void copies_in_vain(void)
{
	int pipes[2];

	CHECK_EQ(pipe(pipes), 0);
	set_value(&ready, 0);
	pthread_t reader = start_thread(reads_one, (void *)(intptr_t)pipes[0]);
	await_value(&ready, 1);
	sleep_ms(20);
	CHECK_ERRNO(dup2(-1, pipes[0]), EBADF);
	CHECK_ERRNO(dup2(999, pipes[0]), EBADF);
	CHECK_ERRNO(dup3(pipes[1], pipes[0], O_APPEND), EINVAL);
	CHECK_ERRNO(dup3(pipes[0], pipes[0], 0), EINVAL);
	CHECK_EQ(dup2(pipes[0], pipes[0]), pipes[0]);
	CHECK_EQ(write(pipes[1], "x", 1), 1);
	join_thread(reader);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
	copies_in_vain();
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
	join_thread(start_thread(closes, NULL));
	closes(NULL);
	CHECK_ERRNO(close(-1), EBADF);
	join_thread(start_thread(closes_again, NULL));
	closes_again(NULL);
	return 0;
}
