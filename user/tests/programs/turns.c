/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two threads take turns by two pipes. Each waits for its first turn.
 */
#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 2000 };

static int there[2], back[2];

static int turn(int from, int to, int first)
{
	char byte = 1;
	if (!first && read(from, &byte, 1) != 1)
		return 0;
	return write(to, &byte, 1) == 1;
}

static void *answers(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		if (!turn(there[0], back[1], 0))
			return NULL;
	return arg;
}

static void *asks(void *arg)
{
	usleep(10000);
	for (int i = 0; i < ROUNDS; i++)
		if (!turn(back[0], there[1], i == 0))
			return NULL;
	return turn(back[0], there[1], 0) ? arg : NULL;
}

int main(void)
{
	pthread_t one, other;
	void *answered, *asked;
	if (pipe(there) != 0 || pipe(back) != 0)
		return 1;
	if (pthread_create(&one, NULL, answers, there) != 0 ||
	    pthread_create(&other, NULL, asks, back) != 0)
		return 1;
	pthread_join(one, &answered);
	pthread_join(other, &asked);
	return answered == NULL || asked == NULL;
}
