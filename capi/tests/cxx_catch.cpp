/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A catch-all that rethrows sees pthread_exit pass; exceptions of the program are caught as
 * ever, in every thread.
 */
#include "check.h"

#include <stdexcept>
#include <string>

static int passed;

static void *exits(void *arg)
{
	try {
		pthread_exit(arg);
	} catch (...) {
		passed = 1;
		throw;
	}
	return nullptr;
}

static void *throws(void *arg)
{
	for (int i = 0; i < 100; i++) {
		try {
			sched_yield();
			throw std::runtime_error(std::to_string(i));
		} catch (const std::exception &error) {
			/* Another thread runs while this one handles its exception. */
			sched_yield();
			CHECK(error.what() == std::to_string(i));
		}
	}
	return arg;
}

int main()
{
	CHECK_EQ(reinterpret_cast<intptr_t>(
			 join_thread(start_thread(exits, reinterpret_cast<void *>(5)))),
		 5);
	CHECK_EQ(passed, 1);
	pthread_t threads[8];
	for (pthread_t &thread : threads)
		thread = start_thread(throws, nullptr);
	for (pthread_t thread : threads)
		join_thread(thread);
	return 0;
}
