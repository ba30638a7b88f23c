/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls that wait in the kernel for what is no descriptor end with EINTR when a handler without
 * SA_RESTART has run, and go on after one with it, by the list in signal(7). The handler runs while
 * the call waits.
 */
#define _GNU_SOURCE
#include "kill_until.h"
#include <fcntl.h>
#include <mqueue.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <sys/wait.h>

static _Thread_local volatile int handled;
static int seen, inside, file, queue, semaphores;
static mqd_t messages;
static char folder[] = "/tmp/heddle-signal-XXXXXX", fifo[64], path[64], mq_name[64];

static void on_signal(int number)
{
	(void)number;
	handled++;
	add_value(&seen, 1);
}

/* Each waits for what release() does; whether SA_RESTART has it go on. */
static int call_flock(void)
{
	int own = open(path, O_RDWR), result;
	CHECK(own >= 0);
	result = flock(own, LOCK_EX);
	int error = errno;
	close(own);
	errno = error;
	return result;
}

static int call_fcntl(void)
{
	int own = open(path, O_RDWR), result;
	CHECK(own >= 0);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	result = fcntl(own, F_OFD_SETLKW, &lock);
	int error = errno;
	close(own);
	errno = error;
	return result;
}

static int call_open(void)
{
	int fd = open(fifo, O_RDONLY);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : 0;
}

static int call_wait(void)
{
	pid_t got = wait(NULL);
	return got < 0 ? -1 : 0;
}

static int call_mq(void)
{
	char text[64];
	return mq_receive(messages, text, sizeof text, NULL) < 0 ? -1 : 0;
}

static int call_msgrcv(void)
{
	struct {
		long kind;
		char text[8];
	} message;
	return msgrcv(queue, &message, sizeof message.text, 0, 0) < 0 ? -1 : 0;
}

static int call_semop(void)
{
	struct sembuf take = { .sem_op = -1 };
	return semop(semaphores, &take, 1);
}

static int call_sleep(void)
{
	struct timespec time = { 1000, 0 };
	errno = clock_nanosleep(CLOCK_BOOTTIME, 0, &time, NULL);
	return errno ? -1 : 0;
}

static const struct kind {
	const char *name;
	int (*call)(void);
	int restarts;
} kinds[] = {
	{ "flock", call_flock, 1 },	 { "fcntl", call_fcntl, 1 },   { "open", call_open, 1 },
	{ "wait", call_wait, 1 },	 { "mq_receive", call_mq, 1 }, { "msgrcv", call_msgrcv, 0 },
	{ "semop", call_semop, 0 },	 { "sleep", call_sleep, 0 },
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static pid_t child;

/* What the calls wait for. */
static void hold(void)
{
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		for (;;)
			pause();
	/* Not the child's, too. */
	file = open(path, O_RDWR);
	CHECK(file >= 0);
	CHECK_EQ(flock(file, LOCK_EX), 0);
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	CHECK_EQ(fcntl(file, F_OFD_SETLK, &lock), 0);
}

static void release(int which)
{
	struct {
		long kind;
		char text[8];
	} message = { 1, "x" };
	struct sembuf give = { .sem_op = 1 };
	int end;
	switch (which) {
	case 0:
	case 1:
		close(file);
		file = -1;
		break;
	case 2:
		CHECK((end = open(fifo, O_WRONLY)) >= 0);
		close(end);
		break;
	case 3:
		CHECK_EQ(kill(child, SIGKILL), 0);
		break;
	case 4:
		CHECK_EQ(mq_send(messages, "x", 1, 0), 0);
		break;
	case 5:
		CHECK_EQ(msgsnd(queue, &message, sizeof message.text, 0), 0);
		break;
	case 6:
		CHECK_EQ(semop(semaphores, &give, 1), 0);
		break;
	}
}

static void *waits(void *arg)
{
	const struct kind *kind = arg;
	sigset_t first;
	sigemptyset(&first);
	sigaddset(&first, SIGUSR1);
	set_value(&inside, 1);
	CHECK_ERRNO(kind->call(), EINTR);
	/* One more of it may still come. */
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &first, NULL), 0);
	int before = handled;
	CHECK(before >= 1);
	set_value(&inside, 2);
	errno = 0;
	int result = kind->call();
	if (kind->restarts) {
		if (result != 0)
			fprintf(stderr, "%s: %s\n", kind->name, strerror(errno));
		CHECK_EQ(result, 0);
	} else {
		CHECK_EQ(result, -1);
		CHECK_EQ(errno, EINTR);
	}
	CHECK(kind->restarts ? handled == before + 1 : handled > before);
	set_value(&inside, 3);
	return NULL;
}

static void remove_all(void)
{
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	mq_unlink(mq_name);
	unlink(fifo);
	unlink(path);
	rmdir(folder);
}

static void test(int which)
{
	set_value(&inside, 0);
	set_value(&seen, 0);
	hold();
	pthread_t thread = start_thread(waits, (void *)&kinds[which]);
	await_value(&inside, 1);
	sleep_ms(30);
	kill_until(thread, SIGUSR1, &inside, 2);
	sleep_ms(30);
	if (kinds[which].restarts) {
		int before = seen;
		CHECK_EQ(pthread_kill(thread, SIGUSR2), 0);
		/* While it waits. */
		await_value(&seen, before + 1);
		sleep_ms(20);
		CHECK_EQ(inside, 2);
		release(which);
	} else {
		kill_until(thread, SIGUSR2, &inside, 3);
	}
	join_thread(thread);
	if (file >= 0)
		close(file);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	action.sa_flags = SA_RESTART;
	CHECK_EQ(sigaction(SIGUSR2, &action, NULL), 0);
	CHECK(mkdtemp(folder) != NULL);
	snprintf(fifo, sizeof fifo, "%s/fifo", folder);
	snprintf(path, sizeof path, "%s/file", folder);
	snprintf(mq_name, sizeof mq_name, "/heddle-signal-%d", (int)getpid());
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	CHECK((file = open(path, O_CREAT | O_RDWR, 0600)) >= 0);
	close(file);
	struct mq_attr attr = { .mq_maxmsg = 2, .mq_msgsize = 64 };
	messages = mq_open(mq_name, O_CREAT | O_RDWR, 0600, &attr);
	queue = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	atexit(remove_all);
	for (int which = 0; which < KINDS; which++) {
		int has_it = which == 4 ? messages != (mqd_t)-1 : which == 5 ? queue >= 0 :
			     which == 6 ? semaphores >= 0	: 1;
		if (has_it)
			test(which);
	}
	return 0;
}
