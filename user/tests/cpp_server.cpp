/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A C++ server with a thread for each connection: exceptions cross the frames that wait, each
 * thread's thread_local objects are its own and are destroyed when it ends, futures carry results
 * and exceptions, and nothing is left at the end.
 */
#include "check.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>
#include <sys/socket.h>

namespace {

constexpr int clients = 60;
constexpr int requests = 30;

std::atomic<int> made{0}, destroyed{0}, unwound{0};

struct Session {
	std::string text;
	int count = 0;
	Session() { made++; }
	~Session()
	{
		/* A destructor may wait, and still finds the thread's other objects. */
		std::this_thread::sleep_for(std::chrono::microseconds(100));
		destroyed++;
	}
};

thread_local Session session;

struct Refused : std::runtime_error {
	using std::runtime_error::runtime_error;
};

struct Guard {
	~Guard() { unwound++; }
};

std::shared_mutex lock;
std::mutex ready_lock;
std::condition_variable ready;
int answered;

void send_all(int fd, const std::string &text)
{
	CHECK_EQ(write(fd, text.data(), text.size()), (ssize_t)text.size());
}

int receive(int fd)
{
	int number;
	ssize_t count = read(fd, &number, sizeof(number));
	if (count == 0)
		throw Refused("end");
	CHECK_EQ(count, (ssize_t)sizeof(number));
	return number;
}

/* Throws for every third number, after it has waited. */
std::string answer(int number, int depth)
{
	Guard guard;
	if (depth)
		return answer(number, depth - 1);
	std::shared_lock<std::shared_mutex> shared(lock);
	std::this_thread::sleep_for(std::chrono::microseconds(number % 50));
	session.count++;
	session.text += 'x';
	if (number % 3 == 0)
		throw Refused(std::to_string(number));
	return "ok" + std::to_string(number) + "\n";
}

int serve(int fd)
{
	try {
		for (;;) {
			int number = receive(fd);
			try {
				send_all(fd, answer(number, 5));
			} catch (const Refused &refused) {
				send_all(fd, std::string("no") + refused.what() + "\n");
			}
			std::lock_guard<std::mutex> guard(ready_lock);
			answered++;
			ready.notify_all();
		}
	} catch (const Refused &) {
		close(fd);
	}
	CHECK_EQ(session.count, requests);
	CHECK_EQ((int)session.text.size(), requests);
	if (fd % 2)
		throw Refused("the thread's result");
	return session.count;
}

void use(int fd, int client)
{
	for (int i = 0; i < requests; i++) {
		int number = client * requests + i;
		char line[32] = "";
		size_t length = 0;
		CHECK_EQ(write(fd, &number, sizeof(number)), (ssize_t)sizeof(number));
		do {
			CHECK_EQ(read(fd, line + length, 1), 1);
		} while (line[length++] != '\n');
		std::string wanted = (number % 3 ? "ok" : "no") + std::to_string(number) + "\n";
		CHECK(wanted == std::string(line, length));
	}
	close(fd);
}

} // namespace

int main()
{
	std::vector<std::future<int>> servers;
	std::vector<std::thread> users;
	std::vector<int> ends;
	for (int i = 0; i < clients; i++) {
		int pair[2];
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		servers.push_back(std::async(std::launch::async, serve, pair[0]));
		ends.push_back(pair[0]);
		users.emplace_back(use, pair[1], i);
	}
	{
		std::unique_lock<std::mutex> guard(ready_lock);
		CHECK(ready.wait_for(guard, std::chrono::seconds(50),
				     [] { return answered == clients * requests; }));
	}
	for (auto &user : users)
		user.join();
	for (int i = 0; i < clients; i++) {
		try {
			CHECK_EQ(servers[i].get(), requests);
			CHECK_EQ(ends[i] % 2, 0);
		} catch (const Refused &) {
			CHECK_EQ(ends[i] % 2, 1);
		}
	}
	servers.clear();
	CHECK_EQ(made, clients);
	CHECK_EQ(destroyed, clients);
	CHECK_EQ(unwound, clients * requests * 6);
	return 0;
}
