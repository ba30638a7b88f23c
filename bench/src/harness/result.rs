//! Rows, skips and samples of one suite, and their file.
//!
//! Invariant: for each metric and implementation that was planned there is a row or a skip.

use std::collections::BTreeMap;
use std::path::Path;

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
    /// Load average when the suite began: anything near 1 means that others were at work.
    pub load: f64,
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
        let load = read("/proc/loadavg");
        Machine {
            cpu: field(&cpuinfo, "model name"),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            kernel: read("/proc/sys/kernel/osrelease").trim().into(),
            memory_gib: (kib / 1024.0 / 1024.0 * 10.0).round() / 10.0,
            load: load.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0),
        }
    }
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
    fn rows_have_the_promised_fields() {
        let mut result = SuiteResult::new("micro", true);
        result.add("yield_2", "heddle", "ns", Pick::Least, &[7.5, 7.0]);
        let json = serde_json::to_value(&result.rows[0]).unwrap();
        let want = serde_json::json!(
            {"metric": "yield_2", "impl": "heddle", "value": 7.0, "unit": "ns", "n": 2});
        assert_eq!(json, want);
    }
}
