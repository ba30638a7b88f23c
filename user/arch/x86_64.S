/* What each name in `names` becomes, x86-64; link-shared.sh appends the list. See its head.
 *
 * And the words that every thread has by itself (src/threads/own.rs), in static thread-local
 * storage: they are at the same distance from every thread pointer, and looking costs two
 * instructions.
 *
 * Invariant: a function behind one of these jumps finds all registers and the stack as its caller
 * left them (those of two arguments, with the word `preceded`), but for r11, which no calling
 * convention gives a meaning here, and r8 (the fifth argument, which none of those has) with the
 * word `sited`: the address that it returns to.
 */
	.hidden heddle_user_names
	.hidden heddle_user_real
	.globl heddle_user_names
	.globl heddle_user_real
	.hidden heddle_user_taken
	.globl heddle_user_taken
	.hidden heddle_user_exported
	.globl heddle_user_exported

	.section .tbss, "awT", @nobits
	.balign 16
own_words:
	.zero 48

	.text
	.globl heddle_user_own_words
	.hidden heddle_user_own_words
	.type heddle_user_own_words, @function
heddle_user_own_words:
	.cfi_startproc
	movq own_words@gottpoff(%rip), %rax
	addq %fs:0, %rax
	ret
	.cfi_endproc
	.size heddle_user_own_words, . - heddle_user_own_words

/* What code of this library gets that asks for the address of one of its thread-local variables
 * (link-shared.sh). They all lie in static thread-local storage, where this is as far from the
 * thread pointer in every thread: the C library's function would look it up in the thread's table
 * of blocks, which is memory that a thread touches for nothing else.
 */
	.globl __wrap___tls_get_addr
	.hidden __wrap___tls_get_addr
	.type __wrap___tls_get_addr, @function
__wrap___tls_get_addr:
	.cfi_startproc
	movq own_words@gottpoff(%rip), %rax
	addq %fs:0, %rax
	addq 8(%rdi), %rax
	subq $own_words@dtpoff, %rax
	ret
	.cfi_endproc
	.size __wrap___tls_get_addr, . - __wrap___tls_get_addr

/* long heddle_user_system_call(long number, size_t a, size_t b, size_t c, size_t d, size_t e,
 * size_t f): a system call, and what the kernel says, which is the negative of an error's number.
 * The C library's `syscall` is two jumps further, through a table and through libheddle-preload,
 * which has no business with what this library asks.
 */
	.text
	.globl heddle_user_system_call
	.hidden heddle_user_system_call
	.type heddle_user_system_call, @function
heddle_user_system_call:
	.cfi_startproc
	movq %rdi, %rax
	movq %rsi, %rdi
	movq %rdx, %rsi
	movq %rcx, %rdx
	movq %r8, %r10
	movq %r9, %r8
	movq 8(%rsp), %r9
	syscall
	ret
	.cfi_endproc
	.size heddle_user_system_call, . - heddle_user_system_call

	.macro TAKEN name, index, who
	.text
	.balign 16
	.globl \name
	.type \name, @function
\name:
exported_\name:
	.cfi_startproc
	endbr64
	.ifc \who, full
	movq own_words@gottpoff(%rip), %r11
	cmpq $0, %fs:(%r11)
	je __wrap_\name
	.endif
	.ifc \who, preceded
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	call heddle_user_before_\name
	movq (%rsp), %rdx
	movq 8(%rsp), %rsi
	movq 16(%rsp), %rdi
	movq 24(%rsp), %rcx
	call heddle_user_ask_\name
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	testq %rax, %rax
	jz __wrap_\name
	ret
	.else
	.ifc \who, sited
	movq (%rsp), %r8
	.endif
	jmp heddle_user_\name
	.endif
	.cfi_endproc
	.size \name, . - \name

	.balign 16
	.globl __wrap_\name
	.hidden __wrap_\name
	.type __wrap_\name, @function
__wrap_\name:
	.cfi_startproc
	endbr64
	movq heddle_user_real + 8 * \index(%rip), %r11
	testq %r11, %r11
	jz 1f
	jmp *%r11
1:	leaq heddle_user_real + 8 * \index(%rip), %r11
	jmp find_and_go
	.cfi_endproc
	.size __wrap_\name, . - __wrap_\name
	.endm

	.text
	.type find_and_go, @function
find_and_go:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	andq $-16, %rsp
	pushq %rax
	pushq %rdi
	pushq %rsi
	pushq %rdx
	pushq %rcx
	pushq %r8
	pushq %r9
	pushq %r10
	pushq %r11
	subq $136, %rsp
	movups %xmm0, 0(%rsp)
	movups %xmm1, 16(%rsp)
	movups %xmm2, 32(%rsp)
	movups %xmm3, 48(%rsp)
	movups %xmm4, 64(%rsp)
	movups %xmm5, 80(%rsp)
	movups %xmm6, 96(%rsp)
	movups %xmm7, 112(%rsp)
	movq %r11, %rdi
	call heddle_user_find_real
	movups 0(%rsp), %xmm0
	movups 16(%rsp), %xmm1
	movups 32(%rsp), %xmm2
	movups 48(%rsp), %xmm3
	movups 64(%rsp), %xmm4
	movups 80(%rsp), %xmm5
	movups 96(%rsp), %xmm6
	movups 112(%rsp), %xmm7
	addq $136, %rsp
	popq %r11
	popq %r10
	popq %r9
	popq %r8
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rax
	leave
	.cfi_def_cfa %rsp, 8
	jmp *(%r11)
	.cfi_endproc
	.size find_and_go, . - find_and_go

/* vfork of a full thread. The child runs in the parent's memory and leaves this frame first, so the
 * return address waits in a register, and the child must not take itself for a thread on a worker.
 */
	.globl heddle_user_vfork
	.hidden heddle_user_vfork
	.type heddle_user_vfork, @function
heddle_user_vfork:
	.cfi_startproc
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call heddle_user_before_vfork
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	movq own_words@gottpoff(%rip), %rsi
	movq %fs:(%rsi), %rdx
	movq $0, %fs:(%rsi)
	popq %rdi
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdi
	movl $58, %eax			/* __NR_vfork */
	syscall
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	.cfi_offset %rip, -8
	testq %rax, %rax
	jz 1f
	movq %rdx, %fs:(%rsi)
	pushq %rax
	.cfi_adjust_cfa_offset 8
	movq %rax, %rdi
	call heddle_user_after_vfork
	popq %rdi
	.cfi_adjust_cfa_offset -8
	movq %rdi, %rax
	testq %rax, %rax
	jns 1f
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call heddle_user_vfork_failed
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
1:	ret
	.cfi_endproc
	.size heddle_user_vfork, . - heddle_user_vfork

/* execl, execlp and execle of a full thread, whose arguments come one by one: those in registers
 * are put below the others, so that all are one array with a null at its end, and given to the
 * function that takes an array. It returns if there is no such program.
 */
.macro exec_of_list name, by, has_environment
	.globl heddle_user_\name
	.hidden heddle_user_\name
	.type heddle_user_\name, @function
heddle_user_\name:
	.cfi_startproc
	popq %rax
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rax
	pushq %r9
	pushq %r8
	pushq %rcx
	pushq %rdx
	pushq %rsi
	movq %rsp, %rsi
	.cfi_adjust_cfa_offset 40
	pushq %rax
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rip, 0
	.if \has_environment
	movq %rsi, %rdx			/* the environment is what follows the null */
1:	addq $8, %rdx
	cmpq $0, -8(%rdx)
	jne 1b
	movq (%rdx), %rdx
	.endif
	call heddle_user_\by
	popq %rdx
	.cfi_adjust_cfa_offset -8
	.cfi_register %rip, %rdx
	addq $40, %rsp
	.cfi_adjust_cfa_offset -40
	pushq %rdx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rip, 0
	ret
	.cfi_endproc
	.size heddle_user_\name, . - heddle_user_\name
.endm

	exec_of_list execl, execv, 0
	exec_of_list execlp, execvp, 0
	exec_of_list execle, execve, 1

/* sigsetjmp of a full thread: keeps the thread's mask, then goes on as the C library's. It returns
 * twice, so it has no frame of its own by then.
 */
	.globl heddle_user___sigsetjmp
	.hidden heddle_user___sigsetjmp
	.type heddle_user___sigsetjmp, @function
heddle_user___sigsetjmp:
	.cfi_startproc
	testl %esi, %esi
	jz 1f
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call heddle_user_before_sigsetjmp
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
1:	jmp __wrap___sigsetjmp
	.cfi_endproc
	.size heddle_user___sigsetjmp, . - heddle_user___sigsetjmp

/* Calls a signal handler (rdi) with a signal, its siginfo_t and context (rsi, rdx, rcx) on the
 * stack that ends at r8, or on this one if that is 0; 0 is returned. An unwind finds its way back
 * through rbp.
 */
	.globl heddle_user_call_on
	.hidden heddle_user_call_on
	.type heddle_user_call_on, @function
heddle_user_call_on:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	testq %r8, %r8
	cmovnzq %r8, %rsp
	movq %rdi, %rax
	movl %esi, %edi
	movq %rdx, %rsi
	movq %rcx, %rdx
	call *%rax
	xorl %eax, %eax
	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size heddle_user_call_on, . - heddle_user_call_on

/* A system call that may sleep: rsi points to its number and six arguments. It fails with EINTR if
 * the calling thread is called or cancelled, before it or in it. rdi: the byte that says so. A
 * signal that comes between the look and the call goes on at the end of the call (preempt.rs of the
 * runtime).
 */
	.globl heddle_user_interruptible_call
	.hidden heddle_user_interruptible_call
	.type heddle_user_interruptible_call, @function
	.globl heddle_user_interruptible_first
	.hidden heddle_user_interruptible_first
	.globl heddle_user_interruptible_last
	.hidden heddle_user_interruptible_last
	.globl heddle_user_interruptible_end
	.hidden heddle_user_interruptible_end
heddle_user_interruptible_call:
	.cfi_startproc
	movq %rdi, %r11
	movq (%rsi), %rax
	movq 8(%rsi), %rdi
	movq 24(%rsi), %rdx
	movq 32(%rsi), %r10
	movq 40(%rsi), %r8
	movq 48(%rsi), %r9
	movq 16(%rsi), %rsi
heddle_user_interruptible_first:
	movzbl (%r11), %r11d
	testb $8, %r11b			/* CANCEL_CALLED */
	jnz 1f
	andl $3, %r11d			/* CANCEL_ASKED, and not CANCEL_DISABLED */
	cmpl $1, %r11d
	je 1f
heddle_user_interruptible_last:
	syscall
heddle_user_interruptible_end:
	ret
1:	movq $-4, %rax			/* -EINTR */
	ret
	.cfi_endproc
	.size heddle_user_interruptible_call, . - heddle_user_interruptible_call

/* Copies rdx bytes from rsi to rdi; 0, or 1 where there is no such memory. The one instruction that
 * may fault is where the handler of faults looks (src/sys/probed.rs).
 */
	.globl heddle_user_copy
	.hidden heddle_user_copy
	.type heddle_user_copy, @function
	.globl heddle_user_copy_instruction
	.hidden heddle_user_copy_instruction
	.globl heddle_user_copy_failed
	.hidden heddle_user_copy_failed
heddle_user_copy:
	.cfi_startproc
	movq %rdx, %rcx
heddle_user_copy_instruction:
	rep movsb
	xorl %eax, %eax
	ret
heddle_user_copy_failed:
	movl $1, %eax
	ret
	.cfi_endproc
	.size heddle_user_copy, . - heddle_user_copy
