/* Starts threads before main and after it: in constructors, in preinit, at exit. */
#include "program.h"

static unsigned long early, earliest;

static void before_constructors(int count, char **words, char **environment)
{
	(void)count, (void)words, (void)environment;
	earliest = threads(2);
}

__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) =
	before_constructors;

__attribute__((constructor(101))) static void before_main(void)
{
	early = threads(4);
}

static void at_exit(void)
{
	say_number("at exit", threads(3));
}

__attribute__((destructor)) static void after_main(void)
{
	say_number("after main", threads(2));
}

int main(void)
{
	MUST(atexit(at_exit) == 0);
	say_number("earliest", earliest);
	say_number("early", early);
	return 6;
}
