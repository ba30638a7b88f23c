/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Starts itself in every way that there is, from the main thread and from another one, and says of
 * each start what the new program finds: its name, its environment, its descriptors, and, as
 * "kernel" or "user", what its threads are. Then starts that fail, and how.
 *
 * With the argument "thread" it is such a program. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAYS 15

extern char **environ;

static const char *own_path, *own_name, *own_folder;
static const char *volatile nowhere = (const char *)8, *volatile no_path;
static char command[4096];

/* A user-level thread's number is none of the kernel's. */
static void *number(void *place)
{
	*(long *)place = syscall(SYS_gettid);
	return NULL;
}

static int program(const char *name)
{
	pthread_t thread;
	sigset_t mask;
	long tid = 0;
	DIR *files = opendir("/proc/self/fd");

	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	printf("%s, fds", name);
	for (struct dirent *entry; (entry = readdir(files)) != NULL;)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(files))
			printf(" %s", entry->d_name);
	closedir(files);
	printf(", %s, %s", sigismember(&mask, SIGUSR1) ? "blocked" : "let through",
	       signal(SIGUSR2, SIG_DFL) == SIG_IGN ? "ignored" : "default");
	for (char **entry = environ; *entry; entry++)
		if (strncmp(*entry, "_=", 2) && strncmp(*entry, "OLDPWD=", 7))
			printf(", %s", *entry);
	if (pthread_create(&thread, NULL, number, &tid) || pthread_join(thread, NULL))
		return 1;
	printf(", threads: %s\n", tid > 1 << 29 ? "user" : "kernel");
	fflush(stdout);
	return 40;
}

static void become(int way)
{
	char *words[] = { "other name", "thread", NULL };
	char *few[] = { "X=1", "LD_PRELOAD=libm.so.6", NULL };

	switch (way) {
	case 0: execve(own_path, words, few); break;
	case 1: execv(own_path, words); break;
	case 2: execvp(own_name, words); break;
	case 3: execvpe(own_name, words, few); break;
	case 4: execl(own_path, "l", "thread", (char *)NULL); break;
	case 5: execlp(own_name, "lp", "thread", (char *)NULL); break;
	case 6: execle(own_path, "le", "thread", (char *)NULL, few); break;
	case 7: fexecve(open(own_path, O_RDONLY | O_CLOEXEC), words, few); break;
	case 8: execveat(open(own_folder, O_PATH | O_CLOEXEC), own_name, words, few, 0); break;
	case 9: execve(own_name, words, environ); break; /* the folder is the current one */
	}
	_exit(99);
}

static pid_t started(int way)
{
	char *words[] = { "spawned", "thread", NULL };
	char *none[] = { NULL };
	pid_t child = -1;

	if (way == 10)
		posix_spawn(&child, own_path, NULL, NULL, words, none);
	else if (way == 11)
		posix_spawnp(&child, own_name, NULL, NULL, words, environ);
	else if (way == 12 && (child = vfork()) == 0) {
		execve(own_path, words, none);
		_exit(98);
	} else if (way < 10 && (child = fork()) == 0)
		become(way);
	return child;
}

static void *starts(void *unused)
{
	char line[65536];

	for (int way = 0; way < WAYS; way++) {
		int status = -1;

		if (way == 13)
			status = system(command);
		else if (way == 14) {
			FILE *from = popen(command, "r");

			while (fgets(line, sizeof line, from))
				fputs(line, stdout);
			status = pclose(from);
		} else
			waitpid(started(way), &status, 0);
		printf("way %d: %d\n", way, WEXITSTATUS(status));
		fflush(stdout);
	}
	return unused;
}

static const char *file(const char *text, mode_t mode)
{
	static char path[4096];
	FILE *to;

	snprintf(path, sizeof path, "%s/wrong", own_folder);
	unlink(path);
	to = fopen(path, "w");
	fputs(text, to);
	fclose(to);
	chmod(path, mode);
	return path;
}

/* The program goes on after each of these. */
static void *fails(void *unused)
{
	char *words[] = { "x", NULL }, *large[] = { "x", NULL, NULL };
	pid_t child;

	large[1] = memset(calloc(1, 4 << 20), 'x', (4 << 20) - 1);
	errno = 0;
#define SAY(call) printf(#call ": %d", call), printf(" %s\n", strerrorname_np(errno)), errno = 0
	SAY(execv("/no/such", words));
	SAY(execvp("no-such-program", words));
	SAY(execv("/dev/null/x", words));
	SAY(execv(own_folder, words));
	SAY(execv(nowhere, words));
	SAY(execv("", words));
	SAY(execv(own_path, large));
	SAY(fexecve(900000, words, environ));
	SAY(execveat(AT_FDCWD, own_path, words, environ, 1 << 30));
	SAY(execveat(open(own_path, O_PATH | O_CLOEXEC), no_path, words, environ, AT_EMPTY_PATH));
	SAY(execv(file("text\n", 0755), words));
	SAY(execv(file("#!/no/interpreter\n", 0755), words));
	SAY(execv(file("\177ELF", 0755), words));
	SAY(posix_spawn(&child, "/no/such", NULL, NULL, words, environ));
	SAY(posix_spawnp(&child, "no-such-program", NULL, NULL, words, environ));
	fflush(stdout);
	return unused;
}

int main(int count, char **words)
{
	pthread_t thread;
	sigset_t mask;

	if (count > 1 && strcmp(words[1], "thread") == 0)
		return program(words[0]);
	own_path = words[0];
	own_name = strrchr(own_path, '/') + 1;
	own_folder = strndup(own_path, own_name - own_path - 1);
	snprintf(command, sizeof command, "exec '%s' thread \"it's $0\"", own_path);
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	signal(SIGUSR2, SIG_IGN);
	if (chdir(own_folder) || setenv("PATH", "/no/folder::/usr/bin:/bin", 1))
		return 1;
	starts(NULL);
	fails(NULL);
	if (pthread_create(&thread, NULL, starts, NULL) || pthread_join(thread, NULL))
		return 1;
	return pthread_create(&thread, NULL, fails, NULL) || pthread_join(thread, NULL);
}
