/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Starting programs: exec*, posix_spawn*, system, popen, with our variables put back.
 *
 * libc's own functions call each other inside libc, past us: so each of them is here.
 *
 * Invariants
 *   - Usable between vfork() and exec: no allocation but on the stack, or by mmap where an
 *     environment is too large for a small stack; no lock.
 *   - If exec fails the program goes on as if we had not been asked.
 */
#define _GNU_SOURCE
#include "environ.h"
#include "judge.h"
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void *environment_map(size_t room)
{
	void *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void environment_unmap(void *memory, size_t room)
{
	int error = errno;

	if (memory && room > ENVIRONMENT_STACK_MAX)
		munmap(memory, room);
	errno = error;
}

/* Calls `call` with `changed` as the environment to use, ours in it if it may be. `judged` asks
 * about the program. */
#define WITH_ENVIRONMENT(given, judged, call)                                                      \
	do {                                                                                       \
		char *const *changed = (given);                                                    \
		const bool is_user = environment_follows() && (judged);                            \
		/* The question takes a while. */                                                  \
		const bool follows = environment_follows();                                        \
		const size_t room = follows ? environment_room(changed, is_user) : 0;              \
		void *memory = room ? ENVIRONMENT_MEMORY(room) : NULL;                             \
		if (memory)                                                                        \
			changed = environment_fill(changed, memory, room, is_user);                \
		call;                                                                              \
		environment_unmap(memory, room);                                                   \
	} while (0)

/* A process that becomes another program has ended as this one, if exec succeeds. */
#define EXEC(given, judged, call)                                                                  \
	do {                                                                                       \
		int result;                                                                        \
		process_ends();                                                                    \
		WITH_ENVIRONMENT(given, judged, result = (call));                                  \
		process_goes_on();                                                                 \
		return result;                                                                     \
	} while (0)

EXPORT int execve(const char *path, char *const arguments[], char *const environment[])
{
	EXEC(environment, judge_path(AT_FDCWD, path, changed),
	     REAL(execve)(path, arguments, changed));
}

EXPORT int execv(const char *path, char *const arguments[])
{
	EXEC(environ, judge_path(AT_FDCWD, path, changed),
	     REAL(execve)(path, arguments, changed));
}

EXPORT int execvpe(const char *file, char *const arguments[], char *const environment[])
{
	EXEC(environment, judge_name(file, changed), REAL(execvpe)(file, arguments, changed));
}

EXPORT int execvp(const char *file, char *const arguments[])
{
	EXEC(environ, judge_name(file, changed), REAL(execvpe)(file, arguments, changed));
}

EXPORT int fexecve(int file, char *const arguments[], char *const environment[])
{
	EXEC(environment, judge_path(file, "", changed),
	     REAL(fexecve)(file, arguments, changed));
}

EXPORT int execveat(int folder, const char *path, char *const arguments[],
		    char *const environment[], int flags)
{
	__typeof__(&execveat) real = REAL(execveat);

	if (!real) {
		errno = ENOSYS;
		return -1;
	}
	EXEC(environment, judge_path(folder, path, changed),
	     real(folder, path, arguments, changed, flags));
}

/* The arguments of execl() and its relatives as an array, its end included. */
static size_t count_arguments(va_list list)
{
	size_t count = 2;

	while (va_arg(list, char *))
		count++;
	return count;
}

#define LIST_ARGUMENTS(first, arguments, list)                                                     \
	do {                                                                                       \
		va_list counted;                                                                   \
		va_start(list, first);                                                             \
		va_copy(counted, list);                                                            \
		const size_t count = first ? count_arguments(counted) : 1;                         \
		va_end(counted);                                                                   \
		arguments = __builtin_alloca(count * sizeof(char *));                              \
		arguments[0] = (char *)(uintptr_t)first;                                           \
		for (size_t i = 1; i < count; i++)                                                 \
			arguments[i] = va_arg(list, char *);                                       \
	} while (0)

EXPORT int execl(const char *path, const char *first, ...)
{
	char **arguments;
	va_list list;

	LIST_ARGUMENTS(first, arguments, list);
	va_end(list);
	EXEC(environ, judge_path(AT_FDCWD, path, changed),
	     REAL(execve)(path, arguments, changed));
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	char **arguments;
	va_list list;

	LIST_ARGUMENTS(first, arguments, list);
	va_end(list);
	EXEC(environ, judge_name(file, changed), REAL(execvpe)(file, arguments, changed));
}

EXPORT int execle(const char *path, const char *first, ...)
{
	char **arguments;
	char *const *environment;
	va_list list;

	LIST_ARGUMENTS(first, arguments, list);
	environment = va_arg(list, char *const *);
	va_end(list);
	EXEC(environment, judge_path(AT_FDCWD, path, changed),
	     REAL(execve)(path, arguments, changed));
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		       const posix_spawnattr_t *attributes, char *const arguments[],
		       char *const environment[])
{
	int result;

	WITH_ENVIRONMENT(
		environment, judge_spawned(path, false, actions, changed),
		result = REAL(posix_spawn)(pid, path, actions, attributes, arguments, changed));
	return result;
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
			const posix_spawnattr_t *attributes, char *const arguments[],
			char *const environment[])
{
	int result;

	WITH_ENVIRONMENT(
		environment, judge_spawned(file, true, actions, changed),
		result = REAL(posix_spawnp)(pid, file, actions, attributes, arguments, changed));
	return result;
}

#define WITH_COMMAND(given, call)                                                                  \
	do {                                                                                       \
		const char *changed = (given);                                                     \
		const size_t room =                                                                \
			changed && environment_follows() ? environment_command_room(changed) : 0;  \
		void *memory = room ? ENVIRONMENT_MEMORY(room) : NULL;                             \
		if (memory) {                                                                      \
			environment_command(memory, changed);                                      \
			changed = memory;                                                          \
		}                                                                                  \
		call;                                                                              \
		environment_unmap(memory, room);                                                   \
	} while (0)

EXPORT int system(const char *command)
{
	int result;

	WITH_COMMAND(command, result = REAL(system)(changed));
	return result;
}

EXPORT FILE *popen(const char *command, const char *mode)
{
	FILE *result;

	WITH_COMMAND(command, result = REAL(popen)(changed, mode));
	return result;
}
