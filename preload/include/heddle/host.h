/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What libheddle-preload does for a library in front of it that makes the program's threads
 * itself (libheddle-user): it knows the plan, tells kinds of threads apart and keeps the account
 * of each kind, so that the run reads one account whatever the threads are.
 *
 * The library in front finds heddle_preload_host by its name and calls these functions for each
 * of its threads.
 *
 * All functions may be called by any thread, at any time; they take locks for some instructions,
 * so the caller must not be left for another thread in them. `overflowed` takes none: it is for
 * signal handlers. In a forked child every function does nothing, and `kind` returns 0.
 */
#ifndef HEDDLE_HOST_H
#define HEDDLE_HOST_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define HEDDLE_HOST_VERSION 3u

/* heddle_host_kind.flags */
#define HEDDLE_HOST_FORCED 1u  /* stack_bytes are the user's own word */
#define HEDDLE_HOST_BY_NAME 2u /* a name may make another kind of its threads */

/* What is known of a kind. Texts are not NUL-ended, and live as long as the process. */
struct heddle_host_kind {
	const char *role; /* null: the policy has none */
	const char *start; /* "BUILD-ID+OFFSET PATH", two lines with a refining word */
	uint32_t role_bytes;
	uint32_t start_bytes;
	uint32_t stack_bytes; /* to be given below the start function's call, 0: as asked for */
	uint32_t flags;
	uint8_t thread_class;
	uint8_t priority;
	uint8_t group;
	uint8_t category;
};

/* A thread's stack, as the account has it. */
struct heddle_host_birth {
	size_t asked;
	size_t given;
	uint32_t flags; /* HEDDLE_USE_* */
};

/* What the program called to make a kernel thread, and what that is to run. */
struct heddle_host_call {
	void *(*start)(void *);
	void *argument;
	uintptr_t site; /* the address behind the call */
	void *(*run)(void *);
	void *run_argument;
};

struct heddle_attributes; /* <heddle/pthread_np.h> */

struct heddle_host {
	uint32_t version;
	uint32_t kinds; /* their numbers are not above this */
	/* Says that the caller makes threads from now on, whose own table gets the process's name
	 * in shared memory. Threads with start functions in [text_low, text_high) are none of the
	 * program's. `ends` is called before the process ends, to say what living threads used.
	 * 0: there is no account. */
	int (*begin)(uintptr_t text_low, uintptr_t text_high, void (*ends)(void));
	/* pthread_create() of a kernel thread, which is of the kind that the call has. At any
	 * time. */
	int (*create)(pthread_t *handle, const pthread_attr_t *attributes,
		      const struct heddle_host_call *call);
	/* The number of the kind that such a thread is of, called from `site`; 0: none. */
	uint32_t (*kind)(void *(*start)(void *), void *argument, uintptr_t site);
	/* What a thread gets that asks for no stack size. */
	size_t (*default_stack)(void);
	/* `birth_flags` decide about the stack's size. */
	void (*describe)(uint32_t kind, uint32_t birth_flags, struct heddle_host_kind *out);
	/* A thread is about to begin; with it there are `living`. */
	void (*created)(uint32_t kind, const struct heddle_host_birth *birth, uint32_t living);
	/* It could not be made after all. */
	void (*failed)(uint32_t kind, const struct heddle_host_birth *birth);
	void (*measured)(uint32_t kind, uint64_t peak, uint64_t resident);
	/* A thread ended, with all the CPU time that it used. */
	void (*ended)(uint32_t kind, size_t given, uint64_t cpu_ns);
	/* CPU time of a thread that still lives at the process's end. */
	void (*used)(uint32_t kind, uint64_t cpu_ns);
	void (*overflowed)(uint32_t kind, uint64_t usable);
	/* The program has said what a thread of this kind is for. An empty role says nothing. */
	void (*said)(uint32_t kind, const struct heddle_attributes *value);
	/* A thread of this kind got a name: the kind that it is of by that. Fills `out` and sets
	 * `*has_rule` if a rule of the policy holds for the name. */
	uint32_t (*named)(uint32_t kind, const char *name, const struct heddle_host_birth *birth,
			  struct heddle_host_kind *out, int *has_rule);
	/* The High zone's border in percent, if the user wants to be told of threads that cross it,
	 * else 0. */
	uint32_t (*tripwire)(void);
	/* A thread crossed it: `who` in words, of so many bytes, at this instruction. In a signal
	 * handler that was called there. */
	void (*tripped)(uint32_t kind, const char *who, uint64_t usable, uintptr_t at);
};

#endif /* HEDDLE_HOST_H */
