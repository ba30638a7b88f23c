/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The program's own actions for SIGSEGV and SIGBUS, while ours stands in their place.
 *
 * Invariants
 *   - What the program asks for is what it is told, and what happens to every fault that is not
 *     ours: signals_step_aside() gives the kernel the program's action, and the fault happens
 *     again, on the stack and with the mask that the program chose.
 *   - Ours is in place only while some thread needs it (fault.c).
 */
#define _GNU_SOURCE
#include "signals.h"
#include "preload.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sigaction program[2];
static uint32_t in_place[2];
static signal_handler handler;
/* The program has handlers for other signals that run on a thread's signal stack, if it has one. */
static uint32_t others_on_stack;

bool signals_others_on_stack(void) { return load(&others_on_stack); }

static __typeof__(&sigaction) real_sigaction(void) { return REAL(sigaction); }

static int index_of(int number) { return number == SIGSEGV ? 0 : number == SIGBUS ? 1 : -1; }

/* A handler of the program may call sigaction() while we hold the lock: not on this thread. */
static void enter(sigset_t *before)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, before);
	lock_take(&control->signals);
}

static void leave(const sigset_t *before)
{
	lock_give(&control->signals);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* The kernel's action: ours, with what of the program's does not depend on the handler. */
static int place(int number, int index)
{
	struct sigaction ours = {.sa_flags = SA_SIGINFO | SA_ONSTACK};

	ours.sa_sigaction = handler;
	ours.sa_mask = program[index].sa_mask;
	ours.sa_flags |= program[index].sa_flags & (SA_NODEFER | SA_RESTART);
	return real_sigaction()(number, &ours, NULL);
}

void signals_take(int number, signal_handler ours)
{
	const int index = index_of(number);
	int error = errno;
	sigset_t before;

	if (load(&in_place[index]))
		return;
	enter(&before);
	handler = ours;
	if (!in_place[index] && real_sigaction()(number, NULL, &program[index]) == 0) {
		/* After a fork the child has ours already, and the parent's memory of the other. */
		if (program[index].sa_sigaction != ours && place(number, index) == 0)
			store(&in_place[index], 1);
	}
	leave(&before);
	errno = error;
}

bool signals_is_plain(int number)
{
	const struct sigaction *it = &program[index_of(number)];

	return it->sa_handler == SIG_DFL || it->sa_handler == SIG_IGN;
}

void signals_step_aside(int number, siginfo_t *info)
{
	const int index = index_of(number);

	/* In a handler: no lock. Whoever is second does the same again. */
	store(&in_place[index], 0);
	real_sigaction()(number, &program[index], NULL);
	/* One that was sent does not happen again by itself. */
	if (info->si_code <= 0)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), own_tid(), number, info);
}

void signals_pass_on(int number, siginfo_t *info, void *context)
{
	struct sigaction *it = &program[index_of(number)];
	const struct sigaction now = *it;

	if (now.sa_flags & SA_RESETHAND)
		it->sa_handler = SIG_DFL;
	if (now.sa_flags & SA_SIGINFO)
		now.sa_sigaction(number, info, context);
	else
		now.sa_handler(number);
}

EXPORT int sigaction(int number, const struct sigaction *wanted, struct sigaction *before)
{
	const int index = index_of(number);
	struct sigaction known;
	sigset_t mask;
	int result = 0;

	if (index < 0 && wanted && (wanted->sa_flags & SA_ONSTACK))
		store(&others_on_stack, 1);
	if (index < 0 || !load(&in_place[index]))
		return real_sigaction()(number, wanted, before);
	enter(&mask);
	if (!in_place[index]) {
		result = real_sigaction()(number, wanted, before);
	} else {
		known = program[index];
		if (wanted) {
			program[index] = *wanted;
			result = place(number, index);
		}
		if (before)
			*before = known;
	}
	leave(&mask);
	return result;
}

typedef void (*plain_handler)(int);

/* As BSD has it, which is what both libcs mean by it. */
EXPORT plain_handler signal(int number, plain_handler wanted)
{
	struct sigaction action = {.sa_flags = SA_RESTART}, before;
	const int index = index_of(number);

	if (index < 0 || !load(&in_place[index]))
		return REAL(signal)(number, wanted);
	action.sa_handler = wanted;
	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, number);
	return sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}
