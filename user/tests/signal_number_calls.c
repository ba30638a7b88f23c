/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A handler runs, and ends the call or has it go on, while a thread waits in a system call that it
 * makes by number, in eventfd_read, and in a receive of a socket with a timeout: that one fails
 * whatever the handler asks for, see signal(7). sleep tells whole seconds. A cancellation ends none
 * of the calls by number.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int seen, inside, pipe_ends[2], sockets[2], counter;
static pid_t child;

static void on_signal(int number)
{
	(void)number;
	__atomic_add_fetch(&seen, 1, __ATOMIC_SEQ_CST);
}

static long call_read(void)
{
	char byte;
	return syscall(SYS_read, pipe_ends[0], &byte, 1);
}

static long call_wait(void)
{
	return syscall(SYS_wait4, child, NULL, 0, NULL) < 0 ? -1 : 1;
}

static long call_poll(void)
{
	struct pollfd place = { .fd = pipe_ends[0], .events = POLLIN };
	return syscall(SYS_poll, &place, 1, 1000000);
}

static long call_eventfd(void)
{
	eventfd_t value;
	long result = eventfd_read(counter, &value);
	return result < 0 ? result : 1;
}

static long call_recv(void)
{
	char byte;
	return recv(sockets[0], &byte, 1, 0);
}

static long call_sleep(void)
{
	unsigned left = sleep(1000);
	/* Rounded, and all of it where the signal came as it began. */
	CHECK(left <= 1000);
	errno = EINTR;
	return left ? -1 : 0;
}

static const struct kind {
	const char *name;
	long (*call)(void);
	int restarts;
} kinds[] = {
	{ "read", call_read, 1 },	 { "wait4", call_wait, 1 }, { "poll", call_poll, 0 },
	{ "eventfd", call_eventfd, 1 }, { "recv", call_recv, 0 },  { "sleep", call_sleep, 0 },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void release(const struct kind *kind)
{
	if (kind->call == call_read)
		CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
	else if (kind->call == call_wait)
		CHECK_EQ(kill(child, SIGKILL), 0);
	else
		CHECK_EQ(eventfd_write(counter, 1), 0);
}

static void *waits(void *place)
{
	const struct kind *kind = place;
	__atomic_store_n(&inside, 1, __ATOMIC_SEQ_CST);
	errno = 0;
	long result = kind->call();
	int error = errno;
	__atomic_store_n(&inside, 2, __ATOMIC_SEQ_CST);
	if (result >= 0)
		return (void *)result;
	CHECK_EQ(error, EINTR);
	return (void *)-1L;
}

static void try_kind(const struct kind *kind, int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
	int goes_on = flags && kind->restarts;
	pthread_t thread;
	void *result;

	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	if (kind->call == call_wait) {
		child = fork();
		CHECK(child >= 0);
		if (child == 0)
			for (;;)
				pause();
	}
	seen = inside = 0;
	CHECK_EQ(pthread_create(&thread, NULL, waits, (void *)kind), 0);
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) == 0)
		sleep_ms(1);
	if (goes_on) {
		sleep_ms(10);
		kill_until(thread, SIGUSR1, &seen, 2);
		CHECK_EQ(__atomic_load_n(&inside, __ATOMIC_SEQ_CST), 1);
		release(kind);
	} else {
		kill_until(thread, SIGUSR1, &inside, 2);
	}
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK_EQ((long)result, goes_on ? 1 : -1);
	CHECK(seen > 0);
	if (kind->call == call_wait && !goes_on) {
		CHECK_EQ(kill(child, SIGKILL), 0);
		CHECK_EQ(waitpid(child, NULL, 0), child);
	}
}

/* No point of cancellation: it gets what comes, and is cancelled at the next one. */
static void *reads(void *place)
{
	__atomic_store_n(&inside, 1, __ATOMIC_SEQ_CST);
	*(long *)place = call_read();
	pthread_testcancel();
	return NULL;
}

static void try_cancel(void)
{
	long got = -2;
	pthread_t thread;
	void *result;

	inside = 0;
	CHECK_EQ(pthread_create(&thread, NULL, reads, &got), 0);
	while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) == 0)
		sleep_ms(1);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(30);
	CHECK_EQ(write(pipe_ends[1], "x", 1), 1);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(got, 1);
}

int main(void)
{
	struct timeval limit = { 1000, 0 };

	CHECK_EQ(pipe(pipe_ends), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	CHECK_EQ(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
	counter = eventfd(0, 0);
	CHECK(counter >= 0);
	for (int i = 0; i < KINDS; i++) {
		try_kind(&kinds[i], 0);
		try_kind(&kinds[i], SA_RESTART);
	}
	try_cancel();
	return 0;
}
