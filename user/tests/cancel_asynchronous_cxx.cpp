/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Asynchronous cancellation in the middle of what a C++ thread computes: the unwind starts at any
 * instruction and runs destructors of the frames above it, of thread_local objects too.
 */
#include "check.h"

static int ready, frames, locals;

struct Frame {
	~Frame() { add_value(&frames, 1); }
};

struct Local {
	int touched = 0;
	~Local() { add_value(&locals, touched); }
};

static thread_local Local local;
static volatile unsigned long turns;

__attribute__((noinline)) static void spin()
{
	for (;;)
		turns = turns * 3 + 1;
}

/* Nobody may know that it throws nothing. */
static void (*volatile spinner)() = spin;

__attribute__((noinline)) static void deep(int depth)
{
	Frame frame;
	if (depth == 0)
		spinner();
	deep(depth - 1);
	turns++;
}

static void *computes(void *arg)
{
	local.touched = 1;
	int old;
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	Frame frame;
	add_value(&ready, 1);
	try {
		deep(3);
	} catch (...) {
		add_value(&frames, 10);
		throw;
	}
	return arg;
}

int main()
{
	enum { THREADS = 4 };
	pthread_t threads[THREADS];
	for (pthread_t &thread : threads)
		thread = start_thread(computes, nullptr);
	await_value(&ready, THREADS);
	for (pthread_t thread : threads)
		CHECK_EQ(pthread_cancel(thread), 0);
	for (pthread_t thread : threads)
		CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(frames, 15 * THREADS);
	CHECK_EQ(locals, THREADS);
	return 0;
}
