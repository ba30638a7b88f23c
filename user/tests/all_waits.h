/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * all_waits.h - threads that wait in every way: for a descriptor, several of them, time, a child, a
 * shell, the disk, a signal; and some that block in the kernel where no library sees it.
 *
 * What the program has open meanwhile is known by its numbers.
 */
#ifndef ALL_WAITS_H
#define ALL_WAITS_H

#include "check.h"
#include "unseen.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum { NUMBERS = 1024, UNSEEN = 4, SETTLE_MS = 50, BYTES = 4096 };

static char is_open[NUMBERS];
static int seen[2], polled[2], unseen[2], lines[2], disk, waiting, is_over;
static pid_t child;

/* Before there is any thread. */
static void note_open(void)
{
	for (int fd = 0; fd < NUMBERS; fd++)
		is_open[fd] = fcntl(fd, F_GETFD) >= 0;
}

static int opened(int fd)
{
	CHECK(fd >= 0 && fd < NUMBERS);
	is_open[fd] = 1;
	return fd;
}

static void closed(int fd)
{
	CHECK_EQ(close(fd), 0);
	is_open[fd] = 0;
}

static void open_pipe(int ends[2])
{
	CHECK_EQ(pipe(ends), 0);
	opened(ends[0]);
	opened(ends[1]);
}

static void close_pipe(int ends[2])
{
	closed(ends[0]);
	closed(ends[1]);
}

static void *reads(void *arg)
{
	char byte;
	add_value(&waiting, 1);
	CHECK_EQ(read(seen[0], &byte, 1), 1);
	return arg;
}

static void *polls(void *arg)
{
	struct pollfd entries[2] = { { .fd = seen[1] }, { .fd = polled[0], .events = POLLIN } };
	add_value(&waiting, 1);
	CHECK_EQ(poll(entries, 2, -1), 1);
	return arg;
}

static void *sleeps(void *arg)
{
	add_value(&waiting, 1);
	while (!value_of(&is_over))
		sleep_ms(3);
	return arg;
}

static void *waits_for_child(void *arg)
{
	add_value(&waiting, 1);
	CHECK_EQ(waitpid(child, NULL, 0), child);
	return arg;
}

static void *runs_shell(void *arg)
{
	char command[64];
	snprintf(command, sizeof(command), "read line </proc/self/fd/%d", lines[0]);
	add_value(&waiting, 1);
	CHECK_EQ(system(command), 0);
	return arg;
}

static void *uses_disk(void *arg)
{
	static char bytes[BYTES];
	add_value(&waiting, 1);
	do {
		CHECK_EQ(pwrite(disk, bytes, BYTES, 0), BYTES);
		CHECK_EQ(fsync(disk), 0);
		CHECK_EQ(pread(disk, bytes, BYTES, 0), BYTES);
		sleep_ms(3);
	} while (!value_of(&is_over));
	return arg;
}

static void *takes_signal(void *arg)
{
	sigset_t set;
	int number;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	add_value(&waiting, 1);
	CHECK_EQ(sigwait(&set, &number), 0);
	return arg;
}

static void *blocks(void *arg)
{
	char byte;
	add_value(&waiting, 1);
	CHECK_EQ(read_unseen(unseen[0], &byte, 1), 1);
	return arg;
}

/* Calls `meanwhile` when all of them wait, and ends their waits. */
static void wait_in_all_ways(void (*meanwhile)(void))
{
	static void *(*const ways[])(void *) = { reads,	     reads,	      polls,
						 sleeps,     waits_for_child, runs_shell,
						 uses_disk,  takes_signal,    blocks,
						 blocks,     blocks,	      blocks };
	enum { WAYS = sizeof(ways) / sizeof(*ways) };
	char path[] = "/var/tmp/heddle-waits-XXXXXX";
	pthread_t threads[WAYS];
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
	set_value(&waiting, 0);
	set_value(&is_over, 0);
	open_pipe(seen);
	open_pipe(polled);
	open_pipe(unseen);
	open_pipe(lines);
	disk = opened(mkstemp(path));
	CHECK_EQ(unlink(path), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pause();
		_exit(0);
	}
	for (int i = 0; i < WAYS; i++)
		threads[i] = start_thread(ways[i], NULL);
	await_value(&waiting, WAYS);
	sleep_ms(SETTLE_MS);
	meanwhile();

	set_value(&is_over, 1);
	CHECK_EQ(write(seen[1], "12", 2), 2);
	CHECK_EQ(write(polled[1], "1", 1), 1);
	CHECK_EQ(write(unseen[1], "1234", UNSEEN), UNSEEN);
	CHECK_EQ(write(lines[1], "\n", 1), 1);
	CHECK_EQ(kill(child, SIGKILL), 0);
	for (int i = 0; i < WAYS; i++) {
		if (ways[i] == takes_signal)
			CHECK_EQ(pthread_kill(threads[i], SIGUSR2), 0);
		join_thread(threads[i]);
	}
	close_pipe(seen);
	close_pipe(polled);
	close_pipe(unseen);
	close_pipe(lines);
	closed(disk);
}

#endif
