/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * I/O calls report the errno numbers of the kernel.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>

static void *fails(void *arg)
{
	char byte = 0;
	int ends[2], file = open("/", O_RDONLY | O_DIRECTORY);
	struct iovec part = { &byte, 1 };
	struct iovec wild = { NULL, 1 };
	volatile int minus_one = -1; /* unseen by the compiler, which would object */
	CHECK(file >= 0);
	CHECK_ERRNO(read(-1, &byte, 1), EBADF);
	CHECK_ERRNO(write(-1, &byte, 1), EBADF);
	CHECK_ERRNO(readv(-1, &part, 1), EBADF);
	CHECK_ERRNO(writev(-1, &part, 1), EBADF);
	CHECK_ERRNO(pread(-1, &byte, 1, 0), EBADF);
	CHECK_ERRNO(pwrite(-1, &byte, 1, 0), EBADF);
	CHECK_ERRNO(close(-1), EBADF);
	CHECK_ERRNO(fsync(-1), EBADF);
	CHECK_ERRNO(fdatasync(-1), EBADF);
	CHECK_ERRNO(accept(-1, NULL, NULL), EBADF);
	CHECK_ERRNO(recv(-1, &byte, 1, 0), EBADF);
	CHECK_ERRNO(send(-1, &byte, 1, 0), EBADF);
	CHECK_ERRNO(recv(file, &byte, 1, 0), ENOTSOCK);
	CHECK_ERRNO(read(file, &byte, 1), EISDIR);
	CHECK_ERRNO(write(file, &byte, 1), EBADF);
	CHECK_ERRNO(open("/no/such/file", O_RDONLY), ENOENT);
	CHECK_ERRNO(open("", O_RDONLY), ENOENT);
	CHECK_ERRNO(openat(file, "no-such-file-either", O_RDONLY), ENOENT);
	CHECK_EQ(pipe(ends), 0);
	CHECK_ERRNO(pread(ends[0], &byte, 1, 0), ESPIPE);
	CHECK_ERRNO(readv(ends[0], &part, minus_one), EINVAL);
	CHECK_ERRNO(pread(file, &byte, 1, -1), EINVAL);
	CHECK_EQ(write(ends[1], "x", 1), 1);
	CHECK_ERRNO(readv(ends[0], &wild, 1), EFAULT);
	CHECK_EQ(close(ends[0]), 0);
	CHECK_ERRNO(write(ends[1], &byte, 1), EPIPE);
	CHECK_EQ(close(ends[1]), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CHECK_EQ(close(ends[1]), 0);
	CHECK_ERRNO(send(ends[0], &byte, 1, MSG_NOSIGNAL), EPIPE);
	CHECK_EQ(recv(ends[0], &byte, 1, 0), 0);
	CHECK_ERRNO(accept(ends[0], NULL, NULL), EINVAL);
	CHECK_EQ(close(ends[0]), 0);
	CHECK_EQ(close(file), 0);
	return arg;
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	join_thread(start_thread(fails, NULL));
	fails(NULL);
	return 0;
}
