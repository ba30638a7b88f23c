/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Threads under limits: the argument says which. None of them may make a difference to the
 * program. */
#define _GNU_SOURCE
#include "own_table.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static void *nothing(void *argument)
{
	(void)use_stack(20000);
	return argument;
}

static void threads(int count)
{
	pthread_t thread;

	for (long i = 0; i < count; i++) {
		void *result;

		CHECK_EQUAL(pthread_create(&thread, NULL, nothing, (void *)i), 0);
		CHECK_EQUAL(pthread_join(thread, &result), 0);
		CHECK_EQUAL((long)result, i);
	}
}

static void limit(int what, rlim_t value)
{
	const struct rlimit it = {value, value};

	CHECK_EQUAL(setrlimit(what, &it), 0);
}

/* A filter that kills for what only the library would do. */
static void filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
		SKIP("no seccomp filters here");
}

/* The number that the program's next descriptor has. */
static int next_number(void)
{
	const int file = dup(0);

	CHECK(file >= 0);
	close(file);
	return file;
}

/* As programs ask what the kernel has: nothing is set. */
static void probe_filters(void)
{
	unsigned action = SECCOMP_RET_ALLOW;
	unsigned short sizes[3];

	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) < 0);
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) < 0);
	CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) < 0);
	/* Whether there are these or not. */
	(void)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
	(void)syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, sizes);
}

static void close_all(void)
{
	for (int file = 3; file < 4096; file++)
		close(file);
}

int main(int count, char **arguments)
{
	const char *what = count > 1 ? arguments[1] : "";
	int number = 0;

	if (!strcmp(what, "files"))
		limit(RLIMIT_NOFILE, 3);
	if (!strcmp(what, "size"))
		limit(RLIMIT_FSIZE, 0);
	if (!strcmp(what, "space"))
		limit(RLIMIT_AS, 64 << 20);
	if (!strcmp(what, "seccomp")) {
		threads(3);
		filter();
	}
	if (!strcmp(what, "closed"))
		threads(3);
	if (!strcmp(what, "closed"))
		close_all();
	if (!strcmp(what, "probes"))
		probe_filters();
	if (!strcmp(what, "full"))
		number = next_number();
	threads(20);
	if (!strcmp(what, "full"))
		CHECK_EQUAL(next_number(), number);
	if (!strcmp(what, "closed") || !strcmp(what, "probes")) {
		const char *table = table_map();

		/* Measured as before. */
		CHECK(table);
		CHECK(table_record(table, 1)->stack_peak >= 20000);
	}
	return 0;
}
