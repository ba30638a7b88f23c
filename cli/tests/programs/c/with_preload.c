/* A program that was started with a preload of its own, and sees it as it was. */
#include "program.h"

#include <dlfcn.h>

int main(void)
{
	int (*count)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "own_count");
	const char *preload = getenv("LD_PRELOAD");

	say_number("sum", threads(6));
	say_number("counted", count ? count() : -1);
	say(preload ? preload : "no preload");
	say_number("child counted", WEXITSTATUS(system("exec true")));
	return 0;
}
