//! Signals to `heddle run` reach the program, and both stop and go on together.

#[path = "run_common/mod.rs"]
mod common;

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::Scratch;
use rustix::process::{Pid, Signal, kill_process};

#[test]
fn signals_to_heddle_reach_the_program() {
    let scratch = Scratch::new("forward");
    let script = "for s in HUP INT QUIT TERM USR1 USR2 WINCH; do trap \"echo $s\" $s; done;
                  trap 'echo end; exit 9' ALRM; echo ready;
                  for i in $(seq 1200); do sleep 0.05; done";
    let mut command = scratch.command(&["sh", "-c", script]);
    // A group of its own: nobody else's signals.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("heddle runs");
    let mut output = common::Lines::new(child.stdout.take().expect("a pipe"));
    assert_eq!(output.next(), "ready");
    for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "WINCH"] {
        common::kill(child.id(), name);
        assert_eq!(output.next(), name);
    }
    common::kill(child.id(), "ALRM");
    assert_eq!(output.next(), "end");
    assert_eq!(child.wait().expect("it ends").code(), Some(9));
}

/// Also those by which the kernel tells of a fault.
#[test]
fn signals_of_faults_reach_the_program() {
    if std::process::Command::new("python3").arg("-V").output().is_err() {
        eprintln!("skip: there is no python3");
        return;
    }
    let scratch = Scratch::new("faults");
    // Python reads what comes as a number: a shell has no word for a handler of SIGSEGV.
    let script = "import signal, time
for s in (4, 5, 7, 8, 11, 31): signal.signal(s, lambda it, _: print(it, flush=True))
signal.signal(signal.SIGTERM, lambda *_: exit(5))
print('ready', flush=True)
for i in range(1200): time.sleep(0.05)";
    let mut command = scratch.command(&["python3", "-c", script]);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("heddle runs");
    let mut output = common::Lines::new(child.stdout.take().expect("a pipe"));
    assert_eq!(output.next(), "ready");
    for _ in 0..2 {
        for (name, number) in
            [("ILL", 4), ("TRAP", 5), ("BUS", 7), ("FPE", 8), ("SEGV", 11), ("SYS", 31)]
        {
            common::kill(child.id(), name);
            assert_eq!(output.next(), number.to_string());
        }
    }
    common::kill(child.id(), "TERM");
    assert_eq!(child.wait().expect("it ends").code(), Some(5));
}

/// Who has no handler ends by it, and so do we.
#[test]
fn a_program_ends_by_a_fault_that_was_sent_to_heddle() {
    let scratch = Scratch::new("fault");
    let mut command = scratch.command(&["sh", "-c", "echo ready; exec sleep 60"]);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("heddle runs");
    let mut output = common::Lines::new(child.stdout.take().expect("a pipe"));
    assert_eq!(output.next(), "ready");
    common::kill(child.id(), "SEGV");
    assert_eq!(child.wait().expect("it ends").signal(), Some(11));
}

#[test]
fn a_stopped_program_goes_on() {
    let scratch = Scratch::new("stop");
    let script =
        "trap 'echo term; exit 3' TERM; echo ready; for i in $(seq 1200); do sleep 0.05; done";
    let mut command = scratch.command(&["sh", "-c", script]);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("heddle runs");
    let mut output = common::Lines::new(child.stdout.take().expect("a pipe"));
    assert_eq!(output.next(), "ready");
    common::kill(child.id(), "TSTP");
    let limit = Instant::now() + Duration::from_secs(20);
    while common::state(child.id()) != Some('T') {
        assert!(Instant::now() < limit, "heddle stops when its program does");
        std::thread::sleep(Duration::from_millis(10));
    }
    common::kill(child.id(), "CONT");
    common::kill(child.id(), "TERM");
    assert_eq!(output.next(), "term");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
}

/// Whoever continues the program alone does not leave us stopped; that we go on is not passed on
/// to a program that was stopped anew meanwhile.
#[test]
fn a_program_that_is_continued_alone_goes_on_with_us() {
    let scratch = Scratch::new("alone");
    let script = "echo $$; for i in $(seq 1200); do sleep 0.05; done";
    let mut command = scratch.command(&["sh", "-c", script]);
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("heddle runs");
    let mut output = common::Lines::new(child.stdout.take().expect("a pipe"));
    let program: u32 = output.next().parse().expect("a number");
    let program_id = Pid::from_raw(program as i32).expect("ids of processes are positive");
    for signal in [Signal::STOP, Signal::TSTP].into_iter().cycle().take(12) {
        for (sent, is_stopped) in [(signal, true), (Signal::CONT, false)] {
            // At once: by a command it would come too late to meet us as we go on.
            kill_process(program_id, sent).expect("it runs");
            let limit = Instant::now() + Duration::from_secs(20);
            let are_stopped = || [program, child.id()].map(|it| common::state(it) == Some('T'));
            while are_stopped() != [is_stopped; 2] {
                assert!(Instant::now() < limit, "{signal:?}, {sent:?}: {:?}", are_stopped());
                std::thread::yield_now();
            }
        }
    }
    common::kill(child.id(), "TERM");
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
}
