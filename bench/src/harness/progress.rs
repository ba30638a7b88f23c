//! A progress bar on stderr; nothing where stderr is no terminal.

use std::io::{IsTerminal, Write};
use std::time::Instant;

const WIDTH: usize = 24;

/// Counts the steps of one suite.
pub struct Progress {
    suite: &'static str,
    steps: usize,
    done: usize,
    begin: Instant,
    visible: bool,
}

impl Progress {
    pub fn new(suite: &'static str, steps: usize) -> Self {
        let visible = std::io::stderr().is_terminal();
        Progress { suite, steps: steps.max(1), done: 0, begin: Instant::now(), visible }
    }

    /// Says what runs now.
    pub fn show(&self, what: &str) {
        if self.visible {
            let line = self.line(what);
            // A bar that cannot be drawn must not end a measurement.
            let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Counts steps as done, also those that a skip made needless.
    pub fn advance(&mut self, steps: usize) {
        self.done = (self.done + steps).min(self.steps);
    }

    fn line(&self, what: &str) -> String {
        let full = WIDTH * self.done / self.steps;
        let bar = "#".repeat(full) + &".".repeat(WIDTH - full);
        let seconds = self.begin.elapsed().as_secs_f64();
        let left = match self.done {
            0 => String::new(),
            done => clock(seconds / done as f64 * (self.steps - done) as f64),
        };
        let percent = 100 * self.done / self.steps;
        format!("{} [{bar}] {percent:>3} %  {left:>6} left  {what}", self.suite)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.visible {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_fills_and_never_overflows() {
        let mut progress = Progress::new("micro", 4);
        assert!(progress.line("x").contains("[........................]"));
        progress.advance(2);
        assert!(progress.line("x").contains("[############............]  50 %"));
        progress.advance(9);
        assert!(progress.line("x").contains("100 %"));
    }

    #[test]
    fn time_left_is_minutes_and_seconds() {
        assert_eq!(clock(125.4), "2:05");
    }
}
