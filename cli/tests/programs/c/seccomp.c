/* Allows itself only what plain threads need; any other system call kills the process.
 *
 * usage: seccomp before|after   installs the filter before or after the first threads */
#include "program.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* What the C library itself calls for threads, memory, output and the end. */
static const int allowed[] = {
	SYS_write, SYS_read, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_madvise, SYS_brk, SYS_mremap,
	SYS_clone, SYS_clone3, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_exit, SYS_exit_group,
	SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_rt_sigreturn, SYS_clock_nanosleep, SYS_gettid,
	SYS_getpid, SYS_tgkill, SYS_sched_getaffinity, SYS_getrandom, SYS_prlimit64, SYS_newfstatat,
};

static void confine(void)
{
	struct sock_filter code[2 * sizeof(allowed) / sizeof(allowed[0]) + 3];
	struct sock_fprog filter = { 0, code };

	code[filter.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							  offsetof(struct seccomp_data, nr));
	for (size_t at = 0; at < sizeof(allowed) / sizeof(allowed[0]); at++) {
		code[filter.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								  (unsigned)allowed[at], 0, 1);
		code[filter.len++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	code[filter.len++] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

int main(int count, char **words)
{
	setvbuf(stdout, malloc(4096), _IOFBF, 4096);
	if (count == 2 && strcmp(words[1], "after") == 0)
		say_number("before the filter", threads(3));
	confine();
	say_number("confined", threads(20));
	return 0;
}
