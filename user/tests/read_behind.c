/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread that reads from a terminal while another thread is in the middle of a read from it, of
 * which some bytes have come, fails with EINTR after a handler and ends when it is cancelled; the
 * other one gets all of its bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "check.h"

enum { WANTED = 5 };

static int terminal, done;

static void on_signal(int number)
{
	(void)number;
}

static void *reads_all(void *arg)
{
	char bytes[WANTED];

	CHECK_EQ(read(terminal, bytes, WANTED), WANTED);
	CHECK_EQ(memcmp(bytes, "12345", WANTED), 0);
	return arg;
}

static void *is_interrupted(void *arg)
{
	char byte;

	CHECK_ERRNO(read(terminal, &byte, 1), EINTR);
	set_value(&done, 1);
	return arg;
}

static void *is_cancelled(void *arg)
{
	char byte;

	CHECK_EQ(read(terminal, &byte, 1), -2);
	return arg;
}

static void await_bytes(int count)
{
	int there;

	do {
		sleep_ms(1);
		CHECK_EQ(ioctl(terminal, FIONREAD, &there), 0);
	} while (there != count);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct termios mode;
	void *ended;
	int master = posix_openpt(O_RDWR | O_NOCTTY);

	if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
		SKIP("no pseudo-terminals");
	terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
	CHECK(terminal >= 0);
	CHECK_EQ(tcgetattr(terminal, &mode), 0);
	cfmakeraw(&mode);
	mode.c_cc[VMIN] = WANTED;
	/* After the first byte the others have 25 seconds each. */
	mode.c_cc[VTIME] = 250;
	CHECK_EQ(tcsetattr(terminal, TCSANOW, &mode), 0);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);

	CHECK_EQ(write(master, "1", 1), 1);
	await_bytes(1);
	pthread_t first = start_thread(reads_all, NULL);
	/* It has the byte. */
	await_bytes(0);
	pthread_t second = start_thread(is_interrupted, NULL);
	while (!__atomic_load_n(&done, __ATOMIC_SEQ_CST)) {
		sleep_ms(5);
		pthread_kill(second, SIGUSR1);
	}
	join_thread(second);
	pthread_t third = start_thread(is_cancelled, NULL);
	sleep_ms(20);
	CHECK_EQ(pthread_cancel(third), 0);
	CHECK_EQ(pthread_join(third, &ended), 0);
	CHECK(ended == PTHREAD_CANCELED);
	CHECK_EQ(write(master, "2345", 4), 4);
	join_thread(first);
	return 0;
}
