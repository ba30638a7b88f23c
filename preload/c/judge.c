/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Whether a program that is about to start gets user-level threads: `heddle run` is asked, which
 * judges it as it judged the first one, and knows what it has judged before.
 *
 * Invariants
 *   - Whatever is unusual means no: then the program starts as it does without this.
 *   - Only this user, or root, is believed.
 *   - Usable between vfork() and exec: system calls alone, as numbers, so that no other library
 *     waits in its own way; memory that is mapped, and gone before exec. Nothing of the program's
 *     is touched but the lowest free number of a descriptor, for as long as that takes.
 *   - A question waits no longer than some seconds, whatever became of `heddle run`.
 */
#define _GNU_SOURCE
#include "judge.h"
#include "environ.h"
#include "guarded.h"
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The threads of a 32-bit program are kernel threads, and so are those of what it starts. */
#if UINTPTR_MAX > UINT32_MAX

#define ANSWER_SECONDS_MAX 2
/* Where execvp looks if there is no PATH. */
#define PATH_DEFAULT "/bin:/usr/bin"

#define CALL(...) REAL(syscall)(__VA_ARGS__)

struct judge {
	struct heddle_question question;
	struct stat file;
	char path[PATH_MAX];
	char name[PATH_MAX]; /* one of those that are tried */
	char link[PATH_MAX]; /* a folder's path */
};

/* The kernel reads the name first: to refuse one that lies nowhere is its business. Of none it may
 * take the descriptor. */
static bool look_at(struct judge *it, int folder, const char *path)
{
	return path && CALL(SYS_newfstatat, folder, path, &it->file, AT_EMPTY_PATH) == 0 &&
	       S_ISREG(it->file.st_mode);
}

/* Where an open file or folder is, as the kernel has it: in `link`. */
static bool follow(struct judge *it, int file)
{
	char name[32] = "/proc/self/fd/";
	long length;

	if (file < 0)
		return false;
	strcat(name, digits((uint64_t)file));
	length = CALL(SYS_readlinkat, AT_FDCWD, name, it->link, PATH_MAX - 1L);
	if (length <= 0)
		return false;
	it->link[length] = 0;
	return true;
}

/* The absolute path of what `path` is from `folder`: in `path` of the judge. */
static bool locate(struct judge *it, int folder, const char *path)
{
	size_t length = 0;

	if (path[0] != '/') {
		if (folder == AT_FDCWD ? CALL(SYS_getcwd, it->link, (long)PATH_MAX) <= 0
				       : !follow(it, folder))
			return false;
		/* Not so where the root does not lead there. */
		if (it->link[0] != '/')
			return false;
		length = text_copy(it->path, PATH_MAX - 1, it->link);
		if (path[0])
			it->path[length++] = '/';
	}
	if (length + strlen(path) >= PATH_MAX)
		return false;
	strcpy(it->path + length, path);
	return true;
}

/* As execvp(): the first file in a folder of PATH that may be run. `moves`: whoever searches may
 * have gone elsewhere by then. */
static bool search(struct judge *it, const char *file, bool moves)
{
	const char *folders = getenv("PATH");

	if (!folders)
		folders = PATH_DEFAULT;
	for (;;) {
		const size_t length = strcspn(folders, ":");

		if (moves && folders[0] != '/')
			return false;
		if (length + strlen(file) + 2 <= PATH_MAX) {
			char *end = mempcpy(it->name, folders, length);

			/* An empty entry is the current folder. */
			if (length)
				*end++ = '/';
			strcpy(end, file);
			if (look_at(it, AT_FDCWD, it->name) &&
			    CALL(SYS_faccessat, AT_FDCWD, it->name, (long)X_OK) == 0)
				return locate(it, AT_FDCWD, it->name);
		}
		if (!folders[length])
			return false;
		folders += length + 1;
	}
}

/* Whether more filters look at this thread's system calls than at those of `heddle run`, whoever
 * has set them. What is called for that the start of a program calls, too. */
static bool is_filtered(struct judge *it)
{
	const int file = (int)CALL(SYS_openat, AT_FDCWD, "/proc/thread-self/status",
				   (long)(O_RDONLY | O_CLOEXEC));
	long length;

	if (file < 0)
		return true;
	length = CALL(SYS_read, file, it->link, PATH_MAX - 1L);
	CALL(SYS_close, file);
	if (length <= 0)
		return true;
	it->link[length] = 0;
	return guarded_count(it->link) > plan->filters;
}

static uint64_t limit_of(int resource)
{
	struct rlimit limit;

	if (CALL(SYS_prlimit64, 0L, (long)resource, NULL, &limit) != 0)
		return 0;
	return limit.rlim_cur;
}

/* A socket at whose other end `heddle run` is, of this user; negative: there is none. */
static int connected(void)
{
	const struct timeval most = {.tv_sec = ANSWER_SECONDS_MAX};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *name = environment_plan();
	const size_t length = strlen(name), before = offsetof(struct sockaddr_un, sun_path) + 1;
	struct ucred peer;
	socklen_t bytes = sizeof(peer);
	int file;

	if (length >= sizeof(address.sun_path))
		return -1;
	memcpy(address.sun_path + 1, name, length);
	file = (int)CALL(SYS_socket, (long)AF_UNIX, (long)(SOCK_STREAM | SOCK_CLOEXEC), 0L);
	if (file < 0)
		return -1;
	if (CALL(SYS_setsockopt, file, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most)) == 0 &&
	    CALL(SYS_setsockopt, file, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)) == 0 &&
	    CALL(SYS_connect, file, &address, before + length) == 0 &&
	    CALL(SYS_getsockopt, file, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 &&
	    (peer.uid == 0 || peer.uid == (uid_t)CALL(SYS_geteuid)))
		return file;
	CALL(SYS_close, file);
	return -1;
}

static int64_t seconds_now(void)
{
	struct timespec now = {0};

	CALL(SYS_clock_gettime, (long)CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Sends the question with its texts; whether the answer is yes. */
static bool is_allowed(struct judge *it, int file, char *const *environment)
{
	const char *texts[] = {it->path, environment_value(environment, "LD_PRELOAD="),
			       environment_value(environment, "LD_LIBRARY_PATH=")};
	struct iovec pieces[4] = {{&it->question, sizeof(it->question)}};
	struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 4};
	const int64_t end = seconds_now() + ANSWER_SECONDS_MAX;
	size_t bytes = 0;
	long got = -1;
	char answer = 0;

	for (size_t i = 0; i < 3; i++) {
		const char *text = texts[i] ? texts[i] : "";

		pieces[i + 1] = (struct iovec){(char *)(uintptr_t)text, strlen(text) + 1};
		bytes += pieces[i + 1].iov_len;
	}
	if (bytes > HEDDLE_QUESTION_BYTES_MAX)
		return false;
	it->question.bytes = (uint32_t)bytes;
	if (CALL(SYS_sendmsg, file, &message, MSG_NOSIGNAL) !=
	    (long)(bytes + sizeof(it->question)))
		return false;
	do
		got = CALL(SYS_recvfrom, file, &answer, sizeof(answer), 0L, NULL, NULL);
	while (got < 0 && errno == EINTR && seconds_now() < end);
	return got == 1 && answer == 1;
}

static bool ask(struct judge *it, char *const *environment)
{
	const int file = connected();
	bool allowed;

	if (file < 0)
		return false;
	it->question = (struct heddle_question){
		.device = it->file.st_dev,
		.inode = it->file.st_ino,
		.address_space = limit_of(RLIMIT_AS),
		.data = limit_of(RLIMIT_DATA),
		.stack = limit_of(RLIMIT_STACK),
	};
	allowed = is_allowed(it, file, environment);
	CALL(SYS_close, file);
	return allowed;
}

/* Whether a program that is started from here could load the library. */
static bool is_asked(void)
{
	return programs_are_judged() &&
	       CALL(SYS_faccessat, AT_FDCWD, plan_text(plan->user), (long)R_OK) == 0;
}

/* `folder` is for a path, as execveat() has it; without one the name is searched. `moves` is for
 * that: see there. */
static bool judge(const int *folder, const char *name, bool moves, char *const *environment)
{
	const int error = errno;
	struct judge *it = is_asked() ? environment_map(sizeof(*it)) : NULL;
	bool allowed = false;

	if (it) {
		const bool found = folder ? look_at(it, *folder, name) && locate(it, *folder, name)
					  : search(it, name, moves);

		allowed = found && !is_filtered(it) && ask(it, environment);
		environment_unmap(it, sizeof(*it));
	}
	errno = error;
	return allowed;
}

#else

static bool judge(const int *folder, const char *name, bool moves, char *const *environment)
{
	(void)folder, (void)name, (void)moves, (void)environment;
	return false;
}

#endif

bool judge_path(int folder, const char *path, char *const *environment)
{
	return judge(&folder, path, false, environment);
}

bool judge_name(const char *file, char *const *environment)
{
	const int folder = AT_FDCWD;

	return judge(strchr(file, '/') ? &folder : NULL, file, false, environment);
}

bool judge_spawned(const char *name, bool is_searched, bool moves, char *const *environment)
{
	const int folder = AT_FDCWD;
	const bool is_path = !is_searched || (name && strchr(name, '/'));

	if (is_path && moves && name && name[0] != '/')
		return false;
	return judge(is_path ? &folder : NULL, name, moves, environment);
}
