/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An id of a thread that was joined names nobody: ESRCH from every call that takes an id.
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>

static void *nothing(void *arg)
{
	return arg;
}

int main(void)
{
	if (!ON_HEDDLE)
		SKIP("undefined in POSIX; the C library may crash");
	pthread_t old = start_thread(nothing, NULL);
	join_thread(old);
	char name[16];
	int policy;
	struct sched_param param;
	CHECK_EQ(pthread_join(old, NULL), ESRCH);
	CHECK_EQ(pthread_tryjoin_np(old, NULL), ESRCH);
	CHECK_EQ(pthread_detach(old), ESRCH);
	CHECK_EQ(pthread_cancel(old), ESRCH);
	CHECK_EQ(pthread_kill(old, 0), ESRCH);
	CHECK_EQ(pthread_getname_np(old, name, sizeof name), ESRCH);
	CHECK_EQ(pthread_setname_np(old, "x"), ESRCH);
	CHECK_EQ(pthread_getschedparam(old, &policy, &param), ESRCH);
	CHECK_EQ(pthread_join(0, NULL), ESRCH);
	/* Its slot is used again; the old id still names nobody. */
	for (int i = 0; i < 100; i++) {
		pthread_t thread = start_thread(nothing, NULL);
		CHECK(!pthread_equal(old, thread));
		CHECK_EQ(pthread_join(old, NULL), ESRCH);
		join_thread(thread);
	}
	return 0;
}
