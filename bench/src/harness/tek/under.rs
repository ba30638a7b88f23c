//! Runs programs under `heddle run` and reads the report that it writes.
//!
//! Invariant: profiles live in a folder of the suite, never in the user's own state; the command
//! is a copy that every user may run.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::super::plan::Plan;
use super::super::programs::Program;
use super::scratch::{Scratch, open_up};

/// The command, ready to be put before a program.
pub struct Heddle {
    command: PathBuf,
    pub state: PathBuf,
}

impl Heddle {
    pub fn new(plan: &Plan, scratch: &Scratch) -> Result<Self, String> {
        let built = plan.programs.get(Program::Heddle)?;
        let command = scratch.path("heddle");
        std::fs::copy(&built, &command).map_err(|e| format!("{}: {e}", command.display()))?;
        open_up(&command, 0o755)?;
        Ok(Heddle { command, state: scratch.folder("state")? })
    }

    /// The command line that runs `program` and leaves its report in `report`.
    pub fn line(&self, options: &[&str], report: &Path, program: &[String]) -> Vec<String> {
        let mut line = vec![self.command.to_string_lossy().into_owned(), "run".into()];
        line.extend(options.iter().map(|option| option.to_string()));
        line.extend(["--report".into(), "json".into(), "--report-to".into()]);
        line.push(report.to_string_lossy().into_owned());
        line.push("--".into());
        line.extend_from_slice(program);
        line
    }

    /// Where it keeps profiles.
    pub fn env(&self) -> Vec<(String, String)> {
        vec![("XDG_STATE_HOME".into(), self.state.to_string_lossy().into_owned())]
    }

    /// Forgets all profiles.
    pub fn forget(&self) -> Result<(), String> {
        std::fs::remove_dir_all(&self.state)
            .and_then(|()| std::fs::create_dir(&self.state))
            .map_err(|e| format!("{}: {e}", self.state.display()))
    }
}

/// What `heddle run --report json` says, as far as it is used here.
#[derive(Debug, Deserialize)]
pub struct Report {
    pub processes: Vec<Process>,
    #[serde(default)]
    pub mediator: Option<Value>,
    #[serde(default)]
    pub notes: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct Process {
    pub threads: Vec<Kind>,
}

/// The threads of one start function.
#[derive(Clone, Debug, Deserialize)]
pub struct Kind {
    pub created: u64,
    pub stack_given_bytes: u64,
    pub stack_peak_bytes: u64,
    pub stack_reserved_peak_bytes: u64,
    pub main: bool,
    pub explicit: bool,
    #[serde(default)]
    pub user_stack: bool,
}

impl Report {
    pub fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(file)
            .map_err(|e| format!("heddle run wrote no report: {e}"))?;
        // A report is used once; the next run must not be judged by it.
        let _ = std::fs::remove_file(file);
        serde_json::from_str(&text).map_err(|e| format!("heddle run's report: {e}"))
    }

    /// The kinds of threads whose stacks the process had to reserve, in all its processes.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        let all = self.processes.iter().flat_map(|process| &process.threads);
        all.filter(|kind| !kind.main && !kind.user_stack && kind.created > 0)
    }

    /// The means that the Mediator used, if there was one.
    pub fn means(&self) -> Option<&str> {
        self.mediator.as_ref()?.get("means")?.as_str()
    }

    /// What it says about them.
    pub fn why(&self) -> String {
        let why = self.mediator.as_ref().and_then(|mediator| mediator.get("why"));
        match why {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => self.notes.join("; "),
        }
    }
}

impl Kind {
    /// Most threads of this kind at one time.
    pub fn at_once(&self) -> u64 {
        self.stack_reserved_peak_bytes.div_ceil(self.stack_given_bytes.max(1)).max(1)
    }

    /// Each thread counted with the highest peak of its kind.
    pub fn used_bytes(&self) -> u64 {
        self.stack_peak_bytes * self.at_once()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"version":1,"program":"/bin/x","processes":[{"pid":7,"threads":[
        {"start":null,"created":1,"stack_given_bytes":8388608,"stack_peak_bytes":5000,
         "stack_reserved_peak_bytes":8388608,"main":true,"explicit":false},
        {"start":"work","created":9,"stack_given_bytes":65536,"stack_peak_bytes":3000,
         "stack_reserved_peak_bytes":262144,"main":false,"explicit":false,"user_stack":false}]}],
        "mediator":{"means":"rr","why":"permitted"},"notes":[]}"#;

    #[test]
    fn counts_kinds_without_the_main_thread() {
        let report: Report = serde_json::from_str(REPORT).unwrap();
        let kinds: Vec<_> = report.kinds().collect();
        assert_eq!(kinds.len(), 1);
        assert_eq!(kinds[0].at_once(), 4);
        assert_eq!(kinds[0].used_bytes(), 12_000);
        assert_eq!(report.means(), Some("rr"));
        assert_eq!(report.why(), "permitted");
    }

    #[test]
    fn a_missing_report_is_a_reason() {
        let reason = Report::read(Path::new("/nonexistent/report")).unwrap_err();
        assert!(reason.starts_with("heddle run wrote no report"), "{reason}");
    }
}
