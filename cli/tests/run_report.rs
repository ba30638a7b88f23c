//! What `heddle run` reports of small programs: names, lines, sizes, roles, in all its forms.

#[path = "run_common/mod.rs"]
mod common;

use std::fs;
use std::process::Command;

use common::{Scratch, compile, compile_cxx, row, stderr, stdout};
use serde_json::Value;

const KINDS: &str = "
#include <pthread.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) static void use(volatile char *b, int n) { memset((char *)b, 1, n); }
static void *shallow(void *a) { char b[3000]; use(b, sizeof b); return a; }
static void *deep(void *a) { char b[900000]; use(b, sizeof b); return a; }
void *sensor_loop(void *a) { char b[10000]; use(b, sizeof b); usleep(1000); return a; }
int main(void)
{
    pthread_t t[6];
    pthread_attr_t at;
    pthread_attr_init(&at);
    pthread_attr_setstacksize(&at, 1 << 20);
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], 0, shallow, 0); /* line 16 */
    pthread_create(&t[3], &at, deep, 0);
    pthread_create(&t[4], 0, sensor_loop, 0);
    pthread_create(&t[5], 0, sensor_loop, 0);
    for (int i = 0; i < 6; i++) pthread_join(t[i], 0);
    return 0;
}";

/// Standard error as one line of words: reports are wrapped.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn kinds_have_names_lines_sizes_and_advice() {
    let scratch = Scratch::new("kinds");
    let Some(program) = compile(&scratch, "kinds", KINDS, &[]) else { return };
    let report = scratch.report(&[&program]);
    assert_eq!(report["version"], 1);
    assert_eq!(report["exit"]["code"], 0);
    assert_eq!(report["totals"]["threads_created"], 6);
    assert_eq!(report["totals"]["threads_failed"], 0);
    assert_eq!(report["totals"]["processes"], 1);
    let peak = report["totals"]["threads_peak"].as_u64().expect("a number");
    assert!((2..=7).contains(&peak), "{peak}");
    let shallow = row(&report, "shallow");
    assert_eq!(shallow["created"], 3);
    assert_eq!(shallow["zone"], "low");
    assert!(shallow["site"].as_str().is_some_and(|it| it.ends_with("kinds.c:16")), "{shallow:#}");
    assert!(shallow["defined_at"].as_str().is_some_and(|it| it.ends_with("kinds.c:6")));
    let peak = shallow["stack_peak_bytes"].as_u64().expect("a number");
    assert!((3000..16_000).contains(&peak), "{peak}");
    assert!(shallow["advice"].as_str().is_some_and(|it| it.ends_with("64 KiB would do")));
    let deep = row(&report, "deep");
    assert_eq!((&deep["zone"], &deep["explicit"]), (&"high".into(), &true.into()));
    assert!(deep["advice"].as_str().is_some_and(|it| it.contains("% used: raise it")), "{deep:#}");
    let main = &report["processes"][0]["threads"][0];
    assert_eq!(main["main"], true);

    let output = scratch.run(&[&program]);
    let said = words(&stderr(&output));
    assert!(said.starts_with("heddle: kinds: 6 threads created"), "{said}");
    assert!(said.contains("asks 8 MiB, never used more than"), "{said}");
    assert!(
        said.contains("kinds.c:16): asks 8 MiB") && said.contains("% used: raise it"),
        "{said}"
    );
    assert!(said.contains("with --stacks auto the next run reserves"), "{said}");
    assert_eq!(stdout(&output), "");
}

#[test]
fn the_forms_are_whole_documents() {
    let scratch = Scratch::new("forms");
    let Some(program) = compile(&scratch, "kinds", KINDS, &[]) else { return };
    let output = scratch.heddle(&["run", "--report", "json", "--", &program]);
    let value: Value = serde_json::from_str(&stderr(&output)).expect("JSON and nothing else");
    for key in ["version", "program", "arguments", "exit", "elapsed_ns", "stacks", "totals"] {
        assert!(!value[key].is_null(), "{key}");
    }
    let file = scratch.path("page.html");
    let output = scratch.heddle(&["run", "--report", "html", "--report-to", &file, &program]);
    assert_eq!(stderr(&output), "");
    let page = fs::read_to_string(&file).expect("a page");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("shallow") && page.contains("class=\"bar\""));
    let output = scratch.heddle(&["run", "--report", "none", &program]);
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_stripped_program_gives_places() {
    let scratch = Scratch::new("stripped");
    let Some(program) = compile(&scratch, "kinds", KINDS, &["-s"]) else { return };
    let report = scratch.report(&[&program]);
    let rows = report["processes"][0]["threads"].as_array().expect("rows");
    let unnamed = rows.iter().filter(|row| row["main"] == false);
    let places: Vec<_> = unnamed.map(|row| row["place"].as_str().expect("a place")).collect();
    assert_eq!(places.len(), 3);
    assert!(places.iter().all(|place| place.starts_with("kinds+0x")), "{places:?}");
}

#[test]
fn split_debug_files_are_found() {
    let scratch = Scratch::new("debuglink");
    let Some(program) = compile(&scratch, "kinds", KINDS, &[]) else { return };
    let debug = format!("{program}.debug");
    let objcopy = |arguments: &[&str]| {
        let output = Command::new("objcopy").args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let link = format!("--add-gnu-debuglink={debug}");
    if !objcopy(&["--only-keep-debug", &program, &debug])
        || !objcopy(&["--strip-all", &link, &program])
    {
        eprintln!("skip: objcopy cannot split a program here");
        return;
    }
    let report = scratch.report(&[&program]);
    let shallow = row(&report, "shallow");
    assert!(shallow["site"].as_str().is_some_and(|it| it.ends_with("kinds.c:16")), "{shallow:#}");
}

#[test]
fn a_policy_finds_functions_by_name() {
    let scratch = Scratch::new("policy");
    let Some(program) = compile(&scratch, "kinds", KINDS, &[]) else { return };
    let policy = scratch.file(
        "policy.toml",
        "[zones]\nlow = 1\nhigh = 50\n\
         [[thread]]\nstart = \"sensor_*\"\nrole = \"gas detection\"\ngroup = \"service\"\n\
         category = \"event\"\nstack = \"256K\"\n\
         [[thread]]\nstart = \"no_such_function\"\nrole = \"nobody\"\n",
    );
    let report = scratch.report_with(&["--policy", &policy], &[&program]);
    let sensor = row(&report, "sensor_loop");
    assert_eq!(sensor["role"], "gas detection", "{sensor:#}");
    assert_eq!((&sensor["group"], &sensor["category"]), (&"service".into(), &"event".into()));
    assert_eq!(sensor["tuned"], true);
    let given = sensor["stack_given_bytes"].as_u64().expect("a size");
    assert!((256 << 10..300 << 10).contains(&given), "{given}");
    assert_eq!(row(&report, "shallow")["role"], Value::Null);
    let notes = report["notes"].as_array().expect("notes");
    let told = |note: &Value| note.as_str().is_some_and(|it| it.contains("no_such_function"));
    assert!(notes.iter().any(told), "{notes:?}");
}

const CXX: &str = "
#include <functional>
#include <thread>
struct Job { void run(int) {} void operator()() {} };
int main()
{
    Job job;
    std::thread a(&Job::run, &job, 2), b(job), c([] { return 1; });
    a.join();
    b.join();
    c.join();
}";

#[test]
fn std_thread_is_seen_through() {
    let scratch = Scratch::new("cxx");
    for flags in [&["-O0"][..], &["-O2"], &["-O2", "-s"]] {
        let Some(program) = compile_cxx(&scratch, "jobs", CXX, flags) else { return };
        let report = scratch.report(&[&program]);
        row(&report, "Job");
        row(&report, "void (Job::*)(int)");
        row(&report, "main::{lambda()#1}");
        assert_eq!(report["totals"]["threads_created"], 3);
    }
}

#[test]
fn a_policy_finds_what_std_thread_runs() {
    let scratch = Scratch::new("cxx-policy");
    let Some(program) = compile_cxx(&scratch, "jobs", CXX, &[]) else { return };
    let policy = scratch.file("policy.toml", "[[thread]]\nstart = \"Job\"\nrole = \"the job\"\n");
    let report = scratch.report_with(&["--policy", &policy], &[&program]);
    assert_eq!(row(&report, "Job")["role"], "the job");
    assert_eq!(row(&report, "main::{lambda()#1}")["role"], Value::Null);
}

#[test]
fn rust_threads_are_seen_through() {
    let scratch = Scratch::new("rust");
    let source = scratch.file(
        "own.rs",
        "mod pool { pub fn start() -> std::thread::JoinHandle<u32> {
             std::thread::spawn(|| std::process::id()) } }
         fn main() { let one = pool::start();
             let two = std::thread::spawn(|| println!(\"two\"));
             one.join().unwrap(); two.join().unwrap(); }",
    );
    for level in ["0", "2"] {
        let program = scratch.path("own");
        let level = format!("opt-level={level}");
        let built = Command::new("rustc")
            .args(["--edition", "2021", "-g", "-C", &level, "-o", &program, &source])
            .output();
        if !built.is_ok_and(|output| output.status.success()) {
            eprintln!("skip: there is no rustc");
            return;
        }
        let report = scratch.report(&[&program]);
        let closure = |row: &&Value| {
            row["start"].as_str().is_some_and(|it| it.starts_with("own::pool::start::{"))
        };
        let rows = report["processes"][0]["threads"].as_array().expect("rows");
        let found = rows.iter().find(closure).unwrap_or_else(|| panic!("{rows:#?}"));
        assert_eq!(found["created"], 1);
        assert_eq!(found["explicit"], true, "std asks for 2 MiB");
    }
}

#[test]
fn processes_of_a_run_are_all_reported() {
    let scratch = Scratch::new("several");
    let Some(program) = compile(&scratch, "kinds", KINDS, &[]) else { return };
    let script = format!("{program}; {program} & wait; exec {program}");
    let report = scratch.report(&["sh", "-c", &script]);
    assert_eq!(report["totals"]["threads_created"], 18, "{report:#}");
    let processes = report["processes"].as_array().expect("processes");
    assert!(processes.iter().all(|it| it["in_order"] == true || it["threads_created"] == 0));
    let output = scratch.run(&["sh", "-c", &script]);
    let said = words(&stderr(&output));
    assert!(said.contains("with the main ones, in 3 processes"), "{said}");
    assert!(said.contains("kinds, 3 processes"), "{said}");
    assert_eq!(processes.len(), 4, "the shell as well: {report:#}");
}

const EXEC: &str = "
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long until(long ms)
{
    struct timespec used;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < ms);
    return ms;
}
static void *busy(void *a) { until(300); for (;;) pause(); return a; }
static volatile long turns = 1000;
static void *brief(void *a) { for (volatile long i = 0; i < turns; i++) { } return a; }
static long used_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec * 1000000 + used.tv_nsec / 1000;
}
/* To look at the clock brings the count up to date: so it is known before how long they run. */
static void measure(void)
{
    for (long before = 0, after = 0; after - before < 400; turns *= 2) {
        before = used_us();
        brief(0);
        after = used_us();
    }
    turns /= 2;
}
int main(int count, char **words)
{
    pthread_t t;
    if (count > 1) {
        measure();
        for (int i = 0; i < 200; i++) {
            pthread_create(&t, 0, brief, 0);
            pthread_join(t, 0);
        }
        pthread_create(&t, 0, busy, 0);
        until(400);
        sleep(atoi(words[1])); /* seen, and measured, before it is replaced */
        execl(words[0], words[0], (char *)0);
        return 1;
    }
    until(600);
    return 0;
}";

#[test]
fn all_cpu_time_is_counted_and_once() {
    let scratch = Scratch::new("exec-cpu");
    let Some(program) = compile(&scratch, "exec", EXEC, &[]) else { return };
    // As in the row of a start function, or of the main thread.
    let cpu_ms_of = |report: &Value, process: usize, start: Option<&str>| {
        let threads = report["processes"][process]["threads"].as_array().expect("threads");
        let is_it = |row: &&Value| match start {
            Some(start) => row["start"] == start,
            None => row["main"] == true,
        };
        let row = threads.iter().find(is_it)?;
        Some(row["cpu_ns"].as_u64().expect("a number") / 1_000_000)
    };
    // The run looks some four times a second, less often on a machine that is busy.
    let was_seen = |report: &Value| {
        cpu_ms_of(report, 0, None) >= Some(400) && cpu_ms_of(report, 0, Some("busy")) >= Some(300)
    };
    let mut report = Value::Null;
    for seconds in ["1", "4", "16"] {
        report = scratch.report(&[&program, seconds]);
        assert_eq!(report["processes"].as_array().map(Vec::len), Some(2), "{report:#}");
        if was_seen(&report) {
            break;
        }
    }
    let cpu_ms = |process, start| cpu_ms_of(&report, process, start).expect("a row");
    // The clock of the main thread goes on: 400 ms before the exec, 200 after.
    assert!((400..600).contains(&cpu_ms(0, None)), "{report:#}");
    assert!((300..550).contains(&cpu_ms(0, Some("busy"))), "{report:#}");
    // 200 threads of at least 400 us, most of which end between two ticks of the kernel's count.
    assert!((40..1000).contains(&cpu_ms(0, Some("brief"))), "{report:#}");
    assert!((150..390).contains(&cpu_ms(1, None)), "{report:#}");
}

const BUSY: &str = "
#include <pthread.h>
#include <time.h>
#include <unistd.h>
static volatile int done;
static void *busy(void *a) { while (!done) { } return a; }
static void *urgent(void *a)
{
    struct timespec used; /* of the CPU: on a busy machine heddle has to wait as well */
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < 1500);
    return a;
}
int main(void)
{
    pthread_t t[3];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, busy, 0);
    pthread_create(&t[2], 0, urgent, 0);
    pthread_join(t[2], 0);
    done = 1;
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return 0;
}";

#[test]
fn a_time_critical_thread_is_mediated() {
    let scratch = Scratch::new("mediated");
    let Some(program) = compile(&scratch, "busy", BUSY, &[]) else { return };
    let policy = scratch.file(
        "policy.toml",
        "[[thread]]\nstart = \"urgent\"\nclass = \"time-critical\"\npriority = 40\n",
    );
    let report = scratch.report_with(&["--policy", &policy], &[&program]);
    let urgent = row(&report, "urgent");
    assert_eq!((&urgent["class"], &urgent["priority"]), (&"time-critical".into(), &40.into()));
    let mediator = &report["mediator"];
    assert!(mediator["means"].is_string(), "{mediator:#}");
    if mediator["means"] == "none" {
        eprintln!("skip: nothing may be scheduled here: {}", mediator["why"]);
    } else {
        assert!(mediator["divided"].as_u64().is_some_and(|it| it > 0), "{mediator:#}");
    }
    let output = scratch.heddle(&["run", "--policy", &policy, "--", &program]);
    assert!(words(&stderr(&output)).contains("CPU Mediator: means"), "{}", stderr(&output));
    let plain = scratch.report(&[&program]);
    assert_eq!(plain["mediator"], Value::Null, "nothing to mediate, nothing to tell");
}
