//! Response of time-critical threads while four groups of threads use every CPU (Fig. 9 and 10).
//!
//! The program (`peers/tek/response.c`) knows nothing of heddle: `default` runs it as it is, the
//! other modes run it by `heddle run` with a policy file that marks its threads by their start
//! functions and asks for one means. `direct` lets the program order itself: what is possible at
//! best. Events come from another process, in real time priority where permitted, for all alike.

use std::path::Path;

use super::super::child::Output;
use super::super::impls::{Impl, RESPONSE};
use super::super::programs::Program;
use super::super::progress::Progress;
use super::super::result::{Pick, Samples, SuiteResult};
use super::super::rounds::interleave;
use super::scratch::open_up;
use super::under::Report;
use super::{Tek, guarded, words};

/// The prototype's experiment: 4 x 32 threads at 100 % CPU, 4 time-critical threads that work for
/// 2 ms after each of 60 events, 30 to 50 ms apart.
const HOGS_PER_GROUP: usize = 32;
const CRITICAL: usize = 4;
const WORK_US: usize = 2000;
const EVENTS: usize = 60;
const EVENTS_QUICK: usize = 12;

const LIMIT_S: u64 = 120;
/// The user "nobody".
const ORDINARY_USER: u32 = 65534;

/// Response to each event in turn, for the plot.
pub const BY_EVENT: &str = "response_by_event_ms";

type Figure = (&'static str, &'static str, &'static str);

/// Metric, unit, and what the program calls it.
const FIGURES: [Figure; 5] = [
    ("response_mean_ms", "ms", "mean_ms"),
    ("response_p99_ms", "ms", "p99_ms"),
    ("response_max_ms", "ms", "max_ms"),
    ("involuntary_switches", "count", "involuntary"),
    ("hog_work", "count", "hog_work"),
];

pub fn run(tek: &Tek<'_>, result: &mut SuiteResult) {
    if !FIGURES.iter().any(|figure| tek.plan.wants(figure.0)) {
        return;
    }
    let chosen = tek.plan.chosen(RESPONSE);
    let rounds = tek.plan.rounds(1, 5);
    let mut progress = Progress::new("tek response", rounds * chosen.len());
    let turns =
        interleave("response", rounds, &chosen, &mut progress, |one: &Impl| mode(tek, one.name));
    for (one, outputs) in turns {
        match outputs {
            Ok(outputs) => add(result, one.name, &outputs),
            Err(reason) => {
                FIGURES.iter().for_each(|figure| result.skip(figure.0, one.name, &reason));
            }
        }
    }
}

fn add(result: &mut SuiteResult, name: &str, outputs: &[Output]) {
    for (metric, unit, key) in FIGURES {
        let values: Vec<f64> =
            outputs.iter().filter_map(|output| output.values.get(key).copied()).collect();
        match values.len() == outputs.len() {
            true => result.add(metric, name, unit, Pick::Median, &values),
            false => result.skip(metric, name, "printed no figure"),
        }
    }
    let Some(last) = outputs.last() else { return };
    let by_event = |i: usize| last.values.get(&format!("event_{i}")).copied();
    result.samples.push(Samples {
        metric: BY_EVENT.into(),
        implementation: name.into(),
        values: (0..).map_while(by_event).collect(),
    });
}

/// One run of the experiment.
fn mode(tek: &Tek<'_>, name: &str) -> Result<Output, String> {
    let means = match name {
        "heddled" => return Err("there is no heddled yet".into()),
        "idle_unprivileged" => "idle",
        means => means,
    };
    let site = tek.scratch.folder("response")?;
    lay_out(&site)?;
    let program = tek.plan.programs.get(Program::Response)?;
    let program = public_copy(&program, &site.join("response"))?;
    let numbers = [HOGS_PER_GROUP, CRITICAL, WORK_US].map(|n| n.to_string());
    let mut line = vec![program, site.to_string_lossy().into_owned()];
    line.extend(numbers);
    line.push(if name == "direct" { "direct" } else { "default" }.into());
    if name == "default" || name == "direct" {
        return experiment(tek, &guarded(line), Vec::new(), &site);
    }
    let heddle = tek.heddle()?;
    let policy = tek.scratch.write("policy.toml", &policy(means))?;
    let report = site.join("report.json");
    let options = ["--policy", &policy.to_string_lossy()];
    let line = guarded(heddle.line(&options, &report, &line));
    let (line, env) = if name == "idle_unprivileged" {
        let state = site.to_string_lossy().into_owned();
        (as_ordinary_user(line), vec![("XDG_STATE_HOME".into(), state)])
    } else {
        (line, heddle.env())
    };
    let output = experiment(tek, &line, env, &site)?;
    let report = Report::read(&report)?;
    match report.means() {
        Some(used) if used == means => Ok(output),
        used => Err(format!(
            "the Mediator used {} instead of {means}: {}",
            used.unwrap_or("nothing"),
            report.why()
        )),
    }
}

/// The FIFOs of the events and the byte that both sides watch.
fn lay_out(site: &Path) -> Result<(), String> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    open_up(site, 0o777)?;
    for i in 0..CRITICAL {
        let path = site.join(format!("event.{i}"));
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o666), 0)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        open_up(&path, 0o666)?;
    }
    let stage = site.join("stage");
    std::fs::write(&stage, [0]).map_err(|e| format!("{}: {e}", stage.display()))?;
    open_up(&stage, 0o666)
}

/// An ordinary user may not be able to enter the folder of built programs.
fn public_copy(program: &Path, to: &Path) -> Result<String, String> {
    std::fs::copy(program, to).map_err(|e| format!("{}: {e}", to.display()))?;
    open_up(to, 0o755)?;
    Ok(to.to_string_lossy().into_owned())
}

/// Without privileges: no capabilities, no limits that would permit more than Debian does.
fn as_ordinary_user(line: Vec<String>) -> Vec<String> {
    let mut all = words(&["prlimit", "--rtprio=0:0", "--nice=0:0"]);
    if rustix::process::geteuid().is_root() {
        let (user, group) =
            (format!("--reuid={ORDINARY_USER}"), format!("--regid={ORDINARY_USER}"));
        all.extend(words(&["setpriv", &user, &group, "--clear-groups", "--inh-caps=-all"]));
    }
    all.extend(line);
    all
}

/// Starts the threads, then the events, and waits for both to end.
fn experiment(
    tek: &Tek<'_>,
    line: &[String],
    env: Vec<(String, String)>,
    site: &Path,
) -> Result<Output, String> {
    let events = tek.plan.programs.get(Program::Events)?.to_string_lossy().into_owned();
    let count = tek.plan.pick(EVENTS_QUICK, EVENTS).to_string();
    let source = words(&[&events, &site.to_string_lossy(), &CRITICAL.to_string(), &count]);
    let cpus = tek.plan.cpus.all();
    std::thread::scope(|scope| {
        let source = {
            let cpus = cpus.clone();
            scope.spawn(move || super::job_on(&source, Vec::new(), cpus, LIMIT_S))
        };
        let output = super::job_on(line, env, cpus, LIMIT_S);
        let source = source.join().map_err(|_| "the source of events panicked".to_string())?;
        let output = output?;
        source.map_err(|reason| format!("the source of events: {reason}"))?;
        Ok(output)
    })
}

/// Time-critical are those that react; the others belong to the four groups.
fn policy(means: &str) -> String {
    let mut text = format!(
        "[mediator]\nmeans = \"{means}\"\n\n[[thread]]\nstart = \"critical_reaction\"\n\
         role = \"reaction\"\nclass = \"time-critical\"\npriority = 10\n"
    );
    for group in ["urgent", "normal", "service", "background"] {
        text.push_str(&format!(
            "\n[[thread]]\nstart = \"{group}_hog\"\nrole = \"{group} work\"\nclass = \"lazy\"\n\
             group = \"{group}\"\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_functions_that_the_program_has() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/tek/response.c");
        let source = std::fs::read_to_string(source).unwrap();
        let policy = policy("rr");
        let starts = policy.lines().filter_map(|line| line.strip_prefix("start = "));
        let starts: Vec<_> = starts.map(|name| name.trim_matches('"')).collect();
        assert_eq!(starts.len(), 5);
        for start in starts {
            assert!(source.contains(&format!("void *{start}(void *")), "{start}");
        }
    }

    #[test]
    fn an_ordinary_user_has_no_privileges() {
        let line = as_ordinary_user(words(&["heddle", "run"]));
        assert_eq!(line[..3], ["prlimit", "--rtprio=0:0", "--nice=0:0"]);
        assert_eq!(line[line.len() - 2..], ["heddle", "run"]);
    }
}
