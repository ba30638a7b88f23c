//! What real programs reserve for stacks and what they use of it: first observed, then sized from
//! what was observed (Fig. 3 and 11 of the paper).
//!
//! The main thread's stack is the kernel's and grows as needed; it is left out.

use super::super::progress::Progress;
use super::super::result::{Pick, Samples, SuiteResult};
use super::Tek;
use super::drive;
use super::real::{self, Real};
use super::under::{Kind, Report};

type Figure = (&'static str, &'static str, fn(&[Kind]) -> Option<u64>);

/// Metrics of each program, with and without the Stack Tuner.
const FIGURES: [Figure; 4] = [
    ("stack_reserved_bytes", "bytes", |kinds| {
        Some(kinds.iter().map(|kind| kind.stack_reserved_peak_bytes).sum())
    }),
    ("stack_reserved_default_bytes", "bytes", |kinds| {
        let of_default_size: Vec<_> = kinds.iter().filter(|kind| !kind.explicit).collect();
        let bytes = of_default_size.iter().map(|kind| kind.stack_reserved_peak_bytes).sum();
        (!of_default_size.is_empty()).then_some(bytes)
    }),
    ("stack_peak_bytes", "bytes", |kinds| Some(kinds.iter().map(Kind::used_bytes).sum())),
    ("stack_threads", "threads", |kinds| Some(kinds.iter().map(Kind::at_once).sum())),
];

/// Points of Fig. 3: what one thread of each kind reserves and uses.
pub const KIND_RESERVED: &str = "kind_reserved_bytes";
pub const KIND_USED: &str = "kind_peak_bytes";

pub fn run(tek: &Tek<'_>, result: &mut SuiteResult) {
    let wanted = |real: &&Real| FIGURES.iter().any(|figure| tek.wants(figure.0, real.name));
    let chosen: Vec<&Real> = real::ALL.iter().filter(wanted).collect();
    let rounds = tek.plan.rounds(1, 3);
    let mut progress = Progress::new("tek stacks", 2 * rounds * chosen.len());
    for real in chosen {
        result.versions.insert(real.name.into(), real.version());
        match turns(tek, real, rounds, &mut progress) {
            Ok((observed, tuned)) => {
                add(result, real.name, &observed);
                add(result, &format!("{}+auto", real.name), &tuned);
            }
            Err(reason) => {
                for name in [real.name.to_string(), format!("{}+auto", real.name)] {
                    FIGURES.iter().for_each(|figure| result.skip(figure.0, &name, &reason));
                }
            }
        }
    }
}

type Runs = Vec<Vec<Kind>>;

/// Observes, then tunes, in each round; the profile begins empty and grows.
fn turns(
    tek: &Tek<'_>,
    real: &Real,
    rounds: usize,
    progress: &mut Progress,
) -> Result<(Runs, Runs), String> {
    tek.heddle()?.forget()?;
    let (mut observed, mut tuned) = (Runs::new(), Runs::new());
    for round in 1..=rounds {
        for (stacks, runs) in [("observe", &mut observed), ("auto", &mut tuned)] {
            progress.show(&format!("{} {stacks} {round}/{rounds}", real.name));
            runs.push(kinds(&drive::run(tek, real, stacks)?)?);
            progress.advance(1);
        }
    }
    Ok((observed, tuned))
}

fn kinds(report: &Report) -> Result<Vec<Kind>, String> {
    let kinds: Vec<Kind> = report.kinds().cloned().collect();
    match kinds.is_empty() {
        true => Err(format!("heddle run saw no threads; {}", report.notes.join("; "))),
        false => Ok(kinds),
    }
}

fn add(result: &mut SuiteResult, name: &str, runs: &[Vec<Kind>]) {
    for (metric, unit, of) in FIGURES {
        let values: Vec<f64> = runs.iter().filter_map(|kinds| of(kinds)).map(to_f64).collect();
        match values.is_empty() {
            true => result.skip(metric, name, "none of its threads has the default stack size"),
            false => result.add(metric, name, unit, Pick::Median, &values),
        }
    }
    let Some(last) = runs.last() else { return };
    let mut points = |metric: &str, of: fn(&Kind) -> u64| {
        let values = last.iter().map(of).map(to_f64).collect();
        result.samples.push(Samples { metric: metric.into(), implementation: name.into(), values });
    };
    points(KIND_RESERVED, |kind| kind.stack_given_bytes);
    points(KIND_USED, |kind| kind.stack_peak_bytes);
}

fn to_f64(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(given: u64, at_once: u64, peak: u64, explicit: bool) -> Kind {
        Kind {
            created: at_once,
            stack_given_bytes: given,
            stack_peak_bytes: peak,
            stack_reserved_peak_bytes: given * at_once,
            main: false,
            explicit,
            user_stack: false,
        }
    }

    #[test]
    fn threads_of_own_size_are_no_success_of_the_tuner() {
        let mut result = SuiteResult::new("tek", true);
        add(&mut result, "java", &[vec![kind(1 << 20, 4, 9000, true)]]);
        assert_eq!(result.value("stack_reserved_bytes", "java"), Some(4.0 * 1048576.0));
        assert_eq!(result.value("stack_reserved_default_bytes", "java"), None);
        assert!(result.skipped[0].reason.contains("default stack size"));
    }

    #[test]
    fn figures_add_up_over_kinds() {
        let mut result = SuiteResult::new("tek", true);
        let kinds = vec![kind(8 << 20, 3, 5000, false), kind(1 << 20, 1, 7000, true)];
        add(&mut result, "node", &[kinds]);
        assert_eq!(result.value("stack_reserved_default_bytes", "node"), Some(24.0 * 1048576.0));
        assert_eq!(result.value("stack_peak_bytes", "node"), Some(22_000.0));
        assert_eq!(result.value("stack_threads", "node"), Some(4.0));
    }
}
