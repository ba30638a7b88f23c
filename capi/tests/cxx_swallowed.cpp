/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A catch-all that swallows pthread_exit ends the process by abort, as in the C library.
 */
#include "check.h"

#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>

static void *swallows(void *arg)
{
	try {
		pthread_exit(arg);
	} catch (...) {
	}
	return nullptr;
}

int main()
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct rlimit none = { 0, 0 };
		setrlimit(RLIMIT_CORE, &none);
		if (!freopen("/dev/null", "w", stderr))
			_exit(2);
		join_thread(start_thread(swallows, nullptr));
		_exit(0);
	}
	int status;
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGABRT);
	return 0;
}
