/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The runtime can be configured before its first thread, and not after.
 */
#define _GNU_SOURCE
#include "check.h"

#ifdef HEDDLE_PTHREAD_H
static void *nothing(void *arg)
{
	return arg;
}
#endif

int main(void)
{
#ifndef HEDDLE_PTHREAD_H
	SKIP("heddle_configure is heddle's");
#else
	struct heddle_config config = { .size_bytes = sizeof config, .workers = 1 };
	config.backend = 99;
	CHECK_EQ(heddle_configure(&config), EINVAL);
	config.backend = HEDDLE_BACKEND_DEFAULT;
	config.io = -1;
	CHECK_EQ(heddle_configure(&config), EINVAL);
	config.io = HEDDLE_IO_DEFAULT;
	config.size_bytes = 4;
	CHECK_EQ(heddle_configure(&config), EINVAL);
	config.size_bytes = sizeof config;
	CHECK_EQ(heddle_configure(&config), 0);
	join_thread(start_thread(nothing, NULL));
	CHECK_EQ(heddle_configure(&config), EBUSY);
	return 0;
#endif
}
