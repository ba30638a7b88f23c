/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whoever waits for a lock of a file gets it when it is free; meanwhile other threads run.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

static char path[] = "/tmp/heddle-lock-XXXXXX";
static int has_lock, ticks, done;

static void *ticks_on(void *arg)
{
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
		add_value(&ticks, 1);
		sleep_ms(1);
	}
	return arg;
}

static void *by_flock(void *arg)
{
	int fd = open(path, O_RDWR);
	CHECK_EQ(flock(fd, LOCK_EX), 0);
	set_value(&has_lock, 1);
	CHECK_EQ(flock(fd, LOCK_UN), 0);
	close(fd);
	return arg;
}

static void *by_open_file(void *arg)
{
	int fd = open(path, O_RDWR);
	struct flock part = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	CHECK_EQ(fcntl(fd, F_OFD_SETLKW, &part), 0);
	set_value(&has_lock, 1);
	close(fd);
	return arg;
}

static void *by_fcntl(void *arg)
{
	int fd = open(path, O_RDWR);
	struct flock part = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	CHECK_EQ(fcntl(fd, F_SETLKW, &part), 0);
	CHECK_EQ(lockf(fd, F_ULOCK, 1), 0);
	CHECK_EQ(lockf(fd, F_LOCK, 1), 0);
	set_value(&has_lock, 1);
	close(fd);
	return arg;
}

/* The lock is held by the main thread until the waiter has waited a while. */
static void test(void *(*waiter)(void *), int operation)
{
	int fd = open(path, O_RDWR);
	struct flock part = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	CHECK_EQ(operation ? flock(fd, operation) : fcntl(fd, F_OFD_SETLK, &part), 0);
	set_value(&has_lock, 0);
	pthread_t thread = start_thread(waiter, NULL);
	int before = __atomic_load_n(&ticks, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&ticks, __ATOMIC_SEQ_CST) < before + 5)
		sleep_ms(1);
	CHECK_EQ(__atomic_load_n(&has_lock, __ATOMIC_SEQ_CST), 0);
	close(fd);
	join_thread(thread);
	CHECK_EQ(has_lock, 1);
}

int main(void)
{
	int fd = mkstemp(path);
	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "x", 1), 1);
	pthread_t ticker = start_thread(ticks_on, NULL);
	test(by_flock, LOCK_EX);
	test(by_open_file, 0);

	/* Locks of fcntl are the process's: another process has to hold it. */
	int go[2];
	CHECK_EQ(pipe(go), 0);
	int held[2];
	CHECK_EQ(pipe(held), 0);
	pid_t child = fork();
	if (child == 0) {
		struct flock part = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
		char byte = 1;
		_exit(fcntl(fd, F_SETLK, &part) != 0 || write(held[1], &byte, 1) != 1 ||
		      read(go[0], &byte, 1) != 1);
	}
	char byte = 0;
	CHECK_EQ(read(held[0], &byte, 1), 1);
	set_value(&has_lock, 0);
	pthread_t thread = start_thread(by_fcntl, NULL);
	int before = __atomic_load_n(&ticks, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&ticks, __ATOMIC_SEQ_CST) < before + 5)
		sleep_ms(1);
	CHECK_EQ(__atomic_load_n(&has_lock, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(write(go[1], &byte, 1), 1);
	join_thread(thread);
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	set_value(&done, 1);
	join_thread(ticker);
	unlink(path);
	return 0;
}
