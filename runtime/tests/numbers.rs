//! A program that puts files at numbers of its choice, while the runtime makes descriptors of its
//! own, which the kernel gives the lowest free number first.
//!
//! Alone in its process: any other test's files would be in the way.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use heddle::raw::descriptor;

const TURNS: usize = 100_000;

fn is_null_device(fd: &impl AsRawFd) -> bool {
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    std::fs::read_link(link).is_ok_and(|path| path.as_os_str() == "/dev/null")
}

#[test]
fn a_copy_meets_nothing_of_the_runtimes_own() {
    descriptor::raise_all();
    let null = File::open("/dev/null").unwrap();
    // What is lowest from now on.
    let number = File::open("/dev/null").unwrap().as_raw_fd();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let maker = scope.spawn(|| {
            while !ends.load(Relaxed) {
                let made = descriptor::raised(|| File::open("/dev/zero").map(OwnedFd::from));
                // Its own file, at its place, and closed once.
                assert!(!is_null_device(&made.unwrap()));
            }
        });
        let put = || {
            // SAFETY: numbers.
            descriptor::put(number, || unsafe { libc::dup2(null.as_raw_fd(), number) }) == number
        };
        // SAFETY: a number. Whoever closed it meanwhile would be told by this.
        let close = || unsafe { libc::close(number) } == 0;
        let failed = (0..TURNS).find(|_| maker.is_finished() || !put() || !close());
        let error = std::io::Error::last_os_error();
        ends.store(true, Relaxed);
        assert_eq!(failed, None, "{error}");
    });
}
