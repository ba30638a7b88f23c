/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A disk that does not answer: threads wait for it in every call, and in a page of a mapped file,
 * while others go on. Then it answers, and everyone has what he asked for.
 *
 * The disk is a file system of our own (FUSE's protocol, from the kernel's header), served by a
 * process of its own. Its mount is taken out of sight as soon as it is open, so that nothing is
 * left of it when this process ends.
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

enum { DATA = 2, GATE, ASKED, MAPPED };
static const char *const NAMES[] = { [DATA] = "data", [GATE] = "gate", [ASKED] = "asked",
				     [MAPPED] = "mapped" };
enum { BYTES = 1 << 16, HELD_MAX = 128, READERS = 40, ROUNDS = 500, OTHERS = 6 };

/* What both processes see. */
struct shared {
	atomic_int is_held, held, written, synced;
};
static struct shared *shared;
static int folder;

/* ---- the disk ---- */

struct request {
	struct fuse_in_header head;
	union {
		struct fuse_init_in init;
		struct fuse_read_in read;
		struct fuse_write_in write;
		char bytes[FUSE_MIN_READ_BUFFER];
	};
};

static char content_at(uint64_t offset)
{
	return (char)('a' + offset % 23);
}

static void answer(int fuse, const struct request *it, int error, const void *body, size_t bytes)
{
	struct fuse_out_header head = { sizeof head + bytes, error, it->head.unique };
	struct iovec parts[] = { { &head, sizeof head }, { (void *)body, bytes } };
	/* Who asked may have gone. */
	if (writev(fuse, parts, 2) < 0 && errno != ENOENT)
		_exit(3);
}

static struct fuse_attr attributes(uint64_t node)
{
	int is_folder = node == FUSE_ROOT_ID;
	return (struct fuse_attr){ .ino = node, .size = is_folder ? 0 : BYTES, .nlink = 1,
				   .mode = is_folder ? S_IFDIR | 0755 : S_IFREG | 0644,
				   .blksize = 4096 };
}

static void serve(int fuse, const struct request *it)
{
	static char bytes[BYTES];
	uint64_t node = it->head.nodeid;
	switch (it->head.opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
					     .minor = FUSE_KERNEL_MINOR_VERSION,
					     .max_background = HELD_MAX,
					     .congestion_threshold = HELD_MAX, .max_write = 4096 };
		if (it->init.minor < out.minor)
			out.minor = it->init.minor;
		return answer(fuse, it, 0, &out, sizeof out);
	}
	case FUSE_LOOKUP:
		for (uint64_t node_of = DATA; node_of <= MAPPED; node_of++)
			if (strcmp(it->bytes, NAMES[node_of]) == 0) {
				struct fuse_entry_out out = { .nodeid = node_of,
							      .attr = attributes(node_of) };
				return answer(fuse, it, 0, &out, sizeof out);
			}
		return answer(fuse, it, -ENOENT, NULL, 0);
	case FUSE_GETATTR: {
		struct fuse_attr_out out = { .attr = attributes(node) };
		return answer(fuse, it, 0, &out, sizeof out);
	}
	case FUSE_OPENDIR:
	case FUSE_OPEN: {
		struct fuse_open_out out = { .open_flags = node == MAPPED ? 0 : FOPEN_DIRECT_IO };
		return answer(fuse, it, 0, &out, sizeof out);
	}
	case FUSE_READ: {
		uint64_t from = it->read.offset, left = from < BYTES ? BYTES - from : 0;
		size_t count = it->read.size < left ? it->read.size : left;
		for (size_t i = 0; i < count; i++)
			bytes[i] = content_at(from + i);
		return answer(fuse, it, 0, bytes, count);
	}
	case FUSE_WRITE: {
		struct fuse_write_out out = { .size = it->write.size };
		shared->written += (int)it->write.size;
		return answer(fuse, it, 0, &out, sizeof out);
	}
	case FUSE_FSYNC:
		shared->synced++;
		return answer(fuse, it, 0, NULL, 0);
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_FLUSH:
		return answer(fuse, it, 0, NULL, 0);
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return answer(fuse, it, -ENOSYS, NULL, 0);
	}
}

static int is_to_wait(const struct fuse_in_header *it)
{
	switch (it->opcode) {
	case FUSE_READ:
	case FUSE_WRITE:
	case FUSE_FSYNC:
		return 1;
	case FUSE_OPEN:
		return it->nodeid == GATE;
	case FUSE_GETATTR:
		return it->nodeid == ASKED;
	default:
		return 0;
	}
}

static void be_disk(int fuse)
{
	static struct request held[HELD_MAX], one;
	int count = 0;
	for (;;) {
		struct pollfd ready = { fuse, POLLIN, 0 };
		int any = poll(&ready, 1, 5);
		if (any > 0 && read(fuse, &one, sizeof one) < 0) {
			/* ENODEV: the mount is gone, and so is everyone. */
			if (errno == ENODEV)
				_exit(0);
			continue;
		}
		if (any > 0 && shared->is_held && is_to_wait(&one.head) && count < HELD_MAX) {
			held[count++] = one;
			shared->held = count;
		} else if (any > 0) {
			serve(fuse, &one);
		}
		while (!shared->is_held && count > 0) {
			/* Before the answer: who gets the last one looks whether all have theirs. */
			shared->held = --count;
			serve(fuse, &held[count]);
		}
	}
}

static void begin_disk(void)
{
	char path[] = "/tmp/heddle-slow-disk-XXXXXX", options[128];
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fuse < 0)
		SKIP("no /dev/fuse that can be opened");
	CHECK(mkdtemp(path) != NULL);
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u", fuse,
		 getuid(), getgid());
	if (mount("disk", path, "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
		rmdir(path);
		SKIP("file systems cannot be mounted here");
	}
	pid_t parent = getpid(), child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() == parent)
			be_disk(fuse);
		_exit(0);
	}
	CHECK_EQ(close(fuse), 0);
	folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_EQ(umount2(path, MNT_DETACH), 0);
	CHECK_EQ(rmdir(path), 0);
	CHECK(folder >= 0);
}

/* ---- who waits for it, and who does not ---- */

static int data, mapped_file;
static volatile char *mapped;

static void expect(const char *bytes, size_t count, uint64_t from)
{
	for (size_t i = 0; i < count; i++)
		CHECK_EQ(bytes[i], content_at(from + i));
}

static void *reads(void *number)
{
	char bytes[100];
	uint64_t from = 1000 * (uintptr_t)number;
	CHECK_EQ(pread(data, bytes, sizeof bytes, (off_t)from), sizeof bytes);
	expect(bytes, sizeof bytes, from);
	return NULL;
}

static void *reads_on(void *unused)
{
	char bytes[50];
	CHECK_EQ(read(data, bytes, sizeof bytes), sizeof bytes);
	expect(bytes, sizeof bytes, 0);
	return unused;
}

static void *writes(void *unused)
{
	CHECK_EQ(pwrite(data, "seven b", 7, 100), 7);
	return unused;
}

static void *synchronizes(void *unused)
{
	CHECK_EQ(fsync(data), 0);
	return unused;
}

static void *opens(void *unused)
{
	int file = openat(folder, NAMES[GATE], O_RDONLY | O_CLOEXEC);
	CHECK(file >= 0);
	CHECK_EQ(close(file), 0);
	return unused;
}

static void *asks(void *unused)
{
	struct stat about;
	CHECK_EQ(fstatat(folder, NAMES[ASKED], &about, 0), 0);
	CHECK_EQ(about.st_size, BYTES);
	return unused;
}

static void *touches(void *unused)
{
	CHECK_EQ(mapped[5000], content_at(5000));
	return unused;
}

static void *returns(void *pipes)
{
	char byte;
	const int *ends = pipes;
	while (read(ends[0], &byte, 1) == 1)
		CHECK_EQ(write(ends[1], &byte, 1), 1);
	return NULL;
}

static void *talks(void *unused)
{
	int there[2], back[2];
	CHECK_EQ(pipe(there), 0);
	CHECK_EQ(pipe(back), 0);
	int ends[] = { there[0], back[1] };
	pthread_t other = start_thread(returns, ends);
	for (int i = 0; i < ROUNDS; i++) {
		char byte = (char)i;
		CHECK_EQ(write(there[1], &byte, 1), 1);
		CHECK_EQ(read(back[0], &byte, 1), 1);
		CHECK_EQ(byte, (char)i);
	}
	CHECK_EQ(close(there[1]), 0);
	join_thread(other);
	CHECK_EQ(close(there[0]), 0);
	CHECK_EQ(close(back[0]), 0);
	CHECK_EQ(close(back[1]), 0);
	return unused;
}

int main(void)
{
	static void *(*const WAIT[OTHERS])(void *) = { reads_on, writes, synchronizes,
						       opens,    asks,   touches };
	pthread_t others[OTHERS], readers[READERS];
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	begin_disk();
	data = openat(folder, NAMES[DATA], O_RDWR | O_CLOEXEC);
	CHECK(data >= 0);
	mapped_file = openat(folder, NAMES[MAPPED], O_RDONLY | O_CLOEXEC);
	CHECK(mapped_file >= 0);
	mapped = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, mapped_file, 0);
	CHECK(mapped != MAP_FAILED);

	shared->is_held = 1;
	for (int i = 0; i < OTHERS; i++)
		others[i] = start_thread(WAIT[i], NULL);
	for (uintptr_t i = 0; i < READERS; i++)
		readers[i] = start_thread(reads, (void *)i);
	/* Begun while they wait, and done before they go on. */
	pthread_t talker = start_thread(talks, NULL);
	join_thread(talker);
	/* The write and the reads at the file's own place may take turns in the kernel. */
	while (shared->held < READERS)
		sleep_ms(1);
	talker = start_thread(talks, NULL);
	join_thread(talker);
	CHECK_EQ(shared->written, 0);
	CHECK_EQ(shared->synced, 0);

	shared->is_held = 0;
	for (int i = 0; i < OTHERS; i++)
		join_thread(others[i]);
	for (int i = 0; i < READERS; i++)
		join_thread(readers[i]);
	CHECK_EQ(shared->written, 7);
	CHECK_EQ(shared->synced, 1);
	CHECK_EQ(shared->held, 0);
	return 0;
}
