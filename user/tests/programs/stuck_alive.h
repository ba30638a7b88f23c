/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Of stuck.c, the ways in which something still comes: alive(HOW) waits so, and prints "done".
 */

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

// A read that heddle does not see: it blocks the worker.
static void *reads_unseen(void *unused)
{
	char byte;
	long got;
	__asm__ volatile("syscall"
			 : "=a"(got)
			 : "a"(SYS_read), "D"(ends[0]), "S"(&byte), "d"(1)
			 : "rcx", "r11", "memory");
	CHECK(got == 1);
	return unused;
}

static void by_unseen_read(void)
{
	later(writes_byte, ends);
	join(started("reader", reads_unseen, NULL));
}

static void (*keeping)(void);

static void keeping_reads_unseen(void)
{
	reads_unseen(NULL);
}

static void keeping_reads(void)
{
	reads_pipe(ends);
}

static void keeping_waits(void)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_sec += 1 + wait_ms / 1000;
	CHECK(sem_timedwait(&empty, &at) == -1);
}

static sem_t kept;

static void *keeps_file(void *unused)
{
	flockfile(stderr);
	sem_post(&kept);
	keeping();
	funlockfile(stderr);
	return unused;
}

static void *asks_for_file(void *unused)
{
	sem_wait(&kept);
	flockfile(stderr);
	funlockfile(stderr);
	return unused;
}

// Who is blocked for a file's lock waits for one that something else may wake.
static void by_file_while(void (*keeper_does)(void))
{
	keeping = keeper_does;
	CHECK(sem_init(&kept, 0, 0) == 0);
	pthread_t other = started("other", asks_for_file, NULL);
	pthread_t keeper = started("keeper", keeps_file, NULL);
	later(writes_byte, ends);
	join(keeper);
	join(other);
}

static void by_file(void)
{
	by_file_while(keeping_reads_unseen);
}

static void by_file_and_socket(void)
{
	by_file_while(keeping_reads);
}

static void by_file_and_time(void)
{
	by_file_while(keeping_waits);
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
	{"unseen read", by_unseen_read},
	{"file", by_file},
	{"file and socket", by_file_and_socket},
	{"file and time", by_file_and_time},
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
