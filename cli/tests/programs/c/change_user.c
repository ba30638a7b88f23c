/* Gives up root in a threaded program, which libc does in every thread, and starts more. */
#include "program.h"

static void *user(void *arg)
{
	(void)arg;
	while (getuid() == 0)
		sleep_ms(1);
	return (void *)(uintptr_t)getuid();
}

int main(void)
{
	pthread_t other = start(user, NULL);

	MUST(setgid(65534) == 0 && setuid(65534) == 0);
	say_number("user of the other", (long)join(other));
	say_number("sum", threads(10));
	pid_t child = fork();
	MUST(child >= 0);
	if (child == 0)
		exit((int)threads(4));
	say_number("child", ending(child));
	say_number("shell", WEXITSTATUS(system("exit 4")));
	return 0;
}
