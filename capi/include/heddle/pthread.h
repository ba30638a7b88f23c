/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * heddle/pthread.h - a source written for POSIX threads and blocking calls, on heddle threads.
 *
 *     cc -include heddle/pthread.h server.c -lheddle
 *
 * The source stays as it is. The header is the first thing the compiler reads; then
 *
 *   1. the ordinary names (read, connect, sleep, ...) get another symbol, not another spelling:
 *      `read` stays the identifier `read`, so that members, variables and namespaces of that name
 *      are untouched, and every reference to the function, its address too, means heddle_read;
 *   2. the names of <pthread.h> and <semaphore.h> become macros for heddle's types, constants and
 *      functions, after all system headers that use them have been read.
 *
 * Not mapped, and so to be avoided in threads (each blocks the worker, not only the thread):
 * stdio on pipes and terminals, named and process-shared semaphores, file locks, sigwait and
 * pause, and in C++ the waits inside libstdc++: std::mutex, std::condition_variable, and
 * std::thread, which stays a kernel thread. pthread_sigmask acts on the worker.
 * _FORTIFY_SOURCE stays in force except for the mapped calls of group 1.
 *
 * The manual page is heddle_pthread(7).
 */
#ifndef HEDDLE_PTHREAD_H
#define HEDDLE_PTHREAD_H

#if !defined(__LP64__)
#error "heddle/pthread.h: only 64-bit Linux (x86-64, aarch64) is supported"
#endif

/* ---------------------------------------------------------------------------------------------
 * 1. Ordinary names, by symbol. The pragmas come before any declaration: g++ takes them only so.
 * ------------------------------------------------------------------------------------------- */
#pragma redefine_extname sleep heddle_sleep
#pragma redefine_extname usleep heddle_usleep
#pragma redefine_extname nanosleep heddle_nanosleep
#pragma redefine_extname clock_nanosleep heddle_clock_nanosleep
#pragma redefine_extname open heddle_open
#pragma redefine_extname openat heddle_openat
#pragma redefine_extname creat heddle_creat
#pragma redefine_extname close heddle_close
#pragma redefine_extname read heddle_read
#pragma redefine_extname write heddle_write
#pragma redefine_extname readv heddle_readv
#pragma redefine_extname writev heddle_writev
#pragma redefine_extname pread heddle_pread
#pragma redefine_extname pwrite heddle_pwrite
#pragma redefine_extname preadv heddle_preadv
#pragma redefine_extname pwritev heddle_pwritev
#pragma redefine_extname sendfile heddle_sendfile
#pragma redefine_extname fsync heddle_fsync
#pragma redefine_extname fdatasync heddle_fdatasync
#pragma redefine_extname accept heddle_accept
#pragma redefine_extname accept4 heddle_accept4
#pragma redefine_extname connect heddle_connect
#pragma redefine_extname recv heddle_recv
#pragma redefine_extname recvfrom heddle_recvfrom
#pragma redefine_extname recvmsg heddle_recvmsg
#pragma redefine_extname send heddle_send
#pragma redefine_extname sendto heddle_sendto
#pragma redefine_extname sendmsg heddle_sendmsg
#pragma redefine_extname poll heddle_poll
#pragma redefine_extname ppoll heddle_ppoll
#pragma redefine_extname select heddle_select
#pragma redefine_extname pselect heddle_pselect
#pragma redefine_extname epoll_wait heddle_epoll_wait
#pragma redefine_extname wait heddle_wait
#pragma redefine_extname waitpid heddle_waitpid
#pragma redefine_extname wait4 heddle_wait4
#pragma redefine_extname getaddrinfo heddle_getaddrinfo
#pragma redefine_extname sched_yield heddle_yield
/* The large-file names: on 64-bit Linux the same functions. */
#pragma redefine_extname open64 heddle_open
#pragma redefine_extname openat64 heddle_openat
#pragma redefine_extname creat64 heddle_creat
#pragma redefine_extname pread64 heddle_pread
#pragma redefine_extname pwrite64 heddle_pwrite
#pragma redefine_extname preadv64 heddle_preadv
#pragma redefine_extname pwritev64 heddle_pwritev
#pragma redefine_extname sendfile64 heddle_sendfile

/* Being first, this header must not decide which features the source gets: a source that defines
 * _GNU_SOURCE or _POSIX_C_SOURCE in its first line still means it. So the headers below are read
 * with everything on, then the feature macros go back to what they were and <features.h> is
 * forgotten, to be read again by the source's own first include. */
#pragma push_macro("_GNU_SOURCE")
#pragma push_macro("_DEFAULT_SOURCE")
#pragma push_macro("_ISOC95_SOURCE")
#pragma push_macro("_ISOC99_SOURCE")
#pragma push_macro("_ISOC11_SOURCE")
#pragma push_macro("_ISOC2X_SOURCE")
#pragma push_macro("_POSIX_SOURCE")
#pragma push_macro("_POSIX_C_SOURCE")
#pragma push_macro("_XOPEN_SOURCE")
#pragma push_macro("_XOPEN_SOURCE_EXTENDED")
#pragma push_macro("_LARGEFILE64_SOURCE")
#pragma push_macro("_ATFILE_SOURCE")
#pragma push_macro("_DYNAMIC_STACK_SIZE_SOURCE")
#undef _GNU_SOURCE
#define _GNU_SOURCE 1

/* With _FILE_OFFSET_BITS=64 and with _FORTIFY_SOURCE, <features.h> makes the system headers give
 * some of these functions other symbols or inline bodies of their own. On LP64 the first means
 * nothing, and the second would bypass the names above: both are off while the headers that
 * declare mapped functions are read, and as the user said afterwards. */
#include <features.h>
#pragma push_macro("__USE_FORTIFY_LEVEL")
#pragma push_macro("__USE_FILE_OFFSET64")
#undef __USE_FORTIFY_LEVEL
#define __USE_FORTIFY_LEVEL 0
#undef __USE_FILE_OFFSET64
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#pragma pop_macro("__USE_FILE_OFFSET64")
#pragma pop_macro("__USE_FORTIFY_LEVEL")

/* ---------------------------------------------------------------------------------------------
 * 2. <pthread.h> and <semaphore.h>, by macro. Every system header that uses the names goes first.
 * ------------------------------------------------------------------------------------------- */

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <threads.h>
#ifdef __cplusplus
/* libstdc++ uses POSIX threads both in its headers and in its library: the two must agree, so its
 * headers keep the system's names. */
#include <fstream>
#include <memory>
#if __cplusplus >= 201103L
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#endif
#if __cplusplus >= 201402L
#include <shared_mutex>
#endif
#if __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<semaphore>)
#include <semaphore>
#endif
#if __has_include(<stop_token>)
#include <stop_token>
#endif
#endif
#endif

#include <heddle.h>

#pragma pop_macro("_DYNAMIC_STACK_SIZE_SOURCE")
#pragma pop_macro("_ATFILE_SOURCE")
#pragma pop_macro("_LARGEFILE64_SOURCE")
#pragma pop_macro("_XOPEN_SOURCE_EXTENDED")
#pragma pop_macro("_XOPEN_SOURCE")
#pragma pop_macro("_POSIX_C_SOURCE")
#pragma pop_macro("_POSIX_SOURCE")
#pragma pop_macro("_ISOC2X_SOURCE")
#pragma pop_macro("_ISOC11_SOURCE")
#pragma pop_macro("_ISOC99_SOURCE")
#pragma pop_macro("_ISOC95_SOURCE")
#pragma pop_macro("_DEFAULT_SOURCE")
#pragma pop_macro("_GNU_SOURCE")
#undef _FEATURES_H

/* Types */
#define pthread_t heddle_t
#define pthread_attr_t heddle_attr_t
#define pthread_mutexattr_t heddle_mutexattr_t
#define pthread_mutex_t heddle_mutex_t
#define pthread_condattr_t heddle_condattr_t
#define pthread_cond_t heddle_cond_t
#define pthread_rwlockattr_t heddle_rwlockattr_t
#define pthread_rwlock_t heddle_rwlock_t
#define pthread_barrierattr_t heddle_barrierattr_t
#define pthread_barrier_t heddle_barrier_t
#define pthread_key_t heddle_key_t
#define pthread_once_t heddle_once_t
#define pthread_spinlock_t heddle_spinlock_t
#define sem_t heddle_sem_t

/* Constants. Those that are not listed have the same values in both headers. */
#undef PTHREAD_MUTEX_INITIALIZER
#define PTHREAD_MUTEX_INITIALIZER HEDDLE_MUTEX_INITIALIZER
#undef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP HEDDLE_RECURSIVE_MUTEX_INITIALIZER
#undef PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP
#define PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP HEDDLE_ERRORCHECK_MUTEX_INITIALIZER
#undef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
#define PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP HEDDLE_MUTEX_INITIALIZER
#undef PTHREAD_COND_INITIALIZER
#define PTHREAD_COND_INITIALIZER HEDDLE_COND_INITIALIZER
#undef PTHREAD_RWLOCK_INITIALIZER
#define PTHREAD_RWLOCK_INITIALIZER HEDDLE_RWLOCK_INITIALIZER
#undef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP HEDDLE_RWLOCK_INITIALIZER
#undef PTHREAD_ONCE_INIT
#define PTHREAD_ONCE_INIT HEDDLE_ONCE_INIT
#undef PTHREAD_CANCELED
#define PTHREAD_CANCELED HEDDLE_CANCELED
#undef PTHREAD_BARRIER_SERIAL_THREAD
#define PTHREAD_BARRIER_SERIAL_THREAD HEDDLE_BARRIER_SERIAL_THREAD
#undef PTHREAD_KEYS_MAX
#define PTHREAD_KEYS_MAX HEDDLE_KEYS_MAX
#undef PTHREAD_DESTRUCTOR_ITERATIONS
#define PTHREAD_DESTRUCTOR_ITERATIONS HEDDLE_DESTRUCTOR_ITERATIONS
#undef PTHREAD_STACK_MIN
#define PTHREAD_STACK_MIN HEDDLE_STACK_MIN
#undef SEM_VALUE_MAX
#define SEM_VALUE_MAX HEDDLE_SEM_VALUE_MAX

/* Threads */
#define pthread_create heddle_create
#define pthread_join heddle_join
#define pthread_tryjoin_np heddle_tryjoin_np
#define pthread_timedjoin_np heddle_timedjoin_np
#define pthread_clockjoin_np heddle_clockjoin_np
#define pthread_detach heddle_detach
#define pthread_exit heddle_exit
#define pthread_self heddle_self
#define pthread_equal heddle_equal
#define pthread_once heddle_once
#define pthread_yield heddle_yield
#define pthread_kill heddle_kill
#define pthread_setconcurrency heddle_setconcurrency
#define pthread_getconcurrency heddle_getconcurrency
#define pthread_setname_np heddle_setname_np
#define pthread_getname_np heddle_getname_np

/* Cancellation and cleanup; push and pop are macros of <pthread.h> */
#define pthread_cancel heddle_cancel
#define pthread_setcancelstate heddle_setcancelstate
#define pthread_setcanceltype heddle_setcanceltype
#define pthread_testcancel heddle_testcancel
#undef pthread_cleanup_push
#define pthread_cleanup_push(routine, arg) heddle_cleanup_push(routine, arg)
#undef pthread_cleanup_pop
#define pthread_cleanup_pop(execute) heddle_cleanup_pop(execute)
/* With asynchronous cancellation absent, its safe brackets are the plain ones. */
#undef pthread_cleanup_push_defer_np
#define pthread_cleanup_push_defer_np(routine, arg) heddle_cleanup_push(routine, arg)
#undef pthread_cleanup_pop_restore_np
#define pthread_cleanup_pop_restore_np(execute) heddle_cleanup_pop(execute)

/* Thread-specific data */
#define pthread_key_create heddle_key_create
#define pthread_key_delete heddle_key_delete
#define pthread_setspecific heddle_setspecific
#define pthread_getspecific heddle_getspecific

/* Attributes and scheduling */
#define pthread_attr_init heddle_attr_init
#define pthread_attr_destroy heddle_attr_destroy
#define pthread_attr_setdetachstate heddle_attr_setdetachstate
#define pthread_attr_getdetachstate heddle_attr_getdetachstate
#define pthread_attr_setstacksize heddle_attr_setstacksize
#define pthread_attr_getstacksize heddle_attr_getstacksize
#define pthread_attr_setguardsize heddle_attr_setguardsize
#define pthread_attr_getguardsize heddle_attr_getguardsize
#define pthread_attr_setinheritsched heddle_attr_setinheritsched
#define pthread_attr_getinheritsched heddle_attr_getinheritsched
#define pthread_attr_setschedpolicy heddle_attr_setschedpolicy
#define pthread_attr_getschedpolicy heddle_attr_getschedpolicy
#define pthread_attr_setschedparam heddle_attr_setschedparam
#define pthread_attr_getschedparam heddle_attr_getschedparam
#define pthread_attr_setscope heddle_attr_setscope
#define pthread_attr_getscope heddle_attr_getscope
#define pthread_attr_setstack heddle_attr_setstack
#define pthread_attr_getstack heddle_attr_getstack
#define pthread_getattr_np heddle_getattr_np
#define pthread_setschedparam heddle_setschedparam
#define pthread_getschedparam heddle_getschedparam
#define pthread_setschedprio heddle_setschedprio
#define pthread_setattributes_np heddle_setattributes_np
#define pthread_getattributes_np heddle_getattributes_np
#define pthread_attr_setattributes_np heddle_attr_setattributes_np
#define pthread_attr_getattributes_np heddle_attr_getattributes_np

/* Mutexes */
#define pthread_mutexattr_init heddle_mutexattr_init
#define pthread_mutexattr_destroy heddle_mutexattr_destroy
#define pthread_mutexattr_settype heddle_mutexattr_settype
#define pthread_mutexattr_gettype heddle_mutexattr_gettype
#define pthread_mutexattr_setprotocol heddle_mutexattr_setprotocol
#define pthread_mutexattr_getprotocol heddle_mutexattr_getprotocol
#define pthread_mutexattr_setpshared heddle_mutexattr_setpshared
#define pthread_mutexattr_getpshared heddle_mutexattr_getpshared
#define pthread_mutexattr_setrobust heddle_mutexattr_setrobust
#define pthread_mutexattr_getrobust heddle_mutexattr_getrobust
#define pthread_mutexattr_setprioceiling heddle_mutexattr_setprioceiling
#define pthread_mutexattr_getprioceiling heddle_mutexattr_getprioceiling
#define pthread_mutex_init heddle_mutex_init
#define pthread_mutex_destroy heddle_mutex_destroy
#define pthread_mutex_lock heddle_mutex_lock
#define pthread_mutex_trylock heddle_mutex_trylock
#define pthread_mutex_timedlock heddle_mutex_timedlock
#define pthread_mutex_clocklock heddle_mutex_clocklock
#define pthread_mutex_unlock heddle_mutex_unlock
#define pthread_mutex_consistent heddle_mutex_consistent
#define pthread_mutex_setprioceiling heddle_mutex_setprioceiling
#define pthread_mutex_getprioceiling heddle_mutex_getprioceiling

/* Condition variables */
#define pthread_condattr_init heddle_condattr_init
#define pthread_condattr_destroy heddle_condattr_destroy
#define pthread_condattr_setclock heddle_condattr_setclock
#define pthread_condattr_getclock heddle_condattr_getclock
#define pthread_condattr_setpshared heddle_condattr_setpshared
#define pthread_condattr_getpshared heddle_condattr_getpshared
#define pthread_cond_init heddle_cond_init
#define pthread_cond_destroy heddle_cond_destroy
#define pthread_cond_signal heddle_cond_signal
#define pthread_cond_broadcast heddle_cond_broadcast
#define pthread_cond_wait heddle_cond_wait
#define pthread_cond_timedwait heddle_cond_timedwait
#define pthread_cond_clockwait heddle_cond_clockwait

/* Read-write locks */
#define pthread_rwlockattr_init heddle_rwlockattr_init
#define pthread_rwlockattr_destroy heddle_rwlockattr_destroy
#define pthread_rwlockattr_setpshared heddle_rwlockattr_setpshared
#define pthread_rwlockattr_getpshared heddle_rwlockattr_getpshared
#define pthread_rwlockattr_setkind_np heddle_rwlockattr_setkind_np
#define pthread_rwlockattr_getkind_np heddle_rwlockattr_getkind_np
#define pthread_rwlock_init heddle_rwlock_init
#define pthread_rwlock_destroy heddle_rwlock_destroy
#define pthread_rwlock_rdlock heddle_rwlock_rdlock
#define pthread_rwlock_tryrdlock heddle_rwlock_tryrdlock
#define pthread_rwlock_timedrdlock heddle_rwlock_timedrdlock
#define pthread_rwlock_clockrdlock heddle_rwlock_clockrdlock
#define pthread_rwlock_wrlock heddle_rwlock_wrlock
#define pthread_rwlock_trywrlock heddle_rwlock_trywrlock
#define pthread_rwlock_timedwrlock heddle_rwlock_timedwrlock
#define pthread_rwlock_clockwrlock heddle_rwlock_clockwrlock
#define pthread_rwlock_unlock heddle_rwlock_unlock

/* Barriers and spin locks */
#define pthread_barrierattr_init heddle_barrierattr_init
#define pthread_barrierattr_destroy heddle_barrierattr_destroy
#define pthread_barrierattr_setpshared heddle_barrierattr_setpshared
#define pthread_barrierattr_getpshared heddle_barrierattr_getpshared
#define pthread_barrier_init heddle_barrier_init
#define pthread_barrier_destroy heddle_barrier_destroy
#define pthread_barrier_wait heddle_barrier_wait
#define pthread_spin_init heddle_spin_init
#define pthread_spin_destroy heddle_spin_destroy
#define pthread_spin_lock heddle_spin_lock
#define pthread_spin_trylock heddle_spin_trylock
#define pthread_spin_unlock heddle_spin_unlock

/* Semaphores */
#define sem_init heddle_sem_init
#define sem_destroy heddle_sem_destroy
#define sem_wait heddle_sem_wait
#define sem_trywait heddle_sem_trywait
#define sem_timedwait heddle_sem_timedwait
#define sem_clockwait heddle_sem_clockwait
#define sem_post heddle_sem_post
#define sem_getvalue heddle_sem_getvalue

/* What heddle does not have must fail, not reach the C library with a heddle object. */
#ifdef __cplusplus
extern "C" {
#endif
static inline heddle_sem_t *heddle_private_sem_open(const char *name, int flags, ...)
{
	(void)name;
	(void)flags;
	errno = ENOSYS;
	return (heddle_sem_t *)0;
}
static inline int heddle_private_sem_refuse(const void *sem_or_name)
{
	(void)sem_or_name;
	errno = ENOSYS;
	return -1;
}
static inline int heddle_private_refuse(heddle_t thread, ...)
{
	(void)thread;
	return ENOTSUP;
}
static inline int heddle_private_attr_refuse(const heddle_attr_t *attr, ...)
{
	(void)attr;
	return ENOTSUP;
}
#ifdef __cplusplus
}
#endif
#undef SEM_FAILED
#define SEM_FAILED ((heddle_sem_t *)0)
#define sem_open heddle_private_sem_open
#define sem_close heddle_private_sem_refuse
#define sem_unlink heddle_private_sem_refuse
#define pthread_getcpuclockid heddle_private_refuse
#define pthread_setaffinity_np heddle_private_refuse
#define pthread_getaffinity_np heddle_private_refuse
#define pthread_sigqueue heddle_private_refuse
#define pthread_attr_setaffinity_np heddle_private_attr_refuse
#define pthread_attr_getaffinity_np heddle_private_attr_refuse
#define pthread_attr_setsigmask_np heddle_private_attr_refuse
#define pthread_attr_getsigmask_np heddle_private_attr_refuse
#define pthread_attr_setstackaddr heddle_private_attr_refuse
#define pthread_attr_getstackaddr heddle_private_attr_refuse
#define pthread_setattr_default_np heddle_private_attr_refuse
#define pthread_getattr_default_np heddle_private_attr_refuse

/* Old names. */
#define pthread_mutex_consistent_np heddle_mutex_consistent
#define pthread_mutexattr_setrobust_np heddle_mutexattr_setrobust
#define pthread_mutexattr_getrobust_np heddle_mutexattr_getrobust

#endif /* HEDDLE_PTHREAD_H */
