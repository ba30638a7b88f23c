/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Which calls end a thread that was cancelled, and which go on: flock, semop and sendfile are no
 * points of cancellation, nor is fcntl or lockf but where it waits for a lock; a thread that is
 * cancelled while it waits there gets what it waits for.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <termios.h>

static char byte;
static struct iovec part = { &byte, 1 };
static struct msghdr message;
static struct mmsghdr messages[1];
static struct timespec no_time;
static struct timeval no_time_at_all;
static struct epoll_event event;
static struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
static struct sockaddr address;
static socklen_t length;
static siginfo_t info;
static sigset_t none;
static eventfd_t count;
static int status;

/* Each by its number; what it returns is not looked at, and none waits. */
#define POINTS(X)                                                                                 \
	X(read(-1, &byte, 1))                                                                     \
	X(pread(-1, &byte, 1, 0))                                                                 \
	X(readv(-1, &part, 1))                                                                    \
	X(preadv(-1, &part, 1, 0))                                                                \
	X(preadv2(-1, &part, 1, 0, 0))                                                            \
	X(write(-1, &byte, 1))                                                                    \
	X(pwrite(-1, &byte, 1, 0))                                                                \
	X(writev(-1, &part, 1))                                                                   \
	X(pwritev(-1, &part, 1, 0))                                                               \
	X(pwritev2(-1, &part, 1, 0, 0))                                                           \
	X(open("/", O_RDONLY))                                                                    \
	X(openat(AT_FDCWD, "/", O_RDONLY))                                                        \
	X(creat("/", 0600))                                                                       \
	X(close(-1))                                                                              \
	X(eventfd_read(-1, &count))                                                               \
	X(eventfd_write(-1, 1))                                                                   \
	X(connect(-1, &address, 0))                                                               \
	X(accept(-1, &address, &length))                                                          \
	X(accept4(-1, &address, &length, 0))                                                      \
	X(recv(-1, &byte, 1, 0))                                                                  \
	X(recvfrom(-1, &byte, 1, 0, NULL, NULL))                                                  \
	X(recvmsg(-1, &message, 0))                                                               \
	X(recvmmsg(-1, messages, 1, 0, NULL))                                                     \
	X(send(-1, &byte, 1, 0))                                                                  \
	X(sendto(-1, &byte, 1, 0, NULL, 0))                                                       \
	X(sendmsg(-1, &message, 0))                                                               \
	X(sendmmsg(-1, messages, 1, 0))                                                           \
	X(poll(NULL, 0, 0))                                                                       \
	X(ppoll(NULL, 0, &no_time, NULL))                                                         \
	X(select(0, NULL, NULL, NULL, &no_time_at_all))                                           \
	X(pselect(0, NULL, NULL, NULL, &no_time, NULL))                                           \
	X(epoll_wait(-1, &event, 1, 0))                                                           \
	X(epoll_pwait(-1, &event, 1, 0, NULL))                                                    \
	X(fsync(-1))                                                                              \
	X(fdatasync(-1))                                                                          \
	X(fallocate(-1, 0, 0, 1))                                                                 \
	X(msync(NULL, 0, MS_ASYNC))                                                               \
	X(sync_file_range(-1, 0, 1, 0))                                                           \
	X(splice(-1, NULL, -1, NULL, 1, 0))                                                       \
	X(vmsplice(-1, &part, 1, 0))                                                              \
	X(tee(-1, -1, 1, 0))                                                                      \
	X(copy_file_range(-1, NULL, -1, NULL, 1, 0))                                              \
	X(tcdrain(-1))                                                                            \
	X(mq_send((mqd_t)-1, &byte, 1, 0))                                                        \
	X(mq_timedsend((mqd_t)-1, &byte, 1, 0, &no_time))                                         \
	X(mq_receive((mqd_t)-1, &byte, 1, NULL))                                                  \
	X(mq_timedreceive((mqd_t)-1, &byte, 1, NULL, &no_time))                                   \
	X(msgsnd(-1, messages, 1, IPC_NOWAIT))                                                    \
	X(msgrcv(-1, messages, 1, 0, IPC_NOWAIT))                                                 \
	X(nanosleep(&no_time, NULL))                                                              \
	X(clock_nanosleep(CLOCK_MONOTONIC, 0, &no_time, NULL))                                    \
	X(usleep(0))                                                                              \
	X(waitpid(-1, &status, WNOHANG))                                                          \
	X(wait3(&status, WNOHANG, NULL))                                                          \
	X(wait4(-1, &status, WNOHANG, NULL))                                                      \
	X(waitid(P_ALL, 0, &info, WNOHANG | WEXITED))                                             \
	X(sigtimedwait(&none, &info, &no_time))                                                   \
	X(fcntl(-1, F_SETLKW, &range))                                                            \
	X(lockf(-1, F_LOCK, 1))                                                                   \
	X((pthread_testcancel(), 0))

#define NO_POINTS(X)                                                                              \
	X(fcntl(-1, F_GETFL))                                                                     \
	X(fcntl(-1, F_SETLK, &range))                                                             \
	X(lockf(-1, F_ULOCK, 1))                                                                  \
	X(lockf(-1, F_TLOCK, 1))                                                                  \
	X(flock(-1, LOCK_EX))                                                                     \
	X(semop(-1, NULL, 1))                                                                     \
	X(semtimedop(-1, NULL, 1, &no_time))                                                      \
	X(sendfile(-1, -1, NULL, 1))                                                              \
	X(syncfs(-1))                                                                             \
	X(posix_fallocate(-1, 0, 1))                                                              \
	X(sched_yield())                                                                          \
	X(kill(getpid(), 0))                                                                      \
	X(raise(SIGURG))                                                                          \
	X(lseek(-1, 0, SEEK_SET))                                                                 \
	X(dup(-1))                                                                                \
	X(shutdown(-1, SHUT_RD))                                                                  \
	X(pclose(popen("exit 0", "r")))                                                           \
	X(pthread_sigmask(SIG_BLOCK, &none, NULL))

#define NAMED(call) #call,
#define CASE(call)                                                                                \
	if (at == next++) {                                                                       \
		CHECK_EQ(pthread_cancel(pthread_self()), 0);                                      \
		(void)!(call);                                                                    \
		return 0;                                                                         \
	}

static const char *const points[] = { POINTS(NAMED) };
static const char *const no_points[] = { NO_POINTS(NAMED) };

static int make_point(int at)
{
	int next = 0;
	POINTS(CASE)
	return 1;
}

static int make_no_point(int at)
{
	int next = 0;
	NO_POINTS(CASE)
	return 1;
}

static void *makes_point(void *at)
{
	make_point((int)(intptr_t)at);
	return NULL;
}

static void *makes_no_point(void *at)
{
	make_no_point((int)(intptr_t)at);
	return NULL;
}

static void test_all(void *(*makes)(void *), const char *const *names, int number, int is_point)
{
	for (int i = 0; i < number; i++) {
		void *result = join_thread(start_thread(makes, (void *)(intptr_t)i));
		if ((result == PTHREAD_CANCELED) != is_point) {
			fprintf(stderr, "%s: %s a point of cancellation\n", names[i],
				is_point ? "is not" : "is");
			exit(1);
		}
	}
}

/* Those that wait. */

static char path[] = "/tmp/heddle-points-XXXXXX";
static int semaphores, ends[2], files[2], begun, got, cleaned, handled;

static void cleans(void *arg)
{
	(void)arg;
	add_value(&cleaned, 1);
}

static void *waits_for_lock(void *fd)
{
	pthread_cleanup_push(cleans, NULL);
	set_value(&begun, 1);
	CHECK_EQ(flock((int)(intptr_t)fd, LOCK_EX), 0);
	set_value(&got, 1);
	pthread_testcancel();
	set_value(&got, 2);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *waits_for_semaphore(void *arg)
{
	struct sembuf down = { 0, -1, 0 };
	set_value(&begun, 1);
	/* A C library may send the thread a signal for it, behind which the kernel does not go on. */
	while (semop(semaphores, &down, 1) != 0)
		CHECK_EQ(errno, EINTR);
	set_value(&got, 1);
	pthread_testcancel();
	set_value(&got, 2);
	return arg;
}

static void *sends_file(void *arg)
{
	set_value(&begun, 1);
	CHECK_EQ(sendfile(ends[1], files[0], NULL, 1), 1);
	set_value(&got, 1);
	pthread_testcancel();
	set_value(&got, 2);
	return arg;
}

static void *locks_at_any_time(void *fd)
{
	int old;
	pthread_cleanup_push(cleans, NULL);
	CHECK_EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old), 0);
	set_value(&begun, 1);
	flock((int)(intptr_t)fd, LOCK_EX);
	set_value(&got, 2);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Ends the thread that it comes to, in the middle of the wait. */
static void ends_it(int signal)
{
	(void)signal;
	pthread_testcancel();
	add_value(&handled, 1);
}

static pthread_t start_waiter(void *(*start)(void *), intptr_t arg)
{
	set_value(&begun, 0);
	set_value(&got, 0);
	set_value(&cleaned, 0);
	pthread_t thread = start_thread(start, (void *)arg);
	await_value(&begun, 1);
	sleep_ms(20);
	return thread;
}

static void test_waits(void)
{
	struct sembuf up = { 0, 1, 0 };
	int other = open(path, O_RDWR);

	CHECK_EQ(flock(files[0], LOCK_EX), 0);
	pthread_t thread = start_waiter(waits_for_lock, other);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(20);
	CHECK_EQ(__atomic_load_n(&got, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(flock(files[0], LOCK_UN), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(got, 1);
	CHECK_EQ(cleaned, 1);
	CHECK_EQ(flock(other, LOCK_UN), 0);

	thread = start_waiter(waits_for_semaphore, 0);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(20);
	CHECK_EQ(__atomic_load_n(&got, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(semop(semaphores, &up, 1), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(got, 1);

	char pages[4096] = "";
	CHECK_EQ(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], pages, sizeof pages) > 0)
		;
	CHECK_EQ(fcntl(ends[1], F_SETFL, 0), 0);
	thread = start_waiter(sends_file, 0);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(20);
	CHECK_EQ(__atomic_load_n(&got, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(read(ends[0], pages, sizeof pages), sizeof pages);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(got, 1);

	/* Of the asynchronous type it ends there, and by what its handler does. */
	CHECK_EQ(flock(files[0], LOCK_EX), 0);
	thread = start_waiter(locks_at_any_time, other);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(got, 0);
	CHECK_EQ(cleaned, 1);

	struct sigaction action = { .sa_handler = ends_it, .sa_flags = SA_RESTART };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	thread = start_waiter(waits_for_lock, other);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	await_value(&handled, 1);
	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	CHECK(join_thread(thread) == PTHREAD_CANCELED);
	CHECK_EQ(got, 0);
	CHECK_EQ(cleaned, 1);
	CHECK_EQ(handled, 1);
	CHECK_EQ(flock(files[0], LOCK_UN), 0);
	close(other);
}

int main(void)
{
	sigemptyset(&none);
	test_all(makes_point, points, sizeof points / sizeof *points, 1);
	test_all(makes_no_point, no_points, sizeof no_points / sizeof *no_points, 0);
	files[0] = mkstemp(path);
	CHECK(files[0] >= 0);
	CHECK_EQ(write(files[0], "x", 1), 1);
	CHECK_EQ(lseek(files[0], 0, SEEK_SET), 0);
	CHECK_EQ(pipe(ends), 0);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	CHECK(semaphores >= 0);
	test_waits();
	CHECK_EQ(semctl(semaphores, 0, IPC_RMID), 0);
	unlink(path);
	return 0;
}
