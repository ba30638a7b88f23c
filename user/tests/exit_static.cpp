// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Static destructors beside threads: they run once, in the reverse of their order, in the thread
// that called exit; that thread's own thread_local objects go before them, and those of threads
// that still run do not. A destructor may lock, wait for a thread, and join it.
#include "check.h"
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <sys/wait.h>
#include <thread>

namespace {

int out;

void note(const std::string &what)
{
	CHECK_EQ(write(out, what.data(), what.size()), (long)what.size());
}

struct Named {
	explicit Named(const char *name) : name(name) {}
	~Named() { note(name); }
	std::string name;
};

// Its destructor tells its thread to end, and waits for it.
struct Pool {
	Pool() : thread([this] { run(); }) {}
	~Pool()
	{
		{
			std::lock_guard<std::mutex> guard(mutex);
			is_over = true;
		}
		condition.notify_all();
		thread.join();
		note("p");
	}
	void run()
	{
		std::unique_lock<std::mutex> guard(mutex);
		condition.wait(guard, [this] { return is_over; });
		note("r");
	}
	std::mutex mutex;
	std::condition_variable condition;
	bool is_over = false;
	std::thread thread;
};

// Where a thread is when the process ends, so that nobody's stack goes before the end.
void stays()
{
	thread_local Named never("!");
	never.name = "!";
	for (;;)
		pause();
}

void child(bool by_thread)
{
	static Named first("1");
	static Pool pool;
	static Named last("2");
	std::thread(stays).detach();
	auto ends = [] {
		thread_local Named own("t");
		own.name = "t";
		exit(9);
	};
	if (by_thread)
		std::thread(ends).detach();
	else
		ends();
	for (;;)
		pause();
}

} // namespace

int main()
{
	for (int by_thread = 0; by_thread < 2; by_thread++) {
		int fds[2], status;
		CHECK_EQ(pipe(fds), 0);
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			close(fds[0]);
			out = fds[1];
			alarm(50);
			child(by_thread);
		}
		close(fds[1]);
		std::string got;
		for (char byte; read(fds[0], &byte, 1) == 1;)
			got += byte;
		close(fds[0]);
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), 9);
		if (got != "t2rp1") {
			fprintf(stderr, "destructors: %s\n", got.c_str());
			return 1;
		}
	}
	return 0;
}
