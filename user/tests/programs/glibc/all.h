/*
 * What every file of glibc's tests is compiled with outside of glibc's own build: the headers of
 * the unpacked source say the rest, where the system has none of that name.
 *
 * Invariant: nothing here stands in for what is tested; it makes declarations that are for the
 * inside of glibc readable, and says where things would lie in a build.
 */
#include <include/libc-symbols.h>
#include <limits.h>

#define attribute_hidden
#define attribute_relro
#define attribute_tls_model_ie
#define weak_function
#define weak_alias(...)
#define strong_alias(...)
#define hidden_def(...)
#define hidden_proto(...)
#define hidden_tls_proto(...)
#define libc_hidden_def(...)
#define libc_hidden_proto(...)
#define rtld_hidden_proto(...)
#define __timespec64 timespec

/* The environment of the tests multiplies it. */
#define TIMEOUTFACTOR 1

#define BINDIR_PATH "/usr/bin"
#define COMPLOCALEDIR_PATH "/usr/lib/locale"
#define INSTDIR_PATH "/usr"
#define LIBDIR_PATH "/lib"
#define OBJDIR_ELF_LDSO_PATH "/lib64/ld-linux-x86-64.so.2"
#define OBJDIR_PATH "/nonexistent"
#define OBJPFX "./"
#define ROOTSBINDIR_PATH "/sbin"
#define SBINDIR_PATH "/usr/sbin"
#define SLIBDIR_PATH "/lib"
#define SRCDIR_PATH "/nonexistent"
#define SYSCONFDIR_PATH "/etc"
#define SYSROOT ""
