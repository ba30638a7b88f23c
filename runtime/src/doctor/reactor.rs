//! I/O: which reactor the workers use, and which of its shortcuts the kernel has.

use std::io;

use io_uring::{IoUring, opcode};

use super::{Area, Check, Verdict, no, read};
use crate::sys::probe;

/// What the runtime asks of io_uring (`io/call.rs`, `io/uring.rs`; a test compares).
const OPERATIONS: [(&str, u8); 8] = [
    ("Accept", opcode::Accept::CODE),
    ("AsyncCancel", opcode::AsyncCancel::CODE),
    ("Connect", opcode::Connect::CODE),
    ("Fsync", opcode::Fsync::CODE),
    ("PollAdd", opcode::PollAdd::CODE),
    ("Read", opcode::Read::CODE),
    ("Recv", opcode::Recv::CODE),
    ("Write", opcode::Write::CODE),
];

pub(super) fn checks() -> Vec<Check> {
    let mut ring = probe::ring();
    let mut checks = vec![reactor(&ring), uring(), deferred(&ring)];
    if let Ok(ring) = &mut ring {
        checks.push(operations(ring));
        checks.extend(multishot(ring));
    }
    checks.push(Check::tried(
        Area::Io,
        "openat2",
        probe::open_beneath(),
        "the web server opens files beneath its folder by one call",
        "the web server opens each component of a path by itself, following no link",
    ));
    checks.push(Check::tried(
        Area::Io,
        "pidfd",
        probe::pidfd(),
        "waiting for a process blocks only the thread",
        "the end of a process is looked for again and again",
    ));
    checks
}

/// Whether a ring as the workers need it can be had.
fn usable(ring: &io::Result<IoUring>) -> bool {
    ring.as_ref().is_ok_and(|ring| ring.params().is_feature_ext_arg())
}

/// Which one a runtime that starts now would use.
fn reactor(ring: &io::Result<IoUring>) -> Check {
    let name = "reactor in force";
    let wish = std::env::var("HEDDLE_IO").unwrap_or_default();
    let why = "files and most waits go through io_uring, many per system call";
    let instead = "sockets wait by epoll, files by a pool of kernel threads: more system calls";
    let (verdict, value, consequence) = match (wish.as_str(), usable(ring)) {
        ("epoll", _) => (Verdict::Fallback, "epoll (HEDDLE_IO)", instead),
        ("uring", false) => (Verdict::Missing, "none", "HEDDLE_IO=uring, but there is none"),
        (_, true) => (Verdict::Good, "io_uring", why),
        (_, false) => (Verdict::Fallback, "epoll", instead),
    };
    Check::new(Area::Io, name, verdict, value, consequence)
}

/// io_uring at all, and who forbids it.
fn uring() -> Check {
    let error = match probe::plain_ring() {
        Ok(_) => {
            let consequence = "I/O can complete in shared memory";
            return Check::new(Area::Io, "io_uring", Verdict::Good, "yes", consequence);
        }
        Err(error) => error,
    };
    let sysctl = read("/proc/sys/kernel/io_uring_disabled");
    let consequence = match (sysctl.as_deref(), error.raw_os_error()) {
        (Some("2"), _) => "epoll; forbidden by kernel.io_uring_disabled = 2",
        (Some("1"), _) => "epoll; kernel.io_uring_disabled = 1 leaves it to root and a group",
        (_, Some(libc::EPERM)) => "epoll; a filter (container, service manager) forbids it",
        (_, Some(libc::ENOMEM)) => "epoll; RLIMIT_MEMLOCK leaves no room for a ring",
        _ => "epoll; this kernel has none",
    };
    Check::new(Area::Io, "io_uring", Verdict::Fallback, no(&error), consequence)
}

fn deferred(ring: &io::Result<IoUring>) -> Check {
    let result = match ring {
        Ok(_) => Ok(()),
        Err(error) => Err(error.raw_os_error().map_or_else(
            || io::Error::from(io::ErrorKind::Unsupported),
            io::Error::from_raw_os_error,
        )),
    };
    Check::tried(
        Area::Io,
        "deferred task work",
        result,
        "completions arrive when a worker looks, not in the middle of a thread",
        "epoll is used: rings without it (before Linux 6.1) interrupt the worker",
    )
}

fn operations(ring: &IoUring) -> Check {
    let name = "io_uring operations";
    match probe::missing_operations(ring, &OPERATIONS) {
        Ok(missing) if missing.is_empty() => {
            let value = format!("all {}", OPERATIONS.len());
            let consequence = "every blocking call has its operation";
            Check::new(Area::Io, name, Verdict::Good, value, consequence)
        }
        Ok(missing) => {
            let value = format!("without {}", missing.join(", "));
            Check::new(Area::Io, name, Verdict::Missing, value, "calls that need these fail")
        }
        Err(error) => {
            let consequence = "the kernel does not tell; calls will";
            Check::new(Area::Io, name, Verdict::Fallback, no(&error), consequence)
        }
    }
}

fn multishot(ring: &mut IoUring) -> [Check; 3] {
    let (buffers, receive) = probe::multishot_receive(ring);
    let accept = probe::multishot_accept(ring);
    [
        Check::tried(
            Area::Io,
            "multishot accept",
            accept,
            "the kernel can accept many connections for one submission",
            "one submission per connection",
        ),
        Check::tried(
            Area::Io,
            "buffer rings",
            buffers,
            "the kernel can take a buffer when data is there, not before",
            "each waiting thread needs its own buffer",
        ),
        Check::tried(
            Area::Io,
            "multishot receive",
            receive,
            "the kernel can receive many times for one submission",
            "one submission per receive",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_that_the_reactor_uses_is_looked_for() {
        let sources = concat!(include_str!("../io/call.rs"), include_str!("../io/uring.rs"));
        let used = sources.split("opcode::").skip(1);
        let names = used.map(|rest| rest.split("::").next().unwrap_or_default());
        // A multishot operation is a flag of the plain one.
        for name in names.map(|name| name.trim_end_matches("Multi")) {
            let known = OPERATIONS.iter().any(|(known, _)| *known == name);
            assert!(known || !name.starts_with(char::is_uppercase), "{name} is not in OPERATIONS");
        }
    }
}
