/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * There is room for two more kernel threads of this user, which is too little for the runtime: what
 * it began with must be gone then, and the room the program's. For a user who has no processes.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 14, ROOM = 2, LOOKS = 2000 };

static int gate[2];

static void *wait_at_gate(void *arg)
{
	char byte;
	return read(gate[0], &byte, 1) == 0 ? arg : NULL;
}

static int kernel_threads(void)
{
	int count = -2; /* "." and ".." */
	DIR *tasks = opendir("/proc/self/task");
	while (readdir(tasks) != NULL)
		count++;
	closedir(tasks);
	return count;
}

int main(void)
{
	struct rlimit limit = { CHILDREN + 1 + ROOM, CHILDREN + 1 + ROOM };
	pthread_t threads[ROOM + 1];
	pid_t children[CHILDREN];
	int made = 0, left = 0;

	for (int i = 0; i < CHILDREN; i++) {
		children[i] = fork();
		if (children[i] < 0)
			return 2;
		if (children[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			pause();
		}
	}
	if (pipe(gate) != 0 || setrlimit(RLIMIT_NPROC, &limit) != 0)
		return 1;
	while (made <= ROOM && pthread_create(&threads[made], NULL, wait_at_gate, NULL) == 0)
		made++;
	for (int i = 0; i < LOOKS && (left = kernel_threads() - 1 - made) != 0; i++)
		usleep(1000);
	printf("%d made, %d left behind\n", made, left);
	close(gate[1]);
	for (int i = 0; i < made; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	return 0;
}
