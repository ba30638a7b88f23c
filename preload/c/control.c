/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Begins: of the library in a program, and of the table in a process.
 *
 * The library begins once per program, in its constructor or at its first use if another
 * library's constructor was earlier. The table begins at the first thread; at once in the process
 * that `heddle run` started itself, so that its main thread is seen. A forked child finds its
 * control page emptied by the kernel and begins again when it needs to.
 *
 * Invariant: `begun` goes from NOT over NOW to READY or NEVER; whoever moved it to NOW moves it on.
 */
#define _GNU_SOURCE
#include "guarded.h"
#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* What libc itself keeps on a thread's stack, storage for later modules included. */
#define THREAD_DESCRIPTOR_BYTES 5120u

#define YIELDS_MAX 100000

struct control *control;
static pthread_key_t key;
static uint32_t library_begun; /* enum begun */
static uint32_t forbidden;

pthread_key_t end_key(void) { return key; }

/* Bits of `forbidden`. */
#define FILTERED 1u
#define DOUBTED 2u
#define UNMEASURED 4u

bool calls_allowed(void) { return !load(&forbidden); }

bool calls_filtered(void) { return load(&forbidden) & (FILTERED | DOUBTED); }

void calls_forbid(void) { __atomic_fetch_or(&forbidden, FILTERED, __ATOMIC_RELAXED); }

void measuring_forbid(void) { __atomic_fetch_or(&forbidden, UNMEASURED, __ATOMIC_RELAXED); }

void calls_doubt(bool is_doubted)
{
	if (is_doubted)
		__atomic_fetch_or(&forbidden, DOUBTED, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&forbidden, ~DOUBTED, __ATOMIC_RELAXED);
}

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The kernel's number of a thread's clock. */
uint64_t cpu_ns_of(int32_t tid)
{
	const clockid_t clock = (clockid_t)((~(uint32_t)tid << 3) | 6u);
	struct timespec used;

	if (!tid || clock_gettime(clock, &used) != 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

int32_t own_tid(void) { return (int32_t)syscall(SYS_gettid); }

/* The page comes into being with the process; without the kernel's wiping (before 4.14) a fork
 * handler does it, which forks behind libc's back do not reach. */
static void fork_child(void)
{
	memset(control, 0, sizeof(*control));
}

/* glibc and musl have it under different names. */
static void register_fork_handler(void)
{
	typedef int (*with_library)(void (*)(void), void (*)(void), void (*)(void), void *);
	typedef int (*without)(void (*)(void), void (*)(void), void (*)(void));
	const with_library one = (with_library)dlsym(RTLD_DEFAULT, "__register_atfork");
	const without other = one ? NULL : (without)dlsym(RTLD_DEFAULT, "pthread_atfork");

	if (one)
		(void)one(NULL, NULL, fork_child, NULL);
	else if (other)
		(void)other(NULL, NULL, fork_child);
}

static bool make_control(void)
{
	void *page = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return false;
	if (pthread_key_create(&key, thread_end) != 0) {
		munmap(page, sizeof(struct control));
		return false;
	}
	store_release(&control, page);
	if (madvise(page, sizeof(struct control), MADV_WIPEONFORK) != 0)
		register_fork_handler();
	return true;
}

/* What makes calls of all sorts, where they are no danger. */
static void begin_parts(bool is_in_run)
{
	const bool was_doubted = calls_filtered();

	guarded_decide(is_in_run);
	if (calls_filtered())
		return;
	if (was_doubted)
		say_begin();
	modules_begin();
	sites_begin();
	faults_begin();
	if (!make_control())
		say("no memory: threads are left alone", NULL);
}

void library_begin(void)
{
	uint32_t state = BEGUN_NOT;
	int error = errno;

	/* Without an environment libc itself has not begun (.preinit_array): not yet. */
	if (load_acquire(&library_begun) >= BEGUN_READY || !environ)
		return;
	if (!__atomic_compare_exchange_n(&library_begun, &state, BEGUN_NOW, false,
					 __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
		/* Bounded: a child may have been forked while another thread of the parent began. */
		for (int i = 0; i < YIELDS_MAX && load_acquire(&library_begun) == BEGUN_NOW; i++)
			sched_yield();
		return;
	}
	reals_begin();
	guarded_begin();
	if (!calls_filtered())
		say_begin();
	begin_parts(environment_begin());
	store_release(&library_begun, BEGUN_READY);
	errno = error;
}

/* A forked child's first thread goes on where the one that forked it was: on its stack. */
static void locate_first(struct thread *thread, const struct thread *forked)
{
	if (!forked || (forked->flags & THREAD_MAIN)) {
		stack_locate_main(thread);
		return;
	}
	thread->stack_low = forked->stack_low;
	thread->stack_high = forked->stack_high;
	thread->entry = forked->entry;
}

/* The record of the process's first thread. */
static void begin_main(const struct thread *forked)
{
	struct thread *thread = thread_take();
	struct heddle_record *record;
	uint32_t odd;

	if (!thread)
		return;
	record = record_of(thread);
	thread->kind = kind_of_main();
	thread->use = thread->kind ? kind_at(thread->kind)->use : 0;
	thread->flags = THREAD_MAIN;
	thread->holders = 1;
	thread->created_ns = now_ns();
	locate_first(thread, forked);
	odd = heddle_record_begin(record);
	record->generation++;
	record->tid = control->pid;
	record->worker = HEDDLE_WORKER_NONE;
	record->state = HEDDLE_STATE_READY;
	record->kind = HEDDLE_KIND_KERNEL_THREAD;
	record->start = thread->kind ? kind_at(thread->kind)->start_text : 0;
	record->group = HEDDLE_GROUP_NORMAL;
	/* musl's own functions about it refuse. */
	record->policy = (uint8_t)(syscall(SYS_sched_getscheduler, 0) & ~SCHED_RESET_ON_FORK);
	if (!(thread->flags & THREAD_UNLIMITED))
		record->stack_size = saturate(thread->stack_high - thread->stack_low);
	record->created_ns = thread->created_ns;
	table.places[thread->slot] = (struct heddle_place){
		.stack_low = thread->stack_low,
		.stack_high = thread->stack_high,
		.entry = thread->entry,
		.use = thread->use,
		.flags = HEDDLE_PLACE_MAIN,
	};
	heddle_record_end(record, odd);
	if (thread->use) {
		const struct use_birth birth = {record->stack_size, record->stack_size, 0};

		use_created(thread->use, &birth);
	}
	if (own_tid() == control->pid) {
		thread->handle = pthread_self();
		current_thread = thread;
	}
}

static bool begin_process(struct control *here)
{
	/* A slot that this thread has is one of the process that it was forked from. */
	const bool is_forked = current_thread != NULL;
	struct thread forked = {0};

	if (is_forked) {
		forked = *current_thread;
		current_thread = NULL;
		(void)pthread_setspecific(key, NULL);
	}
	here->pid = (int32_t)getpid();
	table_forget();
	threads_begin();
	texts_begin();
	if (!table_begin() || !kinds_begin())
		return false;
	peak_begin();
	here->overhead = THREAD_DESCRIPTOR_BYTES + modules_tls_bytes();
	begin_main(is_forked ? &forked : NULL);
	return true;
}

bool process_begin(void)
{
	uint32_t state = BEGUN_NOT;
	struct control *here;
	int error = errno;
	bool done;

	library_begin();
	here = load_acquire(&control);
	/* A child forked under a filter has no table, and cannot make one. */
	if (!here || (load(&here->begun) == BEGUN_NOT && calls_filtered()))
		return false;
	if (!__atomic_compare_exchange_n(&here->begun, &state, BEGUN_NOW, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_ACQUIRE)) {
		for (int i = 0; i < YIELDS_MAX && load_acquire(&here->begun) == BEGUN_NOW; i++)
			sched_yield();
		return load_acquire(&here->begun) == BEGUN_READY;
	}
	done = begin_process(here);
	store_release(&here->begun, done ? BEGUN_READY : BEGUN_NEVER);
	errno = error;
	return done;
}

__attribute__((constructor)) static void constructor(void)
{
	library_begin();
	if (control && plan && plan->parent == (int32_t)getppid())
		(void)process_begin();
}
