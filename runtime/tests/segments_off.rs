//! Who says so has no stacks below 4 GiB, and so no segments.

#[path = "common/full.rs"]
mod full;

use std::process::{Command, Output};

use full::try_full;

/// Where the children below run.
const INSIDE: &str = "SEGMENTS_TEST";
/// Activations after which a thread would have a segment are far fewer.
const SWITCHES: u32 = 10_000;

fn run(setting: &str) -> Output {
    let this = std::env::current_exe().expect("this test");
    let mut command = Command::new(this);
    command.args(["--exact", "inside", "--nocapture"]).env(INSIDE, "1");
    command.env("HEDDLE_SEGMENTS", setting).output().expect("it runs")
}

/// The body of the children; an ordinary run of the tests passes it by.
#[test]
fn inside() {
    if std::env::var_os(INSIDE).is_none() {
        return;
    }
    heddle::Config::new().start().expect("a runtime");
    let body = || {
        let place = 0u8;
        (0..SWITCHES).for_each(|_| heddle::thread::yield_now());
        (&raw const place).addr()
    };
    let threads: Vec<_> = (0..8).filter_map(|_| try_full(body)).collect();
    let check = heddle::doctor::examine().into_iter().find(|check| check.name == "segments");
    if let Some(check) = check {
        assert_eq!(check.value, "no: HEDDLE_SEGMENTS=off");
    }
    for thread in threads {
        println!("stack {:#x}", thread.join().expect("no panic"));
    }
}

#[test]
fn stacks_lie_where_the_kernel_likes() {
    if !cfg!(target_arch = "x86_64") {
        println!("skip: there are no segments here");
        return;
    }
    let output = run("off");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let mut stacks = text.split("stack 0x").skip(1).peekable();
    if stacks.peek().is_none() {
        assert!(text.contains("skip: "), "{text}");
        println!("{text}");
    }
    for stack in stacks.filter_map(|rest| rest.lines().next()) {
        assert!(stack.len() > 8, "{text}");
    }
}

#[test]
fn another_word_is_not_understood() {
    if !cfg!(target_arch = "x86_64") || std::env::var("HEDDLE_BACKEND").as_deref() == Ok("native") {
        println!("skip: there are no segments here");
        return;
    }
    let output = run("maybe");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && text.contains("HEDDLE_SEGMENTS=maybe: not"), "{text}");
}
