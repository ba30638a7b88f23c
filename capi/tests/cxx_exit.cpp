/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * pthread_exit runs the destructors of the C++ objects on its way, innermost first, between the
 * cleanup handlers.
 */
#include "check.h"

#include <string>

static std::string order;

struct noted {
	const char *name;
	explicit noted(const char *text) : name(text) {}
	~noted() { order += name; }
};

static void handler(void *arg)
{
	order += static_cast<const char *>(arg);
}

static void inner()
{
	noted object("d");
	pthread_exit(reinterpret_cast<void *>(6));
}

static void *outer(void *arg)
{
	noted first("a");
	pthread_cleanup_push(handler, const_cast<char *>("b"));
	noted second("c");
	inner();
	pthread_cleanup_pop(0);
	return arg;
}

int main()
{
	CHECK_EQ(reinterpret_cast<intptr_t>(join_thread(start_thread(outer, nullptr))), 6);
	CHECK(order == "dcba");
	return 0;
}
