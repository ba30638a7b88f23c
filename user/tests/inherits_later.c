/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The main thread gives up what the kernel keeps for each thread, when there have been threads
 * already: those that it makes then have given it up, too, and none that was there before has.
 */
#define _GNU_SOURCE
#include "check.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/fsuid.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int is_over;

/* SYS_acct, which hardly anybody calls, fails with ENOTTY. */
static int is_filtered(void)
{
	errno = 0;
	return syscall(SYS_acct, (void *)1) == -1 && errno == ENOTTY;
}

static int has_no_new_privileges(void)
{
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

static int has_personality(void)
{
	return (personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0;
}

static int has_user_of_files(void)
{
	return setfsuid(-1) == 65534;
}

static int has_set(int (*has)(void), int wanted)
{
	CHECK_EQ(has(), wanted);
	return 1;
}

static int (*looks)(void);

static void *has_it(void *arg)
{
	has_set(looks, 1);
	return arg;
}

/* But what is for all threads. */
static void *never_has(void *is_for_all)
{
	await_value(&is_over, 1);
	CHECK_EQ(has_no_new_privileges(), is_for_all != NULL);
	CHECK_EQ(is_filtered(), is_for_all != NULL);
	return NULL;
}

static void *does_nothing(void *arg)
{
	return arg;
}

/* And a thread that such a thread makes. */
static void *makes_one(void *arg)
{
	join_thread(start_thread(has_it, NULL));
	return has_it(arg);
}

static void inherited(int (*has)(void))
{
	looks = has;
	CHECK_EQ(has(), 1);
	join_thread(start_thread(makes_one, NULL));
}

static void filter(unsigned int flags, int (*has)(void))
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, steps };

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	/* Nothing new. */
	errno = 0;
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(errno, 0);
	if (has == is_filtered)
		CHECK_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program), 0);
	inherited(has);
}

/* Each in a process of its own: what one has given up is not to hide what the next one has. */
static void give_up(int what)
{
	pthread_t before;

	join_thread(start_thread(does_nothing, NULL));
	before = start_thread(never_has, (void *)(intptr_t)(what == 4));
	switch (what) {
	case 0:
		CHECK(personality(ADDR_NO_RANDOMIZE) >= 0);
		inherited(has_personality);
		break;
	case 1:
		CHECK(syscall(SYS_personality, ADDR_NO_RANDOMIZE) >= 0);
		inherited(has_personality);
		break;
	case 2:
		filter(0, has_no_new_privileges);
		break;
	case 3:
		filter(0, is_filtered);
		break;
	case 4:
		filter(SECCOMP_FILTER_FLAG_TSYNC, is_filtered);
		break;
	case 5:
		if (geteuid() != 0)
			break;
		CHECK_EQ(setfsuid(65534), 0);
		inherited(has_user_of_files);
		break;
	}
	set_value(&is_over, 1);
	join_thread(before);
}

int main(void)
{
	for (int what = 0; what <= 5; what++) {
		int status;
		pid_t child = fork();

		CHECK(child >= 0);
		if (child == 0) {
			give_up(what);
			_exit(0);
		}
		CHECK_EQ(waitpid(child, &status, 0), child);
		CHECK_EQ(status, 0);
	}
	return 0;
}
