/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Opening a named pipe waits for the other end, and not longer.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

static char folder[] = "/tmp/heddle-fifo-XXXXXX";
static char path[64];
static int opened;

static void *reads(void *arg)
{
	int fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	set_value(&opened, 1);
	CHECK_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
	char text[8] = "";
	CHECK_EQ(read(fd, text, sizeof text), 5);
	CHECK_EQ(strcmp(text, "hello"), 0);
	CHECK_EQ(read(fd, text, sizeof text), 0);
	close(fd);
	return arg;
}

static void *writes(void *arg)
{
	int fd = open(path, O_WRONLY);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "hello", 5), 5);
	close(fd);
	return arg;
}

int main(void)
{
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/fifo", folder);
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_ERRNO(open(path, O_WRONLY | O_NONBLOCK), ENXIO);
	pthread_t reader = start_thread(reads, NULL);
	sleep_ms(50);
	CHECK_EQ(__atomic_load_n(&opened, __ATOMIC_SEQ_CST), 0);
	pthread_t writer = start_thread(writes, NULL);
	join_thread(reader);
	join_thread(writer);
	unlink(path);
	rmdir(folder);
	return 0;
}
