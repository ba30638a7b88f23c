/* Says which signals reach it, once each: the first word of its output is "ready". */
#include "program.h"

int main(void)
{
	sigset_t all;
	int number = 0;

	sigemptyset(&all);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGHUP);
	sigaddset(&all, SIGUSR1);
	sigaddset(&all, SIGWINCH);
	sigaddset(&all, SIGABRT);
	sigaddset(&all, SIGURG);
	sigaddset(&all, SIGTERM);
	GOOD(pthread_sigmask(SIG_BLOCK, &all, NULL));
	threads(2);
	say("ready");
	do {
		MUST(sigwait(&all, &number) == 0);
		say(strsignal(number));
	} while (number != SIGTERM);
	return 43;
}
