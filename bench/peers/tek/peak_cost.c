// What it costs to find the peak of a stack: libheddle-preload's own code (preload/c/peak.c) on
// stacks as threads leave them.
//
//   peak_cost
//
// Prints peak_measure_ns for a stack of 8 MiB of which 30 000 bytes were used, and
// peak_measure_64k_ns for a tuned one of 64 KiB with 12 000: CPU time, the least of many batches.
// Checks that the peak is right to the byte, to a word's size.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "../../../preload/c/preload.h"

// The library's header has these names for itself.
#undef load
#undef store
#include "../c/common.h"

enum { BATCHES = 200, OPS = 500, FRAME = 256 };

// What peak.c needs of the rest of the library; nothing here is on the measured path.
static struct control here;
struct control *control = &here;
const struct heddle_plan *plan;
struct table_map table;

bool calls_allowed(void)
{
	return true;
}

void use_measured(uint32_t use, uint64_t peak, uint64_t resident)
{
	(void)use, (void)peak, (void)resident;
}

int32_t own_tid(void)
{
	return (int32_t)getpid();
}

void lock_wait(struct lock *lock)
{
	(void)lock;
}

void lock_wake(struct lock *lock)
{
	(void)lock;
}

static double least_ns(size_t stack_bytes, size_t used_bytes)
{
	char *memory = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	char *high = memory + stack_bytes;
	struct thread thread = {.stack_low = (uintptr_t)memory, .stack_high = (uintptr_t)high};
	struct peak peak = {0};
	uint64_t least = UINT64_MAX;

	if (memory == MAP_FAILED)
		die("mmap", errno);
	thread.entry = (uintptr_t)high - FRAME;
	memset((char *)thread.entry - used_bytes, 1, used_bytes);
	for (int i = 0; i < BATCHES; i++) {
		uint64_t begin = cpu_ns(), spent;

		for (int k = 0; k < OPS; k++) {
			if (!peak_of_self(&thread, thread.entry, true, &peak)) {
				fprintf(stderr, "the peak cannot be measured here\n");
				exit(1);
			}
		}
		spent = cpu_ns() - begin;
		least = spent < least ? spent : least;
	}
	if (peak.bytes < used_bytes || peak.bytes >= used_bytes + sizeof(long)) {
		fprintf(stderr, "the peak is %zu bytes, not %llu\n", used_bytes,
			(unsigned long long)peak.bytes);
		exit(1);
	}
	munmap(memory, stack_bytes);
	return (double)least / OPS;
}

int main(void)
{
	here.pid = getpid();
	printf("peak_measure_ns %.3f\n", least_ns(8u << 20, 30000));
	printf("peak_measure_64k_ns %.3f\n", least_ns(64u << 10, 12000));
	return 0;
}
