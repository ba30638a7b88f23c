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

static void *never_has(void *arg)
{
	await_value(&is_over, 1);
	CHECK_EQ(has_no_new_privileges(), 0);
	CHECK(!is_filtered());
	return arg;
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

static void filter(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_acct, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { 4, steps };
	/* By the name, and by the number. */
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	inherited(has_no_new_privileges);
	CHECK_EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), 0);
	inherited(is_filtered);
}

int main(void)
{
	pthread_t before;

	join_thread(start_thread(does_nothing, NULL));
	before = start_thread(never_has, NULL);
	if (geteuid() == 0) {
		CHECK_EQ(setfsuid(65534), 0);
		inherited(has_user_of_files);
		CHECK_EQ(setfsuid(0), 65534);
	}
	CHECK(personality(ADDR_NO_RANDOMIZE) >= 0);
	inherited(has_personality);
	filter();
	set_value(&is_over, 1);
	join_thread(before);
	return 0;
}
