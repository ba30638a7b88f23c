/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * However a thread writes where nobody reads - through stdio, by number, from a file - SIGPIPE is
 * its own: its handler runs there, once; where it has it blocked it is pending for it alone; and
 * where there is no handler the process ends at once.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static pthread_t expected;
static int handled, elsewhere;

static void on_pipe(int number)
{
	(void)number;
	add_value(pthread_equal(pthread_self(), expected) ? &handled : &elsewhere, 1);
}

static void by_stdio(int fd)
{
	FILE *stream = fdopen(dup(fd), "w");
	CHECK(stream);
	CHECK(fputs("lost", stream) >= 0);
	CHECK_ERRNO(fflush(stream), EPIPE);
	fclose(stream);
}

static void by_dprintf(int fd)
{
	CHECK(dprintf(fd, "lost %d", 1) < 0);
}

static void by_number(int fd)
{
	CHECK_ERRNO(syscall(SYS_write, fd, "lost", 4), EPIPE);
}

static void by_write(int fd)
{
	CHECK_ERRNO(write(fd, "lost", 4), EPIPE);
}

static void by_writev(int fd)
{
	struct iovec part = { "lost", 4 };
	CHECK_ERRNO(writev(fd, &part, 1), EPIPE);
}

static void by_splice(int fd)
{
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], "lost", 4), 4);
	CHECK_ERRNO(splice(ends[0], NULL, fd, NULL, 4, 0), EPIPE);
	close(ends[0]);
	close(ends[1]);
}

static void by_vmsplice(int fd)
{
	struct iovec part = { "lost", 4 };
	CHECK_ERRNO(vmsplice(fd, &part, 1, 0), EPIPE);
}

static const struct way {
	void (*write)(int);
} ways[] = {
	{ by_stdio },  { by_dprintf }, { by_number },	{ by_write },
	{ by_writev }, { by_splice },  { by_vmsplice },
};
enum { WAYS = sizeof ways / sizeof *ways };

static int nobody_reads(int is_socket)
{
	int ends[2];
	if (is_socket)
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	else
		CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(close(ends[0]), 0);
	return ends[1];
}

/* Splicing to a socket, and what splice() does with a memory's pages, are the kernel's matter. */
static int is_for_sockets(const struct way *way)
{
	return way->write != by_splice && way->write != by_vmsplice;
}

static void *handles(void *arg)
{
	const struct way *way = arg;
	expected = pthread_self();
	for (int is_socket = 0; is_socket <= is_for_sockets(way); is_socket++) {
		int fd = nobody_reads(is_socket);
		for (int i = 1; i <= 3; i++) {
			handled = 0;
			way->write(fd);
			/* Where nothing of a stream is written, it is answered a moment later. */
			if (way->write == by_dprintf)
				await_value(&handled, 1);
			CHECK_EQ(add_value(&handled, 0), 1);
			sleep_ms(5);
			CHECK_EQ(handled, 1);
		}
		close(fd);
	}
	return NULL;
}

static void *blocks(void *arg)
{
	const struct way *way = arg;
	struct timespec soon = { 0, 0 };
	sigset_t set, pending;
	int fd = nobody_reads(0);

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	way->write(fd);
	CHECK_EQ(sigpending(&pending), 0);
	CHECK_EQ(sigismember(&pending, SIGPIPE), 1);
	CHECK_EQ(sigtimedwait(&set, NULL, &soon), SIGPIPE);
	CHECK_ERRNO(sigtimedwait(&set, NULL, &soon), EAGAIN);
	close(fd);
	return NULL;
}

/* Nothing of it is left for what a thread does later. */
static void *goes_on(void *arg)
{
	CHECK_EQ(WEXITSTATUS(system("exit 3")), 3);
	return arg;
}

static void *dies(void *arg)
{
	const struct way *way = arg;
	int fd = nobody_reads(0);

	for (long end = now_ms() + 20000; now_ms() < end;)
		way->write(fd);
	return NULL;
}

static void dies_of_it(const struct way *way)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		join_thread(start_thread(dies, (void *)way));
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGPIPE);
}

int main(void)
{
	void *way;

	for (int i = 0; i < WAYS; i++)
		dies_of_it(&ways[i]);
	CHECK(signal(SIGPIPE, on_pipe) != SIG_ERR);
	for (int i = 0; i < WAYS; i++) {
		way = (void *)&ways[i];
		join_thread(start_thread(handles, way));
		join_thread(start_thread(blocks, way));
		join_thread(start_thread(goes_on, NULL));
	}
	CHECK_EQ(elsewhere, 0);
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	for (int i = 0; i < WAYS; i++)
		ways[i].write(nobody_reads(0));
	CHECK_EQ(handled, 1);
	return 0;
}
