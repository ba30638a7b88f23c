/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What is said of a thread that has ended and was not joined: glibc finds it by the number that the
 * kernel has taken back. And the C library's own signals are sent to no thread.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static void *ends(void *arg)
{
	return arg;
}

static void *waits(void *arg)
{
	await_value(arg, 1);
	return arg;
}

static void await_end(pthread_t thread)
{
	struct sched_param param;
	int policy, found;

	for (int i = 0; i < 10000; i++) {
		found = pthread_getschedparam(thread, &policy, &param);
		if (found)
			break;
		usleep(1000);
	}
	CHECK_EQ(found, ESRCH);
}

int main(void)
{
	static const union sigval value = { .sival_int = 1 };
	struct sched_param param = { 0 };
	clockid_t clock;
	char name[16];
	int go = 0;

	pthread_t thread = start_thread(ends, &go);
	await_end(thread);
	CHECK_EQ(pthread_setschedparam(thread, SCHED_OTHER, &param), ESRCH);
	CHECK_EQ(pthread_setschedprio(thread, 0), ESRCH);
	CHECK_EQ(pthread_getcpuclockid(thread, &clock), ESRCH);
	CHECK_EQ(pthread_sigqueue(thread, SIGUSR1, value), ESRCH);
	CHECK_EQ(pthread_setname_np(thread, "none"), ENOENT);
	CHECK_EQ(pthread_getname_np(thread, name, sizeof(name)), ENOENT);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	void *result;
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == &go);

	thread = start_thread(waits, &go);
	CHECK_EQ(pthread_getcpuclockid(thread, &clock), 0);
	CHECK_EQ(pthread_sigqueue(thread, 0, value), 0);
	for (int signal = 32; signal < SIGRTMIN; signal++) {
		CHECK_EQ(pthread_kill(thread, signal), EINVAL);
		CHECK_EQ(pthread_sigqueue(thread, signal, value), EINVAL);
	}
	CHECK_EQ(pthread_kill(thread, 65), EINVAL);
	CHECK_EQ(pthread_sigqueue(thread, 65, value), EINVAL);
	CHECK_EQ(pthread_kill(thread, -1), EINVAL);
	add_value(&go, 1);
	join_thread(thread);
	return 0;
}
