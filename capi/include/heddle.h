/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle.h - user-level threads for Linux, in the shape of POSIX threads.
 *
 * For every function pthread_X that POSIX programs use there is a heddle_X here with the same
 * argument order and the same results. A heddle thread is scheduled by the library on a few
 * kernel threads ("workers"); a call that would block parks the thread, never its worker.
 *
 * Rules that hold for the whole header
 *
 *   1. heddle_X returns 0 or an error number, as pthread_X does, and leaves errno alone. The
 *      exceptions are the functions whose POSIX original sets errno: the semaphores, the sleep
 *      family, and the I/O calls; these return what the original returns and set errno.
 *   2. Any kernel thread of the process may use any object of this header: main() and threads
 *      that other libraries created wait in the same queues as heddle threads do.
 *   3. Every object may be initialised statically by its HEDDLE_..._INITIALIZER. Members whose
 *      names begin with heddle_private_ belong to the library.
 *   4. Objects are process-private. Process-shared, robust and prio-protect objects do not
 *      exist; asking for one is answered by ENOTSUP.
 *   5. Constants have the values of their PTHREAD_ namesakes in the GNU C library.
 *
 * Sources that say pthread_X themselves need no change: see <heddle/pthread.h>.
 * Manual pages: heddle(7), then one page per family in section 3.
 */
#ifndef HEDDLE_H
#define HEDDLE_H

#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include <heddle/types.h>

#if !defined(__LP64__)
#error "heddle.h: only 64-bit Linux (x86-64, aarch64) is supported"
#endif

/* The library's version; heddle_version() tells that of the loaded library. */
#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0

#define HEDDLE_NORETURN __attribute__((__noreturn__))

/* Functions that may run a forced unwind (exit, cancellation) are not declared nothrow. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define HEDDLE_NOTHROW noexcept
#elif defined(__cplusplus)
#define HEDDLE_NOTHROW throw()
#else
#define HEDDLE_NOTHROW __attribute__((__nothrow__))
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct epoll_event;
struct addrinfo;
struct rusage;

/* ---------------------------------------------------------------------------------------------
 * The library: heddle_run(3)
 * ------------------------------------------------------------------------------------------- */

#define HEDDLE_BACKEND_DEFAULT 0 /* HEDDLE_BACKEND, else user */
#define HEDDLE_BACKEND_USER 1    /* user-level threads */
#define HEDDLE_BACKEND_NATIVE 2  /* one kernel thread per thread */
#define HEDDLE_IO_DEFAULT 0      /* HEDDLE_IO, else io_uring where the kernel has it */
#define HEDDLE_IO_URING 1
#define HEDDLE_IO_EPOLL 2

/* What heddle_configure() takes. Zero in a member means "as the environment says, else the
 * default". size_bytes is sizeof(struct heddle_config): it lets the structure grow. */
struct heddle_config {
	size_t size_bytes;
	unsigned int workers;         /* HEDDLE_WORKERS; default: the CPUs the process may use */
	int backend;                  /* HEDDLE_BACKEND_... */
	int io;                       /* HEDDLE_IO_... */
	size_t stack_size_bytes;      /* default stack of a thread whose attributes say nothing */
	const char *trace_file;       /* HEDDLE_TRACE: Chrome trace of the run */
};

/* Configures the runtime before it starts, which it does with the first thread. EBUSY when it
 * runs already; EINVAL for a value or size that is not known. */
int heddle_configure(const struct heddle_config *config) HEDDLE_NOTHROW;

/* Runs body(arg) as a heddle thread and returns its result: int main() { return
 * heddle_run(body, NULL); }. The caller waits. A body that ends by heddle_exit() or is
 * cancelled gives 0. -1 with errno set when the thread cannot be created. */
int heddle_run(int (*body)(void *), void *arg);

/* "0.1.0": the version of the loaded library. */
const char *heddle_version(void) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Threads: heddle_create(3), heddle_join(3), heddle_exit(3), heddle_self(3), heddle_once(3)
 * ------------------------------------------------------------------------------------------- */

/* Creates a thread that runs start(arg). EAGAIN: memory, stacks or records are exhausted;
 * EINVAL: attr is not initialised. */
int heddle_create(heddle_t *thread, const heddle_attr_t *attr, void *(*start)(void *), void *arg);

/* Waits for the end of a thread and takes its result. ESRCH, EINVAL (detached, or another
 * thread joins it), EDEADLK (itself, or a thread that waits for the caller). Cancellation point:
 * the thread stays joinable. */
int heddle_join(heddle_t thread, void **result);

/* EBUSY while the thread runs. */
int heddle_tryjoin_np(heddle_t thread, void **result) HEDDLE_NOTHROW;

/* ETIMEDOUT at a moment of CLOCK_REALTIME, or of the named clock; EINVAL. */
int heddle_timedjoin_np(heddle_t thread, void **result, const struct timespec *deadline);
int heddle_clockjoin_np(heddle_t thread, void **result, clockid_t clock,
			const struct timespec *deadline);

/* Nobody will join the thread. ESRCH, EINVAL (already detached). */
int heddle_detach(heddle_t thread) HEDDLE_NOTHROW;

/* Ends the calling thread: cleanup handlers, C++ destructors, key destructors, then the stack is
 * given back. Called by main(), it waits for all other threads and exits with status 0. */
HEDDLE_NORETURN void heddle_exit(void *result);

/* Ids. Every kernel thread has one, too. */
heddle_t heddle_self(void) HEDDLE_NOTHROW;
int heddle_equal(heddle_t a, heddle_t b) HEDDLE_NOTHROW;

/* Runs init exactly once; returns when it has run. If init is cancelled, it has not run. */
int heddle_once(heddle_once_t *once, void (*init)(void));

/* Lets the other ready threads of the worker run. Returns 0. */
int heddle_yield(void) HEDDLE_NOTHROW;

/* 0 while the thread exists, else ESRCH. Signals other than 0 go to processes: ENOTSUP. */
int heddle_kill(heddle_t thread, int signal) HEDDLE_NOTHROW;

/* The number of workers wanted; a hint that is remembered. EINVAL when negative. */
int heddle_setconcurrency(int level) HEDDLE_NOTHROW;
int heddle_getconcurrency(void) HEDDLE_NOTHROW;

/* The name that tools show. ERANGE: longer than HEDDLE_NAME_BYTES_MAX, or than the buffer. */
int heddle_setname_np(heddle_t thread, const char *name) HEDDLE_NOTHROW;
int heddle_getname_np(heddle_t thread, char *name, size_t size) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Cancellation and cleanup: heddle_cancel(3), heddle_cleanup_push(3)
 * ------------------------------------------------------------------------------------------- */

/* Asks a thread to end at its next cancellation point: every call of this header that blocks,
 * except the mutex, rwlock, spin and barrier functions. ESRCH. */
int heddle_cancel(heddle_t thread);

/* EINVAL for an unknown value; the asynchronous type is answered by ENOTSUP. */
int heddle_setcancelstate(int state, int *old_state);
int heddle_setcanceltype(int type, int *old_type);

/* A cancellation point, and nothing else. */
void heddle_testcancel(void);

/* Frames of the cleanup macros; not to be used directly. */
struct heddle_cleanup {
	void (*heddle_private_routine)(void *);
	void *heddle_private_arg;
	struct heddle_cleanup *heddle_private_next;
};
void heddle_cleanup_enter(struct heddle_cleanup *frame, void (*routine)(void *),
			  void *arg) HEDDLE_NOTHROW;
void heddle_cleanup_leave(struct heddle_cleanup *frame, int execute);

#if defined(__cplusplus) && defined(__EXCEPTIONS)
} /* extern "C" */

/* In C++ the handler is a destructor, so that it runs in order with the destructors around it
 * and when an exception passes. */
class heddle_cleanup_guard {
	void (*heddle_private_routine)(void *);
	void *heddle_private_arg;
	int heddle_private_armed;
	heddle_cleanup_guard(const heddle_cleanup_guard &);
	heddle_cleanup_guard &operator=(const heddle_cleanup_guard &);

public:
	heddle_cleanup_guard(void (*routine)(void *), void *arg)
		: heddle_private_routine(routine), heddle_private_arg(arg), heddle_private_armed(1)
	{
	}
	~heddle_cleanup_guard()
	{
		if (heddle_private_armed)
			heddle_private_routine(heddle_private_arg);
	}
	void heddle_leave(int execute) { heddle_private_armed = execute; }
};

#define heddle_cleanup_push(routine, arg)                                                         \
	do {                                                                                      \
		heddle_cleanup_guard heddle_cleanup_frame_(routine, arg)
#define heddle_cleanup_pop(execute)                                                               \
	heddle_cleanup_frame_.heddle_leave(execute);                                              \
	}                                                                                         \
	while (0)

extern "C" {
#else
/* A handler that runs at heddle_exit(), at cancellation, and at a pop that says so. Push and pop
 * are a pair of braces: they stand in the same block. */
#define heddle_cleanup_push(routine, arg)                                                         \
	do {                                                                                      \
		struct heddle_cleanup heddle_cleanup_frame_;                                      \
		heddle_cleanup_enter(&heddle_cleanup_frame_, routine, arg)
#define heddle_cleanup_pop(execute)                                                               \
	heddle_cleanup_leave(&heddle_cleanup_frame_, execute);                                    \
	}                                                                                         \
	while (0)
#endif

/* ---------------------------------------------------------------------------------------------
 * Thread-specific data: heddle_key_create(3)
 * ------------------------------------------------------------------------------------------- */

/* EAGAIN when HEDDLE_KEYS_MAX keys exist. The destructor runs at the end of each thread whose
 * value is not NULL, again while destructors set values, HEDDLE_DESTRUCTOR_ITERATIONS times. */
int heddle_key_create(heddle_key_t *key, void (*destructor)(void *)) HEDDLE_NOTHROW;
/* EINVAL when the key does not exist. No destructor is called. */
int heddle_key_delete(heddle_key_t key) HEDDLE_NOTHROW;
/* EINVAL when the key does not exist; ENOMEM. NULL for a key that does not exist. */
int heddle_setspecific(heddle_key_t key, const void *value) HEDDLE_NOTHROW;
void *heddle_getspecific(heddle_key_t key) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Attributes and scheduling: heddle_attr_init(3), heddle_setschedparam(3),
 * heddle_setattributes_np(3). Setters return EINVAL for a value that does not exist.
 * ------------------------------------------------------------------------------------------- */

int heddle_attr_init(heddle_attr_t *attr) HEDDLE_NOTHROW;
int heddle_attr_destroy(heddle_attr_t *attr) HEDDLE_NOTHROW;
int heddle_attr_setdetachstate(heddle_attr_t *attr, int state) HEDDLE_NOTHROW;
int heddle_attr_getdetachstate(const heddle_attr_t *attr, int *state) HEDDLE_NOTHROW;
/* EINVAL below HEDDLE_STACK_MIN or beyond 60 MiB. The size is rounded up to a size class. */
int heddle_attr_setstacksize(heddle_attr_t *attr, size_t size_bytes) HEDDLE_NOTHROW;
int heddle_attr_getstacksize(const heddle_attr_t *attr, size_t *size_bytes) HEDDLE_NOTHROW;
/* Every stack has a guard of at least one page, which 0 does not remove. */
int heddle_attr_setguardsize(heddle_attr_t *attr, size_t size_bytes) HEDDLE_NOTHROW;
int heddle_attr_getguardsize(const heddle_attr_t *attr, size_t *size_bytes) HEDDLE_NOTHROW;
int heddle_attr_setinheritsched(heddle_attr_t *attr, int inherit) HEDDLE_NOTHROW;
int heddle_attr_getinheritsched(const heddle_attr_t *attr, int *inherit) HEDDLE_NOTHROW;
/* SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_HEDDLE. */
int heddle_attr_setschedpolicy(heddle_attr_t *attr, int policy) HEDDLE_NOTHROW;
int heddle_attr_getschedpolicy(const heddle_attr_t *attr, int *policy) HEDDLE_NOTHROW;
int heddle_attr_setschedparam(heddle_attr_t *attr, const struct sched_param *param) HEDDLE_NOTHROW;
int heddle_attr_getschedparam(const heddle_attr_t *attr, struct sched_param *param) HEDDLE_NOTHROW;
/* Both scopes are accepted and read back; contention is what the backend makes it. */
int heddle_attr_setscope(heddle_attr_t *attr, int scope) HEDDLE_NOTHROW;
int heddle_attr_getscope(const heddle_attr_t *attr, int *scope) HEDDLE_NOTHROW;
/* 1: with thread-local storage of its own; heddle_create() gives ENOTSUP where that can't be. */
int heddle_attr_setfull_np(heddle_attr_t *attr, int full) HEDDLE_NOTHROW;
int heddle_attr_getfull_np(const heddle_attr_t *attr, int *full) HEDDLE_NOTHROW;
/* Stacks belong to the library: ENOTSUP. The getter tells the place of a running thread's stack
 * when the attributes come from heddle_getattr_np(). */
int heddle_attr_setstack(heddle_attr_t *attr, void *base, size_t size_bytes) HEDDLE_NOTHROW;
int heddle_attr_getstack(const heddle_attr_t *attr, void **base, size_t *size_bytes) HEDDLE_NOTHROW;
/* The attributes of a running thread. ESRCH. */
int heddle_getattr_np(heddle_t thread, heddle_attr_t *attr) HEDDLE_NOTHROW;
/* SCHED_OTHER: lazy. SCHED_FIFO, SCHED_RR and SCHED_HEDDLE with priority 1..99: time-critical.
 * No privilege is needed: the order is among the threads of this process. ESRCH, EINVAL. */
int heddle_setschedparam(heddle_t thread, int policy,
			 const struct sched_param *param) HEDDLE_NOTHROW;
int heddle_getschedparam(heddle_t thread, int *policy, struct sched_param *param) HEDDLE_NOTHROW;
int heddle_setschedprio(heddle_t thread, int priority) HEDDLE_NOTHROW;

/* TEK's thread attributes (the TEK paper, section on the thread attributes): what a thread is
 * for. size_bytes is sizeof(struct heddle_attributes). An empty role leaves the role. */
#ifndef HEDDLE_ATTRIBUTES_DEFINED /* by <heddle/pthread_np.h>, which is the same */
#define HEDDLE_ATTRIBUTES_DEFINED
struct heddle_attributes {
	size_t size_bytes;
	int thread_class; /* HEDDLE_LAZY, HEDDLE_TIME_CRITICAL */
	int priority;     /* 1..99 when time-critical, else 0 */
	int group;        /* HEDDLE_GROUP_... */
	int category;     /* HEDDLE_CATEGORY_... */
	char role[HEDDLE_ROLE_BYTES_MAX];
};
#endif
/* Of a running thread. ESRCH; EINVAL. */
int heddle_setattributes_np(heddle_t thread, const struct heddle_attributes *value) HEDDLE_NOTHROW;
int heddle_getattributes_np(heddle_t thread, struct heddle_attributes *value) HEDDLE_NOTHROW;
/* Of threads to be created. They win over schedpolicy and schedparam. EINVAL, ENOMEM. */
int heddle_attr_setattributes_np(heddle_attr_t *attr, const struct heddle_attributes *value)
	HEDDLE_NOTHROW;
int heddle_attr_getattributes_np(const heddle_attr_t *attr, struct heddle_attributes *value)
	HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Mutexes: heddle_mutex_init(3), heddle_mutex_lock(3)
 * ------------------------------------------------------------------------------------------- */

int heddle_mutexattr_init(heddle_mutexattr_t *attr) HEDDLE_NOTHROW;
int heddle_mutexattr_destroy(heddle_mutexattr_t *attr) HEDDLE_NOTHROW;
int heddle_mutexattr_settype(heddle_mutexattr_t *attr, int type) HEDDLE_NOTHROW;
int heddle_mutexattr_gettype(const heddle_mutexattr_t *attr, int *type) HEDDLE_NOTHROW;
/* HEDDLE_PRIO_PROTECT: ENOTSUP. */
int heddle_mutexattr_setprotocol(heddle_mutexattr_t *attr, int protocol) HEDDLE_NOTHROW;
int heddle_mutexattr_getprotocol(const heddle_mutexattr_t *attr, int *protocol) HEDDLE_NOTHROW;
/* HEDDLE_PROCESS_SHARED: ENOTSUP. HEDDLE_MUTEX_ROBUST: ENOTSUP. Any ceiling: ENOTSUP. */
int heddle_mutexattr_setpshared(heddle_mutexattr_t *attr, int shared) HEDDLE_NOTHROW;
int heddle_mutexattr_getpshared(const heddle_mutexattr_t *attr, int *shared) HEDDLE_NOTHROW;
int heddle_mutexattr_setrobust(heddle_mutexattr_t *attr, int robust) HEDDLE_NOTHROW;
int heddle_mutexattr_getrobust(const heddle_mutexattr_t *attr, int *robust) HEDDLE_NOTHROW;
int heddle_mutexattr_setprioceiling(heddle_mutexattr_t *attr, int ceiling) HEDDLE_NOTHROW;
int heddle_mutexattr_getprioceiling(const heddle_mutexattr_t *attr, int *ceiling) HEDDLE_NOTHROW;

int heddle_mutex_init(heddle_mutex_t *mutex, const heddle_mutexattr_t *attr) HEDDLE_NOTHROW;
/* EBUSY while locked. */
int heddle_mutex_destroy(heddle_mutex_t *mutex) HEDDLE_NOTHROW;
/* EDEADLK: error-checking and already owned. EAGAIN: recursion overflows. */
int heddle_mutex_lock(heddle_mutex_t *mutex) HEDDLE_NOTHROW;
/* EBUSY. */
int heddle_mutex_trylock(heddle_mutex_t *mutex) HEDDLE_NOTHROW;
/* ETIMEDOUT; EINVAL: the deadline is needed and is malformed, or the clock is unknown. */
int heddle_mutex_timedlock(heddle_mutex_t *mutex, const struct timespec *deadline) HEDDLE_NOTHROW;
int heddle_mutex_clocklock(heddle_mutex_t *mutex, clockid_t clock,
			   const struct timespec *deadline) HEDDLE_NOTHROW;
/* EPERM: recursive or error-checking and not the caller's. */
int heddle_mutex_unlock(heddle_mutex_t *mutex) HEDDLE_NOTHROW;
/* EINVAL: no mutex is robust. */
int heddle_mutex_consistent(heddle_mutex_t *mutex) HEDDLE_NOTHROW;
/* EINVAL: no mutex has a ceiling. */
int heddle_mutex_setprioceiling(heddle_mutex_t *mutex, int ceiling, int *old) HEDDLE_NOTHROW;
int heddle_mutex_getprioceiling(const heddle_mutex_t *mutex, int *ceiling) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Condition variables: heddle_cond_wait(3). The waits are cancellation points; the mutex is
 * held again before cleanup handlers run.
 * ------------------------------------------------------------------------------------------- */

int heddle_condattr_init(heddle_condattr_t *attr) HEDDLE_NOTHROW;
int heddle_condattr_destroy(heddle_condattr_t *attr) HEDDLE_NOTHROW;
/* CLOCK_REALTIME, CLOCK_MONOTONIC; others: EINVAL. */
int heddle_condattr_setclock(heddle_condattr_t *attr, clockid_t clock) HEDDLE_NOTHROW;
int heddle_condattr_getclock(const heddle_condattr_t *attr, clockid_t *clock) HEDDLE_NOTHROW;
int heddle_condattr_setpshared(heddle_condattr_t *attr, int shared) HEDDLE_NOTHROW;
int heddle_condattr_getpshared(const heddle_condattr_t *attr, int *shared) HEDDLE_NOTHROW;

int heddle_cond_init(heddle_cond_t *cond, const heddle_condattr_t *attr) HEDDLE_NOTHROW;
/* EBUSY while threads wait. */
int heddle_cond_destroy(heddle_cond_t *cond) HEDDLE_NOTHROW;
int heddle_cond_signal(heddle_cond_t *cond) HEDDLE_NOTHROW;
int heddle_cond_broadcast(heddle_cond_t *cond) HEDDLE_NOTHROW;
/* EPERM: the mutex is recursive or error-checking and not the caller's. */
int heddle_cond_wait(heddle_cond_t *cond, heddle_mutex_t *mutex);
/* ETIMEDOUT, with the mutex held; EINVAL. */
int heddle_cond_timedwait(heddle_cond_t *cond, heddle_mutex_t *mutex,
			  const struct timespec *deadline);
int heddle_cond_clockwait(heddle_cond_t *cond, heddle_mutex_t *mutex, clockid_t clock,
			  const struct timespec *deadline);

/* ---------------------------------------------------------------------------------------------
 * Read-write locks: heddle_rwlock_rdlock(3). Readers go first, as in the GNU C library, unless
 * the kind says that writers do.
 * ------------------------------------------------------------------------------------------- */

int heddle_rwlockattr_init(heddle_rwlockattr_t *attr) HEDDLE_NOTHROW;
int heddle_rwlockattr_destroy(heddle_rwlockattr_t *attr) HEDDLE_NOTHROW;
int heddle_rwlockattr_setpshared(heddle_rwlockattr_t *attr, int shared) HEDDLE_NOTHROW;
int heddle_rwlockattr_getpshared(const heddle_rwlockattr_t *attr, int *shared) HEDDLE_NOTHROW;
/* The GNU C library's preferences, by its values: 0 readers, 1 writers, 2 writers always. */
int heddle_rwlockattr_setkind_np(heddle_rwlockattr_t *attr, int kind) HEDDLE_NOTHROW;
int heddle_rwlockattr_getkind_np(const heddle_rwlockattr_t *attr, int *kind) HEDDLE_NOTHROW;

int heddle_rwlock_init(heddle_rwlock_t *lock, const heddle_rwlockattr_t *attr) HEDDLE_NOTHROW;
/* EBUSY while locked. */
int heddle_rwlock_destroy(heddle_rwlock_t *lock) HEDDLE_NOTHROW;
/* EDEADLK: the caller holds it for writing. EAGAIN: too many readers. */
int heddle_rwlock_rdlock(heddle_rwlock_t *lock) HEDDLE_NOTHROW;
int heddle_rwlock_tryrdlock(heddle_rwlock_t *lock) HEDDLE_NOTHROW;
int heddle_rwlock_timedrdlock(heddle_rwlock_t *lock,
			      const struct timespec *deadline) HEDDLE_NOTHROW;
int heddle_rwlock_clockrdlock(heddle_rwlock_t *lock, clockid_t clock,
			      const struct timespec *deadline) HEDDLE_NOTHROW;
int heddle_rwlock_wrlock(heddle_rwlock_t *lock) HEDDLE_NOTHROW;
int heddle_rwlock_trywrlock(heddle_rwlock_t *lock) HEDDLE_NOTHROW;
int heddle_rwlock_timedwrlock(heddle_rwlock_t *lock,
			      const struct timespec *deadline) HEDDLE_NOTHROW;
int heddle_rwlock_clockwrlock(heddle_rwlock_t *lock, clockid_t clock,
			      const struct timespec *deadline) HEDDLE_NOTHROW;
/* EPERM: nobody holds it. */
int heddle_rwlock_unlock(heddle_rwlock_t *lock) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Barriers: heddle_barrier_wait(3). Spin locks: heddle_spin_lock(3), which yield when they have
 * spun long enough: the holder may be a thread of the same worker.
 * ------------------------------------------------------------------------------------------- */

int heddle_barrierattr_init(heddle_barrierattr_t *attr) HEDDLE_NOTHROW;
int heddle_barrierattr_destroy(heddle_barrierattr_t *attr) HEDDLE_NOTHROW;
int heddle_barrierattr_setpshared(heddle_barrierattr_t *attr, int shared) HEDDLE_NOTHROW;
int heddle_barrierattr_getpshared(const heddle_barrierattr_t *attr, int *shared) HEDDLE_NOTHROW;
/* EINVAL for a count of 0. */
int heddle_barrier_init(heddle_barrier_t *barrier, const heddle_barrierattr_t *attr,
			unsigned int count) HEDDLE_NOTHROW;
/* EBUSY while threads wait. */
int heddle_barrier_destroy(heddle_barrier_t *barrier) HEDDLE_NOTHROW;
/* HEDDLE_BARRIER_SERIAL_THREAD in one thread of each round, 0 in the others. */
int heddle_barrier_wait(heddle_barrier_t *barrier) HEDDLE_NOTHROW;

int heddle_spin_init(heddle_spinlock_t *lock, int shared) HEDDLE_NOTHROW;
int heddle_spin_destroy(heddle_spinlock_t *lock) HEDDLE_NOTHROW;
int heddle_spin_lock(heddle_spinlock_t *lock) HEDDLE_NOTHROW;
/* EBUSY. */
int heddle_spin_trylock(heddle_spinlock_t *lock) HEDDLE_NOTHROW;
int heddle_spin_unlock(heddle_spinlock_t *lock) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Semaphores: heddle_sem_wait(3). As sem_X: -1 with errno set.
 * ------------------------------------------------------------------------------------------- */

/* EINVAL: value beyond HEDDLE_SEM_VALUE_MAX. ENOTSUP: shared is not 0. */
int heddle_sem_init(heddle_sem_t *sem, int shared, unsigned int value) HEDDLE_NOTHROW;
/* EBUSY while threads wait. */
int heddle_sem_destroy(heddle_sem_t *sem) HEDDLE_NOTHROW;
int heddle_sem_wait(heddle_sem_t *sem);
/* EAGAIN. */
int heddle_sem_trywait(heddle_sem_t *sem) HEDDLE_NOTHROW;
/* ETIMEDOUT, EINVAL. */
int heddle_sem_timedwait(heddle_sem_t *sem, const struct timespec *deadline);
int heddle_sem_clockwait(heddle_sem_t *sem, clockid_t clock, const struct timespec *deadline);
/* EOVERFLOW. May be called by a signal handler of a kernel thread that is not a worker. */
int heddle_sem_post(heddle_sem_t *sem) HEDDLE_NOTHROW;
/* Never negative: 0 while threads wait. */
int heddle_sem_getvalue(heddle_sem_t *sem, int *value) HEDDLE_NOTHROW;

/* ---------------------------------------------------------------------------------------------
 * Blocking calls: heddle_sleep(3), heddle_read(3), heddle_recv(3), heddle_poll(3). Arguments,
 * results and errno as the functions of the C library that they are named after; all of them
 * are cancellation points. Descriptors keep their flags: one that says O_NONBLOCK gets EAGAIN.
 * ------------------------------------------------------------------------------------------- */

unsigned int heddle_sleep(unsigned int seconds);
int heddle_usleep(unsigned int microseconds);
int heddle_nanosleep(const struct timespec *duration, struct timespec *remaining);
int heddle_clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
			   struct timespec *remaining);

int heddle_open(const char *path, int flags, ...);
int heddle_openat(int directory, const char *path, int flags, ...);
int heddle_creat(const char *path, mode_t mode);
int heddle_close(int fd);
ssize_t heddle_read(int fd, void *buffer, size_t length);
ssize_t heddle_write(int fd, const void *buffer, size_t length);
ssize_t heddle_readv(int fd, const struct iovec *parts, int count);
ssize_t heddle_writev(int fd, const struct iovec *parts, int count);
ssize_t heddle_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t heddle_pwrite(int fd, const void *buffer, size_t length, off_t offset);
ssize_t heddle_preadv(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t heddle_pwritev(int fd, const struct iovec *parts, int count, off_t offset);
ssize_t heddle_sendfile(int out, int in, off_t *offset, size_t count);
int heddle_fsync(int fd);
int heddle_fdatasync(int fd);

int heddle_accept(int fd, struct sockaddr *address, socklen_t *length);
int heddle_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int heddle_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t heddle_recv(int fd, void *buffer, size_t length, int flags);
ssize_t heddle_recvfrom(int fd, void *buffer, size_t length, int flags, struct sockaddr *address,
			socklen_t *address_length);
ssize_t heddle_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t heddle_send(int fd, const void *buffer, size_t length, int flags);
ssize_t heddle_sendto(int fd, const void *buffer, size_t length, int flags,
		      const struct sockaddr *address, socklen_t address_length);
ssize_t heddle_sendmsg(int fd, const struct msghdr *message, int flags);

int heddle_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int heddle_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
		 const sigset_t *mask);
int heddle_select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		  struct timeval *timeout);
int heddle_pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		   const struct timespec *timeout, const sigset_t *mask);
int heddle_epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms);

pid_t heddle_wait(int *status);
pid_t heddle_waitpid(pid_t pid, int *status, int options);
pid_t heddle_wait4(pid_t pid, int *status, int options, struct rusage *usage);
int heddle_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		       struct addrinfo **result);

/* Runs fn(arg) on a kernel thread of its own pool and parks the caller: for calls that sleep in
 * the kernel and are not in this header. Returns fn's result. */
void *heddle_blocking(void *(*fn)(void *), void *arg);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEDDLE_H */
