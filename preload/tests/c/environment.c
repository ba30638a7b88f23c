/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The program sees its own environment, and whatever it starts is followed. Calls itself: with an
 * argument it is the child that looks. */
#define _GNU_SOURCE
#include "own_table.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static int is_followed(void)
{
	static char maps[1 << 16];
	int file = open("/proc/self/maps", O_RDONLY);
	size_t used = 0;
	ssize_t got;

	while ((got = read(file, maps + used, sizeof(maps) - 1 - used)) > 0)
		used += (size_t)got;
	close(file);
	return strstr(maps, "libheddle-preload") != NULL;
}

static void looks(const char *preload)
{
	CHECK(is_followed());
	CHECK(!getenv("HEDDLE_PLAN"));
	if (preload[0])
		CHECK(getenv("LD_PRELOAD") && !strcmp(getenv("LD_PRELOAD"), preload));
	else
		CHECK(!getenv("LD_PRELOAD"));
	for (char **entry = environ; *entry; entry++)
		CHECK(!strstr(*entry, "libheddle-preload"));
}

static const char *self;

static void child_of(int which)
{
	char *arguments[] = {(char *)self, (char *)"", NULL};
	char *empty[] = {NULL};
	char *theirs[] = {(char *)"LD_PRELOAD=libc.so.6", (char *)"X=1", NULL};
	char *with_preload[] = {(char *)self, (char *)"libc.so.6", NULL};

	switch (which) {
	case 0: execv(self, arguments); break;
	case 1: execve(self, arguments, empty); break;
	case 2: execvp(self, arguments); break;
	case 3: execvpe(self, arguments, empty); break;
	case 4: execl(self, self, "", (char *)NULL); break;
	case 5: execlp(self, self, "", (char *)NULL); break;
	case 6: execle(self, self, "", (char *)NULL, empty); break;
	case 7: fexecve(open(self, O_RDONLY), arguments, environ); break;
	case 8: execve(self, with_preload, theirs); break;
	}
	_exit(3);
}

static void expect_success(int status)
{
	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), 0);
}

int main(int count, char **arguments)
{
	char *words[] = {NULL, (char *)"", NULL};
	char command[512], line[16] = "";
	pid_t child;
	FILE *pipe;
	int status;

	self = "/proc/self/exe";
	if (count > 1) {
		looks(arguments[1]);
		return 0;
	}
	looks("");
	self = realpath("/proc/self/exe", NULL);
	for (int which = 0; which <= 8; which++) {
		child = which % 2 ? fork() : vfork();
		if (child == 0)
			child_of(which);
		CHECK_EQUAL(waitpid(child, &status, 0), child);
		expect_success(status);
	}
	words[0] = (char *)self;
	CHECK_EQUAL(posix_spawn(&child, self, NULL, NULL, words, environ), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	expect_success(status);
	CHECK_EQUAL(posix_spawnp(&child, self, NULL, NULL, words, environ), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	expect_success(status);
	snprintf(command, sizeof(command), "'%s' ''", self);
	expect_success(system(command));
	CHECK(system(NULL) != 0);
	CHECK_EQUAL(WEXITSTATUS(system("exit 7")), 7);
	snprintf(command, sizeof(command), "'%s' '' && echo fine", self);
	pipe = popen(command, "r");
	CHECK(pipe && fgets(line, sizeof(line), pipe));
	CHECK(!strcmp(line, "fine\n"));
	expect_success(pclose(pipe));
	/* What fails, fails as ever. */
	CHECK_EQUAL(execl("/nonexistent", "x", (char *)NULL), -1);
	return 0;
}
