//! What a run was asked to do: suites, sizes, filters, and the tools that all suites use.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::child::{Cpus, Job};
use super::impls::{Impl, NAMES};
use super::programs::Programs;
use super::result::SuiteResult;
use super::{class, memory, micro, servers, tek, unmodified};

/// The suites, in the order of `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    Micro,
    Memory,
    Class,
    Echo,
    Http,
    Tek,
    Unmodified,
}

impl Suite {
    pub const ALL: [Suite; 7] = [
        Suite::Micro,
        Suite::Memory,
        Suite::Class,
        Suite::Echo,
        Suite::Http,
        Suite::Tek,
        Suite::Unmodified,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Suite::Micro => "micro",
            Suite::Memory => "memory",
            Suite::Class => "class",
            Suite::Echo => "echo",
            Suite::Http => "http",
            Suite::Tek => "tek",
            Suite::Unmodified => "unmodified",
        }
    }

    pub fn named(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    pub fn run(self, plan: &Plan) -> SuiteResult {
        match self {
            Suite::Micro => micro::run(plan),
            Suite::Memory => memory::run(plan),
            Suite::Class => class::run(plan),
            Suite::Echo => servers::run_echo(plan),
            Suite::Http => servers::run_http(plan),
            Suite::Tek => tek::run(plan),
            Suite::Unmodified => unmodified::run(plan),
        }
    }
}

/// Sizes, filters, programs and CPUs of a run.
pub struct Plan {
    pub quick: bool,
    pub programs: Programs,
    pub cpus: Cpus,
    rounds: Option<usize>,
    only: Vec<String>,
    metrics: Vec<String>,
}

impl Plan {
    pub fn new(
        quick: bool,
        rounds: Option<usize>,
        only: &[String],
        metrics: &[String],
    ) -> Result<Self> {
        if let Some(unknown) = only.iter().find(|name| !NAMES.contains(&name.as_str())) {
            bail!("no implementation is called {unknown}; there are {}", NAMES.join(", "));
        }
        if rounds == Some(0) {
            bail!("--rounds 0 would measure nothing");
        }
        raise_fd_limit();
        Ok(Plan {
            quick,
            programs: Programs::new()?,
            cpus: Cpus::of_this_process(),
            rounds,
            only: only.to_vec(),
            metrics: metrics.to_vec(),
        })
    }

    pub fn rounds(&self, quick: usize, full: usize) -> usize {
        self.rounds.unwrap_or(self.pick(quick, full))
    }

    pub fn pick<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }

    /// A filter names the beginning of a metric: `yield` wants `yield_2`, too.
    pub fn wants(&self, metric: &str) -> bool {
        self.metrics.is_empty() || self.metrics.iter().any(|want| metric.starts_with(want))
    }

    /// Whether an implementation takes part.
    pub fn names(&self, implementation: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == implementation)
    }

    /// The implementations of `all` that take part.
    pub fn chosen(&self, all: &'static [Impl]) -> Vec<&'static Impl> {
        all.iter().filter(|one| self.names(one.name)).collect()
    }

    /// One run of a peer's metric on one worker.
    pub fn measure(
        &self,
        one: &Impl,
        metric: &str,
        ops: usize,
        threads: usize,
        limit_s: u64,
    ) -> Result<super::child::Output, String> {
        let program = self.programs.get(one.program)?;
        let mut env = one.env(1);
        env.push(("BENCH_WAKER_CPU".into(), self.cpus.driver()[0].to_string()));
        let args = vec![metric.into(), ops.to_string(), threads.to_string()];
        let job = Job { program: &program, args, env, cpus: self.cpus.measured() };
        job.run(std::time::Duration::from_secs(limit_s))
    }

    /// The versions of what took part.
    pub fn versions(&self, all: &'static [Impl]) -> BTreeMap<String, String> {
        let chosen = self.chosen(all).into_iter();
        let versions = chosen.map(|one| (one.name.into(), self.programs.version(one.program)));
        versions.filter(|(_, version): &(String, String)| !version.is_empty()).collect()
    }
}

/// Children inherit it; 8000 connections need more than the usual soft limit.
fn raise_fd_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal shows as a connection count that a suite then reports as not reached.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// 1000000 -> "1m", 20000 -> "20k": how counts stand in metric names.
pub fn short(count: usize) -> String {
    match count {
        n if n >= 1_000_000 && n.is_multiple_of(1_000_000) => format!("{}m", n / 1_000_000),
        n if n >= 10_000 && n.is_multiple_of(1000) => format!("{}k", n / 1000),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short_as_in_the_metric_names() {
        let shorts = [2, 1000, 100_000, 1_000_000, 10_000_000].map(short);
        assert_eq!(shorts, ["2", "1000", "100k", "1m", "10m"]);
    }

    #[test]
    fn a_misspelt_implementation_is_refused() {
        assert!(Plan::new(true, None, &["heddel".to_string()], &[]).is_err());
    }

    #[test]
    fn every_suite_is_found_by_its_name() {
        for suite in Suite::ALL {
            assert_eq!(Suite::named(suite.name()), Some(suite));
        }
    }
}
