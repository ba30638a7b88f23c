/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Files that can't be asked without waiting: of two readers of one notification one gets it, and
 * the other waits on as any thread does, for signals and cancellation; whoever waits for a terminal
 * is told that its other side was closed.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/inotify.h>

enum { READERS = 3 };
static int watch, told, interrupted;

static void handler(int number)
{
	(void)number;
}

static void *reads(void *arg)
{
	char event[4096];

	CHECK(read(watch, event, sizeof event) > 0);
	__atomic_add_fetch(&told, 1, __ATOMIC_RELAXED);
	while (__atomic_load_n(&told, __ATOMIC_RELAXED) != READERS)
		sleep_ms(1);
	/* Whoever is left is called, then cancelled. */
	CHECK_EQ(read(watch, event, sizeof event), -1);
	CHECK_EQ(errno, EINTR);
	__atomic_add_fetch(&interrupted, 1, __ATOMIC_RELAXED);
	for (;;)
		read(watch, event, sizeof event);
	return arg;
}

static void *inotify(void *arg)
{
	char folder[] = "/tmp/heddle-watch-XXXXXX", name[64];
	struct sigaction action = { .sa_handler = handler };
	pthread_t readers[READERS];
	void *result;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK(mkdtemp(folder) != NULL);
	watch = inotify_init1(IN_CLOEXEC);
	CHECK(inotify_add_watch(watch, folder, IN_CREATE) >= 0);
	for (int i = 0; i < READERS; i++)
		readers[i] = start_thread(reads, NULL);
	for (int i = 1; i <= READERS; i++) {
		sleep_ms(20);
		snprintf(name, sizeof name, "%s/%d", folder, i);
		int fd = open(name, O_CREAT | O_WRONLY, 0600);
		CHECK(fd >= 0);
		close(fd);
		unlink(name);
		while (__atomic_load_n(&told, __ATOMIC_RELAXED) != i)
			sleep_ms(1);
	}
	for (int i = 1; i <= READERS; i++) {
		/* Until it has come to the wait. */
		do {
			sleep_ms(20);
			CHECK_EQ(pthread_kill(readers[i - 1], SIGUSR1), 0);
		} while (__atomic_load_n(&interrupted, __ATOMIC_RELAXED) != i);
	}
	sleep_ms(20);
	for (int i = 0; i < READERS; i++) {
		CHECK_EQ(pthread_cancel(readers[i]), 0);
		CHECK_EQ(pthread_join(readers[i], &result), 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	close(watch);
	rmdir(folder);
	return arg;
}

static void *reads_nothing(void *fd)
{
	char event[4096];

	read((int)(long)fd, event, sizeof event);
	CHECK(0);
	return NULL;
}

/* Whatever the reader has come to when it is cancelled. */
static void *cancelled(void *arg)
{
	int fd = inotify_init1(IN_CLOEXEC);
	void *result;

	for (int turn = 0; turn < 2000; turn++) {
		pthread_t reader = start_thread(reads_nothing, (void *)(long)fd);
		for (volatile int i = 0; i < turn * 16; i++)
			;
		CHECK_EQ(pthread_cancel(reader), 0);
		CHECK_EQ(pthread_join(reader, &result), 0);
		CHECK(result == PTHREAD_CANCELED);
	}
	close(fd);
	return arg;
}

/* NULL: it has waited. Who comes later finds the end. */
static void *waits(void *slave)
{
	char byte;
	ssize_t got = read((int)(long)slave, &byte, 1);

	if (got == 0)
		return slave;
	CHECK_EQ(got, -1);
	CHECK_EQ(errno, EIO);
	CHECK_EQ(read((int)(long)slave, &byte, 1), 0);
	return NULL;
}

static void *terminal(void *arg)
{
	void *was_late = arg;

	for (int ms = 30; ms < 10000; ms *= 2) {
		int master, slave;
		CHECK_EQ(openpty(&master, &slave, NULL, NULL, NULL), 0);
		pthread_t waiter = start_thread(waits, (void *)(long)slave);
		sleep_ms(ms);
		close(master);
		CHECK_EQ(pthread_join(waiter, &was_late), 0);
		close(slave);
		if (!was_late)
			return arg;
	}
	CHECK(!was_late);
	return arg;
}

int main(void)
{
	join_thread(start_thread(terminal, NULL));
	join_thread(start_thread(inotify, NULL));
	join_thread(start_thread(cancelled, NULL));
	return 0;
}
