/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Cancellation runs the destructors of the C++ objects on its way.
 */
#include "check.h"

#include <memory>
#include <string>

static std::string order;

struct noted {
	const char *name;
	explicit noted(const char *text) : name(text) {}
	~noted() { order += name; }
};

static void *blocks(void *arg)
{
	noted first("a");
	std::unique_ptr<noted> second(new noted("b"));
	sleep(100);
	return arg;
}

static void *blocks_in_read(void *arg)
{
	noted first("c");
	char byte;
	if (read(*static_cast<int *>(arg), &byte, 1) < 0)
		CHECK(false);
	return arg;
}

int main()
{
	int ends[2];
	CHECK_EQ(pipe(ends), 0);
	pthread_t thread = start_thread(blocks, nullptr);
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK(order == "ba");
	thread = start_thread(blocks_in_read, ends);
	sleep_ms(5);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK(order == "bac");
	return 0;
}
