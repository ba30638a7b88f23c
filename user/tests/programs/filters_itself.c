/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that allows itself what the C library calls for threads, mutexes and pipes, and has all
 * else fail or kill it: "filters_itself fails|kills first|later". Prints what its threads counted.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 8, ROUNDS = 100 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int count, ends[2];

static void *counts(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		char byte = 0;
		pthread_mutex_lock(&mutex);
		count++;
		pthread_mutex_unlock(&mutex);
		if (write(ends[1], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1)
			abort();
	}
	return arg;
}

static void runs_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, counts, NULL) != 0)
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

#define ALLOW(number)                                                   \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),              \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void filters(unsigned otherwise)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_futex), ALLOW(SYS_mmap),
		ALLOW(SYS_munmap), ALLOW(SYS_mprotect), ALLOW(SYS_madvise), ALLOW(SYS_clone3),
		ALLOW(SYS_clone), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_set_robust_list),
		ALLOW(SYS_rseq), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_brk),
		ALLOW(SYS_rt_sigreturn), ALLOW(SYS_rt_sigaction), ALLOW(SYS_fstat), ALLOW(SYS_newfstatat),
		ALLOW(SYS_gettid), ALLOW(SYS_getpid), ALLOW(SYS_getrandom),
		BPF_STMT(BPF_RET | BPF_K, otherwise),
	};
	struct sock_fprog program = { sizeof steps / sizeof *steps, steps };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		exit(2);
}

int main(int argc, char **argv)
{
	if (argc != 3 || pipe(ends) != 0)
		return 1;
	if (strcmp(argv[2], "later") == 0)
		runs_threads();
	filters(strcmp(argv[1], "kills") == 0 ? SECCOMP_RET_KILL_PROCESS :
						SECCOMP_RET_ERRNO | 1);
	runs_threads();
	char text[16];
	int length = snprintf(text, sizeof text, "%d\n", count);
	if (write(STDOUT_FILENO, text, (size_t)length) != length)
		return 1;
	_exit(0);
}
