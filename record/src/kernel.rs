//! What only the kernel knows of kernel threads and workers: whether they run, and for how long
//! they have.
//!
//! Invariant: /proc is asked about threads of the table's own process only, whatever tid the
//! table claims; a tid that is not there changes nothing.
//!
//! A runtime writes what it schedules. A kernel thread that blocks in a system call of its own
//! (the native backend) does so without telling; its record says "ready" all along.

use std::fs;

use crate::words::{Kind, State};
use crate::{Snapshot, Thread};

impl Snapshot {
    /// Completes the records of workers and kernel threads by what /proc says of them: CPU time
    /// and switches where the record has none, and whether a ready kernel thread runs or is
    /// parked. Two small files per kernel thread, some 20 us.
    ///
    /// Does nothing for a process that is dead.
    pub fn ask_kernel(&mut self) {
        if !self.alive {
            return;
        }
        let kernel = self.threads.iter_mut().filter(|it| it.fields.kind == Kind::KernelThread);
        for thread in self.workers.iter_mut().chain(kernel) {
            complete(self.pid, thread);
        }
    }
}

fn complete(pid: i32, thread: &mut Thread) {
    let folder = format!("/proc/{pid}/task/{}", thread.fields.tid);
    let fields = &mut thread.fields;
    if let Ok(schedstat) = fs::read_to_string(format!("{folder}/schedstat"))
        && let Some((cpu_ns, switches)) = parse_schedstat(&schedstat)
    {
        fields.cpu_ns = if fields.cpu_ns == 0 { cpu_ns } else { fields.cpu_ns };
        fields.switches = if fields.switches == 0 { switches } else { fields.switches };
    }
    if fields.kind == Kind::KernelThread
        && fields.state == State::Ready
        && let Ok(stat) = fs::read(format!("{folder}/stat"))
        && let Some(runs) = parse_runs(&stat)
    {
        fields.state = if runs { State::Running } else { State::Parked };
    }
}

/// CPU time in ns and the number of times it was given a CPU.
fn parse_schedstat(text: &str) -> Option<(u64, u32)> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (cpu_ns, _waited_ns, slices) =
        (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some((cpu_ns, u32::try_from(slices).unwrap_or(u32::MAX)))
}

/// Whether the kernel has the thread among those that run or wait for a CPU.
fn parse_runs(stat: &[u8]) -> Option<bool> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 2;
    stat.get(after).map(|state| *state == b'R')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_it_is_written() {
        assert_eq!(parse_schedstat("1234 99 7\n"), Some((1234, 7)));
        assert_eq!(parse_schedstat("1 2"), None);
        assert_eq!(parse_runs(b"7 (a) b) R 1"), Some(true));
        assert_eq!(parse_runs(b"7 (a) S 1"), Some(false));
        assert_eq!(parse_runs(b"7 (a)"), None);
    }
}
