/* The library that a program brings by its own LD_PRELOAD: counts what goes through
 * pthread_create, which libheddle-preload looks at as well. */
#include "program.h"

#include <dlfcn.h>

static int counted;

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
							   const pthread_attr_t *attr,
							   void *(*run)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
			RTLD_NEXT, "pthread_create");

	__atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
	return next(thread, attr, run, arg);
}

__attribute__((visibility("default"))) int own_count(void)
{
	return counted;
}
