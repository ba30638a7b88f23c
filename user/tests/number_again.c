/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What is written to is the file that has the number now, not the one that had it before: pipes and
 * sockets with the numbers of disks' files wait, end with signals, and fail as ever; files that are
 * added to by several stay whole, in whatever mode they are opened.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { THREADS = 4, LINES = 400, LINE = 6000 };
static char path[] = "/var/tmp/heddle-again-XXXXXX";

static void handler(int number)
{
	(void)number;
}

/* Two numbers that were a file's, which was written to. */
static void use_numbers(int fds[2])
{
	char block[64] = "", *volatile nowhere = (char *)8;
	struct iovec parts[2] = { { block, 32 }, { block + 32, 32 } };

	for (int i = 0; i < 2; i++) {
		fds[i] = open(path, O_RDWR | O_TRUNC);
		CHECK(fds[i] >= 0);
		for (int turn = 0; turn < 3; turn++) {
			CHECK_EQ(write(fds[i], block, sizeof block), sizeof block);
			CHECK_EQ(writev(fds[i], parts, 2), 64);
			CHECK_EQ(pwrite(fds[i], block, sizeof block, 7), sizeof block);
			CHECK_EQ(pwritev(fds[i], parts, 2, 9), 64);
		}
		CHECK_EQ(lseek(fds[i], 0, SEEK_CUR), 3 * 128);
		CHECK_ERRNO(pwrite(fds[i], nowhere, 1, 0), EFAULT);
		CHECK_ERRNO(write(fds[i], nowhere, 1), EFAULT);
		CHECK_ERRNO(writev(fds[i], (struct iovec *)nowhere, 2), EFAULT);
	}
	close(fds[0]);
	close(fds[1]);
	CHECK_ERRNO(write(fds[0], block, 1), EBADF);
	CHECK_ERRNO(pwrite(fds[1], block, 1, 0), EBADF);
}

static int ended;

static void *fills(void *fd)
{
	static char block[1 << 20];

	CHECK_ERRNO(pwrite((int)(long)fd, block, 1, 0), ESPIPE);
	/* A part is told when a handler has run. */
	ssize_t count = write((int)(long)fd, block, sizeof block);
	CHECK(count > 0 && count < (ssize_t)sizeof block);
	add_value(&ended, 1);
	CHECK_ERRNO(write((int)(long)fd, block, sizeof block), EINTR);
	add_value(&ended, 1);
	return NULL;
}

static void fill_until_called(int fd)
{
	set_value(&ended, 0);
	pthread_t filler = start_thread(fills, (void *)(long)fd);

	kill_until(filler, SIGUSR1, &ended, 2);
	join_thread(filler);
}

static void *other_kinds(void *arg)
{
	int before[2], fds[2];

	use_numbers(before);
	CHECK_EQ(pipe(fds), 0);
	CHECK(fds[0] == before[0] && fds[1] == before[1]);
	fill_until_called(fds[1]);
	close(fds[0]);
	CHECK_ERRNO(write(fds[1], "x", 1), EPIPE);
	close(fds[1]);
	use_numbers(before);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	CHECK(fds[0] == before[0] && fds[1] == before[1]);
	fill_until_called(fds[0]);
	close(fds[0]);
	close(fds[1]);
	return arg;
}

static void *adds(void *arg)
{
	int fd = open(path, O_WRONLY | O_APPEND);
	char line[LINE];

	CHECK(fd >= 0);
	memset(line, 'a' + (int)(long)arg, sizeof line);
	line[LINE - 1] = '\n';
	for (int i = 0; i < LINES; i++)
		CHECK_EQ(write(fd, line, sizeof line), sizeof line);
	close(fd);
	return arg;
}

static void *several_add(void *arg)
{
	pthread_t threads[THREADS];
	int counts[THREADS] = { 0 }, fd = open(path, O_RDWR | O_TRUNC);
	char line[LINE];

	CHECK(fd >= 0);
	for (long i = 0; i < THREADS; i++)
		threads[i] = start_thread(adds, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	while (read(fd, line, sizeof line) != 0) {
		CHECK(line[0] >= 'a' && line[0] < 'a' + THREADS && line[LINE - 1] == '\n');
		for (int i = 1; i < LINE - 1; i++)
			CHECK_EQ(line[i], line[0]);
		counts[line[0] - 'a']++;
	}
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(counts[i], LINES);
	close(fd);
	return arg;
}

int main(void)
{
	struct sigaction action = { .sa_handler = handler };
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	signal(SIGPIPE, SIG_IGN);
	join_thread(start_thread(other_kinds, NULL));
	join_thread(start_thread(several_add, NULL));
	unlink(path);
	return 0;
}
