/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Becomes the program that the words after the first name, below a filter on system calls that a
 * library can't see being set. The first word: "none" lets all calls through, "kill=NUMBER" kills
 * who makes that call, "refuse=NUMBER" has it fail with EPERM. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words)
{
	const char *number = count > 1 ? strchr(words[1], '=') : NULL;
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number ? atoi(number + 1) : 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { 4, steps };
	long result;

	if (count < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return 1;
	if (!number)
		steps[1].jt = 1;
	if (words[1][0] == 'r')
		steps[2].k = SECCOMP_RET_ERRNO | EPERM;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(0), "d"(&filter)
			 : "rcx", "r11", "memory");
	if (result != 0)
		return 2;
	execvp(words[2], words + 2);
	return 3;
}
