/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A descriptor that was waited for in vain, and is closed then while its file has another one, is
 * watched by no epoll set of the process: one that looks at a late event of it would hold the file.
 */
#define _GNU_SOURCE
#include "number_waits.h"
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

enum { WAIT_MS = 10 };

static int ends[2];
static int pipe_ends[2];

static int is_watched(int fd)
{
	DIR *folder = opendir("/proc/self/fdinfo");
	struct dirent *entry;
	int found = 0;

	CHECK(folder != NULL);
	while ((entry = readdir(folder))) {
		char path[300], line[200];
		int target;

		snprintf(path, sizeof path, "/proc/self/fdinfo/%s", entry->d_name);
		FILE *info = fopen(path, "re");
		if (!info)
			continue;
		while (fgets(line, sizeof line, info))
			if (sscanf(line, "tfd: %d", &target) == 1 && target == fd)
				found = 1;
		fclose(info);
	}
	closedir(folder);
	return found;
}

/* ---- waits in vain */

static void recv_times_out(void)
{
	struct timeval limit = { 0, WAIT_MS * 1000 };
	char byte;

	CHECK_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	CHECK_ERRNO(recv(ends[0], &byte, 1, 0), EAGAIN);
}

static void poll_times_out(void)
{
	struct pollfd entry = { ends[0], POLLIN, 0 };
	CHECK_EQ(poll(&entry, 1, WAIT_MS), 0);
}

static void another_is_ready(void)
{
	struct pollfd entries[] = { { ends[0], POLLIN, 0 }, { pipe_ends[0], POLLIN, 0 } };
	char byte;

	CHECK_EQ(poll(entries, 2, -1), 1);
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
}

static void select_finds_another(void)
{
	fd_set set;
	char byte;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	FD_SET(pipe_ends[0], &set);
	int last = ends[0] > pipe_ends[0] ? ends[0] : pipe_ends[0];
	CHECK_EQ(select(last + 1, &set, NULL, NULL, NULL), 1);
	CHECK_EQ(read(pipe_ends[0], &byte, 1), 1);
}

static void handles(int signal)
{
	(void)signal;
}

static void is_interrupted(void)
{
	char byte;
	CHECK_ERRNO(read(ends[0], &byte, 1), EINTR);
}

static void is_cancelled(void)
{
	char byte;
	read(ends[0], &byte, 1);
	CHECK(!"cancelled");
}

static void (*const WAITS[])(void) = {
	recv_times_out, poll_times_out, another_is_ready, select_finds_another, is_interrupted,
	is_cancelled,
};
enum { COUNT = sizeof WAITS / sizeof *WAITS };

static void *wait_in_vain(void *index)
{
	WAITS[(intptr_t)index]();
	return NULL;
}

static void try_it(int index, int by_copy)
{
	pthread_t thread;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_EQ(pthread_create(&thread, NULL, wait_in_vain, (void *)(intptr_t)index), 0);
	sleep_ms(WAIT_MS);
	if (WAITS[index] == another_is_ready || WAITS[index] == select_finds_another)
		CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
	if (WAITS[index] == is_cancelled)
		CHECK_EQ(pthread_cancel(thread), 0);
	while (WAITS[index] == is_interrupted && pthread_tryjoin_np(thread, NULL)) {
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		sleep_ms(WAIT_MS);
	}
	if (WAITS[index] != is_interrupted)
		CHECK_EQ(pthread_join(thread, NULL), 0);
	int same = dup(ends[0]);
	CHECK(same >= 0);
	if (by_copy)
		CHECK_EQ(dup2(pipe_ends[0], ends[0]), ends[0]);
	else
		CHECK_EQ(close(ends[0]), 0);
	CHECK(!is_watched(ends[0]));
	close(same);
	if (by_copy)
		close(ends[0]);
	char byte;
	CHECK_EQ(read(ends[1], &byte, 1), 0);
	close(ends[1]);
}

static void *try_all(void *unused)
{
	for (int index = 0; index < COUNT; index++)
		for (int by_copy = 0; by_copy < 2; by_copy++)
			try_it(index, by_copy);
	return unused;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handles };
	pthread_t thread;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(pthread_create(&thread, NULL, try_all, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	try_all(NULL);
	return 0;
}
