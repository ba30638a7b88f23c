//! Counts tests in a step's output.
//!
//! Invariant: each test counts once, as passed, failed or skipped, and each skipped one has a
//! reason. Read are the lines of Rust's test harness (run with `--show-output`), and lines of the
//! form `N passed, N failed, N skipped` (with lines `NAME: skip: REASON`) that other harnesses
//! print. A test that finds at run time that it cannot run prints a line `skip: REASON` and
//! passes; it counts as skipped here.

#[derive(Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    pub reasons: Vec<String>,
}

impl Tally {
    pub fn skipped(reason: &str) -> Self {
        Self { skipped: 1, reasons: vec![reason.to_owned()], ..Self::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.passed + self.failed + self.skipped == 0
    }

    pub fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.reasons.extend(other.reasons.iter().cloned());
    }

    pub fn read(log: &str) -> Self {
        let mut tally = Self::default();
        let mut found_at_run_time = 0;
        // The test whose captured output these lines are, until it has counted as skipped.
        let mut shown = None;
        for line in log.lines() {
            if let Some(name) = captured(line) {
                shown = Some(name);
            } else if let Some(counts) = harness(line).or_else(|| own(line)) {
                tally.add(&counts);
            } else if let Some(reason) = ignored(line).or_else(|| own_reason(line)) {
                tally.reasons.push(reason);
            } else if let (Some(name), Some(reason)) = (shown, line.strip_prefix("skip: ")) {
                tally.skipped += 1;
                tally.reasons.push(format!("{name}: {reason}"));
                found_at_run_time += 1;
                shown = None;
            }
        }
        tally.passed = tally.passed.saturating_sub(found_at_run_time);
        tally
    }
}

/// Whether a test harness ran at all, be it without a test.
pub fn has_harness(log: &str) -> bool {
    log.lines().any(|line| harness(line).is_some())
}

/// The lines about failures: what failed tests printed, errors of the compiler and of cargo; where
/// there are none of these, the end of the log. At most `most` lines.
pub fn telling(log: &str, most: usize) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let mut told = Vec::new();
    let (mut in_failures, mut in_error) = (false, false);
    for line in &lines {
        match *line {
            "failures:" => in_failures = true,
            "" => in_error = false,
            _ if line.starts_with("test result: ") => in_failures = false,
            // What a harness of its own says of other tests.
            _ if own(line).is_some() || own_reason(line).is_some() => in_error = false,
            _ if line.starts_with("error") || line.contains("FAILED") => in_error = true,
            _ => {}
        }
        if in_failures || in_error {
            told.push(*line);
        }
    }
    if told.is_empty() {
        told = lines[lines.len().saturating_sub(most)..].to_vec();
    }
    told.truncate(most);
    told
}

/// `---- NAME stdout ----` opens what a test printed.
fn captured(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; ...`
fn harness(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let field = counts.split(';').map(str::trim).find(|field| field.ends_with(word))?;
        field.split(' ').next()?.parse().ok()
    };
    let (passed, failed) = (count("passed")?, count("failed")?);
    Some(Tally { passed, failed, skipped: count("ignored")?, reasons: Vec::new() })
}

/// `N passed, N failed, N skipped` in any order, with anything before and after.
fn own(line: &str) -> Option<Tally> {
    let fields: Vec<&str> = line.split(", ").collect();
    if fields.len() != 3 {
        return None;
    }
    let count = |word: &str| {
        let field = fields.iter().find(|field| field.split(' ').any(|part| part == word))?;
        field.split(word).next()?.split_whitespace().last()?.parse().ok()
    };
    let (passed, failed) = (count("passed")?, count("failed")?);
    Some(Tally { passed, failed, skipped: count("skipped")?, reasons: Vec::new() })
}

/// `MODE NAME: skip: REASON` of a harness of its own, which counts for itself.
fn own_reason(line: &str) -> Option<String> {
    let (name, reason) = line.split_once(": skip: ")?;
    Some(format!("{name}: {reason}"))
}

/// `test NAME ... ignored, REASON`
fn ignored(line: &str) -> Option<String> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let reason = verdict.strip_prefix("ignored")?.trim_start_matches(", ");
    let reason = if reason.is_empty() { "marked as not to be run" } else { reason };
    Some(format!("{name}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
running 4 tests
test a ... ok
test b ... ignored, needs 10 GB
test c ... ok
test d ... FAILED

successes:

---- c stdout ----
skip: no io_uring
skip: none at all

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0s
epoll  a.c: skip: has no twin
epoll  80 passed, 2 skipped, 0 failed in 1.6 s
c programs: 5 passed, 0 failed, 0 skipped
";

    #[test]
    fn each_test_counts_once() {
        let tally = Tally::read(LOG);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (86, 1, 4));
    }

    #[test]
    fn a_harness_without_tests_is_seen() {
        let log = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out\n";
        assert!(has_harness(log) && Tally::read(log).is_empty());
        assert!(!has_harness("test result: none\n"));
    }

    #[test]
    fn failures_are_picked_out() {
        let log = "a\nerror[E1]: bad\n --> x.rs\n\nb\n\nfailures:\n\n---- c stdout ----\n1 != \
                   2\n\nfailures:\n    c\n\ntest result: FAILED. 0 passed\nd\n";
        let told = telling(log, 100);
        assert!(told.contains(&" --> x.rs") && told.contains(&"1 != 2"));
        assert!(!told.contains(&"a") && !told.contains(&"b") && !told.contains(&"d"));
        let log = "user a: FAILED: exit 1; x\ny\nuser b: skip: z\nuser 1 passed, 1 skipped, 1 \
                   failed in 1.0 s\nuring c: skip: z\nerror: test failed\n";
        assert_eq!(telling(log, 9), ["user a: FAILED: exit 1; x", "y", "error: test failed"]);
        assert_eq!(telling("x\ny\nz\n", 2), ["y", "z"]);
    }

    #[test]
    fn reasons_are_kept() {
        assert_eq!(
            Tally::read(LOG).reasons,
            ["b: needs 10 GB", "c: no io_uring", "epoll  a.c: has no twin"]
        );
    }

    #[test]
    fn other_text_counts_nothing() {
        assert!(Tally::read("Compiling x\nwarning: 3 passed\nskip: alone\n").is_empty());
    }
}
