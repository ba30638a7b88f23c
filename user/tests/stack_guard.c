/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The guard of a stack: as large as was asked, in whole pages, and nothing in it can be read.
 */
#define _GNU_SOURCE
#include "check.h"

enum { PAGE = 4096 };
static int pipe_of[2];

static int is_readable(const char *at)
{
	char byte;
	ssize_t written = write(pipe_of[1], at, 1);
	if (written == 1)
		CHECK_EQ(read(pipe_of[0], &byte, 1), 1);
	else
		CHECK_EQ(errno, EFAULT);
	return written == 1;
}

static void *looks(void *asked)
{
	size_t want = ((size_t)asked + PAGE - 1) / PAGE * PAGE, guard, bytes;
	pthread_attr_t it;
	void *low;
	CHECK_EQ(pthread_getattr_np(pthread_self(), &it), 0);
	CHECK_EQ(pthread_attr_getguardsize(&it, &guard), 0);
	CHECK_EQ(pthread_attr_getstack(&it, &low, &bytes), 0);
	CHECK_EQ(pthread_attr_destroy(&it), 0);
	CHECK_EQ(guard, want);
	CHECK(is_readable(low));
	for (size_t below = PAGE; below <= guard; below += PAGE)
		CHECK(!is_readable((char *)low - below));
	return NULL;
}

int main(void)
{
	static const size_t SIZES[] = { 0, 1, PAGE - 1, PAGE, PAGE + 1, 5000, 65536, 1 << 20 };
	CHECK_EQ(pipe(pipe_of), 0);
	for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
		for (int has_size = 0; has_size < 2; has_size++) {
			size_t guard;
			pthread_attr_t it;
			pthread_t thread;
			CHECK_EQ(pthread_attr_init(&it), 0);
			if (has_size)
				CHECK_EQ(pthread_attr_setstacksize(&it, 2 << 20), 0);
			CHECK_EQ(pthread_attr_setguardsize(&it, SIZES[i]), 0);
			CHECK_EQ(pthread_attr_getguardsize(&it, &guard), 0);
			CHECK_EQ(guard, SIZES[i]);
			CHECK_EQ(pthread_create(&thread, &it, looks, (void *)SIZES[i]), 0);
			join_thread(thread);
			CHECK_EQ(pthread_attr_destroy(&it), 0);
		}
	return 0;
}
