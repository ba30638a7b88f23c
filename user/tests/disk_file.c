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

static ssize_t read_all(int fd, char *in, int way)
{
	struct iovec parts[2] = { { in, 5000 }, { in + 5000, BYTES - 5000 } };

	switch (way) {
	case 0:
		return read(fd, in, BYTES);
	case 1:
		return pread(fd, in, BYTES, 0);
	case 2:
		return readv(fd, parts, 2);
	default:
		return preadv(fd, parts, 2, 0);
	}
}

/* A read gives all that it is asked for, also of a file of which memory has its begin alone. */
static void partly_in_memory(int way, int flags)
{
	static char in[BYTES], out[BYTES];
	int fd = open(path, O_RDWR | flags);

	CHECK(fd >= 0);
	fill(out, way);
	for (int at = 0; at < BYTES; at += 4096)
		CHECK_EQ(pwrite(fd, out + at, 4096, at), 4096);
	CHECK_EQ(fdatasync(fd), 0);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM), 0);
	CHECK_EQ(pread(fd, in, 1, 0), 1);
	CHECK_EQ(read_all(fd, in, way), BYTES);
	CHECK_EQ(memcmp(in, out, BYTES), 0);
	if (way % 2 == 0)
		CHECK_EQ(read(fd, in, 1), 0);
	close(fd);
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
	for (int way = 0; way < 4; way++) {
		partly_in_memory(way, 0);
		partly_in_memory(way, O_NONBLOCK);
	}
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
