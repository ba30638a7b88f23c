// SPDX-License-Identifier: MIT OR Apache-2.0
// Two kinds of std::thread, which one function of libstdc++ starts.
#include <thread>

int main()
{
	for (int i = 0; i < 3; i++) {
		std::thread([] {}).join();
		std::thread([i] { volatile char room[9000]; room[0] = (char)i; }).join();
	}
	return 0;
}
