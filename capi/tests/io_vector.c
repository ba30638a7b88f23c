/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * readv and writev move scattered bytes, and zero parts are no error.
 */
#define _GNU_SOURCE
#include "check.h"

#include <sys/uio.h>

static int ends[2];

static void *writes(void *arg)
{
	struct iovec parts[3] = { { "he", 2 }, { "", 0 }, { "ddle", 4 } };
	sleep_ms(2);
	CHECK_EQ(writev(ends[1], parts, 3), 6);
	return arg;
}

int main(void)
{
	char a[4], b[8] = "";
	struct iovec parts[2] = { { a, 4 }, { b, 8 } };
	CHECK_EQ(pipe(ends), 0);
	pthread_t thread = start_thread(writes, NULL);
	CHECK_EQ(readv(ends[0], parts, 2), 6);
	CHECK_EQ(memcmp(a, "hedd", 4), 0);
	CHECK_EQ(memcmp(b, "le", 2), 0);
	join_thread(thread);
	CHECK_EQ(writev(ends[1], parts, 0), 0);
	return 0;
}
