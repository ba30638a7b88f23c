/* Allows itself only what plain threads and the loader need; any other system call kills the
 * process.
 *
 * usage: seccomp before|after   installs the filter before or after the first threads
 *        seccomp exec PROGRAM   installs it and becomes the program */
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
	SYS_tgkill, SYS_sched_getaffinity, SYS_getrandom, SYS_prlimit64, SYS_newfstatat,
	/* to start a program and children */
	SYS_execve, SYS_openat, SYS_close, SYS_pread64, SYS_fstat, SYS_access, SYS_faccessat,
	SYS_set_tid_address, SYS_wait4, SYS_prctl,
#ifdef __x86_64__
	SYS_arch_prctl, SYS_readlink,
#else
	SYS_readlinkat,
#endif
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
	pid_t child;

	setvbuf(stdout, malloc(4096), _IOFBF, 4096);
	if (count == 2 && strcmp(words[1], "after") == 0)
		say_number("before the filter", threads(3));
	confine();
	if (count == 3 && strcmp(words[1], "exec") == 0)
		execv(words[2], words + 2);
	say_number("confined", threads(20));
	child = fork();
	MUST(child >= 0);
	if (child == 0)
		_exit(threads(3) == 6 ? 5 : 98);
	say_number("child", ending(child));
	return 0;
}
