//! Looks at a server's processes while they are under load: kernel threads, and kernel stacks.
//!
//! Stacks are those of the whole machine (KernelStack in /proc/meminfo), of which the caller takes
//! what there was before: what the kernel really has, whichever process it is charged to.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

const EVERY: Duration = Duration::from_millis(50);

/// The most that was seen at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Peaks {
    pub kernel_threads: f64,
    pub kernel_stack_kb: f64,
}

/// A look that goes on until it is ended.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peaks>,
}

impl Watch {
    pub fn begin(pids: Vec<u32>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut peaks = Peaks::default();
            loop {
                let threads = pids.iter().map(|&pid| kernel_threads(pid)).sum();
                peaks.kernel_threads = peaks.kernel_threads.max(threads);
                peaks.kernel_stack_kb = peaks.kernel_stack_kb.max(kernel_stack_kb());
                // It looks once at least.
                if until.load(Relaxed) {
                    return peaks;
                }
                std::thread::sleep(EVERY);
            }
        });
        Watch { stop, thread }
    }

    pub fn end(self) -> Peaks {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

pub fn kernel_stack_kb() -> f64 {
    number(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "KernelStack:")
}

fn kernel_threads(pid: u32) -> f64 {
    number(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default(), "Threads:")
}

/// The number behind a word at the beginning of a line; 0 if there is none.
fn number(text: &str, key: &str) -> f64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// CPU time that the processes have used so far, in clock ticks, as /proc has it.
pub fn cpu_ticks(pids: &[u32]) -> f64 {
    let of =
        |pid: &u32| ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default());
    pids.iter().map(of).sum()
}

/// utime and stime are the 14th and 15th field; the second is a name with any characters in it.
fn ticks(stat: &str) -> f64 {
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = behind_name.split_whitespace().skip(11).take(2);
    times.filter_map(|word| word.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_user_and_system_time() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 100 0 0 0 120 34 5 6 20 0 9 0 100";
        assert_eq!(ticks(stat), 154.0);
        assert_eq!(ticks(""), 0.0);
    }

    #[test]
    fn a_watch_sees_this_process() {
        let watch = Watch::begin(vec![std::process::id()]);
        std::thread::sleep(Duration::from_millis(5));
        let peaks = watch.end();
        assert!(peaks.kernel_threads >= 2.0 && peaks.kernel_stack_kb > 0.0, "{peaks:?}");
    }
}
