/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * C++ classes with members named read, write, open and close, and the standard library's own,
 * keep compiling.
 */
#include "check.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace storage
{
class file
{
	std::string content_;

public:
	bool open(const std::string &name) { return !name.empty(); }
	std::size_t write(const std::string &text)
	{
		content_ += text;
		return text.size();
	}
	std::string read() const { return content_; }
	void close() { content_.clear(); }
	int poll = 1, select = 2;
};
int connect(int a, int b)
{
	return a + b;
}
} // namespace storage

static std::mutex standard_mutex;
static pthread_mutex_t posix_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *arg)
{
	pthread_mutex_lock(&posix_mutex);
	*static_cast<int *>(arg) += 1;
	pthread_mutex_unlock(&posix_mutex);
	return nullptr;
}

int main()
{
	storage::file file;
	CHECK(file.open("x"));
	CHECK_EQ(file.write("abc"), 3);
	CHECK(file.read() == "abc");
	file.close();
	CHECK_EQ(file.poll + file.select, 3);
	CHECK_EQ(storage::connect(1, 2), 3);

	char buffer[4] = "";
	std::istringstream in("xyz");
	in.read(buffer, 3);
	CHECK(std::string(buffer) == "xyz");

	/* std::thread and std::mutex are the C library's; they work together as ever. */
	int count = 0;
	std::condition_variable changed;
	std::thread thread([&] {
		std::lock_guard<std::mutex> guard(standard_mutex);
		count++;
		changed.notify_one();
	});
	{
		std::unique_lock<std::mutex> guard(standard_mutex);
		changed.wait(guard, [&] { return count == 1; });
	}
	thread.join();

	/* A std::thread and a POSIX thread share a POSIX mutex. */
	pthread_t posix = start_thread(work, &count);
	std::thread other([&] { work(&count); });
	join_thread(posix);
	other.join();
	CHECK_EQ(count, 3);
	return 0;
}
