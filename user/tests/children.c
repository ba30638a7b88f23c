/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads start children and wait for them, in every way; a child gets its thread's signal mask.
 */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static pid_t spawn_reading(const char *script, int input)
{
	char *arguments[] = { "sh", "-c", (char *)script, NULL };
	posix_spawn_file_actions_t actions;
	pid_t child;
	CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
	CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, input, 0), 0);
	CHECK_EQ(posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ), 0);
	CHECK_EQ(posix_spawn_file_actions_destroy(&actions), 0);
	return child;
}

static pid_t spawn(const char *script)
{
	return spawn_reading(script, 0);
}

static void *one(void *arg)
{
	int status, ends[2];
	CHECK_EQ(pipe(ends), 0);
	pid_t child = spawn_reading("read line; sleep 0.05; exit 3", ends[0]);
	CHECK_EQ(waitpid(child, &status, WNOHANG), 0);
	CHECK_EQ(write(ends[1], "\n", 1), 1);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(WEXITSTATUS(status), 3);
	CHECK_ERRNO(waitpid(child, &status, 0), ECHILD);

	child = spawn("exit 4");
	siginfo_t info;
	CHECK_EQ(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
	CHECK_EQ(info.si_pid, child);
	CHECK_EQ(info.si_status, 4);
	CHECK_EQ(waitid(P_PID, (id_t)child, &info, WEXITED), 0);

	child = spawn("kill -STOP $$; exit 5");
	CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
	CHECK(WIFSTOPPED(status));
	CHECK_EQ(kill(child, SIGCONT), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(WEXITSTATUS(status), 5);

	child = spawn("exit 6");
	CHECK_EQ(wait(&status), child);
	CHECK_EQ(WEXITSTATUS(status), 6);
	CHECK_ERRNO(wait(&status), ECHILD);
	return arg;
}

static void *library(void *arg)
{
	CHECK_EQ(WEXITSTATUS(system("exit 7")), 7);
	FILE *pipe = popen("echo hello", "r");
	char text[16] = "";
	CHECK(pipe != NULL && fgets(text, sizeof text, pipe) != NULL);
	CHECK_EQ(strcmp(text, "hello\n"), 0);
	CHECK_EQ(pclose(pipe), 0);
	return arg;
}

/* A child that was spawned, forked, or started by the library can be ended by a signal. */
static void *mask(void *arg)
{
	int status;
	pid_t child = spawn("sleep 20");
	CHECK_EQ(kill(child, SIGTERM), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	child = fork();
	if (child == 0) {
		sleep(20);
		_exit(0);
	}
	CHECK_EQ(kill(child, SIGTERM), 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	status = system("kill -TERM $$; sleep 20");
	CHECK(WTERMSIG(status) == SIGTERM);
	return arg;
}

int main(void)
{
	join_thread(start_thread(one, NULL));
	join_thread(start_thread(library, NULL));
	join_thread(start_thread(mask, NULL));
	return 0;
}
