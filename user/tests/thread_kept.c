/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What a thread asks the kernel to keep for it alone, by system calls, holds for no other thread;
 * where it can't be kept the call fails. The word of set_tid_address is cleared at its end.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { OTHERS = 8, OTHER_ID = 4321 };
static int changed, cleared = 1, no_new_privileges, may_change;

static void *looks(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&changed, __ATOMIC_SEQ_CST))
		sleep_ms(1);
	for (int i = 0; i < 50; i++) {
		CHECK_EQ(syscall(SYS_geteuid), geteuid());
		CHECK_EQ(setfsuid(-1), (int)geteuid());
		CHECK_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), no_new_privileges);
		sched_yield();
	}
	return NULL;
}

/* Whether it is done, or refused as it is to those who may not, or who have no such id. */
static int is_done(long result)
{
	CHECK(result == 0 || errno == EPERM || errno == EINVAL);
	return result == 0;
}

/* A child may what its parent's main thread may. */
static void in_a_child(pid_t child)
{
	int status;

	CHECK(child >= 0);
	if (child == 0)
		_exit(syscall(SYS_setresuid, OTHER_ID, OTHER_ID, OTHER_ID) == 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), may_change);
}

static void *changes(void *arg)
{
	int id = (int)geteuid(), file;

	(void)arg;
	in_a_child(fork());
	in_a_child(vfork());
#ifdef PR_GET_TID_ADDRESS
	int *word, *again;
	if (prctl(PR_GET_TID_ADDRESS, &word, 0, 0, 0) == 0) {
		/* Natively it is the C library's, by which it knows the thread. */
		CHECK_EQ(syscall(SYS_set_tid_address, word), gettid());
		CHECK_EQ(prctl(PR_GET_TID_ADDRESS, &again, 0, 0, 0), 0);
		CHECK(again == word);
		CHECK(*word == 0 || *word == gettid());
	}
#endif
	CHECK_EQ(syscall(SYS_set_tid_address, &cleared), gettid());
	if (is_done(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)))
		CHECK_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
	setfsuid(OTHER_ID);
	CHECK(setfsuid(-1) == OTHER_ID || setfsuid(-1) == id);
	CHECK(unshare(CLONE_FS) == 0 || errno == EPERM);
	/* Only asks whether there are filters. */
	CHECK_ERRNO(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL), EFAULT);
	file = open("/proc/self/ns/uts", O_RDONLY);
	CHECK(file >= 0);
	CHECK(setns(file, CLONE_NEWUTS) == 0 || errno == EPERM);
	close(file);
	if (is_done(syscall(SYS_setresuid, -1, OTHER_ID, -1)))
		CHECK_EQ(syscall(SYS_geteuid), OTHER_ID);
	set_value(&changed, 1);
	sleep_ms(20);
	return NULL;
}

int main(void)
{
	pthread_t other[OTHERS], one;
	pid_t child = fork();
	int status;

	CHECK(child >= 0);
	if (child == 0)
		_exit(syscall(SYS_setresuid, OTHER_ID, OTHER_ID, OTHER_ID) == 0);
	CHECK_EQ(waitpid(child, &status, 0), child);
	may_change = WEXITSTATUS(status);
	no_new_privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
	for (int i = 0; i < OTHERS; i++)
		other[i] = start_thread(looks, NULL);
	one = start_thread(changes, NULL);
	/* A join waits for the word that set_tid_address replaces. */
	CHECK_EQ(pthread_detach(one), 0);
	for (int i = 0; i < OTHERS; i++)
		join_thread(other[i]);
	for (;;) {
		int now = __atomic_load_n(&cleared, __ATOMIC_SEQ_CST);

		if (now == 0)
			break;
		syscall(SYS_futex, &cleared, FUTEX_WAIT, now, NULL, NULL, 0);
	}
	CHECK_EQ(syscall(SYS_geteuid), geteuid());
	return 0;
}
