//! What happened to a descriptor while nobody waited for it does not hide what is so when somebody
//! does: the kernel tells a ring of each event of an epoll set once.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::full;
use heddle::io;

#[path = "common/full.rs"]
mod common;

/// More than one call takes in, and one.
const COUNTS: [usize; 2] = [1, 600];
/// A wait that finds nothing.
const SHORT: Duration = Duration::from_millis(2);
const LIMIT: Duration = Duration::from_secs(20);

/// Has the process open as many files as it may; how many.
fn raise_open_files() -> u64 {
    // SAFETY: a plain structure, which the first call fills.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur
    }
}

#[test]
fn who_waits_for_what_is_ready_goes_on_though_it_was_told_before() {
    heddle::Config::new().workers(1).start().unwrap();
    let Some(first) = common::try_full(|| ()) else { return };
    first.join().unwrap();
    let open_most = raise_open_files();
    for count in COUNTS {
        if open_most < 2 * count as u64 + 100 {
            println!("skip: {count} pairs of sockets: {open_most} descriptors at most here");
            continue;
        }
        let pairs: Vec<_> = (0..count).map(|_| UnixStream::pair().unwrap()).collect();
        full(move || {
            // Each descriptor stays armed after this.
            for (one, _) in &pairs {
                assert!(io::wait_readable(one, Some(SHORT)).is_err());
            }
            for (_, other) in &pairs {
                (&*other).write_all(b"x").unwrap();
            }
            heddle::thread::sleep(10 * SHORT);
            for (one, _) in pairs.iter().rev() {
                io::wait_readable(one, Some(LIMIT)).expect("it is readable");
            }
        })
        .join()
        .unwrap();
    }
}
