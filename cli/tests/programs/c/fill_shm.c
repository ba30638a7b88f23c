/* Fills /dev/shm once it has threads, and then starts many more of them. */
#include "program.h"

#include <fcntl.h>

int main(void)
{
	static char block[1 << 16];
	pthread_t all[1000];
	unsigned long sum = 0;

	say_number("sum", threads(2));
	int file = open("/dev/shm/filler", O_CREAT | O_WRONLY, 0600);
	MUST(file >= 0);
	memset(block, 1, sizeof(block));
	for (size_t size = sizeof(block); size > 0; size /= 2)
		while (write(file, block, size) == (ssize_t)size)
			;
	for (int at = 0; at < 1000; at++) {
		char name[16];

		all[at] = start(twice, (void *)(uintptr_t)at);
		snprintf(name, sizeof(name), "thread %d", at);
		pthread_setname_np(all[at], name);
	}
	for (int at = 0; at < 1000; at++)
		sum += (uintptr_t)join(all[at]);
	say_number("sum", (long)sum);
	return 0;
}
