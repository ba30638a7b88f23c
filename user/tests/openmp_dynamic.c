/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * OpenMP with dynamic schedules: teams that grow and shrink, barriers, critical sections, tasks and
 * reductions, whose library waits by futex calls of its own and by spinning.
 */
#include "check.h"
#ifndef _OPENMP
int main(void)
{
	puts("the compiler has no OpenMP");
	return 77;
}
#else
#include <omp.h>

#define ROUNDS 40
#define STEPS 2000

static long fibonacci(int n)
{
	long a, b;
	if (n < 2)
		return n;
#pragma omp task shared(a) if (n > 8)
	a = fibonacci(n - 1);
#pragma omp task shared(b) if (n > 8)
	b = fibonacci(n - 2);
#pragma omp taskwait
	return a + b;
}

int main(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		int team = 1 + round % 6;
		long sum = 0, critical = 0, result = 0;
		int seen[STEPS] = {0};

#pragma omp parallel for schedule(dynamic, 3) num_threads(team) reduction(+ : sum)
		for (int i = 0; i < STEPS; i++) {
			sum += i;
			seen[i]++;
#pragma omp critical
			critical++;
		}
		CHECK_EQ(sum, (long)STEPS * (STEPS - 1) / 2);
		CHECK_EQ(critical, STEPS);
		for (int i = 0; i < STEPS; i++)
			CHECK_EQ(seen[i], 1);

#pragma omp parallel num_threads(team)
		{
			for (int turn = 0; turn < 20; turn++) {
#pragma omp barrier
#pragma omp for schedule(guided)
				for (int i = 0; i < STEPS; i++)
					seen[i]++;
			}
#pragma omp single
			result = fibonacci(15);
		}
		CHECK_EQ(result, 610);
		for (int i = 0; i < STEPS; i++)
			CHECK_EQ(seen[i], 21);
	}
	return 0;
}
#endif
