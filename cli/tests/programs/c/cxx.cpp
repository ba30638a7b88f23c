/* std::thread, std::async, exceptions through threads, thread_local objects with destructors. */
#include <atomic>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> destroyed{ 0 };

struct Local {
	std::string text = "a text long enough to be on the heap, not in the object";
	~Local()
	{
		/* Threads may be started from here, too. */
		if (destroyed++ == 0)
			std::thread([] { Local inner; }).join();
	}
};

static thread_local Local local;

static int deep(int depth)
{
	if (depth == 0)
		throw std::runtime_error("thrown deep down");
	return deep(depth - 1) + 1;
}

int main()
{
	std::vector<std::thread> all;
	std::atomic<int> caught{ 0 };

	for (int at = 0; at < 8; at++) {
		all.emplace_back([&caught] {
			local.text += "!";
			try {
				deep(100);
			} catch (const std::runtime_error &) {
				caught++;
			}
		});
	}
	for (auto &thread : all)
		thread.join();
	auto failing = std::async(std::launch::async, [] { return deep(5); });
	try {
		failing.get();
	} catch (const std::runtime_error &error) {
		std::printf("from a future: %s\n", error.what());
	}
	std::printf("caught %d destroyed %d\n", caught.load(), destroyed.load());
	return 0;
}
