/* The ucontext functions of full threads, x86-64; link-shared.sh appends the list of names.
 *
 * The C library's have the kernel change the mask of the kernel thread, which for a full thread is
 * its worker's. Here the mask is the thread's own (src/threads/signals/context.rs), and there is
 * no system call. All else is as the C library does it, in the same places of `ucontext_t`: a
 * context that one of both has filled, the other goes on with.
 *
 * Invariant: between taking on a context's mask and its registers nothing is kept that belongs to a
 * worker: handlers of what the mask lets through run there, and may wait.
 */
	.set CONTEXT_LINK, 8
	.set CONTEXT_STACK, 16
	.set CONTEXT_STACK_BYTES, 32
	.set CONTEXT_R8, 40
	.set CONTEXT_R9, 48
	.set CONTEXT_R12, 72
	.set CONTEXT_R13, 80
	.set CONTEXT_R14, 88
	.set CONTEXT_R15, 96
	.set CONTEXT_RDI, 104
	.set CONTEXT_RSI, 112
	.set CONTEXT_RBP, 120
	.set CONTEXT_RBX, 128
	.set CONTEXT_RDX, 136
	.set CONTEXT_RCX, 152
	.set CONTEXT_RSP, 160
	.set CONTEXT_RIP, 168
	.set CONTEXT_FLOAT, 224		/* points to the x87 environment */
	.set CONTEXT_FLOAT_MEMORY, 424
	.set CONTEXT_MXCSR, 448

/* The caller's registers, as they are after the return, to rdi. Changes rcx. */
	.macro keep_registers
	movq %rbx, CONTEXT_RBX(%rdi)
	movq %rbp, CONTEXT_RBP(%rdi)
	movq %r12, CONTEXT_R12(%rdi)
	movq %r13, CONTEXT_R13(%rdi)
	movq %r14, CONTEXT_R14(%rdi)
	movq %r15, CONTEXT_R15(%rdi)
	movq %rdi, CONTEXT_RDI(%rdi)
	movq %rsi, CONTEXT_RSI(%rdi)
	movq %rdx, CONTEXT_RDX(%rdi)
	movq %rcx, CONTEXT_RCX(%rdi)
	movq %r8, CONTEXT_R8(%rdi)
	movq %r9, CONTEXT_R9(%rdi)
	movq (%rsp), %rcx
	movq %rcx, CONTEXT_RIP(%rdi)
	leaq 8(%rsp), %rcx
	movq %rcx, CONTEXT_RSP(%rdi)
	leaq CONTEXT_FLOAT_MEMORY(%rdi), %rcx
	movq %rcx, CONTEXT_FLOAT(%rdi)
	fnstenv (%rcx)
	fldenv (%rcx)			/* storing it masks all exceptions */
	stmxcsr CONTEXT_MXCSR(%rdi)
	.endm

	.text
	.globl heddle_user_getcontext
	.hidden heddle_user_getcontext
	.type heddle_user_getcontext, @function
heddle_user_getcontext:
	.cfi_startproc
	keep_registers
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call heddle_user_keep_mask
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	xorl %eax, %eax
	ret
	.cfi_endproc
	.size heddle_user_getcontext, . - heddle_user_getcontext

/* As heddle_user_call_on, of a handler whose context (rcx) is the caller's: who goes on with that
 * is behind the handler, and 1 is returned then. Its stack pointer is on the caller's stack even if
 * the handler is elsewhere.
 */
	.globl heddle_user_call_resumable
	.hidden heddle_user_call_resumable
	.type heddle_user_call_resumable, @function
heddle_user_call_resumable:
	.cfi_startproc
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	leaq 1f(%rip), %rax
	movq %rax, CONTEXT_RIP(%rcx)
	movq %rsp, CONTEXT_RSP(%rcx)
	movq %rbp, CONTEXT_RBP(%rcx)
	movq %rbx, CONTEXT_RBX(%rcx)
	movq %r12, CONTEXT_R12(%rcx)
	movq %r13, CONTEXT_R13(%rcx)
	movq %r14, CONTEXT_R14(%rcx)
	movq %r15, CONTEXT_R15(%rcx)
	testq %r8, %r8
	cmovnzq %r8, %rsp
	movq %rdi, %rax
	movl %esi, %edi
	movq %rdx, %rsi
	movq %rcx, %rdx
	call *%rax
	xorl %eax, %eax
	jmp 2f
1:	movl $1, %eax
2:	leave
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc
	.size heddle_user_call_resumable, . - heddle_user_call_resumable

/* Of any thread: a kernel thread's mask is noted before the C library's function sets it. */
	.globl heddle_user_swapcontext
	.hidden heddle_user_swapcontext
	.type heddle_user_swapcontext, @function
heddle_user_swapcontext:
	.cfi_startproc
	movq own_words@gottpoff(%rip), %r11
	cmpq $0, %fs:(%r11)
	je 1f
	keep_registers
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	call heddle_user_switch_mask
	popq %rdx
	.cfi_adjust_cfa_offset -8
	jmp take_registers
1:	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	movq %rsi, %rdi
	call heddle_user_before_kernels_mask
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp __wrap_swapcontext
	.cfi_endproc
	.size heddle_user_swapcontext, . - heddle_user_swapcontext

	.globl heddle_user_setcontext
	.hidden heddle_user_setcontext
	.type heddle_user_setcontext, @function
heddle_user_setcontext:
	.cfi_startproc
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	movq own_words@gottpoff(%rip), %r11
	cmpq $0, %fs:(%r11)
	je 1f
	movq %rdi, %rsi
	xorl %edi, %edi
	call heddle_user_switch_mask
	popq %rdx
	.cfi_adjust_cfa_offset -8
	jmp take_registers
	.cfi_adjust_cfa_offset 8
1:	call heddle_user_before_kernels_mask
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp __wrap_setcontext
	.cfi_endproc
	.size heddle_user_setcontext, . - heddle_user_setcontext

/* Goes on with the context at rdx, whose mask the thread has by now. */
	.type take_registers, @function
take_registers:
	.cfi_startproc
	.cfi_def_cfa %rdx, 0
	.cfi_offset %rip, CONTEXT_RIP
	.cfi_offset %rsp, CONTEXT_RSP
	.cfi_offset %rbx, CONTEXT_RBX
	.cfi_offset %rbp, CONTEXT_RBP
	.cfi_offset %r12, CONTEXT_R12
	.cfi_offset %r13, CONTEXT_R13
	.cfi_offset %r14, CONTEXT_R14
	.cfi_offset %r15, CONTEXT_R15
	movq CONTEXT_FLOAT(%rdx), %rcx
	fldenv (%rcx)
	ldmxcsr CONTEXT_MXCSR(%rdx)
	movq CONTEXT_RSP(%rdx), %rsp
	movq CONTEXT_RBX(%rdx), %rbx
	movq CONTEXT_RBP(%rdx), %rbp
	movq CONTEXT_R12(%rdx), %r12
	movq CONTEXT_R13(%rdx), %r13
	movq CONTEXT_R14(%rdx), %r14
	movq CONTEXT_R15(%rdx), %r15
	pushq CONTEXT_RIP(%rdx)
	movq CONTEXT_RDI(%rdx), %rdi
	movq CONTEXT_RSI(%rdx), %rsi
	movq CONTEXT_RCX(%rdx), %rcx
	movq CONTEXT_R8(%rdx), %r8
	movq CONTEXT_R9(%rdx), %r9
	movq CONTEXT_RDX(%rdx), %rdx
	.cfi_def_cfa %rsp, 8
	.cfi_offset %rip, -8
	.cfi_restore %rsp
	.cfi_restore %rbx
	.cfi_restore %rbp
	.cfi_restore %r12
	.cfi_restore %r13
	.cfi_restore %r14
	.cfi_restore %r15
	xorl %eax, %eax
	ret
	.cfi_endproc
	.size take_registers, . - take_registers

/* makecontext(context, function, count, ...) of any thread, for another one may go on with the
 * context. The new stack, from its end down: where to go on when the function returns (the link),
 * to which rbx points; the arguments from the seventh on; where the function returns to.
 */
	.globl heddle_user_makecontext
	.hidden heddle_user_makecontext
	.type heddle_user_makecontext, @function
heddle_user_makecontext:
	.cfi_startproc
	movl $6, %r10d
	cmpl %r10d, %edx
	cmovgl %edx, %r10d
	subl $6, %r10d			/* arguments on the stack */
	leaq 8(, %r10, 8), %r11
	movq CONTEXT_STACK(%rdi), %rax
	addq CONTEXT_STACK_BYTES(%rdi), %rax
	subq %r11, %rax
	andq $-16, %rax
	subq $8, %rax
	movq %rsi, CONTEXT_RIP(%rdi)
	movq %rax, CONTEXT_RSP(%rdi)
	leaq after_context(%rip), %rsi
	movq %rsi, (%rax)
	addq %rax, %r11
	movq %r11, CONTEXT_RBX(%rdi)
	movq CONTEXT_LINK(%rdi), %rsi
	movq %rsi, (%r11)
	testl %edx, %edx
	jle 2f
	movq %rcx, CONTEXT_RDI(%rdi)
	movq %r8, CONTEXT_RSI(%rdi)
	movq %r9, CONTEXT_RDX(%rdi)
	cmpl $4, %edx
	jl 2f
	movq 8(%rsp), %rcx
	movq %rcx, CONTEXT_RCX(%rdi)
	je 2f
	movq 16(%rsp), %rcx
	movq %rcx, CONTEXT_R8(%rdi)
	cmpl $6, %edx
	jl 2f
	movq 24(%rsp), %rcx
	movq %rcx, CONTEXT_R9(%rdi)
1:	subl $1, %r10d
	jl 2f
	movq 32(%rsp, %r10, 8), %rcx
	movq %rcx, 8(%rax, %r10, 8)
	jmp 1b
2:	ret
	.cfi_endproc
	.size heddle_user_makecontext, . - heddle_user_makecontext

/* The function of a context has returned: the linked one follows, or as with the C library the
 * process's end.
 */
	.type after_context, @function
	.cfi_startproc
	.cfi_undefined %rip
	nop				/* an unwind looks at the byte before */
after_context:
	movq (%rbx), %rdi
	movq %rbx, %rsp
	andq $-16, %rsp
	testq %rdi, %rdi
	je 1f
	call heddle_user_setcontext
	movl %eax, %edi			/* a kernel thread's may fail */
1:	call exit@PLT
	hlt
	.cfi_endproc
	.size after_context, . - after_context

