//! REPORT.md: the figures to reach, every row, every reason for a missing one, and what is unfair.
//!
//! Written from the result files alone, so it can be written again without measuring.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;

use super::impls::{NAMES, about};
use super::plot;
use super::result::SuiteResult;
use super::targets::RULES;
use super::tek;

const SUITES: [&str; 8] =
    ["micro", "memory", "class", "echo", "http", "tek", "unmodified", "instructions"];

/// What a reader must know before believing a figure.
const CAVEATS: &str = "\
- CPU time is the process clock of the kernel (all kernel threads of the process, ended ones
  too). The values of micro and of creation times are the least of their rounds, since
  disturbance only adds; all other values are medians. n is the number of rounds.
- Implementations take turns within each round. Only rows of one run are compared.
- tokio's tasks are stackless: a task has no stack to switch, guard or park, and what a thread
  keeps on its stack a task keeps in its future. In `yield_100k` it touches two lines of that
  future; in `hibernated` its future holds the 600 bytes. Go's and C's threads hold 600 bytes in a
  local buffer besides their frames; heddle's hold 600 bytes in all, frames included (its own
  frames take 240 of them).
- tokio's micro rows are of its current-thread runtime, which is faster here than the
  multi-thread runtime with one worker in all but `yield_100k` (by 6 %).
- pthread's `mutex` runs beside a second, sleeping kernel thread: glibc takes a lock without
  atomic instructions while a process has only one, which needs a third of the time.
- Go's stacks grow from 2 KiB and need no guard; heddle's, may's and Boost.Fiber's have 16 KiB
  and a guard page in the memory suite. In the micro suite Boost.Fiber's come from its pool,
  unguarded.
- Go has no semaphore in its library; its round trip goes through channels of capacity one.
  Boost.Fiber's semaphore is its mutex and condition variable. `spawn_join` in Go joins a batch
  by one WaitGroup.
- The memory of kernel threads (`native`, `pthread`) leaves out what the kernel keeps for each,
  about 20 KiB of kernel stack and task data that no process is charged for.
- `c_epoll` and `c_uring` are floors, not servers: one canned response, no timeouts, no parsing
  beyond the request line, no stat of the file.
- nginx and Go's net/http do more per request than a minimal server (headers, date, conditional
  requests); Ice does the same kinds of work.
- Load runs over loopback: the kernel's delivery of a request is charged to the sender, the load
  generator, and that of the answer to the server, for all alike. When the generator is the
  slower side, the server idles between requests and its CPU time per request includes falling
  asleep.
- `http_multi` runs workers on every CPU, and the load generator, which has one kernel thread,
  shares those CPUs. Its throughput is a comparison, not a capacity.
- Instruction counts are valgrind's, under which a program is some fifty times slower: what the
  runtime does by the clock, such as its look at I/O, happens that much more often per operation.
  They tell changes, not costs.
- In the class suite, Go's wake comes through a pipe from another process, since no kernel
  thread outside its runtime can wake a goroutine; the others are woken by a kernel thread of
  their own process. A critical thread of `native` has a real-time policy where the system
  permits it. tokio and Go look at wakes from outside after a number of tasks, before those that
  wait in their queue; the others serve them in turn.
- tek, stacks: what is reserved is address space, not memory; a 64-bit process with plenty of it
  gains nothing by asking for less. It pays where space or promises are short: 32 bits, RLIMIT_AS,
  strict overcommit, mlockall. Reserved is the most at one time of each kind of thread, added up
  over kinds and processes; used counts each of these threads with the highest peak of its kind.
  The main thread and stacks that the program itself provides are left out. Rules look at
  threads of default size alone: `auto` leaves a size that a program asked for as it is.
- tek, stacks: `NAME+auto` runs the same work as `NAME` did just before, on the history of that
  run; a program that does something new may go deeper than its history.
- tek, numbers of threads: each tuned process had one run of 100 threads as its history. The 32-bit
  process has 3 GiB of address space, as on a 32-bit kernel; a 64-bit kernel gives it 4.
- tek, response: response time is from the event to the end of 2 ms of work, so 2 ms are the least;
  4 threads on 2 CPUs make it 3 ms in the mean. Events come at a fixed pace, so on a system that is
  slower than they come they queue up, and its figures grow with the length of the experiment.
  A second after the last event the hogs are stopped, which keeps the slow ones' figures down.
  `hog_work` is what the others got done meanwhile; the runs differ in length.
- tek, response: SCHED_RR is subject to the kernel's limit for real-time threads, by default 95 %
  of each second; the experiment stays below it.
- tek, create + join: CPU time of the process, kernel and both threads, on one CPU. Overhead is the
  difference of two least times, and can be below zero where it drowns in noise. Instructions are
  those in user space; under valgrind the preload leaves the look at the ended stack out.
- unmodified: `native` is the program by itself. Both ways run the same executable, as the
  distribution has it, with the same options. What the command does before the program starts is in
  `xz_seconds` and `ffmpeg_seconds`, and not in CPU times; `start_ms` has little else: xz with
  4 KiB and one thread. The main thread stays a kernel thread, so in `create_join_ns` each thread is
  made from outside the workers.
- unmodified, `wake_late_ns`: what a sleep of 1 ms takes more, the median of 1000, in a thread
  beside four that compute, on the same CPUs.
- unmodified, MariaDB: the CPU time includes connecting and the tables that mysqlslap makes and
  drops. Server and clients share the CPUs.
- unmodified, `tpc_kernel_stack_kb`: of the whole machine, less what there was before; other work
  that starts meanwhile is in it.
- tek, peak: the preload's own code on a stack laid out for it; 30 000 of 8 MiB were used.
";

/// Reads the suites' results in `folder` and writes plots and REPORT.md beside them.
pub fn write(folder: &Path) -> Result<()> {
    let mut results = Vec::new();
    for suite in SUITES {
        results.extend(SuiteResult::load(folder, suite)?);
    }
    let mut text = String::from("# Benchmark report\n\n");
    if results.is_empty() {
        text.push_str("No suite has been run.\n");
    }
    introduction(&mut text, &results);
    if !results.is_empty() {
        figures_to_reach(&mut text, &results);
    }
    for result in &results {
        suite(&mut text, folder, result)?;
    }
    text.push_str("\n## How to read this\n\n");
    text.push_str(CAVEATS);
    Ok(std::fs::write(folder.join("REPORT.md"), text)?)
}

/// The machines, each with the suites that ran on it.
fn machines(results: &[SuiteResult]) -> Vec<(String, Vec<&str>)> {
    let mut machines: Vec<(String, Vec<&str>)> = Vec::new();
    for result in results {
        let it = &result.machine;
        let gib = it.memory_gib;
        let machine = format!("{} x {}, {gib} GiB of memory, Linux {}", it.cpus, it.cpu, it.kernel);
        match machines.iter_mut().find(|(known, _)| *known == machine) {
            Some((_, suites)) => suites.push(&result.suite),
            None => machines.push((machine, vec![&result.suite])),
        }
    }
    machines
}

fn introduction(text: &mut String, results: &[SuiteResult]) {
    text.push_str("Written by `cargo xtask bench` on\n\n");
    for (machine, suites) in machines(results) {
        let _ = writeln!(text, "- {machine}: {}", suites.join(", "));
    }
    text.push('\n');
    if results.iter().any(|result| result.quick) {
        text.push_str("**A quick run: it shows that everything works and proves no figure.**\n\n");
    }
    let by_others = |result: &SuiteResult| result.machine.busy_cpus.unwrap_or(0.0);
    let busy: Vec<_> = results.iter().filter(|result| by_others(result) > 0.5).collect();
    if !busy.is_empty() {
        let loads = busy.iter().map(|r| format!("{} {:.2}", r.suite, by_others(r)));
        let loads: Vec<_> = loads.collect();
        let _ = writeln!(
            text,
            "**Other work was running when these suites began (CPUs busy: {}).**\n",
            loads.join(", ")
        );
    }
    text.push_str("| impl | what | version |\n|---|---|---|\n");
    for name in NAMES {
        let version = results.iter().find_map(|result| result.versions.get(*name));
        if let Some(version) = version {
            let _ = writeln!(text, "| {name} | {} | {version} |", about(name));
        }
    }
}

fn figures_to_reach(text: &mut String, results: &[SuiteResult]) {
    text.push_str("\n## Figures to reach\n\n");
    text.push_str("| rule | value | limit | verdict |\n|---|--:|--:|---|\n");
    for rule in RULES {
        let verdict = rule.judge(results);
        let number = |value: Option<f64>| value.map_or("-".to_string(), figure);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            verdict.rule,
            number(verdict.value),
            number(verdict.limit),
            verdict.word()
        );
    }
}

fn suite(text: &mut String, folder: &Path, result: &SuiteResult) -> Result<()> {
    let _ = writeln!(text, "\n## {}\n", result.suite);
    for (file, caption) in plot::write(folder, result)? {
        let _ = writeln!(text, "![{caption}]({file})\n");
    }
    match result.suite.as_str() {
        "tek" => tek::tables::write(text, result),
        _ => table(text, result),
    }
    if !result.skipped.is_empty() {
        text.push_str("\nNot measured:\n\n| metric | impl | why |\n|---|---|---|\n");
        for (metrics, name, reason) in merged_skips(result) {
            let _ = writeln!(text, "| {metrics} | {name} | {} |", reason.replace('|', "\\|"));
        }
    }
    Ok(())
}

/// Metrics down, implementations across.
fn table(text: &mut String, result: &SuiteResult) {
    let present = |name: &&&str| result.rows.iter().any(|row| row.implementation == **name);
    let names: Vec<&str> = NAMES.iter().filter(present).copied().collect();
    let _ = writeln!(text, "| metric | unit | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|---|{}", "--:|".repeat(names.len()));
    let mut seen: Vec<&str> = Vec::new();
    for row in &result.rows {
        // The plot shows these better, and the result file has them.
        if row.metric.starts_with("create_at_") || seen.contains(&row.metric.as_str()) {
            continue;
        }
        seen.push(&row.metric);
        let cells: Vec<String> = names
            .iter()
            .map(|name| result.value(&row.metric, name).map_or(String::new(), figure))
            .collect();
        let _ = writeln!(text, "| `{}` | {} | {} |", row.metric, row.unit, cells.join(" | "));
    }
}

/// One implementation's metrics that fail for one reason stand on one line.
fn merged_skips(result: &SuiteResult) -> Vec<(String, String, String)> {
    let mut merged: Vec<(String, String, String)> = Vec::new();
    for skip in &result.skipped {
        let known = merged
            .iter_mut()
            .find(|(_, name, why)| *name == skip.implementation && *why == skip.reason);
        match known {
            Some((metrics, ..)) => {
                let _ = write!(metrics, ", `{}`", skip.metric);
            }
            None => merged.push((
                format!("`{}`", skip.metric),
                skip.implementation.clone(),
                skip.reason.clone(),
            )),
        }
    }
    merged
}

/// Three figures that mean something.
pub fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::result::Pick;
    use super::*;

    #[test]
    fn report_has_rows_reasons_and_verdicts() {
        let folder = std::env::temp_dir().join(format!("heddle-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut result = SuiteResult::new("micro", true);
        result.add("yield_2", "heddle", "ns", Pick::Least, &[7.0]);
        result.add("yield_2", "go", "ns", Pick::Least, &[82.0]);
        result.skip("yield_2", "may", "cargo is not installed");
        result.skip("mutex", "may", "cargo is not installed");
        result.save(&folder).unwrap();
        write(&folder).unwrap();
        let text = std::fs::read_to_string(folder.join("REPORT.md")).unwrap();
        assert!(text.contains("| `yield_2` <= 0.12 x go | 7.00 | 9.84 | reached |"), "{text}");
        assert!(text.contains("| `yield_2` <= 0.3 x may | 7.00 | - | no figure |"));
        assert!(text.contains("| `yield_2`, `mutex` | may | cargo is not installed |"));
        assert!(text.contains("A quick run"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
