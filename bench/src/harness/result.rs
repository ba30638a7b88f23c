//! Rows, skips and samples of one suite, and their file.
//!
//! Invariant: for each metric and implementation that was planned there is a row or a skip.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// One figure.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Row {
    pub metric: String,
    #[serde(rename = "impl")]
    pub implementation: String,
    pub value: f64,
    pub unit: String,
    /// Samples that the value was taken from.
    pub n: usize,
}

/// A figure that could not be had.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Skip {
    pub metric: String,
    #[serde(rename = "impl")]
    pub implementation: String,
    pub reason: String,
}

/// Every sample of a row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Samples {
    pub metric: String,
    #[serde(rename = "impl")]
    pub implementation: String,
    pub values: Vec<f64>,
}

/// What a suite found, as it lies in `results/<suite>.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SuiteResult {
    pub suite: String,
    pub quick: bool,
    pub machine: Machine,
    pub versions: BTreeMap<String, String>,
    pub rows: Vec<Row>,
    pub skipped: Vec<Skip>,
    pub samples: Vec<Samples>,
}

/// Which sample stands for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pick {
    /// Outside disturbance only adds to CPU time per operation, so the least is the truest.
    Least,
    Median,
}

impl Pick {
    pub fn of(self, values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        match self {
            Pick::Least => sorted[0],
            Pick::Median if sorted.len() % 2 == 1 => sorted[sorted.len() / 2],
            Pick::Median => {
                let upper = sorted.len() / 2;
                (sorted[upper - 1] + sorted[upper]) / 2.0
            }
        }
    }
}

impl SuiteResult {
    pub fn new(suite: &str, quick: bool) -> Self {
        SuiteResult {
            suite: suite.into(),
            quick,
            machine: Machine::this(),
            versions: BTreeMap::new(),
            rows: Vec::new(),
            skipped: Vec::new(),
            samples: Vec::new(),
        }
    }

    pub fn add(&mut self, metric: &str, implementation: &str, unit: &str, pick: Pick, all: &[f64]) {
        assert!(!all.is_empty(), "a row needs a sample");
        self.rows.push(Row {
            metric: metric.into(),
            implementation: implementation.into(),
            value: pick.of(all),
            unit: unit.into(),
            n: all.len(),
        });
        self.samples.push(Samples {
            metric: metric.into(),
            implementation: implementation.into(),
            values: all.to_vec(),
        });
    }

    pub fn skip(&mut self, metric: &str, implementation: &str, reason: impl Into<String>) {
        self.skipped.push(Skip {
            metric: metric.into(),
            implementation: implementation.into(),
            reason: reason.into(),
        });
    }

    pub fn value(&self, metric: &str, implementation: &str) -> Option<f64> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.metric == metric && row.implementation == implementation);
        row.map(|row| row.value)
    }

    pub fn save(&self, folder: &Path) -> Result<()> {
        let file = folder.join(format!("{}.json", self.suite));
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))
    }

    /// The suite's last result, if there is one.
    pub fn load(folder: &Path, suite: &str) -> Result<Option<Self>> {
        let file = folder.join(format!("{suite}.json"));
        let Ok(text) = std::fs::read_to_string(&file) else { return Ok(None) };
        let result = serde_json::from_str(&text);
        result.map(Some).with_context(|| format!("{} is not a suite's result", file.display()))
    }
}

/// Where it ran, as far as it matters for reading the figures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cpus: usize,
    pub kernel: String,
    pub memory_gib: f64,
    /// CPUs that others kept busy just before the suite began, if that was looked at. (The load
    /// average would count the suite before this one.)
    #[serde(default)]
    pub busy_cpus: Option<f64>,
}

impl Machine {
    pub fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let (cpuinfo, meminfo) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let field = |text: &str, key: &str| -> String {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map_or("unknown", |(_, value)| value.trim()).to_string()
        };
        let kib: f64 = field(&meminfo, "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
        Machine {
            cpu: field(&cpuinfo, "model name"),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            memory_gib: (kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            busy_cpus: Some(busy_cpus(Duration::from_millis(500))),
        }
    }
}

/// CPUs that are busy now, mean over a time.
fn busy_cpus(time: Duration) -> f64 {
    let ticks = || busy_ticks(&std::fs::read_to_string("/proc/stat").unwrap_or_default());
    let (begin, before) = (Instant::now(), ticks());
    std::thread::sleep(time);
    let busy = ticks().saturating_sub(before) as f64;
    (busy / rustix::param::clock_ticks_per_second() as f64 / begin.elapsed().as_secs_f64() * 100.0)
        .round()
        / 100.0
}

/// By the first line of /proc/stat: all its times but idle and iowait; guests' are in user's.
fn busy_ticks(stat: &str) -> u64 {
    let times = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
    times
        .enumerate()
        .filter(|(i, _)| !(3..=4).contains(i))
        .filter_map(|(_, n)| n.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks() {
        assert_eq!(Pick::Least.of(&[3.0, 1.0, 2.0]), 1.0);
        assert_eq!(Pick::Median.of(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(Pick::Median.of(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn busy_is_all_but_idle_and_waiting() {
        let stat = "cpu  100 20 3 9999 8888 4 5 6 70 80\ncpu0 1 1 1 1 1\n";
        assert_eq!(busy_ticks(stat), 138);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn rows_have_the_promised_fields() {
        let mut result = SuiteResult::new("micro", true);
        result.add("yield_2", "heddle", "ns", Pick::Least, &[7.5, 7.0]);
        let json = serde_json::to_value(&result.rows[0]).unwrap();
        let want = serde_json::json!(
            {"metric": "yield_2", "impl": "heddle", "value": 7.0, "unit": "ns", "n": 2});
        assert_eq!(json, want);
    }
}
