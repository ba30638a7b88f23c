//! Lines of heddle's go to the standard error that the program began with, and to a log that it has
//! put there; to no other file that has got the number.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{built, can_run, folder, output, run, text};

mod common;

const LINE: &str = "heddle: setns refused: ";

/// The run when standard error is as `way` says, with its file.
fn told(program: &Path, way: &str, file: &Path) -> Command {
    run(&[program, Path::new(way), file].map(|word| word.to_str().expect("a name")))
}

fn succeeded(command: Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn lines_meet_no_file_of_the_program() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("standard-error");
    let program = built(&folder, "tells", &[]);
    let file = folder.join("file");
    let same = succeeded(told(&program, "same", &file));
    assert!(text(&same.stderr).contains(LINE), "{same:?}");
    for way in ["closed", "file", "connection"] {
        let output = succeeded(told(&program, way, &file));
        assert!(!text(&output.stderr).contains(LINE), "{way}: {output:?}");
    }
    assert_eq!(fs::read_to_string(&file).expect("made by it"), "");
    let log = folder.join("log");
    succeeded(told(&program, "log", &log));
    let lines = fs::read_to_string(&log).expect("made by it");
    assert!(lines.starts_with(LINE) && lines.ends_with('\n'), "{lines}");
    fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_line_that_nobody_reads_ends_nothing() {
    if !can_run(&["cc"]) {
        return;
    }
    let folder = folder("unread-lines");
    let program = built(&folder, "tells", &[]);
    let (reader, writer) = std::io::pipe().expect("two ends");
    drop(reader);
    let mut command = told(&program, "same", &folder);
    command.stderr(OwnedFd::from(writer));
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(|it| it.success()), "{status:?}");
    fs::remove_dir_all(folder).expect("ours");
}
