/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the parts of libheddle-preload share.
 *
 * The library lives in somebody else's process. Its invariants:
 *   1. Nothing here allocates by malloc, starts a thread, or keeps a lock while foreign code runs.
 *   2. Whatever goes wrong with us, the program gets the thread that plain pthreads would give.
 *   3. What belongs to the process is reached through `control`, a page that the kernel empties
 *      in a forked child: a child finds nothing begun and starts afresh, however it was forked.
 *   4. errno is the program's: every function that it calls leaves it as the real one would.
 *
 * Who holds what: a slot (struct thread here, a record and a place in the table) is held by the
 * creating thread until pthread_create returns, and by the created one until its end. The last of
 * the two gives it back.
 */
#ifndef HEDDLE_PRELOAD_H
#define HEDDLE_PRELOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <heddle/plan.h>
#include <heddle/record.h>

#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((cold, noinline))
/* In the static block that exists in each thread from its start: reading it is one instruction. */
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#define PAGE_SIZE 4096u

#define load(place) __atomic_load_n(place, __ATOMIC_RELAXED)
#define load_acquire(place) __atomic_load_n(place, __ATOMIC_ACQUIRE)
#define store(place, value) __atomic_store_n(place, value, __ATOMIC_RELAXED)
#define store_release(place, value) __atomic_store_n(place, value, __ATOMIC_RELEASE)

/* Room: what a 32-bit address space can spare decides there. */
#if UINTPTR_MAX > UINT32_MAX
#define THREADS_MAX 65536u
#define TEXT_BYTES (1u << 20)
#else
#define THREADS_MAX 16384u
#define TEXT_BYTES (256u << 10)
#endif
#define USES_CAPACITY 1024u
/* What gets memory at a time. */
#define THREADS_STEP 256u
#define TEXT_STEP (64u << 10)
#define USES_STEP (32u << 10)

typedef void *(*start_function)(void *);

/* ---- lock.c: a lock that sleeps in the kernel, so that priorities cannot turn it into a loop */

struct lock {
	uint32_t word; /* 0 free, 1 held, 2 held and somebody may wait */
};

void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);
/* For code that may run in a signal handler, on top of the holder: gives up after a while. */
bool lock_take_briefly(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
	uint32_t none = 0;

	return __atomic_compare_exchange_n(&lock->word, &none, 1, false, __ATOMIC_ACQUIRE, 0);
}

static inline void lock_take(struct lock *lock)
{
	if (!lock_try(lock))
		lock_wait(lock);
}

static inline void lock_give(struct lock *lock)
{
	if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
		lock_wake(lock);
}

/* ---- threads.c */

/* thread.flags */
#define THREAD_MAIN 1u
#define THREAD_USER_STACK 2u
#define THREAD_TUNED 4u
#define THREAD_ENDED 8u
#define THREAD_SECOND_ROUND 16u /* the key's destructor ran once */
#define THREAD_OVERFLOWED 32u
#define THREAD_UNLIMITED 64u /* its stack has no limit: no size, no zone */

/* What we know of a living thread and nobody else has to: the private half of its record. */
struct thread {
	start_function start;
	void *argument;
	pthread_t handle; /* 0 until known */
	uintptr_t stack_low;
	uintptr_t stack_high;
	uintptr_t entry;
	uintptr_t trip;      /* the page that is closed as a tripwire, 0 none */
	void *signal_stack;  /* 0 none */
	size_t signal_bytes; /* its size, if there is to be one */
	void *signal_room;   /* the slot's own, for whichever thread has the slot; 0 none yet */
	uint64_t created_ns;
	uint64_t began_ns; /* when it ran first */
	size_t stack_asked;
	size_t stack_given;
	uint32_t slot;
	uint32_t use;
	uint32_t kind;
	uint32_t next_free;  /* slot + 1 */
	uint32_t holders;    /* creator and created */
	uint32_t flags;
	uint32_t attributes; /* ATTRIBUTES_* */
	uint32_t use_flags;  /* what this thread says of its kind */
	struct lock lock;    /* keeps the stack in place while somebody else measures it */
} __attribute__((aligned(128)));

/* The thread that runs, or null where it has no slot. */
extern THREAD_LOCAL struct thread *current_thread;

struct thread *thread_take(void);
void thread_give(struct thread *thread);
struct thread *thread_at(uint32_t slot);
/* The living thread with this handle, or null. The calling thread's own costs no search. */
struct thread *thread_find(pthread_t handle);
bool threads_begin(void);

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }
static inline uint32_t saturate(uint64_t value)
{
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* ---- control.c */

enum begun { BEGUN_NOT = 0, BEGUN_NOW = 1, BEGUN_READY = 2, BEGUN_NEVER = 3 };

/* What belongs to this process. The kernel fills it with zeros in a forked child. */
struct control {
	uint32_t begun; /* enum begun */
	int32_t pid;
	struct lock grow;   /* slots and the table's memory */
	struct lock texts;
	struct lock kinds;
	struct lock uses;   /* all use entries */
	struct lock slow;   /* peak.c's buffer */
	struct lock signals;
	uint32_t slots;     /* that exist in `chunks` */
	uint32_t taken;     /* slots that were ever given out */
	uint64_t free_list; /* slot + 1, and above it a count against ABA */
	struct thread *chunks[THREADS_MAX / THREADS_STEP];
	int32_t pagemap;    /* descriptor + 1, 0 none yet */
	uint32_t measured;  /* the last measuring was done */
	uint32_t said;      /* messages so far */
	uint32_t partial;   /* the table has no room for more */
	uint32_t hosted;    /* another library makes the program's threads: host.c */
	uint64_t overhead;  /* bytes above the entry of a thread: thread-local storage */
};

extern struct control *control;

/* Whether threads are tabled here; makes the table if it has to be made. */
bool process_begin(void);
static inline bool process_ready(void)
{
	struct control *here = load_acquire(&control);

	return (here && load_acquire(&here->begun) == BEGUN_READY) || process_begin();
}
/* Whether a table exists already. */
static inline bool process_has_table(void)
{
	struct control *here = load_acquire(&control);

	return here && load_acquire(&here->begun) == BEGUN_READY;
}
void library_begin(void);
/* Whether system calls may be made that a program itself would hardly make: not once it has
 * asked for a seccomp filter, which might kill it for them. */
bool calls_allowed(void);
/* The same, where it is the calls themselves and not what they look at. */
bool calls_filtered(void);
void calls_forbid(void);
void measuring_forbid(void);
/* As long as it is not known whether they may be made. */
void calls_doubt(bool is_doubted);
/* CPU time of a thread, 0 unknown. */
uint64_t cpu_ns_of(int32_t tid);
pthread_key_t end_key(void);
uint64_t now_ns(void);
int32_t own_tid(void);

/* ---- table.c, texts.c */

struct table_map {
	struct heddle_table *header;
	struct heddle_record *records;
	struct heddle_place *places;
	struct heddle_use *uses;
	char *texts;
	uint32_t *roles;
	size_t bytes;
	uint32_t capacity;
	uint32_t backed; /* records with memory */
};

extern struct table_map table;

bool table_begin(void);
/* Gives memory to the slots below `slots`. False: there is none. */
bool table_back(uint32_t slots);
void table_forget(void);
void table_unlink(void);
void table_unlink_process(void); /* what has the process's name, whose table it may be */
/* Leaves the process's name in shared memory to another table. */
void table_put_aside(void);
/* Opens a part of the table for use; false where there is no memory for it. */
bool table_open(const void *start, size_t bytes);

static inline struct heddle_record *record_of(const struct thread *thread)
{
	return &table.records[thread->slot];
}

enum text_sort { TEXT_NAME, TEXT_START };

void texts_begin(void);
uint32_t text_intern(const char *bytes, size_t length, enum text_sort sort);
uint16_t role_intern(const char *bytes, size_t length);

/* ---- modules.c: addresses as (build-id, offset) */

struct place_name {
	struct heddle_where where;
	const char *path;   /* the loader's own */
	bool code;          /* in an executable part */
	bool constant;      /* in a part that is not writable once the program runs */
};

void modules_begin(void);
/* Finds the module that `address` lies in. */
bool module_find(uintptr_t address, struct place_name *name);
/* Whether there is one. */
bool module_is_loaded(uintptr_t address);
/* The program itself, at offset 0. */
bool module_program(struct place_name *name);
size_t module_text(const struct place_name *name, char *out, size_t room);
/* Thread-local storage that the loaded modules ask of each stack. */
size_t modules_tls_bytes(void);

/* What no function and no word has as its address. */
#define NO_ADDRESS ((uintptr_t)1)

/* Two addresses, spread over 32 bits. */
static inline uint32_t mix(uintptr_t one, uintptr_t two)
{
	const uint64_t mixed = ((uint64_t)one * 0x9e3779b97f4a7c15ull) ^
			       ((uint64_t)two * 0xc2b2ae3d27d4eb4full);

	return (uint32_t)(mixed >> 32);
}

static inline bool same_where(const struct heddle_where *one, const struct heddle_where *two)
{
	return one->offset == two->offset && one->id_bytes == two->id_bytes &&
	       memcmp(one->id, two->id, one->id_bytes ? one->id_bytes : sizeof(uint64_t)) == 0;
}

/* ---- starters.c */

struct starter;

bool starters_begin(void);
/* The entry of a start function; null: no room. */
struct starter *starter_of(uintptr_t start);
/* The word that tells its threads apart, or 0. */
uintptr_t starter_word(struct starter *starter, void *argument);
/* Whether one more word is believed to mean something. */
bool starter_may_refine(struct starter *starter);
/* A word meant nothing. */
void starter_missed(struct starter *starter);
bool starter_is_told_by_name(const struct starter *starter);
void starters_forget_addresses(void);

/* ---- site.c */

void sites_begin(void);
bool site_is_a_librarys(const char *path);
/* The place in the program from which a library's place was reached. */
uintptr_t site_of_program(uintptr_t site, const char *library);

/* ---- symbol.c */

/* The function of that name in the library whose file name begins so, if it is loaded. */
void *symbol_find(const char *library, const char *name);

/* ---- kinds.c */

/* One kind of thread in this process: the private half of a use. */
struct kind {
	uintptr_t start;
	uintptr_t refine;
	uint32_t use; /* index + 1; 0: the entry is free */
	uint32_t start_text;
	uint32_t stack_rule; /* bytes, 0 none */
	uint16_t role;
	uint8_t thread_class;
	uint8_t priority;
	uint8_t group;
	uint8_t category;
	uint8_t flags; /* KIND_* */
	uint8_t unused;
};

#define KIND_ATTRIBUTES 1u
#define KIND_FORCED 2u
#define KIND_BY_NAME 4u /* told by the thread's name */
#define KIND_MAIN 8u

#define KINDS_SIZE (USES_CAPACITY * 2) /* powers of two */

bool kinds_begin(void);
/* The kind's index, or 0 if there is no room. */
uint32_t kind_of(start_function start, void *argument, uintptr_t site);
uint32_t kind_of_main(void);
/* The kind for a thread of `kind` that was given a name. */
uint32_t kind_of_name(uint32_t kind, const char *name);
void kinds_forget_addresses(void);
struct kind *kind_at(uint32_t kind);

/* ---- uses.c: the public half */

struct use_birth {
	size_t asked;
	size_t given;
	uint32_t flags;
};

void use_created(uint32_t use, const struct use_birth *birth);
void use_not_created(uint32_t use, const struct use_birth *birth);
void use_failed(uint32_t use, const struct use_birth *birth);
void use_measured(uint32_t use, uint64_t peak, uint64_t resident);
void use_ended(uint32_t use, size_t given, uint64_t cpu_ns);
void use_moved(uint32_t from, uint32_t to, const struct use_birth *birth);
void use_named(uint32_t use, uint32_t name);
void use_cpu(uint32_t use, uint64_t cpu_ns);
void use_flag(uint32_t use, uint32_t flag);
/* One of them ran over the end of its stack, of which it had this much. For signal handlers. */
void use_overflowed(uint32_t use, uint64_t usable);
void use_attributes(uint32_t use, const struct heddle_record *record);
void use_ruled(uint32_t use, const struct heddle_name_rule *rule);

/* ---- peak.c */

struct peak {
	uint64_t bytes;
	uint64_t resident;
	uintptr_t lowest; /* address of the lowest word that is not zero */
	bool is_whole;    /* the stack is there to its end, as with mlockall() */
};

void peak_begin(void);
void peak_prepare(void);
/* Of the calling thread, which is about to end. Bytes below `frame` are looked at. `faulted`:
 * the thread caused page faults, or that is not known. */
bool peak_of_self(const struct thread *thread, uintptr_t frame, bool faulted, struct peak *peak);
/* Of another thread, whose stack may vanish meanwhile. */
bool peak_of_other(const struct thread *thread, struct peak *peak);
void peak_publish(struct thread *thread, const struct peak *peak);
uint8_t zone_of(const struct thread *thread, uint64_t peak);

/* ---- life.c, stacks.c, ending.c */

void *life(void *thread);

void thread_end(void *thread);
/* Measures all living threads, for the last time. */
void process_ends(void);
void process_goes_on(void);
void stack_locate(struct thread *thread);
/* Whether it is known where libc's descriptor of a thread says so. */
bool stacks_are_told(void);
/* The calling thread's number, which libc's descriptor of it holds. */
int32_t stack_tid(void);
void stack_locate_main(struct thread *thread);
uintptr_t stack_main_low(const struct thread *thread);

/* ---- destructors.c */

/* Whether it can be told what is to come when the calling thread's start function returns. Learns
 * it meanwhile, giving the end's key this value. */
bool destructors_are_told(const void *value);
/* Whether it is more than libc's own: only where that can be told. */
bool destructors_are_to_come(void);

/* ---- create.c */

struct heddle_host_call; /* <heddle/host.h> */
int create_from(pthread_t *handle, const pthread_attr_t *attributes,
		const struct heddle_host_call *call);
/* What a thread gets that asks for no stack size. */
size_t default_stack_bytes(void);
/* Whether the Stack Tuner gives threads of this kind, born so (HEDDLE_USE_*), their rule's size. */
bool stack_is_chosen(const struct kind *kind, uint32_t birth_flags);

/* ---- host.c */

/* Whether this start function is of the library that makes the program's threads. */
bool host_starts(uintptr_t start);
void host_process_ends(void);
void host_table_unlink(void);

/* ---- plan.c */

extern const struct heddle_plan *plan; /* null: only observe */

void plan_read(const char *path);
const struct heddle_rule *plan_rules(void);
const struct heddle_name_rule *plan_names(void);
const char *plan_text(uint32_t offset);
bool plan_flag(uint32_t flag);

/* ---- attributes.c */

/* thread.attributes: where they come from, stronger ones higher */
#define ATTRIBUTES_SOURCE 3u
#define ATTRIBUTES_BY_NAME 1u
#define ATTRIBUTES_BY_PROGRAM 2u
#define ATTRIBUTES_POLICY 4u /* the policy is SCHED_HEDDLE */
#define ATTRIBUTES_RAISED 8u /* the kernel's is SCHED_RR, by us */
#define ATTRIBUTES_ANSWERED 16u /* the policy is the record's: the kernel refused it */

void attributes_of_name(struct thread *thread, const char *name);
/* The first rule that holds for a name, or null. */
const struct heddle_name_rule *rule_of_name(const char *name);
void attributes_of_kind(struct heddle_record *record, const struct kind *kind);

/* Sets the kernel's policy as the class says, where nobody else does. */
void attributes_apply(struct thread *thread);
int attributes_set_priority(struct thread *thread, int priority);

/* ---- attr.c: SCHED_HEDDLE in a pthread_attr_t */

bool attr_is_heddle(const pthread_attr_t *attributes);
int attr_make_ordinary(pthread_attr_t *attributes);

/* ---- fault.c */

void faults_begin(void);
/* Before a tuned thread, or one with a tripwire, is created. */
void fault_arm(void);
bool fault_wants_tripwire(void);
/* Whether the thread has to have a signal stack. */
bool fault_concerns(const struct thread *thread);
void fault_thread_begins(struct thread *thread);
/* When its start function has returned or was unwound. */
void fault_thread_ends(struct thread *thread);

/* ---- environ.c */

/* Whether a run started this program. */
bool environment_begin(void);

/* ---- say.c */

/* Notes what standard error is: a program may have a file of its own there later. */
void say_begin(void);
/* One line on standard error, "heddle: ..." of the pieces up to a null one. */
void say(const char *first, ...) __attribute__((sentinel));
/* Decimal digits of a number, in a buffer that lives until the same thread's fourth next call. */
const char *digits(uint64_t value);
size_t text_copy(char *out, size_t room, const char *text);
size_t text_hex(char *out, size_t room, uint64_t value);

/* ---- real.c: the functions that ours stand in front of */

struct real {
	void *found;
	const char *name;
} __attribute__((aligned(16)));

/* Looks all of them up. */
void reals_begin(void);
void *real_function(struct real *real);
#define REAL(name)                                                                                 \
	({                                                                                         \
		static struct real real_ __attribute__((section("reals"), used)) = {NULL, #name};  \
		(__typeof__(&name))real_function(&real_);                                          \
	})

#endif
