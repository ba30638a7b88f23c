/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The numbers of descriptors are the program's: whatever its threads wait for, the next one has the
 * lowest number that the program has not given; it may close what it has not opened, below 64, and
 * put its own at the numbers that it likes.
 */
#define _GNU_SOURCE
#include "all_waits.h"
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { TRIES = 200, LAST_CLOSED = 63, FEW = 64, CLOSING_MS = 150 };

/* The first number that comes and is not the lowest that the program has free; -1 = none. */
static int wrong, wanted;

static int is_next(int *free, int fd)
{
	CHECK(fd >= 0);
	while (is_open[*free])
		++*free;
	if (fd != *free && wrong < 0) {
		wrong = fd;
		wanted = *free;
	}
	++*free;
	return fd;
}

static void take_numbers(void)
{
	int fds[9], count = 0, free = 0;
	wrong = -1;
	fds[count++] = is_next(&free, open("/dev/null", O_RDONLY));
	CHECK_EQ(pipe(&fds[count]), 0);
	is_next(&free, fds[count++]);
	is_next(&free, fds[count++]);
	fds[count++] = is_next(&free, socket(AF_UNIX, SOCK_STREAM, 0));
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, &fds[count]), 0);
	is_next(&free, fds[count++]);
	is_next(&free, fds[count++]);
	fds[count++] = is_next(&free, dup(seen[0] ? seen[0] : 0));
	fds[count++] = is_next(&free, epoll_create1(0));
	fds[count++] = is_next(&free, eventfd(0, 0));
	while (count > 0)
		CHECK_EQ(close(fds[--count]), 0);
}

/* A helper of whoever made the threads may look something up meanwhile. */
static void check_numbers(void)
{
	for (int i = 0; i < TRIES; i++) {
		take_numbers();
		if (wrong < 0)
			return;
		sleep_ms(5);
	}
	CHECK_EQ(wrong, wanted);
}

static void close_others(void)
{
	for (int fd = 3; fd <= LAST_CLOSED; fd++) {
		if (!is_open[fd])
			CHECK(close(fd) == 0 || errno == EBADF);
	}
}

static void check_and_close(void)
{
	check_numbers();
	close_others();
	check_numbers();
}

static void *reads_from(void *arg)
{
	char byte;
	CHECK_EQ(read(*(int *)arg, &byte, 1), 1);
	return arg;
}

static void put_at(int fd)
{
	int ends[2];
	if (is_open[fd])
		return;
	open_pipe(ends);
	CHECK_EQ(dup2(ends[0], fd), fd);
	is_open[fd] = 1;
	pthread_t thread = start_thread(reads_from, &fd);
	sleep_ms(5);
	CHECK_EQ(write(ends[1], "1", 1), 1);
	join_thread(thread);
	closed(fd);
	close_pipe(ends);
}

static void *sleeps_in_kernel(void *end)
{
	struct timespec nap = { 0, 5000000 };
	while (!__atomic_load_n((int *)end, __ATOMIC_ACQUIRE))
		syscall(SYS_nanosleep, &nap, NULL);
	return end;
}

/* Of a thread that is in the kernel a helper may ask what it does there. */
static void close_while_looked_at(void)
{
	int end = 0;
	pthread_t thread = start_thread(sleeps_in_kernel, &end);
	for (long until = now_ms() + CLOSING_MS; now_ms() < until;)
		close_others();
	__atomic_store_n(&end, 1, __ATOMIC_RELEASE);
	join_thread(thread);
}

static void nothing(void)
{
}

int main(void)
{
	static const int numbers[] = { 9, 20, 40, LAST_CLOSED, 200 };
	struct rlimit limit;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < NUMBERS)
		SKIP("RLIMIT_NOFILE permits no descriptor above 1000");
	limit.rlim_cur = NUMBERS;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	/* More than there are processors, perhaps. */
	CHECK_EQ(setenv("HEDDLE_WORKERS", "4", 0), 0);
	note_open();

	wait_in_all_ways(check_and_close);
	check_and_close();
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		put_at(numbers[i]);
	wait_in_all_ways(check_and_close);
	close_while_looked_at();

	limit.rlim_cur = FEW;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	wait_in_all_ways(nothing);
	return 0;
}
