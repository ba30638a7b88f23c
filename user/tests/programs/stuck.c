/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Threads that wait for each other for ever ("stuck HOW"), or for something that still comes: the
 * first argument says for which. The former end by an alarm, unless their reader has seen enough.
 * The latter get it after as many ms as the second argument says, and print "done" then.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hide_memory.h"

#define CHECK(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1); \
		} \
	} while (0)

enum { ALARM_S = 100 };

static pthread_mutex_t first_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t shelf = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t gate;
static sem_t empty;
static long wait_ms;

static void sleep_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&left, &left) != 0) {
	}
}

static pthread_t started(const char *name, void *(*start)(void *), void *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, start, argument) == 0);
	CHECK(name == NULL || pthread_setname_np(thread, name) == 0);
	return thread;
}

static void join(pthread_t thread)
{
	CHECK(pthread_join(thread, NULL) == 0);
}

// ---- stuck: nothing can wake any of them

static void *takes_second(void *begun)
{
	pthread_mutex_lock(&first_lock);
	pthread_barrier_wait(begun);
	pthread_mutex_lock(&second_lock);
	return NULL;
}

static void *takes_first(void *begun)
{
	prctl(PR_SET_NAME, "gardener");
	pthread_mutex_lock(&second_lock);
	pthread_barrier_wait(begun);
	pthread_mutex_lock(&first_lock);
	return NULL;
}

static void *waits_for_condition(void *unused)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&lock);
	while (pthread_cond_wait(&never, &lock) == 0) {
	}
	return unused;
}

static void *waits_for_semaphore(void *unused)
{
	sem_wait(&empty);
	return unused;
}

static void *waits_at_gate(void *unused)
{
	pthread_barrier_wait(&gate);
	return unused;
}

static void *writes(void *unused)
{
	pthread_rwlock_wrlock(&shelf);
	return unused;
}

static void *reads(void *unused)
{
	pthread_rwlock_rdlock(&shelf);
	return unused;
}

static void *locks(void *lock)
{
	CHECK(pthread_mutex_lock(lock) == 0);
	return NULL;
}

// A thread waits for a mutex, and then its memory is given back.
static void give_back(void)
{
	const size_t bytes = 4096;
	pthread_mutex_t *lock =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(lock != MAP_FAILED && pthread_mutex_lock(lock) == 0);
	started("loser", locks, lock);
	// What a mutex says that somebody waits for; the wait begins within an instant.
	while (__atomic_load_n(&lock->__data.__lock, __ATOMIC_RELAXED) != 2) {
		sleep_ms(1);
	}
	sleep_ms(1500);
	CHECK(munmap(lock, bytes) == 0);
}

static pthread_mutex_t orphan = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lost = PTHREAD_RWLOCK_INITIALIZER;

static void *leaves_locks(void *unused)
{
	CHECK(pthread_mutex_lock(&orphan) == 0);
	CHECK(pthread_rwlock_wrlock(&lost) == 0);
	return unused;
}

static void *wants_mutex(void *unused)
{
	pthread_mutex_lock(&orphan);
	return unused;
}

static void *wants_lock(void *unused)
{
	pthread_rwlock_rdlock(&lost);
	return unused;
}

static void stuck(const char *how)
{
	static pthread_barrier_t begun;
	alarm(ALARM_S);
	CHECK(pthread_barrier_init(&begun, NULL, 2) == 0);
	CHECK(pthread_barrier_init(&gate, NULL, 2) == 0);
	CHECK(sem_init(&empty, 0, 0) == 0);
	pthread_t cook = started("cook", takes_second, &begun);
	if (strcmp(how, "others") == 0) {
		started("reader", waits_for_condition, NULL);
		started("porter", waits_for_semaphore, NULL);
		started("guest", waits_at_gate, NULL);
		CHECK(pthread_rwlock_rdlock(&shelf) == 0);
		started("scribe", writes, NULL);
	} else if (strcmp(how, "orphan") == 0) {
		// One of those that come later gets what the first one had of heddle.
		join(started(NULL, leaves_locks, NULL));
		for (int i = 0; i < 6; i++) {
			started("heir", i % 2 ? wants_mutex : wants_lock, NULL);
		}
	} else if (strcmp(how, "many") == 0) {
		CHECK(pthread_rwlock_wrlock(&shelf) == 0);
		for (int i = 0; i < 40; i++) {
			started("pupil", reads, NULL);
		}
	}
	started(NULL, takes_first, &begun);
	if (strcmp(how, "lock") == 0) {
		// Not before the others have both: the second is never given back.
		while (pthread_mutex_trylock(&second_lock) == 0) {
			pthread_mutex_unlock(&second_lock);
			sleep_ms(1);
		}
		pthread_mutex_lock(&second_lock);
	} else if (strcmp(how, "semaphore") == 0) {
		sem_wait(&empty);
	} else if (strcmp(how, "condition") == 0) {
		waits_for_condition(NULL);
	} else if (strcmp(how, "late") == 0) {
		sleep_ms(1500);
	} else if (strcmp(how, "gone") == 0) {
		give_back();
	}
	join(cook);
}

// ---- not stuck: something may still come

static void *posts(void *unused)
{
	sleep_ms(wait_ms);
	sem_post(&empty);
	return unused;
}

static void *reads_pipe(void *ends)
{
	char byte;
	CHECK(read(((int *)ends)[0], &byte, 1) == 1);
	return NULL;
}

static void on_signal(int signal)
{
	(void)signal;
	sem_post(&empty);
}

static void *waits_for_signal(void *unused)
{
	sigset_t set;
	int signal;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(sigwait(&set, &signal) == 0 && signal == SIGUSR1);
	return unused;
}

// A child that does `act` after a while.
static pid_t later(void (*act)(void *), void *argument)
{
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		sleep_ms(wait_ms);
		act(argument);
		_exit(0);
	}
	return child;
}

static void writes_byte(void *ends)
{
	CHECK(write(((int *)ends)[1], "x", 1) == 1);
}

static int sent = SIGUSR1;

static void signals_parent(void *unused)
{
	(void)unused;
	kill(getppid(), sent);
}

static void unlocks(void *lock)
{
	pthread_mutex_unlock(lock);
}

static void posts_shared(void *semaphore)
{
	sem_post(semaphore);
}

static void nothing(void *unused)
{
	(void)unused;
}

static void *shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void *waits_for_child(void *child)
{
	CHECK(waitpid(*(pid_t *)child, NULL, 0) == *(pid_t *)child);
	return NULL;
}

static int ends[2];

static void let_go(pthread_t thread)
{
	CHECK(sem_post(&empty) == 0);
	join(thread);
}

static void blocks_signal(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
}

static void by_sleep(void)
{
	join(started("sleeper", posts, NULL));
}

static void by_main_sleep(void)
{
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	sleep_ms(wait_ms);
	let_go(thread);
}

static void by_socket(void)
{
	later(writes_byte, ends);
	join(started("reader", reads_pipe, ends));
}

static void by_main_socket(void)
{
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	later(writes_byte, ends);
	reads_pipe(ends);
	let_go(thread);
}

static void by_handler(void)
{
	CHECK(signal(sent, on_signal) != SIG_ERR);
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	later(signals_parent, NULL);
	join(thread);
}

// The signal that preempts threads, too.
static void by_urgent(void)
{
	sent = SIGURG;
	by_handler();
}

static void by_pause(void)
{
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	later(signals_parent, NULL);
	pause();
	join(thread);
}

static void by_timer(void)
{
	struct itimerval once = {{0, 0}, {wait_ms / 1000, wait_ms % 1000 * 1000}};
	CHECK(signal(SIGALRM, on_signal) != SIG_ERR);
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
	join(thread);
}

static void by_sigwait(void)
{
	blocks_signal();
	pthread_t thread = started("waiter", waits_for_signal, NULL);
	later(signals_parent, NULL);
	join(thread);
}

static void by_main_sigwait(void)
{
	blocks_signal();
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	later(signals_parent, NULL);
	waits_for_signal(NULL);
	let_go(thread);
}

static void by_child(void)
{
	pid_t child = later(nothing, NULL);
	join(started("waiter", waits_for_child, &child));
}

static void by_main_child(void)
{
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	pid_t child = later(nothing, NULL);
	waits_for_child(&child);
	let_go(thread);
}

static int posts_here(void *unused)
{
	posts(unused);
	return 0;
}

// A process in this very memory wakes whoever waits there.
static void by_memory(void)
{
	static _Alignas(16) char stack[64 << 10];
	started("waiter", waits_for_condition, NULL);
	int flags = CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD;
	CHECK(clone(posts_here, stack + sizeof stack, flags, NULL) > 0);
	sem_wait(&empty);
}

// A mutex that a child unlocks; it is of a type that does not ask who does.
static pthread_mutex_t *others_mutex(void)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t *lock = shared(sizeof *lock);
	CHECK(pthread_mutexattr_init(&attributes) == 0);
	CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
	CHECK(pthread_mutex_init(lock, &attributes) == 0);
	CHECK(pthread_mutex_lock(lock) == 0);
	later(unlocks, lock);
	return lock;
}

static void by_shared_mutex(void)
{
	join(started("waiter", locks, others_mutex()));
}

static void by_main_shared_mutex(void)
{
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	locks(others_mutex());
	let_go(thread);
}

static void by_shared_semaphore(void)
{
	sem_t *semaphore = shared(sizeof *semaphore);
	CHECK(sem_init(semaphore, 1, 0) == 0);
	pthread_t thread = started("waiter", waits_for_semaphore, NULL);
	later(posts_shared, semaphore);
	CHECK(sem_wait(semaphore) == 0);
	let_go(thread);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{"sleep", by_sleep},
	{"main sleep", by_main_sleep},
	{"socket", by_socket},
	{"main socket", by_main_socket},
	{"handler", by_handler},
	{"urgent handler", by_urgent},
	{"pause", by_pause},
	{"timer", by_timer},
	{"sigwait", by_sigwait},
	{"main sigwait", by_main_sigwait},
	{"child", by_child},
	{"main child", by_main_child},
	{"memory", by_memory},
	{"shared mutex", by_shared_mutex},
	{"main shared mutex", by_main_shared_mutex},
	{"shared semaphore", by_shared_semaphore},
};

static void alive(const char *how)
{
	CHECK(sem_init(&empty, 0, 0) == 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	if (strncmp(how, "hidden ", 7) == 0) {
		CHECK(hide_memory() == 0);
		how += 7;
	}
	for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
		if (strcmp(how, ways[i].name) == 0) {
			ways[i].run();
			while (wait(NULL) > 0) {
			}
			puts("done");
			return;
		}
	}
	CHECK(!"a way");
}

int main(int count, char **words)
{
	CHECK(count == 3);
	wait_ms = atol(words[2]);
	if (strncmp(words[1], "stuck ", 6) == 0) {
		stuck(words[1] + 6);
	} else {
		alive(words[1]);
	}
	return 0;
}
