//! The figures that heddle is to reach, and whether it does.
//!
//! Invariant: a rule whose figures are missing is reported as such, never as reached. Ratios are
//! taken between rows of one run; absolute limits are only for what does not depend on a clock.

use super::result::SuiteResult;

/// What one metric must satisfy.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    /// heddle's value is at most `factor` times the best of `peers`, same metric.
    TimesBest { metric: &'static str, factor: f64, peers: &'static [&'static str] },
    /// heddle's value is at most `factor` times heddle's `other`.
    TimesOwn { metric: &'static str, factor: f64, other: &'static str },
    /// heddle's value is at most `more` above heddle's `other`.
    AboveOwn { metric: &'static str, more: f64, other: &'static str },
    /// heddle's value is at least `factor` times that of `base`, same metric.
    AtLeastTimes { metric: &'static str, factor: f64, base: &'static str },
    /// heddle's value is at most `limit`.
    AtMost { metric: &'static str, limit: f64 },
    /// The value of `of` is at most `factor` times that of `base`, same metric.
    Of { metric: &'static str, of: &'static str, factor: f64, base: &'static str },
    /// The value of `of` is at most `limit`.
    OfAtMost { metric: &'static str, of: &'static str, limit: f64 },
    /// The value of `of` is at least `limit`.
    OfAtLeast { metric: &'static str, of: &'static str, limit: f64 },
}

use Rule::{AboveOwn, AtLeastTimes, AtMost, Of, OfAtLeast, OfAtMost, TimesBest, TimesOwn};

const fn best(metric: &'static str, factor: f64, peers: &'static [&'static str]) -> Rule {
    TimesBest { metric, factor, peers }
}

const fn own(metric: &'static str, factor: f64, other: &'static str) -> Rule {
    TimesOwn { metric, factor, other }
}

const fn at_most(metric: &'static str, limit: f64) -> Rule {
    AtMost { metric, limit }
}

const fn of(metric: &'static str, of: &'static str, factor: f64, base: &'static str) -> Rule {
    Of { metric, of, factor, base }
}

const NATIVE: &[&str] = &["native"];
const RESERVED: &str = "stack_reserved_default_bytes";

/// All of them, in the order of the report.
pub const RULES: &[Rule] = &[
    best("yield_2", 0.12, &["go"]),
    best("yield_2", 0.3, &["may"]),
    best("yield_1000", 0.12, &["go"]),
    best("yield_1000", 0.3, &["may"]),
    best("yield_100k", 0.5, &["tokio"]),
    best("spawn_join", 0.35, &["go", "tokio"]),
    best("sem_round_trip", 0.4, &["go", "tokio", "boost_fiber"]),
    best("mutex", 1.4, &["native"]),
    best("channel_item", 0.7, &["go"]),
    at_most("parked_1m_bytes", 4600.0),
    at_most("parked_1m_create_ns", 2000.0),
    at_most("parked_1m_vmas", 999.0),
    at_most("hibernated_1m_bytes", 900.0),
    at_most("hibernated_10m_bytes", 1200.0),
    best("echo_cpu_us_100", 1.0, &["c_epoll"]),
    best("echo_cpu_us_1000", 1.0, &["c_epoll"]),
    best("echo_cpu_us_8000", 1.1, &["c_epoll"]),
    own("echo_cpu_us_8000", 1.7, "echo_cpu_us_100"),
    best("http_cpu_us_100", 1.0, &["nginx_cached"]),
    best("http_cpu_us_1000", 1.0, &["nginx_cached"]),
    best("http_cpu_us_8000", 1.0, &["nginx_cached"]),
    best("http_cpu_us_100", 0.9, &["native"]),
    best("http_cpu_us_1000", 0.85, &["native"]),
    best("http_cpu_us_8000", 0.7, &["native"]),
    own("critical_wake_p99_us", 0.05, "normal_wake_p99_us"),
    of(RESERVED, "memcached+auto", 0.02, "memcached"),
    of(RESERVED, "redis+auto", 0.02, "redis"),
    of(RESERVED, "nginx+auto", 0.02, "nginx"),
    of(RESERVED, "mariadb+auto", 0.02, "mariadb"),
    of(RESERVED, "ffmpeg+auto", 0.02, "ffmpeg"),
    of(RESERVED, "python+auto", 0.02, "python"),
    of(RESERVED, "java+auto", 0.02, "java"),
    of(RESERVED, "node+auto", 0.02, "node"),
    OfAtLeast { metric: "threads_32bit_max", of: "auto", limit: 2000.0 },
    OfAtMost { metric: "threads_32bit_max", of: "stack_8m", limit: 399.0 },
    OfAtMost { metric: "mlockall_200_rss_bytes", of: "auto", limit: 20e6 },
    of("response_mean_ms", "rr", 0.01, "default"),
    of("response_mean_ms", "idle_unprivileged", 0.025, "default"),
    of("involuntary_switches", "rr", 0.59, "default"),
    of("involuntary_switches", "idle_unprivileged", 0.59, "default"),
    at_most("record_read_ns", 20.0),
    at_most("record_write_ns", 30.0),
    OfAtMost { metric: "create_join_overhead_ns", of: "observe", limit: 1000.0 },
    OfAtMost { metric: "create_join_overhead_ns", of: "auto", limit: 1000.0 },
    at_most("peak_measure_ns", 1200.0),
    best("mariadb_500_cpu_ticks", 0.45, NATIVE),
    best("mariadb_500_seconds", 0.6, NATIVE),
    best("mariadb_50_cpu_ticks", 1.0, NATIVE),
    best("mariadb_50_seconds", 1.0, NATIVE),
    best("tpc_cpu_us_100", 0.7, NATIVE),
    best("tpc_cpu_us_1000", 0.55, NATIVE),
    best("tpc_cpu_us_8000", 0.7, NATIVE),
    best("tpc_kernel_stack_kb_8000", 0.02, NATIVE),
    AtLeastTimes { metric: "memcached_ops", factor: 1.0, base: "native" },
    best("create_join_ns", 0.05, NATIVE),
    best("sched_yield_ns", 0.1, NATIVE),
    AboveOwn { metric: "full_switch_ns", more: 12.0, other: "light_switch_ns" },
    AboveOwn { metric: "full_thread_bytes", more: 5120.0, other: "light_thread_bytes" },
    best("xz_seconds", 1.02, NATIVE),
    best("ffmpeg_seconds", 1.02, NATIVE),
];

/// A rule with its figures.
#[derive(Debug, PartialEq)]
pub struct Verdict {
    pub rule: String,
    pub value: Option<f64>,
    pub limit: Option<f64>,
    /// The limit is a least one.
    pub at_least: bool,
}

impl Verdict {
    pub fn word(&self) -> &'static str {
        match (self.value, self.limit) {
            (Some(value), Some(limit)) if self.at_least && value >= limit => "reached",
            (Some(value), Some(limit)) if !self.at_least && value <= limit => "reached",
            (Some(_), Some(_)) => "**missed**",
            _ => "no figure",
        }
    }
}

impl Rule {
    pub fn metric(&self) -> &'static str {
        match self {
            TimesBest { metric, .. }
            | TimesOwn { metric, .. }
            | AboveOwn { metric, .. }
            | AtLeastTimes { metric, .. }
            | AtMost { metric, .. }
            | Of { metric, .. }
            | OfAtMost { metric, .. }
            | OfAtLeast { metric, .. } => metric,
        }
    }

    /// Whose value is judged.
    fn judged(&self) -> &'static str {
        match self {
            Of { of, .. } | OfAtMost { of, .. } | OfAtLeast { of, .. } => of,
            TimesBest { .. }
            | TimesOwn { .. }
            | AboveOwn { .. }
            | AtLeastTimes { .. }
            | AtMost { .. } => "heddle",
        }
    }

    pub fn judge(&self, results: &[SuiteResult]) -> Verdict {
        let find =
            |metric: &str, name: &str| results.iter().find_map(|result| result.value(metric, name));
        let value = find(self.metric(), self.judged());
        let (rule, limit) = match *self {
            TimesBest { metric, factor, peers } => {
                let values = peers.iter().filter_map(|peer| find(metric, peer));
                let least = values.reduce(f64::min);
                let which = match peers {
                    [one] => (*one).to_string(),
                    several => format!("the best of {}", several.join(", ")),
                };
                (format!("`{metric}` <= {factor} x {which}"), least.map(|least| factor * least))
            }
            TimesOwn { metric, factor, other } => {
                let limit = find(other, "heddle").map(|base| factor * base);
                (format!("`{metric}` <= {factor} x `{other}`"), limit)
            }
            AboveOwn { metric, more, other } => {
                let limit = find(other, "heddle").map(|base| base + more);
                (format!("`{metric}` <= `{other}` + {more}"), limit)
            }
            AtLeastTimes { metric, factor, base } => {
                let limit = find(metric, base).map(|base| factor * base);
                (format!("`{metric}` >= {factor} x {base}"), limit)
            }
            AtMost { metric, limit } => (format!("`{metric}` <= {limit}"), Some(limit)),
            Of { metric, of, factor, base } => {
                let limit = find(metric, base).map(|base| factor * base);
                (format!("`{metric}` of {of} <= {factor} x {base}"), limit)
            }
            OfAtMost { metric, of, limit } => {
                (format!("`{metric}` of {of} <= {limit}"), Some(limit))
            }
            OfAtLeast { metric, of, limit } => {
                (format!("`{metric}` of {of} >= {limit}"), Some(limit))
            }
        };
        Verdict {
            rule,
            value,
            limit,
            at_least: matches!(self, OfAtLeast { .. } | AtLeastTimes { .. }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::Pick;
    use super::*;

    fn results(rows: &[(&str, &str, f64)]) -> Vec<SuiteResult> {
        let mut result = SuiteResult::new("micro", true);
        for (metric, name, value) in rows {
            result.add(metric, name, "ns", Pick::Least, &[*value]);
        }
        vec![result]
    }

    #[test]
    fn compares_with_the_best_peer_that_has_a_figure() {
        let rule = best("spawn_join", 0.5, &["go", "tokio", "may"]);
        let slow = [("spawn_join", "heddle", 60.0), ("spawn_join", "go", 100.0)];
        assert_eq!(rule.judge(&results(&slow)).word(), "**missed**");
        let fast = [("spawn_join", "heddle", 40.0), ("spawn_join", "go", 100.0)];
        assert_eq!(rule.judge(&results(&fast)).word(), "reached");
    }

    #[test]
    fn missing_figures_are_no_success() {
        let rule = best("mutex", 1.4, &["native"]);
        assert_eq!(rule.judge(&results(&[("mutex", "heddle", 1.0)])).word(), "no figure");
        assert_eq!(rule.judge(&results(&[("mutex", "native", 1.0)])).word(), "no figure");
    }

    #[test]
    fn one_implementation_against_another() {
        let rows = [("ms", "default", 1800.0), ("ms", "rr", 3.0), ("max", "auto", 2000.0)];
        let rows = results(&rows);
        assert_eq!(of("ms", "rr", 0.01, "default").judge(&rows).word(), "reached");
        assert_eq!(of("ms", "rr", 0.001, "default").judge(&rows).word(), "**missed**");
        assert_eq!(of("ms", "nice", 0.01, "default").judge(&rows).word(), "no figure");
        let at_least = |limit| OfAtLeast { metric: "max", of: "auto", limit };
        assert_eq!(at_least(2000.0).judge(&rows).word(), "reached");
        assert_eq!(at_least(2001.0).judge(&rows).word(), "**missed**");
        let at_most = OfAtMost { metric: "max", of: "auto", limit: 1999.0 };
        assert_eq!(at_most.judge(&rows).word(), "**missed**");
    }

    #[test]
    fn above_own_and_at_least_a_peer() {
        let rows = [("light", "heddle", 5.0), ("full", "heddle", 15.0), ("ops", "heddle", 90.0)];
        let rows = results(&[&rows[..], &[("ops", "native", 100.0)]].concat());
        let above = |more| AboveOwn { metric: "full", more, other: "light" };
        assert_eq!(above(10.0).judge(&rows).word(), "reached");
        assert_eq!(above(9.0).judge(&rows).word(), "**missed**");
        let ops = |factor| AtLeastTimes { metric: "ops", factor, base: "native" };
        assert_eq!(ops(0.9).judge(&rows).word(), "reached");
        assert_eq!(ops(1.0).judge(&rows).word(), "**missed**");
    }

    #[test]
    fn own_metrics_and_limits() {
        let rows = results(&[("a", "heddle", 1.0), ("b", "heddle", 30.0)]);
        assert_eq!(own("a", 0.05, "b").judge(&rows).word(), "reached");
        assert_eq!(at_most("b", 29.0).judge(&rows).word(), "**missed**");
    }
}
