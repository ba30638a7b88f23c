/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A read of a disk's file gives all that it is asked for, also where memory has a part of it alone.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/uio.h>

#define BYTES 65536

static char path[] = "/var/tmp/heddle-file-XXXXXX";

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

/* Memory has the begin of the file. */
static void partly_in_memory(int way, int flags)
{
	static char in[BYTES], out[BYTES];
	int fd = open(path, O_RDWR | flags);

	CHECK(fd >= 0);
	for (int i = 0; i < BYTES; i++)
		out[i] = (char)(i * 7 + way);
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

static void *works(void *arg)
{
	for (int way = 0; way < 4; way++) {
		partly_in_memory(way, 0);
		partly_in_memory(way, O_NONBLOCK);
	}
	return arg;
}

int main(void)
{
	int made = mkstemp(path);
	CHECK(made >= 0);
	CHECK_EQ(close(made), 0);
	join_thread(start_thread(works, NULL));
	works(NULL);
	CHECK_EQ(unlink(path), 0);
	return 0;
}
