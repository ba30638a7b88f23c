/* A library that starts threads when it is loaded, when it is called and when it is unloaded. */
#include "program.h"

static unsigned long at_load;

__attribute__((constructor)) static void loaded(void)
{
	at_load = threads(3);
}

__attribute__((destructor)) static void unloaded(void)
{
	say_number("at unload", threads(2));
}

__attribute__((visibility("default"))) unsigned long plugin_sum(int count)
{
	return at_load + threads(count);
}
