// SPDX-License-Identifier: MIT OR Apache-2.0
// The library that cxx_host.c loads: a thread by pthread_create(), and one by libstdc++.
#include <pthread.h>
#include <thread>

static void *nothing(void *argument) { return argument; }

template <int which> static int both()
{
	pthread_t thread;

	std::thread([] {}).join();
	return pthread_create(&thread, nullptr, which ? nothing : [](void *it) { return it; }, nullptr)
		|| pthread_join(thread, nullptr);
}

extern "C" int run(bool is_first) { return is_first ? both<0>() : both<1>(); }
