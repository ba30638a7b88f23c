/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that make others and rename themselves without a pause, and are preempted at it, while
 * others block where nobody sees it: more workers are needed, whose names go where the threads' do.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/syscall.h>
#include <time.h>

#define NAMERS 6
#define BLOCKERS 12
#define ROUNDS 12
#define NAMES 64
#define BUSY_MS 600

static long milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void *nothing(void *arg) { return arg; }

static void *rename_self(void *arg)
{
	const long end = milliseconds() + BUSY_MS;
	char name[16];

	for (unsigned i = 0; milliseconds() < end; i++) {
		snprintf(name, sizeof(name), "name-%u", i % NAMES);
		CHECK(pthread_setname_np(pthread_self(), name) == 0);
		join_thread(start_thread(nothing, NULL));
	}
	return arg;
}

/* A sleep that no library can see. */
static void sleep_unseen(long milliseconds)
{
	struct timespec time = {0, milliseconds * 1000000};
#if defined(__x86_64__)
	long result = SYS_nanosleep;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(&time), "S"(NULL)
			 : "rcx", "r11", "memory");
#else
	nanosleep(&time, NULL);
#endif
}

static void *block(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		sleep_unseen(30);
	return arg;
}

int main(void)
{
	pthread_t threads[NAMERS + BLOCKERS];

	for (int i = 0; i < NAMERS; i++)
		threads[i] = start_thread(rename_self, NULL);
	for (int i = NAMERS; i < NAMERS + BLOCKERS; i++)
		threads[i] = start_thread(block, NULL);
	for (int i = 0; i < NAMERS + BLOCKERS; i++)
		join_thread(threads[i]);
	return 0;
}
