/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A thread in system() runs handlers, which end nothing; SIGINT and SIGQUIT are ignored meanwhile
 * and SIGCHLD is blocked for it. A cancellation kills the shell and ends the thread; then the
 * program's actions are as before; and so they are when a handler ends the thread, or jumps. A
 * thread in pclose() runs handlers, too, and is not ended.
 */
#define _GNU_SOURCE
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/wait.h>

static char folder[] = "/tmp/heddle-system-XXXXXX", path[64], command[320];
static char done[64];
static int handled, interrupts, children, ready, over, cleaned;
static sigjmp_buf back;

static void on_user(int number)
{
	(void)number;
	add_value(&handled, 1);
}

static void on_interrupt(int number)
{
	(void)number;
	add_value(&interrupts, 1);
}

static void on_child(int number)
{
	(void)number;
	add_value(&children, 1);
}

static void on_jump(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void on_end(int number)
{
	(void)number;
	pthread_exit(&over);
}

static void on_nested(int number)
{
	(void)number;
	CHECK_EQ(system(command), 3 << 8);
}

static void clean(void *arg)
{
	(void)arg;
	add_value(&cleaned, 1);
}

/* The shell's number, which it tells in a file. */
static pid_t shell_of(void)
{
	FILE *file;
	long number = 0;

	for (int i = 0; number == 0; i++) {
		CHECK(i < 2000);
		sleep_ms(10);
		file = fopen(path, "r");
		if (!file)
			continue;
		if (fscanf(file, "%ld", &number) != 1)
			number = 0;
		fclose(file);
	}
	CHECK_EQ(unlink(path), 0);
	return (pid_t)number;
}

static void *in_system(void *arg)
{
	sigset_t mask;

	pthread_cleanup_push(clean, NULL);
	add_value(&ready, 1);
	CHECK_EQ(system(arg), 3 << 8);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
	CHECK_EQ(sigismember(&mask, SIGCHLD), 0);
	pthread_cleanup_pop(0);
	add_value(&over, 1);
	return NULL;
}

static void has_action(int number, void (*handler)(int))
{
	struct sigaction action;

	CHECK_EQ(sigaction(number, NULL, &action), 0);
	CHECK(action.sa_handler == handler);
}

/* A handler jumps out of it. */
static void *jumps(void *arg)
{
	sigset_t mask;

	CHECK_EQ(sigemptyset(&mask), 0);
	CHECK_EQ(sigaddset(&mask, SIGCHLD), 0);
	if (sigsetjmp(back, 1) == 0) {
		CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &mask, NULL), 0);
		system(arg);
		CHECK(0);
	}
	has_action(SIGINT, on_interrupt);
	has_action(SIGQUIT, SIG_IGN);
	CHECK_ERRNO(waitpid(-1, NULL, 0), ECHILD);
	CHECK_EQ(WEXITSTATUS(system("exit 5")), 5);
	has_action(SIGINT, on_interrupt);
	return NULL;
}

/* Comes while the main thread is in it, and stays longer. */
static void *in_system_later(void *arg)
{
	sleep_ms(100);
	return in_system(arg);
}

static void *in_pclose(void *arg)
{
	FILE *pipe = popen(arg, "r");

	CHECK(pipe);
	pthread_cleanup_push(clean, NULL);
	add_value(&ready, 1);
	CHECK_EQ(pclose(pipe), 4 << 8);
	pthread_cleanup_pop(0);
	add_value(&over, 1);
	pthread_testcancel();
	return NULL;
}

/* Three signals, each of which the waiting thread handles at once. */
static void interrupt(pthread_t thread, pid_t shell)
{
	for (int i = 0; i < 3; i++) {
		int before = add_value(&handled, 0);
		sleep_ms(20);
		CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
		await_value(&handled, before + 1);
	}
	CHECK_EQ(add_value(&over, 0), 0);
	CHECK_EQ(kill(shell, 0), 0);
}

static void prepare(void)
{
	struct sigaction action = { .sa_handler = on_user };

	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof path, "%s/shell", folder);
	snprintf(command, sizeof command,
		 "trap 'exit 3' USR2; echo $$ >%s.new; mv %s.new %s; while :; do sleep 0.01; done",
		 path, path, path);
	snprintf(done, sizeof done, "%s/done", folder);
	CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK(signal(SIGINT, on_interrupt) != SIG_ERR);
	CHECK(signal(SIGQUIT, SIG_IGN) != SIG_ERR);
	CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
}

static void handlers_and_actions(void)
{
	pthread_t thread = start_thread(in_system, command);
	pid_t shell = shell_of();

	interrupt(thread, shell);
	CHECK_EQ(kill(getpid(), SIGINT), 0);
	CHECK_EQ(kill(getpid(), SIGQUIT), 0);
	/* A second one that ends before the first leaves them ignored. */
	CHECK_EQ(WEXITSTATUS(system("exit 5")), 5);
	has_action(SIGINT, SIG_IGN);
	CHECK_EQ(kill(shell, SIGUSR2), 0);
	join_thread(thread);
	CHECK_EQ(over, 1);
	CHECK_EQ(interrupts, 0);
	has_action(SIGINT, on_interrupt);
	has_action(SIGQUIT, SIG_IGN);
	CHECK_EQ(kill(getpid(), SIGINT), 0);
	await_value(&interrupts, 1);
}

/* The main thread's is the first, and ends first. */
static void the_other_way_round(void)
{
	pthread_t thread = start_thread(in_system_later, command);
	pid_t shell;

	CHECK_EQ(system("sleep 0.3"), 0);
	shell = shell_of();
	has_action(SIGINT, SIG_IGN);
	CHECK_EQ(kill(shell, SIGUSR2), 0);
	join_thread(thread);
	has_action(SIGINT, on_interrupt);
}

static void cancel_and_join(pthread_t thread, pid_t shell)
{
	void *result;

	CHECK_EQ(pthread_cancel(thread), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_ERRNO(kill(shell, 0), ESRCH);
}

/* Handlers, and a cancellation, while the main thread is in it. */
static void *disturbs(void *arg)
{
	struct sigaction action = { 0 };
	pthread_t thread;
	pid_t shell;
	FILE *file;

	for (int i = 0; action.sa_handler != SIG_IGN; i++) {
		CHECK(i < 2000);
		sleep_ms(10);
		CHECK_EQ(sigaction(SIGINT, NULL, &action), 0);
	}
	thread = start_thread(in_system, command);
	shell = shell_of();
	interrupt(thread, shell);
	cancel_and_join(thread, shell);
	has_action(SIGINT, SIG_IGN);
	file = fopen(done, "w");
	CHECK(file);
	CHECK_EQ(fclose(file), 0);
	return arg;
}

static void beside_the_main_thread(void)
{
	char until[128];
	pthread_t thread;

	over = 0;
	snprintf(until, sizeof until, "until [ -e %s ]; do sleep 0.01; done", done);
	thread = start_thread(disturbs, NULL);
	CHECK_EQ(system(until), 0);
	join_thread(thread);
	CHECK_EQ(unlink(done), 0);
	has_action(SIGINT, on_interrupt);
	has_action(SIGQUIT, SIG_IGN);
}

/* Out of two calls at once, the inner one a handler's; then by the handler of their end. */
static void jumps_out(void)
{
	pthread_t thread;
	pid_t outer, inner;
	sigset_t mask, before;

	CHECK(signal(SIGHUP, on_jump) != SIG_ERR);
	CHECK(signal(SIGUSR1, on_nested) != SIG_ERR);
	thread = start_thread(jumps, command);
	outer = shell_of();
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	inner = shell_of();
	CHECK_EQ(kill(outer, 0), 0);
	CHECK_EQ(pthread_kill(thread, SIGHUP), 0);
	join_thread(thread);
	CHECK_ERRNO(kill(outer, 0), ESRCH);
	CHECK_ERRNO(kill(inner, 0), ESRCH);
	CHECK(signal(SIGCHLD, on_jump) != SIG_ERR);
	CHECK_EQ(sigemptyset(&mask), 0);
	CHECK_EQ(sigaddset(&mask, SIGCHLD), 0);
	CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, &before), 0);
	join_thread(start_thread(jumps, "exit 3"));
	CHECK(signal(SIGCHLD, on_child) != SIG_ERR);
	CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

/* The inner call returns to the outer one, and a handler ends the thread. */
static void ends_in_it(void)
{
	pthread_t thread;
	pid_t outer, inner;

	cleaned = 0;
	CHECK(signal(SIGHUP, on_end) != SIG_ERR);
	thread = start_thread(in_system, command);
	outer = shell_of();
	CHECK_EQ(pthread_kill(thread, SIGUSR1), 0);
	inner = shell_of();
	CHECK_EQ(kill(inner, SIGUSR2), 0);
	while (kill(inner, 0) == 0)
		sleep_ms(10);
	CHECK_EQ(kill(outer, 0), 0);
	has_action(SIGINT, SIG_IGN);
	CHECK_EQ(pthread_kill(thread, SIGHUP), 0);
	CHECK(join_thread(thread) == &over);
	CHECK_EQ(cleaned, 1);
	CHECK_ERRNO(kill(outer, 0), ESRCH);
	CHECK_ERRNO(waitpid(-1, NULL, 0), ECHILD);
	has_action(SIGINT, on_interrupt);
	CHECK(signal(SIGUSR1, on_user) != SIG_ERR);
}

static void cancellation_of_one_of_two(void)
{
	pthread_t thread = start_thread(in_system, command), other;
	pid_t shell = shell_of(), second;

	other = start_thread(in_system, command);
	second = shell_of();
	cleaned = 0;
	cancel_and_join(thread, shell);
	CHECK_EQ(cleaned, 1);
	has_action(SIGINT, SIG_IGN);
	CHECK_EQ(kill(second, 0), 0);
	cancel_and_join(other, second);
	CHECK_EQ(cleaned, 2);
	has_action(SIGINT, on_interrupt);
	CHECK_ERRNO(waitpid(-1, NULL, 0), ECHILD);
}

static void closing(void)
{
	pthread_t thread;
	pid_t shell;
	void *result;

	over = ready = cleaned = 0;
	snprintf(command, sizeof command,
		 "exec >&-; trap 'exit 4' USR2; echo $$ >%s.new; mv %s.new %s; "
		 "while :; do sleep 0.01; done",
		 path, path, path);
	thread = start_thread(in_pclose, command);
	shell = shell_of();
	await_value(&ready, 1);
	interrupt(thread, shell);
	CHECK_EQ(pthread_cancel(thread), 0);
	sleep_ms(50);
	CHECK_EQ(add_value(&over, 0), 0);
	CHECK_EQ(kill(shell, SIGUSR2), 0);
	CHECK_EQ(pthread_join(thread, &result), 0);
	CHECK(result == PTHREAD_CANCELED);
	CHECK_EQ(over, 1);
	CHECK_EQ(cleaned, 0);
}

int main(void)
{
	prepare();
	CHECK(system(NULL) != 0);
	handlers_and_actions();
	the_other_way_round();
	/* The command can be interrupted where the program was to be. */
	CHECK_EQ(WTERMSIG(system("kill -INT $$")), SIGINT);
	CHECK_EQ(WEXITSTATUS(system("kill -QUIT $$; exit 6")), 6);
	cancellation_of_one_of_two();
	beside_the_main_thread();
	jumps_out();
	ends_in_it();
	closing();
	CHECK_EQ(rmdir(folder), 0);
	return 0;
}
