/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What does not wait as a rule costs its system call alone: no kernel thread makes it for the
 * caller, and a file that is to be opened is not looked at first. So it is with what waits for a
 * disk, while the caller is the only thread that its worker has.
 */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static char folder[] = "/tmp/heddle-place-XXXXXX", path[64];
static int looked_at;
static sem_t go;

/* Of kernel threads that make calls for others. */
static int helpers(void)
{
	char name[300], text[32];
	int count = 0;
	struct dirent *each;
	DIR *tasks = opendir("/proc/self/task");
	CHECK(tasks);
	while ((each = readdir(tasks))) {
		snprintf(name, sizeof name, "/proc/self/task/%s/comm", each->d_name);
		FILE *file = fopen(name, "r");
		if (file && fgets(text, sizeof text, file))
			count += strncmp(text, "heddle-blocking", 15) == 0;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return count;
}

static void connects(int family, void *address, socklen_t length)
{
	int listener = socket(family, SOCK_STREAM, 0), client = socket(family, SOCK_STREAM, 0);
	socklen_t room = sizeof(struct sockaddr_storage);
	CHECK(listener >= 0 && client >= 0);
	if (bind(listener, address, length) != 0)
		return; /* No such addresses here. */
	CHECK_EQ(listen(listener, 4), 0);
	CHECK_EQ(getsockname(listener, address, &room), 0);
	CHECK_EQ(connect(client, address, room), 0);
	int other = accept(listener, NULL, NULL);
	CHECK(other >= 0);
	close(other);
	close(client);
	close(listener);
}

static void *calls(void *arg)
{
	struct sockaddr_storage local = { .ss_family = AF_UNIX };
	union {
		struct sockaddr_in it;
		struct sockaddr_storage room;
	} four = { .it = { .sin_family = AF_INET } };
	union {
		struct sockaddr_in6 it;
		struct sockaddr_storage room;
	} six = { .it = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	four.it.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK_EQ(sem_wait(&go), 0);
	connects(AF_UNIX, &local, sizeof(sa_family_t));
	connects(AF_INET, &four, sizeof four.it);
	connects(AF_INET6, &six, sizeof six.it);
	int file = open(path, O_WRONLY | O_CREAT, 0600);
	CHECK(file >= 0);
	CHECK_EQ(ftruncate(file, 100), 0);
	CHECK_EQ(truncate(path, 50), 0);
	CHECK_EQ(lseek(file, 0, SEEK_END), 50);
	CHECK_EQ(write(file, "more", 4), 4);
	CHECK_EQ(fsync(file), 0);
	close(file);
	CHECK_EQ(__atomic_load_n(&looked_at, __ATOMIC_SEQ_CST), 0);
	CHECK_EQ(helpers(), 0);
	return arg;
}

static void on_look(int number)
{
	(void)number;
	set_value(&looked_at, 1);
}

/* From now on a signal comes for each look at a file by its name, whoever looks. */
static void watch(void)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
	struct sigaction action = { .sa_handler = on_look };
	CHECK_EQ(sigaction(SIGSYS, &action, NULL), 0);
	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
		SKIP("the kernel has no filters on system calls");
}

int main(void)
{
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/file", folder);
	CHECK_EQ(sem_init(&go, 0, 0), 0);
	pthread_t thread = start_thread(calls, NULL);
	watch();
	CHECK_EQ(sem_post(&go), 0);
	join_thread(thread);
	unlink(path);
	rmdir(folder);
	return 0;
}
