//! `heddle run --threads user --tripwire`: who crosses the border of the High zone is told of, with
//! where it was, and goes on.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

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
        let folder = folder(&format!("tripwire-{name}"));
        let program = built(&folder, "digs", &[]);
        Some(Case { folder, program })
    }

    fn run(&self, words: &[&str]) -> (Output, Value) {
        let report = self.folder.join("report.json");
        let mut command = Command::new(heddle());
        command.args(["run", "--threads", "user", "--workers", "1", "--tripwire"]);
        command.args(["--report", "json", "--report-to"]).arg(&report).arg("--");
        command.arg(&self.program).args(words).process_group(0);
        command.env("XDG_STATE_HOME", self.folder.join("state"));
        let output = output(command);
        let text = fs::read_to_string(&report).expect("a report");
        (output, serde_json::from_str(&text).expect("JSON"))
    }

    /// That the program goes on to its end; what is said of crossings, and the kind in the report.
    fn goes_on(&self, words: &[&str], start: &str) -> (Vec<String>, Value, String) {
        let (output, report) = self.run(words);
        let (said, shown) = (text(&output.stderr), text(&output.stdout));
        assert!(output.status.success() && shown.ends_with("goes on\n"), "{words:?}: {output:?}");
        assert!(!said.contains("kernel threads"), "{said}");
        let lines = said.lines().filter(|line| line.contains("entered the High zone"));
        let kinds = report["processes"][0]["threads"].as_array().expect("kinds");
        let kind = kinds.iter().find(|kind| kind["start"] == start).expect("the kind");
        (lines.map(str::to_owned).collect(), kind.clone(), said)
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_thread_that_crosses_the_border_is_told_of_and_goes_on() {
    let Some(case) = Case::new("deep") else { return };
    // Of 1 MiB the border is at some 750 KiB.
    let (lines, kind, said) = case.goes_on(&["deep", "700000", "1048576"], "deep");
    assert_eq!((lines.len(), &kind["tripped"]), (0, &false.into()), "{said}");
    let (lines, kind, said) = case.goes_on(&["deep", "900000", "1048576"], "deep");
    assert_eq!((lines.len(), &kind["tripped"]), (1, &true.into()), "{said}");
    assert!(lines[0].contains("\"digger/1\" (role \"deep\")"), "{said}");
    // Where it was.
    let after = said.split("High zone").nth(1).expect("the line");
    assert!(after.lines().nth(1).is_some_and(|line| line.contains("digs_deep")), "{said}");
    // What is measured is not less for it.
    let peak = kind["stack_peak_bytes"].as_u64().expect("measured");
    assert!((900_000..1_048_576).contains(&peak), "{peak}");
    // Too small for a border.
    let (lines, ..) = case.goes_on(&["deep", "60000", "65536"], "deep");
    assert_eq!(lines.len(), 0);
}

#[test]
fn each_thread_that_gets_a_stack_again_has_its_border() {
    let Some(case) = Case::new("many") else { return };
    let (lines, kind, said) = case.goes_on(&["many", "7000000"], "deep");
    assert_eq!((lines.len(), &kind["tripped"]), (50, &true.into()), "{said}");
    let peak = kind["stack_peak_bytes"].as_u64().expect("measured");
    assert!((7_000_000..8_000_000).contains(&peak), "{peak}");
    // A page is not taken for use because it is closed.
    let (lines, kind, said) = case.goes_on(&["many", "3000"], "deep");
    assert_eq!((lines.len(), &kind["tripped"]), (0, &false.into()), "{said}");
    let peak = kind["stack_peak_bytes"].as_u64().expect("measured");
    assert!((3000..12_000).contains(&peak), "{peak}");
}

/// The frame of the signal that preempts a thread would lie in the closed page.
#[test]
fn a_thread_at_the_border_is_preempted() {
    let Some(case) = Case::new("edge") else { return };
    let (lines, kind, said) = case.goes_on(&["edge"], "edge");
    assert_eq!((lines.len(), &kind["tripped"]), (1, &true.into()), "{said}");
    assert!(lines[0].contains("(role \"edge\")"), "{said}");
}

#[test]
fn a_forked_child_has_no_border() {
    let Some(case) = Case::new("fork") else { return };
    let (output, report) = case.run(&["fork", "7000000"]);
    assert_eq!(text(&output.stdout), "child 3\ngoes on\n", "{output:?}");
    assert!(!text(&output.stderr).contains("High zone"), "{output:?}");
    assert!(report["processes"].as_array().is_some_and(|it| !it.is_empty()));
}
