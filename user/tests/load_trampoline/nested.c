/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A function within another one, called through instructions on the stack.
 */
#ifdef __clang__
int nested(int step)
{
	return 2 * step;
}
#else
static int twice(int (*of)(int), int number)
{
	return of(of(number));
}

int nested(int step)
{
	int add(int number)
	{
		return number + step;
	}
	return twice(add, 0);
}
#endif
