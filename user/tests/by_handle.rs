//! Functions of the C library that are found by a handle of it: by Python's ctypes in threads that
//! wait for each other, and by a library that has put itself between libheddle-user and the C
//! library, which gets the C library's own.
//!
//! Invariant: every program has a time limit, and none outlives the run.

mod common;

use std::process::Command;

use common::{can_run, folder, heddle, output, text};

/// A thread of Python's that waits in what ctypes finds, and its waker, which CPython itself is:
/// a lock of `threading` is a semaphore.
const PYTHON: &str = r"
import ctypes, threading, time

c = ctypes.CDLL('libc.so.6', use_errno=True)
own = ctypes.CDLL(None, use_errno=True)
semaphore = (ctypes.c_char * 32)()
assert c.sem_init(ctypes.byref(semaphore), 0, 0) == 0

def wakes():
    for _ in range(100):
        assert own.sem_wait(ctypes.byref(semaphore)) == 0
        there.release()

there = threading.Semaphore(0)
thread = threading.Thread(target=wakes)
thread.start()
for _ in range(100):
    assert c.sem_post(ctypes.byref(semaphore)) == 0
    there.acquire()
thread.join()
begin = time.monotonic()
threads = [threading.Thread(target=c.usleep, args=(200000,)) for _ in range(20)]
for each in threads: each.start()
for each in threads: each.join()
print('together' if time.monotonic() - begin < 3.5 else 'one after another')
";

/// Takes over functions, one of two names where there are two, and finds what is behind each by a
/// handle.
const BETWEEN: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>

static void *behind(const char *name)
{
	void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	return dlsym(library, name);
}

int sched_yield(void)
{
	return ((int (*)(void))behind("sched_yield"))();
}

int close(int fd)
{
	return ((int (*)(int))behind("close"))(fd);
}

FILE *fopen(const char *path, const char *mode)
{
	return ((__typeof__(fopen) *)behind("fopen"))(path, mode);
}

int posix_spawn(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const *words, char *const *environment)
{
	return ((__typeof__(posix_spawn) *)behind("posix_spawn"))(child, path, actions, attributes,
								  words, environment);
}
"#;

/// Calls them on the main thread and in another one.
const CALLS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *calls(void *arg)
{
	char *words[] = { "true", NULL };
	int status;
	pid_t child;
	for (int i = 0; i < 10; i++)
		sched_yield();
	FILE *file = fopen("/dev/null", "r");
	if (!file || fclose(file) || close(dup(1)))
		return arg;
	if (posix_spawn(&child, "/bin/true", NULL, NULL, words, environ) ||
	    waitpid(child, &status, 0) != child || status)
		return arg;
	return NULL;
}

int main(void)
{
	int bad;
	void *result = calls(&bad);
	pthread_t thread;
	if (result || pthread_create(&thread, NULL, calls, &bad) ||
	    pthread_join(thread, &result) || result)
		return 1;
	puts("came back");
	return 0;
}
"#;

fn run(words: &[&str]) -> Command {
    let mut command = Command::new(heddle());
    command.args(["run", "--threads", "user", "--workers", "1", "--report", "none", "--"]);
    command.args(words);
    command
}

#[test]
fn python_finds_what_its_own_threads_wait_in() {
    if !can_run(&["python3"]) {
        return;
    }
    let output = output(run(&["python3", "-c", PYTHON]));
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "together\n", "{output:?}");
}

#[test]
fn a_library_between_does_not_call_itself() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("between-by-handle");
    let file = |name: &str| folder.join(name).to_str().expect("a name").to_owned();
    let (between, calls, linked) = (file("between.so"), file("calls"), file("linked"));
    let build = |source: &str, into: &str, words: &[&str]| {
        std::fs::write(file("source.c"), source).expect("a file");
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-o", into, &file("source.c"), "-pthread", "-ldl"]).args(words);
        let built = cc.output().expect("a compiler");
        assert!(built.status.success(), "{}", text(&built.stderr));
    };
    build(BETWEEN, &between, &["-shared", "-fPIC"]);
    build(CALLS, &calls, &[]);
    build(CALLS, &linked, &["-Wl,--no-as-needed", &between]);
    let mut before = run(&[&calls]);
    before.env("LD_PRELOAD", &between);
    let own = heddle().with_file_name("libheddle-user.so");
    let mut behind = Command::new(&calls);
    behind.env("LD_PRELOAD", format!("{}:{between}", own.display()));
    for command in [before, behind, run(&[&linked])] {
        let output = output(command);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(text(&output.stdout), "came back\n", "{output:?}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}
