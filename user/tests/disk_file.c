/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Files are read and written right by threads: through the cache, past it, to the disk, and those
 * that the kernel makes up.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/uio.h>

enum { BYTES = 1 << 16 };
static char path[] = "/var/tmp/heddle-file-XXXXXX";

static void fill(char *bytes, int seed)
{
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (char)(i * 7 + seed);
}

static void round_trip(int flags, int seed)
{
	int fd = open(path, O_RDWR | flags);
	if (fd < 0 && errno == EINVAL)
		return; /* This file system has no such mode. */
	CHECK(fd >= 0);
	char *out, *in;
	CHECK_EQ(posix_memalign((void **)&out, 4096, BYTES), 0);
	CHECK_EQ(posix_memalign((void **)&in, 4096, BYTES), 0);
	fill(out, seed);
	CHECK_EQ(pwrite(fd, out, BYTES, 0), BYTES);
	CHECK_EQ(fdatasync(fd), 0);
	memset(in, 0, BYTES);
	CHECK_EQ(pread(fd, in, BYTES, 0), BYTES);
	CHECK_EQ(memcmp(in, out, BYTES), 0);
	memset(in, 0, BYTES);
	struct iovec parts[2] = { { in, BYTES / 2 }, { in + BYTES / 2, BYTES / 2 } };
	CHECK_EQ(preadv2(fd, parts, 2, 0, 0), BYTES);
	CHECK_EQ(memcmp(in, out, BYTES), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK_EQ(write(fd, out, BYTES), BYTES);
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), BYTES);
	CHECK_EQ(read(fd, in, BYTES), 0);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK_EQ(read(fd, in, BYTES), BYTES);
	CHECK_EQ(fsync(fd), 0);
	free(out);
	free(in);
	close(fd);
}

static void *uses(void *arg)
{
	round_trip(0, 1);
	round_trip(O_SYNC, 2);
	round_trip(O_DIRECT, 3);
	round_trip(O_NONBLOCK, 4);
	int fd = open(path, O_RDONLY);
	char byte, *volatile nowhere = (char *)8;
	CHECK_ERRNO(pread(fd, &byte, 1, -1), EINVAL);
	CHECK_ERRNO(write(fd, &byte, 1), EBADF);
	CHECK_ERRNO(read(fd, nowhere, 1), EFAULT);
	close(fd);
	CHECK_ERRNO(read(fd, &byte, 1), EBADF);
	fd = open(path, O_WRONLY | O_APPEND);
	CHECK_EQ(write(fd, "ab", 2), 2);
	CHECK_EQ(write(fd, "c", 1), 1);
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), BYTES + 3);
	close(fd);
	fd = open("/proc/self/stat", O_RDONLY);
	char text[4096];
	CHECK(read(fd, text, sizeof text) > 0);
	CHECK_EQ(atoi(text), getpid());
	close(fd);
	fd = open("/tmp", O_RDONLY | O_DIRECTORY);
	CHECK_ERRNO(read(fd, &byte, 1), EISDIR);
	close(fd);
	return arg;
}

int main(void)
{
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	CHECK_EQ(ftruncate(fd, BYTES), 0);
	join_thread(start_thread(uses, NULL));
	unlink(path);
	return 0;
}
