//! The processes under a process, found by their parents in /proc.
//!
//! Children that we start stay in our process group, so that an interrupt from the terminal
//! reaches them; so the group cannot be used to end one of them with all that it started.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// Signals a process and everything under it. All are found before the first is signalled: a
/// child that has lost its parent is no longer under it.
pub fn signal_tree(root: u32, signal: Signal) {
    for pid in tree(root).into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
        // A process that has ended by itself meanwhile is what we want.
        let _ = kill_process(pid, signal);
    }
}

fn tree(root: u32) -> Vec<u32> {
    let parents = parents();
    let mut tree = vec![root];
    let mut next = 0;
    while next < tree.len() {
        let parent = tree[next];
        tree.extend(parents.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything; the fields after the last one may not.
        let fields = stat.rsplit_once(')')?.1;
        Some((pid, fields.split_whitespace().nth(1)?.parse().ok()?))
    })
    .collect()
}
