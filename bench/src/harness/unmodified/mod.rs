//! Suite unmodified: programs by themselves (`native`) and under `heddle run --threads user`
//! (`heddle`), which makes their threads user-level ones.
//!
//! Loops of thread calls (`loops`), a server with a thread per connection and memcached (`serve`),
//! MariaDB by number of clients (`mariadb`), programs that only compute (`batch`), and what a full
//! thread costs beside a light one (`full`). Invariant: a program that went to kernel threads is
//! never measured as heddle: what the command said about it is the reason of a skip (`way`).

mod batch;
mod full;
mod loops;
mod mariadb;
pub mod plots;
mod serve;
mod watch;
mod way;

use super::impls::{Impl, UNMODIFIED};
use super::plan::Plan;
use super::programs::Program;
use super::progress::Progress;
use super::result::{Pick, SuiteResult};
use super::rounds::{Turns, interleave};
use super::tek::scratch::Scratch;

/// What every part works with.
struct Bench<'a> {
    plan: &'a Plan,
    scratch: &'a Scratch,
}

/// A row to fill.
struct Figure {
    metric: String,
    unit: &'static str,
    pick: Pick,
}

/// One run's values, in the order of its figures, or why one could not be had.
type Values = Vec<Result<f64, String>>;

const PARTS: [fn(&Bench<'_>, &mut SuiteResult); 5] =
    [loops::run, full::run, serve::run, mariadb::run, batch::run];

pub fn run(plan: &Plan) -> SuiteResult {
    let mut result = SuiteResult::new("unmodified", plan.quick);
    let scratch = match Scratch::new("unmodified") {
        Ok(scratch) => scratch,
        Err(reason) => {
            result.skip("all", "heddle", reason);
            return result;
        }
    };
    let bench = Bench { plan, scratch: &scratch };
    result.versions.insert("heddle".into(), plan.programs.version(Program::Heddle));
    PARTS.iter().for_each(|part| part(&bench, &mut result));
    result
}

impl Bench<'_> {
    /// Measures in turns and adds a row or a skip per figure and implementation.
    fn turns(
        &self,
        result: &mut SuiteResult,
        label: &str,
        rounds: usize,
        figures: &[Figure],
        once: impl FnMut(&'static Impl) -> Result<Values, String>,
    ) {
        if !figures.iter().any(|figure| self.plan.wants(&figure.metric)) {
            return;
        }
        let chosen = self.plan.chosen(UNMODIFIED);
        let mut progress = Progress::new("unmodified", rounds * chosen.len());
        let turns = interleave(label, rounds, &chosen, &mut progress, once);
        add(result, figures.iter().filter(|it| self.plan.wants(&it.metric)), figures, turns);
    }
}

/// One failure leaves a figure without a row: the runs that went well would hide it.
fn add<'a>(
    result: &mut SuiteResult,
    wanted: impl Iterator<Item = &'a Figure>,
    figures: &[Figure],
    turns: Turns<Values>,
) {
    let wanted: Vec<&Figure> = wanted.collect();
    for (one, runs) in turns {
        for figure in &wanted {
            let at = figures.iter().position(|it| it.metric == figure.metric);
            let values: Result<Vec<f64>, String> = runs.clone().and_then(|runs| {
                let value = |run: &Values| match at.and_then(|at| run.get(at)) {
                    Some(value) => value.clone(),
                    None => Err("gave no figure".to_string()),
                };
                runs.iter().map(value).collect()
            });
            match values {
                Ok(all) => result.add(&figure.metric, one.name, figure.unit, figure.pick, &all),
                Err(reason) => result.skip(&figure.metric, one.name, reason),
            }
        }
    }
}

fn figure(metric: impl Into<String>, unit: &'static str, pick: Pick) -> Figure {
    Figure { metric: metric.into(), unit, pick }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_round_takes_its_own_figure_only() {
        let figures = [figure("a", "s", Pick::Median), figure("b", "s", Pick::Median)];
        let runs = vec![vec![Ok(1.0), Ok(5.0)], vec![Ok(3.0), Err("the server died".to_string())]];
        let turns = vec![
            (&UNMODIFIED[0], Ok(runs)),
            (&UNMODIFIED[1], Err("it runs on kernel threads".to_string())),
        ];
        let mut result = SuiteResult::new("unmodified", true);
        add(&mut result, figures.iter(), &figures, turns);
        assert_eq!(result.value("a", "native"), Some(2.0));
        assert_eq!(result.value("b", "native"), None);
        assert_eq!(result.value("a", "heddle"), None);
        let reasons: Vec<&str> = result.skipped.iter().map(|skip| skip.reason.as_str()).collect();
        let fell_back = "it runs on kernel threads";
        assert_eq!(reasons, ["the server died", fell_back, fell_back]);
    }
}
