/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that is started finds ignored what the one before had ignored, faults included, in
 * whatever way it is started and by whatever thread; what had a handler, or is not ignored any
 * more, it finds as the default. The one that started it has what it had set, afterwards as before.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGUSR1 };
enum { SIGNALS = sizeof signals / sizeof *signals, WAYS = 8, SPAWNERS = 4, SPAWNS = 8 };

static char *own_path, command[4096], expected[SIGNALS + 1];
static volatile char *closed;
static int handled, stop;

static void handles(int number)
{
	(void)number;
	__atomic_add_fetch(&handled, 1, __ATOMIC_SEQ_CST);
	mprotect((void *)closed, 4096, PROT_READ | PROT_WRITE);
}

/* The new program; the text says which are ignored. */
static int finds(const char *text)
{
	for (int i = 0; i < SIGNALS; i++) {
		struct sigaction action;
		CHECK_EQ(sigaction(signals[i], NULL, &action), 0);
		CHECK(action.sa_handler == (text[i] == 'i' ? SIG_IGN : SIG_DFL));
	}
	return 40;
}

static int ended(pid_t child)
{
	int status;
	CHECK(child > 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	return WEXITSTATUS(status);
}

static void start(int way)
{
	char *arguments[] = { own_path, "finds", expected, NULL };
	pid_t child;
	FILE *pipe;

	switch (way) {
	case 0:
		CHECK_EQ(posix_spawn(&child, own_path, NULL, NULL, arguments, environ), 0);
		CHECK_EQ(ended(child), 40);
		break;
	case 1:
		CHECK_EQ(posix_spawnp(&child, "/none", NULL, NULL, arguments, environ), ENOENT);
		CHECK_EQ(posix_spawnp(&child, own_path, NULL, NULL, arguments, environ), 0);
		CHECK_EQ(ended(child), 40);
		break;
	case 2:
		CHECK_EQ(WEXITSTATUS(system(command)), 40);
		break;
	case 3:
		CHECK((pipe = popen(command, "r")) != NULL);
		CHECK_EQ(WEXITSTATUS(pclose(pipe)), 40);
		break;
	case 4:
		child = vfork();
		if (child == 0) {
			execv(own_path, arguments);
			_exit(1);
		}
		CHECK_EQ(ended(child), 40);
		break;
	case 5:
		child = vfork();
		if (child == 0) {
			execl("/none", "none", NULL);
			execl(own_path, own_path, "finds", expected, NULL);
			_exit(1);
		}
		CHECK_EQ(ended(child), 40);
		break;
	case 6:
		child = fork();
		if (child == 0) {
			execvp(own_path, arguments);
			_exit(1);
		}
		CHECK_EQ(ended(child), 40);
		break;
	default:
		child = fork();
		if (child == 0) {
			/* Changes its own, and then does not. */
			signal(SIGSEGV, SIG_DFL);
			signal(SIGSEGV, expected[0] == 'i' ? SIG_IGN : SIG_DFL);
			execve("/none", arguments, environ);
			execle(own_path, own_path, "finds", expected, NULL, environ);
			_exit(1);
		}
		CHECK_EQ(ended(child), 40);
		break;
	}
}

static void *starts_all(void *arg)
{
	for (int way = 0; way < WAYS; way++)
		start(way);
	return arg;
}

static void set_all(void (*handler)(int), char told)
{
	for (int i = 0; i < SIGNALS; i++) {
		CHECK(signal(signals[i], handler) != SIG_ERR);
		expected[i] = told;
	}
	snprintf(command, sizeof command, "exec '%s' finds %s", own_path, expected);
}

static void check_all(void (*handler)(int))
{
	for (int i = 0; i < SIGNALS; i++) {
		struct sigaction action;
		CHECK_EQ(sigaction(signals[i], NULL, &action), 0);
		CHECK(action.sa_handler == handler);
	}
}

/* A fault is handled, whatever was started before. */
static void *has_fault(void *arg)
{
	CHECK_EQ(mprotect((void *)closed, 4096, PROT_NONE), 0);
	int before = handled;
	*closed = 1;
	CHECK_EQ(handled, before + 1);
	return arg;
}

static void *spawns(void *arg)
{
	char *arguments[] = { "true", NULL };
	for (int i = 0; i < SPAWNS; i++) {
		pid_t child;
		CHECK_EQ(posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ), 0);
		CHECK_EQ(ended(child), 0);
	}
	__atomic_add_fetch(&stop, 1, __ATOMIC_SEQ_CST);
	return arg;
}

static void *waits(void *arg)
{
	for (;;)
		pause();
	return arg;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "finds") == 0)
		return finds(argv[2]);
	own_path = argv[0];
	closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(closed != MAP_FAILED);
	set_all(SIG_IGN, 'i');
	starts_all(NULL);
	start_thread(waits, NULL);
	starts_all(NULL);
	check_all(SIG_IGN);
	join_thread(start_thread(starts_all, NULL));
	check_all(SIG_IGN);
	set_all(handles, 'd');
	join_thread(start_thread(has_fault, NULL));
	join_thread(start_thread(starts_all, NULL));
	starts_all(NULL);
	set_all(SIG_IGN, 'i');
	join_thread(start_thread(starts_all, NULL));

	/* What is set while others start programs stays set. */
	pthread_t spawners[SPAWNERS];
	for (int i = 0; i < SPAWNERS; i++)
		spawners[i] = start_thread(spawns, NULL);
	for (int i = 0; __atomic_load_n(&stop, __ATOMIC_SEQ_CST) < SPAWNERS; i++) {
		CHECK(signal(SIGSEGV, handles) == SIG_IGN);
		if (i % 2)
			join_thread(start_thread(has_fault, NULL));
		CHECK(signal(SIGSEGV, SIG_IGN) == handles);
		usleep(500);
	}
	for (int i = 0; i < SPAWNERS; i++)
		join_thread(spawners[i]);
	CHECK(signal(SIGSEGV, handles) == SIG_IGN);
	join_thread(start_thread(has_fault, NULL));
	has_fault(NULL);
	return 0;
}
