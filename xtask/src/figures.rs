//! README's tables of figures, from the result files of the benchmarks.
//!
//! Invariant: every figure in README comes from bench/results, is rounded and nothing else; what
//! was not measured is blank. `cargo xtask gen` writes each table between two marks, tidy checks
//! that they are current. Which figures were to be reached, and what is unfair in them, is the
//! benchmark report's business.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::repo::Repo;

pub const PAGE: &str = "README.md";
const BEGIN: &str = "<!-- figures: written by cargo xtask gen -->";
const END: &str = "<!-- end of figures -->";
const BEGIN_UNMODIFIED: &str = "<!-- unmodified programs: written by cargo xtask gen -->";
const SUITES: [&str; 6] = ["micro", "memory", "class", "echo", "http", "unmodified"];

/// Heading, and the implementations that stand in the column, the first that has the metric.
const COLUMNS: [(&str, &[&str]); 8] = [
    ("heddle", &["heddle"]),
    ("kernel threads", &["native"]),
    ("Go", &["go", "go_net_http"]),
    ("tokio", &["tokio"]),
    ("may", &["may"]),
    ("Boost.Fiber", &["boost_fiber"]),
    ("C, epoll", &["c_epoll"]),
    ("nginx", &["nginx_cached"]),
];

const ROWS: [(&str, &str); 13] = [
    ("yield_1000", "yield, 1000 threads, ns"),
    ("yield_100k", "yield, 100 000 threads in random order, ns"),
    ("spawn_join", "create, run, join, ns"),
    ("sem_round_trip", "two blocks and wakes by semaphores, ns"),
    ("channel_item", "item through a bounded channel, ns"),
    ("mutex", "lock and unlock a free mutex, ns"),
    ("parked_1m_bytes", "a million parked threads, bytes each"),
    ("hibernated_1m_bytes", "a million hibernated threads, bytes each"),
    ("echo_cpu_us_1000", "echo, 1000 connections, CPU us a request"),
    ("http_cpu_us_100", "web server, 100 connections, CPU us a request"),
    ("http_cpu_us_8000", "web server, 8000 connections, CPU us a request"),
    ("critical_wake_p99_us", "wake a time-critical thread of a busy worker, p99, us"),
    ("normal_wake_p99_us", "wake another thread of that worker, p99, us"),
];

/// Programs by themselves and under `heddle run --threads user`.
const UNMODIFIED: [(&str, &str); 14] = [
    ("mariadb_500_seconds", "MariaDB, 500 clients, 2000 mixed queries, s"),
    ("mariadb_500_cpu_ticks", "the same, CPU in ticks of 10 ms"),
    ("mariadb_500_kernel_threads", "the same, kernel threads at most"),
    ("mariadb_50_seconds", "MariaDB, 50 clients, s"),
    ("mariadb_50_cpu_ticks", "the same, CPU in ticks of 10 ms"),
    ("tpc_cpu_us_100", "a server with a thread per connection, 100 of them, CPU us a request"),
    ("tpc_cpu_us_8000", "the same, 8000 connections"),
    ("tpc_kernel_stack_kb_8000", "the same, KiB of kernel stacks"),
    ("memcached_ops", "memcached, 50 clients, requests a second of CPU (more is better)"),
    ("create_join_ns", "pthread_create and pthread_join, ns"),
    ("sched_yield_ns", "sched_yield, ns"),
    ("xz_seconds", "xz -T4, s"),
    ("ffmpeg_seconds", "ffmpeg, x264, 8 s of 640x360, s"),
    ("start_ms", "a program with one thread and nothing to do, ms"),
];

#[derive(Deserialize)]
struct Results {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    metric: String,
    r#impl: String,
    value: f64,
}

type Values = BTreeMap<(String, String), f64>;

/// The page as it should be, and as it is. The same when there are no results or no marks.
pub fn page(repo: &Repo) -> Result<(String, String)> {
    let kept = fs::read_to_string(repo.root.join(PAGE))?;
    let values = read(repo)?;
    let fresh = match values.is_empty() {
        true => kept.clone(),
        false => {
            let fresh = replaced(&kept, BEGIN, &table(&values));
            replaced(&fresh, BEGIN_UNMODIFIED, &unmodified(&values))
        }
    };
    Ok((fresh, kept))
}

fn read(repo: &Repo) -> Result<Values> {
    let mut values = Values::new();
    for suite in SUITES {
        let path = repo.root.join("bench/results").join(format!("{suite}.json"));
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let results: Results =
            serde_json::from_str(&text).with_context(|| format!("{} lies", path.display()))?;
        values.extend(results.rows.into_iter().map(|row| ((row.metric, row.r#impl), row.value)));
    }
    Ok(values)
}

fn table(values: &Values) -> String {
    let headings: Vec<&str> = COLUMNS.iter().map(|(heading, _)| *heading).collect();
    let mut lines = vec![
        format!("| | {} |", headings.join(" | ")),
        format!("|---|{}", "--:|".repeat(COLUMNS.len())),
    ];
    for (metric, what) in ROWS {
        let cells = COLUMNS.map(|(_, impls)| {
            let value = |name: &&str| values.get(&(metric.to_owned(), (*name).to_owned()));
            impls.iter().find_map(value).map_or(String::new(), |value| rounded(*value))
        });
        if !cells[0].is_empty() {
            lines.push(format!("| {what} | {} |", cells.join(" | ")));
        }
    }
    lines.join("\n")
}

fn unmodified(values: &Values) -> String {
    let mut lines =
        vec!["| | by itself | under heddle | ratio |".to_owned(), "|---|--:|--:|--:|".to_owned()];
    for (metric, what) in UNMODIFIED {
        let value = |name: &str| values.get(&(metric.to_owned(), name.to_owned())).copied();
        if let (Some(native), Some(heddle)) = (value("native"), value("heddle")) {
            let ratio = rounded(heddle / native);
            let (native, heddle) = (rounded(native), rounded(heddle));
            lines.push(format!("| {what} | {native} | {heddle} | {ratio} |"));
        }
    }
    lines.join("\n")
}

/// Three digits tell what noise leaves.
fn rounded(value: f64) -> String {
    match value {
        value if value < 0.1 => format!("{value:.4}"),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// What stands between the mark and the next end gives way to the table.
fn replaced(page: &str, begin: &str, table: &str) -> String {
    let parts =
        page.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    match parts {
        Some((before, after)) => format!("{before}{begin}\n{table}\n{END}{after}"),
        None => page.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(rows: &[(&str, &str, f64)]) -> Values {
        let key = |metric: &str, name: &str| (metric.to_owned(), name.to_owned());
        rows.iter().map(|(metric, name, value)| (key(metric, name), *value)).collect()
    }

    #[test]
    fn what_was_not_measured_is_blank() {
        let table = table(&values(&[("mutex", "heddle", 10.44), ("mutex", "go_net_http", 1234.5)]));
        let last = table.lines().last().expect("a row");
        assert!(last.contains("| 10.4 |  | 1234 |"), "{last}");
        assert_eq!(table.lines().count(), 3);
    }

    #[test]
    fn a_program_is_compared_with_itself() {
        let rows = [("xz_seconds", "native", 0.5), ("xz_seconds", "heddle", 0.51)];
        let table = unmodified(&values(&rows));
        assert!(table.ends_with("s | 0.50 | 0.51 | 1.02 |"), "{table}");
        assert_eq!(unmodified(&values(&rows[..1])).lines().count(), 2, "half of it is nothing");
    }

    #[test]
    fn only_the_marked_part_changes() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        assert_eq!(replaced(&page, BEGIN, "new"), format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced("no marks", BEGIN, "new"), "no marks");
    }
}
