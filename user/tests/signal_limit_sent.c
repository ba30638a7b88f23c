/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A write beyond the largest file that there can be fails with EFBIG, and raises nothing: SIGXFSZ
 * that another process sends meanwhile is the process's, and is told as sent by that.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { WRITES = 3000 };

static sigset_t limit_only;
static pid_t child;

static void *writes(void *arg)
{
	char path[] = "/tmp/heddle-limit-XXXXXX";
	struct timespec at_once = { 0, 0 };
	off_t beyond = 0x7ffffffffffffff0;
	siginfo_t info;
	CHECK_EQ(close(mkstemp(path)), 0);
	/* Where such a write goes to the disk at once. */
	int file = open(path, O_RDWR | O_SYNC);
	CHECK(file >= 0);
	CHECK_EQ(unlink(path), 0);
	if (pwrite(file, "x", 1, beyond) != -1 || errno != EFBIG)
		SKIP("files can be as large as an offset");
	for (int i = 0; i < WRITES; i++) {
		CHECK_ERRNO(pwrite(file, "x", 1, beyond), EFBIG);
		while (sigtimedwait(&limit_only, &info, &at_once) == SIGXFSZ)
			CHECK_EQ(info.si_pid, child);
	}
	CHECK_EQ(close(file), 0);
	return arg;
}

int main(void)
{
	int status;
	sigemptyset(&limit_only);
	sigaddset(&limit_only, SIGXFSZ);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &limit_only, NULL), 0);
	pid_t process = getpid();
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		while (getppid() == process)
			kill(process, SIGXFSZ);
		_exit(0);
	}
	join_thread(start_thread(writes, NULL));
	CHECK_EQ(kill(child, SIGKILL), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	return 0;
}
