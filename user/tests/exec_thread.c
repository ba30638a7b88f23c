/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread replaces the program, in every way, or starts another by vfork and exec, beside threads
 * that wait and compute: the new program runs alone, with the arguments, environment, descriptors,
 * mask and ignored signals of who called. Without such a program the thread goes on.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#define WAYS 11

static volatile int sink;
static char *own_path;
static int way;

static void *others(void *arg)
{
	if (arg != NULL)
		for (;;)
			sink++;
	for (;;)
		pause();
	return arg;
}

/* The new program: it is alone, and blocks what its caller blocked. */
static int is_alone(const char *fd)
{
	sigset_t mask;
	struct sigaction action;
	char status[4096], *line;
	ssize_t length;
	int file = open("/proc/self/status", O_RDONLY);

	CHECK(file >= 0 && (length = read(file, status, sizeof status - 1)) > 0);
	status[length] = '\0';
	CHECK((line = strstr(status, "\nThreads:\t")) != NULL);
	CHECK_EQ(atoi(line + 10), 1);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	for (int signal = 1; signal < 32; signal++)
		CHECK_EQ(sigismember(&mask, signal), signal == SIGUSR2);
	CHECK_EQ(sigaction(SIGUSR1, NULL, &action), 0);
	CHECK(action.sa_handler == SIG_IGN);
	CHECK(getenv("EXEC_THREAD") != NULL && strcmp(getenv("EXEC_THREAD"), "kept") == 0);
	CHECK_EQ(write(atoi(fd), "alone", 5), 5);
	return 40;
}

static void *replaces(void *fd)
{
	sigset_t mask;
	char number[16], *arguments[] = { own_path, "alone", number, NULL };

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR2);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &mask, NULL), 0);
	snprintf(number, sizeof number, "%d", (int)(intptr_t)fd);
	CHECK_EQ(setenv("EXEC_THREAD", "kept", 1), 0);
	errno = 0;
	CHECK_EQ(execl("/none", "none", "1", "2", "3", "4", "5", "6", NULL), -1);
	CHECK_EQ(errno, ENOENT);
	CHECK_EQ(execle("/none", "none", NULL, environ), -1);
	switch (way) {
	case 0: execv(own_path, arguments); break;
	case 1: execve(own_path, arguments, environ); break;
	case 2: execvp(own_path, arguments); break;
	case 3: execvpe(own_path, arguments, environ); break;
	case 4: execl(own_path, own_path, "alone", number, NULL); break;
	case 5: execlp(own_path, own_path, "alone", number, NULL); break;
	case 6: execle(own_path, own_path, "alone", number, NULL, environ); break;
	case 7: execl(own_path, own_path, "alone", number, "4", "5", "6", "7", "8", NULL); break;
	case 8: execle(own_path, own_path, "alone", number, "4", "5", "6", NULL, environ); break;
	case 9: fexecve(open(own_path, O_RDONLY), arguments, environ); break;
	default: execveat(AT_FDCWD, own_path, arguments, environ, 0); break;
	}
	CHECK(!"exec");
	return fd;
}

static void *starts(void *fd)
{
	for (volatile int i = 0; i < 20; i++) {
		int status;
		pid_t child = vfork();
		CHECK(child >= 0);
		if (child == 0) {
			if (i % 2)
				_exit(50);
			execl("/bin/sh", "sh", "-c", "exit 51", NULL);
			_exit(52);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(WEXITSTATUS(status), i % 2 ? 50 : 51);
	}
	return fd;
}

static void try_way(void)
{
	int fds[2], status;
	char said[8] = "";

	CHECK_EQ(pipe(fds), 0);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(50);
		for (int i = 0; i < 4; i++)
			start_thread(others, i % 2 ? &fds : NULL);
		if (way == 0)
			join_thread(start_thread(starts, NULL));
		start_thread(replaces, (void *)(intptr_t)fds[1]);
		for (;;)
			pause();
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 40 << 8);
	CHECK_EQ(read(fds[0], said, sizeof said), 5);
	CHECK_EQ(strcmp(said, "alone"), 0);
	close(fds[0]);
	close(fds[1]);
}

int main(int argc, char **argv)
{
	if (argc >= 3 && strcmp(argv[1], "alone") == 0)
		return is_alone(argv[2]);
	own_path = argv[0];
	CHECK(signal(SIGUSR1, SIG_IGN) != SIG_ERR);
	for (; way < WAYS; way++)
		try_way();
	return 0;
}
