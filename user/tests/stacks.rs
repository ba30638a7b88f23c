//! Stacks of user-level threads: their size is what was asked for or tuned, the thread is told the
//! truth about it, a guard lies below, and who runs over it is told of by name and role.

mod common;

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, Output};

use common::{built, can_run, folder, heddle, output, text};

/// The program, and a folder of its own.
struct Case {
    folder: PathBuf,
    program: PathBuf,
}

impl Case {
    fn new(name: &str) -> Option<Case> {
        if !can_run(&["cc"]) {
            return None;
        }
        let folder = folder(&format!("stacks-{name}"));
        let program = built(&folder, "digs", &[]);
        Some(Case { folder, program })
    }

    fn run(&self, stacks: &str, words: &[&str]) -> Output {
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--stacks", stacks, "--report", "text", "--"]);
        command.arg(&self.program).args(words).process_group(0);
        command.env("XDG_STATE_HOME", self.folder.join("state"));
        let output = output(command);
        assert!(!text(&output.stderr).contains("kernel threads:"), "{output:?}");
        output
    }

    /// The size that a thread is told, its guard included, all else about its stack being as it
    /// should.
    fn told(&self, output: &Output) -> usize {
        let line = text(&output.stdout).lines().next().unwrap_or_default().to_owned();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words.get(1..), Some(&["1", "0", "1"][..]), "{output:?}");
        words[0].parse().expect("a number")
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// That the program was ended by its fault, with a line that says this of the thread.
fn died_of(output: &Output, said: &[&str]) {
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    let errors = text(&output.stderr);
    let line = errors.lines().find(|line| line.contains("overflowed its stack"));
    let line = line.unwrap_or_else(|| panic!("{errors}"));
    for said in said {
        assert!(line.contains(said), "no {said} in {line}");
    }
}

#[test]
fn a_thread_has_and_is_told_what_it_asked_for() {
    let Some(case) = Case::new("asked") else { return };
    // The runtime has sizes of its own; the next one is four times as large, or eight times.
    for asked in [16_384, 65_536, 100_000, 300_000, 1 << 20, 3 << 20, 8 << 20] {
        // Its frames are larger than the pieces that it counts.
        let deep = (asked / 8 * 7 - 9000).to_string();
        let output = case.run("observe", &["bounds", &deep, &asked.to_string()]);
        assert!(output.status.success(), "{asked}: {output:?}");
        let told = case.told(&output);
        assert!((asked..=asked * 8 + (64 << 10)).contains(&told), "{asked}: {told}");
    }
    let told = case.told(&case.run("observe", &["bounds", "7000000"]));
    assert!(told >= 8 << 20, "by default: {told}");
}

#[test]
fn who_runs_over_the_end_is_told_of_by_name_and_role() {
    let Some(case) = Case::new("over") else { return };
    let output = case.run("observe", &["bounds", "3000000", "1048576"]);
    died_of(&output, &["\"digger/2\"", "(role \"bounds\"", "1024 KiB", "asked for no more"]);
}

#[test]
fn a_tuned_stack_is_told_and_guarded_like_any() {
    let Some(case) = Case::new("tuned") else { return };
    let first = case.told(&case.run("auto", &["bounds", "20000"]));
    assert!(first >= 8 << 20, "without history: {first}");
    let second = case.run("auto", &["bounds", "20000"]);
    assert!(second.status.success(), "{second:?}");
    let tuned = case.told(&second);
    assert!((60_000..=256 << 10).contains(&tuned), "{tuned}");
    let output = case.run("auto", &["bounds", "600000"]);
    assert_eq!(case.told(&output), tuned);
    died_of(&output, &["\"digger/2\"", "(role \"bounds\"", "heddle had chosen that size"]);
    // The next run gives it more, until it is enough.
    let ends = (0..6).position(|_| case.run("auto", &["bounds", "600000"]).status.success());
    assert!(ends.is_some());
}
