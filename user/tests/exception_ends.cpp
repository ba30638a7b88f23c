// SPDX-License-Identifier: MIT OR Apache-2.0
//
// An exception that a thread does not catch ends the process where it was thrown: no frame is left
// and no destructor runs, the program's terminate handler is called with the exception, and what it
// or a core file sees of the stack has the function that threw. Without such a handler it is
// SIGABRT.
#include "check.h"
#include <exception>
#include <signal.h>
#include <stdexcept>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>

namespace {

enum { HANDLED = 11 };
int destroyed;
char *thrown_at;

struct Frame {
	~Frame() { destroyed++; }
};

__attribute__((noinline)) void throws()
{
	thrown_at = (char *)__builtin_frame_address(0);
	throw std::runtime_error("nobody catches this");
}

void start()
{
	Frame frame;
	throws();
	sched_yield();
}

void *posix_start(void *arg)
{
	start();
	return arg;
}

void in_terminate()
{
	CHECK((char *)__builtin_frame_address(0) < thrown_at);
	CHECK_EQ(destroyed, 0);
	try {
		std::rethrow_exception(std::current_exception());
	} catch (const std::runtime_error &error) {
		CHECK_EQ(strcmp(error.what(), "nobody catches this"), 0);
	}
	_exit(HANDLED);
}

int ends(bool is_posix, bool is_handled)
{
	int status;
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(50);
		const struct rlimit none = { 0, 0 };
		setrlimit(RLIMIT_CORE, &none);
		if (is_handled)
			std::set_terminate(in_terminate);
		if (is_posix) {
			pthread_t thread;
			CHECK_EQ(pthread_create(&thread, NULL, posix_start, NULL), 0);
			pthread_join(thread, NULL);
		}
		std::thread(start).join();
		_exit(1);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

} // namespace

int main()
{
	for (int is_posix = 0; is_posix < 2; is_posix++) {
		int status = ends(is_posix, true);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), HANDLED);
		status = ends(is_posix, false);
		CHECK(WIFSIGNALED(status));
		CHECK_EQ(WTERMSIG(status), SIGABRT);
	}
	return 0;
}
