/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Files are created, written, read back at offsets, synchronised and closed.
 */
#define _GNU_SOURCE
#include "check.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

static void *works(void *arg)
{
	char path[] = "/tmp/heddle-test-XXXXXX", buffer[16];
	int made = mkstemp(path);
	struct stat status;
	CHECK(made >= 0);
	CHECK_EQ(close(made), 0);
	CHECK_EQ(unlink(path), 0);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
	CHECK(fd >= 0);
	CHECK_EQ(fstat(fd, &status), 0);
	CHECK_EQ(status.st_mode & 0777 & ~0640, 0);
	CHECK_EQ(write(fd, "hello world", 11), 11);
	CHECK_EQ(pwrite(fd, "W", 1, 6), 1);
	CHECK_EQ(pread(fd, buffer, 5, 6), 5);
	CHECK_EQ(memcmp(buffer, "World", 5), 0);
	struct iovec parts[2] = { { buffer, 2 }, { buffer + 8, 3 } };
	CHECK_EQ(preadv(fd, parts, 2, 0), 5);
	CHECK_EQ(memcmp(buffer, "he", 2), 0);
	CHECK_EQ(memcmp(buffer + 8, "llo", 3), 0);
	CHECK_EQ(pwritev(fd, parts, 2, 11), 5);
	CHECK_EQ(fsync(fd), 0);
	CHECK_EQ(fdatasync(fd), 0);
	/* The position is where write() left it; pread and pwrite did not move it. */
	CHECK_EQ(lseek(fd, 0, SEEK_CUR), 11);
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	CHECK_EQ(read(fd, buffer, 16), 16);
	CHECK_EQ(memcmp(buffer, "hello Worldhello", 16), 0);
	CHECK_EQ(read(fd, buffer, 16), 0);
	int ends[2];
	off_t offset = 6;
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(sendfile(ends[1], fd, &offset, 5), 5);
	CHECK_EQ(offset, 11);
	CHECK_EQ(read(ends[0], buffer, 16), 5);
	CHECK_EQ(memcmp(buffer, "World", 5), 0);
	CHECK_EQ(close(fd), 0);
	fd = creat(path, 0600);
	CHECK(fd >= 0);
	CHECK_EQ(lseek(fd, 0, SEEK_END), 0);
	CHECK_EQ(close(fd), 0);
	fd = openat(AT_FDCWD, path, O_WRONLY | O_APPEND);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "end", 3), 3);
	CHECK_EQ(close(fd), 0);
	CHECK_ERRNO(open(path, O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
	CHECK_EQ(unlink(path), 0);
	return arg;
}

int main(void)
{
	join_thread(start_thread(works, NULL));
	works(NULL);
	return 0;
}
