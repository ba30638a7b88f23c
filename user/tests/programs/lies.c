/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A library that comes before the C library and lies about it, in the one way that TEST_LIE says.
 * To be linked with -Bsymbolic: its own functions are meant where it names them.
 *
 *     missing SYMBOL   dlsym finds no such symbol
 *     moved SYMBOL     what the C library tells debuggers of a field has another offset
 *     grown SYMBOL     the number that SYMBOL has is ten times as large
 *     table            the table of keys is another one
 *     stack, bytes     a thread gets a stack that is higher, or smaller, than asked for
 *     refused          there is no thread with a stack of the caller's own
 *     robust           the kernel has another robust list
 *     aligned, small   the libraries' static TLS has another alignment, or another size
 *     nothing          _dl_allocate_tls_init does nothing
 *     cond             pthread_cond_init forgets what it was asked for
 *     libraries        no libraries are loaded
 *     words            malloc changes more thread-local words than it does
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);

/* Whether the lie is this one; what follows it in `rest`. */
static int lies(const char *how, const char **rest)
{
	const char *lie = getenv("TEST_LIE");
	size_t length = strlen(how);

	if (lie == NULL || strncmp(lie, how, length) != 0)
		return 0;
	if (rest != NULL)
		*rest = lie + length + (lie[length] == ' ');
	return rest != NULL || lie[length] == '\0';
}

typedef void *(*find_fn)(void *handle, const char *name);

static find_fn real_dlsym(void)
{
	find_fn found = (find_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");

	return found != NULL ? found : (find_fn)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
}

static void *next(const char *name)
{
	return real_dlsym()(RTLD_NEXT, name);
}

static void static_info(size_t *bytes, size_t *align)
{
	void (*real)(size_t *, size_t *) = next("_dl_get_tls_static_info");

	real(bytes, align);
	if (lies("aligned", NULL))
		*align = 8192;
	else
		*bytes = 2368;
}

static void *init_nothing(void *block, int is_main)
{
	(void)is_main;
	return block;
}

void *dlsym(void *handle, const char *name)
{
	static uint32_t field[3];
	static char table[64 << 10];
	const char *which = NULL;
	void *found = real_dlsym()(handle, name);

	/* What comes next for a library before this one. */
	if (handle == RTLD_NEXT && strcmp(name, "pthread_create") == 0)
		return (void *)pthread_create;
	if (handle == RTLD_NEXT && strcmp(name, "syscall") == 0)
		return (void *)syscall;
	if (lies("missing", &which) && strcmp(name, which) == 0)
		return NULL;
	if (found == NULL)
		return NULL;
	if (lies("moved", &which) && strcmp(name, which) == 0) {
		memcpy(field, found, sizeof(field));
		field[2] += 16;
		return field;
	}
	if (lies("grown", &which) && strcmp(name, which) == 0) {
		field[0] = *(uint32_t *)found * 10;
		return field;
	}
	if (lies("table", NULL) && strcmp(name, "__pthread_keys") == 0)
		return table;
	if ((lies("aligned", NULL) || lies("small", NULL)) &&
	    strcmp(name, "_dl_get_tls_static_info") == 0)
		return (void *)static_info;
	if (lies("nothing", NULL) && strcmp(name, "_dl_allocate_tls_init") == 0)
		return (void *)init_nothing;
	return found;
}

int pthread_attr_setstack(pthread_attr_t *attr, void *stack, size_t bytes)
{
	int (*real)(pthread_attr_t *, void *, size_t) = next("pthread_attr_setstack");

	if (lies("stack", NULL))
		return real(attr, (char *)stack + 8192, bytes - 8192);
	return real(attr, stack, lies("bytes", NULL) ? bytes - 4096 : bytes);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		next("pthread_create");
	void *stack = NULL;
	size_t bytes;

	/* 67 pages and the thread-local storage, which is small here. */
	if (lies("refused", NULL) && attr != NULL &&
	    pthread_attr_getstack(attr, &stack, &bytes) == 0 && bytes / 4096 >= 67 &&
	    bytes / 4096 < 71)
		return EAGAIN;
	return real(thread, attr, start, arg);
}

long syscall(long number, ...)
{
	long (*real)(long, ...) = next("syscall");
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (number == SYS_get_robust_list && lies("robust", NULL))
		*(uintptr_t *)a[1] += 8;
	return result;
}

int dl_iterate_phdr(int (*each)(struct dl_phdr_info *, size_t, void *), void *data)
{
	int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *) = next("dl_iterate_phdr");

	return lies("libraries", NULL) ? 0 : real(each, data);
}

int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
	int (*real)(pthread_cond_t *, const pthread_condattr_t *) = next("pthread_cond_init");
	int result = real(cond, attr);

	if (lies("cond", NULL))
		memset(cond, 0, sizeof(*cond));
	return result;
}

/* The self-test asks for this many bytes, and nobody else on a new thread. */
void *malloc(size_t bytes)
{
	if (bytes == 100 && lies("words", NULL)) {
		struct in_addr address = { .s_addr = 0x04030201 };

		h_errno = 1;
		inet_ntoa(address);
		uselocale(newlocale(LC_ALL_MASK, "C", NULL));
	}
	return __libc_malloc(bytes);
}
