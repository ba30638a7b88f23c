/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Any number of threads may be in system(), and none of them keeps out the one whose command ends
 * all others.
 */
#include "check.h"

enum { THREADS = 540 };

static int ends[2];
static int begun;

static void *wait_in_shell(void *arg)
{
	add_value(&begun, 1);
	CHECK_EQ(system(arg), 0);
	return NULL;
}

int main(void)
{
	static pthread_t threads[THREADS];
	char command[64];
	CHECK_EQ(pipe(ends), 0);
	/* Ends when nobody has the other end of the pipe. */
	snprintf(command, sizeof(command), "exec %d>&-; read x <&%d; exit 0", ends[1], ends[0]);
	for (int i = 0; i < THREADS; i++)
		threads[i] = start_thread(wait_in_shell, command);
	await_value(&begun, THREADS);
	sleep_ms(300);
	pthread_t last = start_thread(wait_in_shell, "exit 0");
	join_thread(last);
	close(ends[1]);
	for (int i = 0; i < THREADS; i++)
		join_thread(threads[i]);
	return 0;
}
