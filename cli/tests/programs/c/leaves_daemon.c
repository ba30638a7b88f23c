/* A thread named "urgent" that works now and then, and one that makes a daemon once it is in
 * SCHED_IDLE: its child starts it and ends at once, so that it has no parent. Ends when the daemon
 * has said its number; the daemon sleeps for a minute. */
#include "program.h"

#include <sched.h>

enum { WAITS_MAX = 6000 };

static int said[2];

static void *urgent(void *arg)
{
	pthread_setname_np(pthread_self(), "urgent");
	for (;;)
		sleep_ms(5);
	return arg;
}

static void become_daemon(void)
{
	MUST(setsid() != -1);
	if (fork() != 0)
		_exit(0);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	MUST(write(said[1], "x", 1) == 1);
	for (int i = 0; i < 3; i++)
		close(i);
	sleep(60);
	_exit(0);
}

static void *burner(void *arg)
{
	pid_t child;
	char byte;

	for (int i = 0; i < WAITS_MAX && sched_getscheduler(0) != SCHED_IDLE; i++)
		sleep_ms(5);
	MUST(sched_getscheduler(0) == SCHED_IDLE);
	child = fork();
	MUST(child != -1);
	if (child == 0)
		become_daemon();
	MUST(waitpid(child, NULL, 0) == child);
	MUST(read(said[0], &byte, 1) == 1);
	return arg;
}

int main(void)
{
	MUST(pipe(said) == 0);
	start(urgent, NULL);
	join(start(burner, NULL));
	return 0;
}
