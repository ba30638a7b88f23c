/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Exceptions belong to their thread: threads that wait in the middle of handling one, or while
 * one passes, do not get each other's, whatever order they go on in.
 */
#include "check.h"

#include <exception>
#include <stdexcept>
#include <string>

enum { THREADS = 12, ROUNDS = 60 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void wait_somehow(int way)
{
	if (way % 3 == 0) {
		sched_yield();
	} else if (way % 3 == 1) {
		sleep_ms(way % 2);
	} else {
		pthread_mutex_lock(&mutex);
		sched_yield();
		pthread_mutex_unlock(&mutex);
	}
}

/* Waits while an exception passes, and checks that it is the only one in flight. */
struct waits_in_destructor {
	int way;
	~waits_in_destructor()
	{
		CHECK_EQ(std::uncaught_exceptions(), 1);
		wait_somehow(way);
		CHECK_EQ(std::uncaught_exceptions(), 1);
	}
};

static void throw_one(const std::string &text, int way)
{
	waits_in_destructor object = { way };
	throw std::runtime_error(text);
}

static void *throws(void *arg)
{
	int mine = static_cast<int>(reinterpret_cast<intptr_t>(arg));
	for (int i = 0; i < ROUNDS; i++) {
		std::string text = std::to_string(mine * 1000 + i);
		CHECK_EQ(std::uncaught_exceptions(), 0);
		try {
			throw_one(text, mine + i);
			CHECK(false);
		} catch (const std::exception &error) {
			wait_somehow(mine * 7 + i);
			CHECK(error.what() == text);
			try {
				throw_one("inner " + text, i);
			} catch (const std::exception &inner) {
				wait_somehow(i);
				CHECK(inner.what() == "inner " + text);
			}
			wait_somehow(mine + 1);
			CHECK(error.what() == text);
			/* The one that is handled now is ours. */
			try {
				throw;
			} catch (const std::exception &again) {
				CHECK(again.what() == text);
			}
		}
	}
	return arg;
}

int main()
{
	pthread_t threads[THREADS];
	for (intptr_t i = 0; i < THREADS; i++)
		threads[i] = start_thread(throws, reinterpret_cast<void *>(i));
	for (pthread_t thread : threads)
		join_thread(thread);
	return 0;
}
