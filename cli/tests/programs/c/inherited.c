/* What a program inherits, as it finds it: signals, mask, limits, descriptors, name, arguments. */
#include "program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

int main(int count, char **words)
{
	sigset_t mask;
	struct sigaction action;
	struct rlimit limit;
	char name[17] = { 0 };

	MUST(sigprocmask(SIG_SETMASK, NULL, &mask) == 0);
	for (int number = 1; number < 32; number++) {
		MUST(sigaction(number, NULL, &action) == 0);
		if (sigismember(&mask, number) || action.sa_handler != SIG_DFL)
			printf("signal %d: blocked %d, ignored %d, handled %d\n", number,
			       sigismember(&mask, number), action.sa_handler == SIG_IGN,
			       action.sa_handler != SIG_IGN && action.sa_handler != SIG_DFL);
	}
	for (int which = 0; which < RLIM_NLIMITS; which++) {
		MUST(getrlimit(which, &limit) == 0);
		printf("limit %d: %ld %ld\n", which, (long)limit.rlim_cur, (long)limit.rlim_max);
	}
	for (int fd = 0; fd < 64; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("descriptor %d: %d\n", fd, fcntl(fd, F_GETFD));
	MUST(prctl(PR_GET_NAME, name) == 0);
	printf("name %s, %d words, death signal %d\n", name, count, prctl(PR_GET_PDEATHSIG, 0));
	for (int at = 0; at < count; at++)
		say(words[at]);
	for (char **at = environ; *at; at++)
		say(*at);
	say_number("session leader", getsid(0) == getpid());
	say_number("children", waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	return 0;
}
