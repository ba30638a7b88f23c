/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Who names a thread that was joined is told that there is none, as long as its memory is nobody
 * else's: so does glibc up to 2.41. Nothing is given back twice.
 */
#define _GNU_SOURCE
#include "check.h"
#include <gnu/libc-version.h>

static void *ends(void *arg)
{
	if (arg)
		add_value(arg, 1);
	return arg;
}

static void is_gone(pthread_t thread)
{
	void *result = NULL;

	CHECK_EQ(pthread_join(thread, &result), ESRCH);
	CHECK_EQ(pthread_detach(thread), ESRCH);
	CHECK(result == NULL);
}

int main(void)
{
	int ended = 0;

	if (atoi(strchr(gnu_get_libc_version(), '.') + 1) > 41)
		SKIP("a newer glibc does not look");
	for (int i = 0; i < 100; i++) {
		pthread_t thread = start_thread(ends, NULL);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		is_gone(thread);
		thread = start_thread(ends, &ended);
		CHECK_EQ(pthread_detach(thread), 0);
		await_value(&ended, i + 1);
	}
	/* Two at a time: neither has the other's memory. */
	for (int i = 0; i < 100; i++) {
		pthread_t first = start_thread(ends, NULL), second = start_thread(ends, NULL);
		CHECK_EQ(pthread_join(first, NULL), 0);
		is_gone(first);
		CHECK_EQ(pthread_join(second, NULL), 0);
		is_gone(second);
		is_gone(first);
	}
	return 0;
}
