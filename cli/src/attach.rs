//! `heddle run --pid PID`: a policy applied to a running process from outside.
//!
//! Invariants
//! - When it ends, for whatever reason, every thread has what it had before: Ctrl-C, SIGTERM and
//!   SIGHUP end it in order, and the Mediator's watchdog covers the rest. So it is while Ctrl-Z has
//!   stopped it.
//! - Standard output stays empty: what was done is told on standard error.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use heddle_preload::key::Key;
use heddle_preload::mediator::{Candidate, Classify, Mediator, Report, attributes};
use heddle_preload::policy::Policy;
use heddle_record::{Reader, Snapshot, process};
use rustix::process::{Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP};

use crate::live::Starts;
use crate::text::harmless;

/// How late a signal may be obeyed.
const NAP: Duration = Duration::from_millis(50);
/// Between readings of the table for threads that are not known yet.
const TABLE_PERIOD: Duration = Duration::from_millis(100);

/// Applies a policy to a process until that ends or somebody says so.
pub fn run(pid: i32, policy: Option<&Path>) -> Result<ExitCode> {
    let policy = match policy {
        Some(path) => Policy::load(path)?,
        None => Policy::default(),
    };
    let program =
        process::program_name(pid).with_context(|| format!("there is no process {pid}"))?;
    let program = harmless(&program).into_owned();
    if pid == std::process::id() as i32 {
        bail!("process {pid} is this command itself");
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone()).context("cannot wait for signals")?;
    }
    let pause = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGTSTP, pause.clone()).context("cannot wait for signals")?;
    let mut mediator = Mediator::attach(pid, &policy, classify(&policy))
        .with_context(|| format!("cannot look at process {pid}"))?;
    mediator.step();
    begin(&program, pid, &mediator.report());
    if Reader::open(pid).is_err() {
        warn_of_rules(&policy);
    }
    while !stop.load(Relaxed) && mediator.is_alive() {
        if pause.swap(false, Relaxed) {
            rest(&mut mediator);
        }
        let until = Instant::now() + mediator.step();
        while !stop.load(Relaxed) && !pause.load(Relaxed) {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            std::thread::sleep(rest.min(NAP));
        }
    }
    let ended = !mediator.is_alive();
    mediator.finish();
    let how = if ended { "ended" } else { "goes on with what it had" };
    eprintln!("heddle: {program} ({pid}) {how}");
    for line in mediator.report().to_string().lines() {
        eprintln!("heddle: {line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Is stopped until SIGCONT, with nothing changed meanwhile. (SIGSTOP gives no time for that.)
fn rest(mediator: &mut Mediator) {
    mediator.finish();
    let _ = kill_process(getpid(), Signal::STOP);
}

fn begin(program: &str, pid: i32, report: &Report) {
    eprintln!("heddle: mediating {program} ({pid}) by {}; Ctrl-C restores", report.means);
    for why in &report.why {
        eprintln!("heddle: {why}");
    }
}

/// Without a table only names are known: rules that need more are worth a word.
fn warn_of_rules(policy: &Policy) {
    let all = policy.threads.len();
    let able = policy.threads.iter().filter(|rule| rule.name.is_some()).count();
    if able < all {
        eprintln!(
            "heddle: rules by start function or key need a program under `heddle run`: only names \
             are known from outside; {able} of {all} rules can hold"
        );
    }
}

/// Tells threads by key and start function where the process has a table, and by name.
fn classify(policy: &Policy) -> Classify {
    let policy = policy.clone();
    let mut tables = Tables::default();
    Box::new(move |candidate| {
        let kind = tables.kind(candidate);
        let (key, function) = match &kind {
            Some((key, function)) => (key.as_ref(), function.as_deref()),
            None => (None, None),
        };
        let rule = policy.for_thread(key, function, Some(candidate.name))?;
        rule.attributes.as_ref().map(attributes)
    })
}

/// What tables say of threads' starts.
#[derive(Default)]
struct Tables {
    starts: Starts,
    threads: HashMap<i32, (Option<Key>, Option<Arc<str>>)>,
    read: HashMap<i32, Instant>,
}

impl Tables {
    fn kind(&mut self, candidate: &Candidate<'_>) -> Option<(Option<Key>, Option<Arc<str>>)> {
        let fresh = |read: &Instant| read.elapsed() < TABLE_PERIOD;
        let known = self.threads.contains_key(&candidate.tid);
        if !known && !self.read.get(&candidate.pid).is_some_and(fresh) {
            self.read.insert(candidate.pid, Instant::now());
            if let Ok(snapshot) = Reader::open(candidate.pid).and_then(|it| it.snapshot()) {
                self.learn(&snapshot);
            }
        }
        self.threads.get(&candidate.tid).cloned()
    }

    fn learn(&mut self, snapshot: &Snapshot) {
        for thread in snapshot.threads.iter().filter(|it| it.fields.tid > 0) {
            let Some(kind) = snapshot.use_of(thread) else { continue };
            let key = Key::of_use(kind);
            let function = self.starts.name_of(kind);
            self.threads.insert(thread.fields.tid, (key, function));
        }
    }
}
