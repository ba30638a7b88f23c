//! A stack that the tuner made too small, and one that the program did.
//!
//! Invariant: the overflow says that the stack was tuned, and the next run is safe.

use std::os::unix::process::ExitStatusExt;

use crate::build::c;
use crate::support::{Ended, Folder};

fn deep(folder: &Folder, flags: &[&str], kib: &str) -> Ended {
    let mut command = folder.under(flags, c("deep"));
    command.arg(kib);
    folder.run(command)
}

#[test]
fn an_overflow_is_told_and_corrected() {
    let folder = Folder::new("overflow");
    for _ in 0..2 {
        deep(&folder, &[], "4").good();
    }
    deep(&folder, &["--stacks", "auto"], "4").good();
    assert!(folder.report().told("digger").iter().all(|kind| kind.is("tuned")));

    let ended = deep(&folder, &["--stacks", "auto"], "90");
    assert_eq!(ended.status.signal(), Some(11), "{ended:?}");
    assert!(ended.messages().contains("digger"), "names the thread: {}", ended.errors);
    let told = folder.report().told("digger");
    let kind = told.iter().find(|kind| kind.is("overflowed")).expect("marked");
    let size = kind.number("stack_given_bytes").to_string();
    assert!(ended.messages().contains(&size), "names the size: {}", ended.errors);

    let ended = deep(&folder, &["--stacks", "auto"], "90").good();
    assert_eq!(ended.output, "dug 90\n");
    let kind = &folder.report().told("digger")[0];
    assert!(kind.number("stack_given_bytes") >= 2 * 65536, "{kind:?}");
    assert!(kind.number("stack_peak_bytes") >= 90 << 10, "{kind:?}");
}

#[test]
fn an_overflow_of_the_programs_own() {
    let folder = Folder::new("own-overflow");
    let mut command = folder.plain(c("deep"));
    command.arg("20000");
    let plain = folder.run(command);
    deep(&folder, &[], "20000").same_as(&plain);
}

#[test]
fn a_size_needs_history() {
    let folder = Folder::new("history");
    deep(&folder, &["--stacks", "auto"], "300").good();
    assert!(folder.report().kinds().iter().all(|kind| !kind.is("tuned")));
    deep(&folder, &["--stacks", "auto"], "300").good();
    let kind = &folder.report().told("digger")[0];
    // 1.5 times the peak and 40 KiB, and what lies beside it: thread-local storage, signals.
    let given = kind.number("stack_given_bytes");
    assert!(kind.is("tuned") && (490 << 10..=528 << 10).contains(&given), "{kind:?}");
}
