/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Many threads wait for the other end of a named pipe at the same time, and who comes next does not
 * wait for them. On a busy machine that may take long once, but not each time.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/stat.h>

enum { READERS = 200, ROUNDS = 5, QUICK_MS = 300 };

static char folder[] = "/tmp/heddle-fifo-XXXXXX";
static char path[64];
static int begun, opened;

static void *reads(void *arg)
{
	add_value(&begun, 1);
	int fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	add_value(&opened, 1);
	close(fd);
	return arg;
}

/* How long it takes until all are there. */
static long round_ms(void)
{
	pthread_t threads[READERS];
	long start = now_ms(), end;
	set_value(&begun, 0);
	set_value(&opened, 0);
	for (int i = 0; i < READERS; i++)
		threads[i] = start_thread(reads, NULL);
	while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) < READERS)
		sleep_ms(1);
	end = now_ms();
	CHECK_EQ(__atomic_load_n(&opened, __ATOMIC_SEQ_CST), 0);
	int writer = open(path, O_WRONLY);
	CHECK(writer >= 0);
	for (int i = 0; i < READERS; i++)
		join_thread(threads[i]);
	CHECK_EQ(opened, READERS);
	close(writer);
	return end - start;
}

int main(void)
{
	int quick = 0;
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/fifo", folder);
	CHECK_EQ(mkfifo(path, 0600), 0);
	for (int i = 0; i < ROUNDS && !quick; i++)
		quick = round_ms() < QUICK_MS;
	unlink(path);
	rmdir(folder);
	CHECK(quick);
	return 0;
}
