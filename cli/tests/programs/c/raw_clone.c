/* A thread made by clone itself, which no library hears of, beside ordinary ones. */
#include "program.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static int done;

static int raw(void *arg)
{
	(void)arg;
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	syscall(SYS_exit, 0);
	return 0;
}

int main(void)
{
	size_t bytes = 64 << 10;
	char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	MUST(stack != MAP_FAILED);
	say_number("sum", threads(2));
	MUST(clone(raw, stack + bytes,
		   CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
		   NULL) > 0);
	for (int wait = 0; wait < 5000 && !__atomic_load_n(&done, __ATOMIC_ACQUIRE); wait++)
		sleep_ms(1);
	say_number("raw thread ran", done);
	return 0;
}
