/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The base of a thread's second segment is its own, or cannot be set: it is nobody else's. What the
 * call says of the process is said.
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
enum { THREADS = 8, ROUNDS = 20, SET_GS = 0x1001, SET_FS = 0x1002, GET_GS = 0x1004 };

extern int arch_prctl(int operation, unsigned long address);

static void *sets(void *arg)
{
	unsigned long own = 0, now = 0;

	if ((long)arg % 2 ? arch_prctl(SET_GS, (unsigned long)&own) :
			    syscall(SYS_arch_prctl, SET_GS, &own)) {
		CHECK_EQ(errno, EPERM);
		CHECK_ERRNO(arch_prctl(SET_FS, (unsigned long)&own), EPERM);
		return NULL;
	}
	for (int i = 0; i < ROUNDS; i++) {
		sleep_ms(1);
		CHECK_EQ(arch_prctl(GET_GS, (unsigned long)&now), 0);
		CHECK(now == (unsigned long)&own);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	CHECK_ERRNO(arch_prctl(-1, 0), EINVAL);
	for (long i = 0; i < THREADS; i++)
		threads[i] = start_thread(sets, (void *)i);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
#else
int main(void)
{
	printf("skip: there is no second segment here\n");
	return 0;
}
#endif
