/* Strict mode: a thread that may only read, write and end; the process ends by main. */
#include "program.h"

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static int mode = -1;

static void *confined(void *arg)
{
	static const char text[] = "confined\n";

	mode = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
	if (write(1, text, sizeof(text) - 1) > 0)
		__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
	syscall(SYS_exit, 0);
	return NULL;
}

int main(void)
{
	int written = 0;

	say_number("sum", threads(3));
	GOOD(pthread_detach(start(confined, &written)));
	for (int wait = 0; wait < 5000 && !__atomic_load_n(&written, __ATOMIC_ACQUIRE); wait++)
		sleep_ms(1);
	say_number("mode set", mode);
	say_number("sum", threads(3));
	return 0;
}
