//! A helper process that outlives this one by a moment: forked, not started from a file, so that
//! it works whatever program uses this crate.
//!
//! Invariants
//! - The helper belongs to nobody: its own session (no terminal's signals reach it, no `kill` of
//!   our process group), child of init (nobody's `wait` sees it).
//! - It holds no file descriptor of ours but the one it was given, nor standard input and output:
//!   whoever waits for the end of a pipe of ours does not wait for it.
//! - `body` runs in the only thread of a copy of a process that may have had several: it must
//!   not take a lock that another thread may have held, so it prints and panics nowhere. (The
//!   libc's allocator takes care of itself across fork.)

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::Signal;

/// Without /proc: the kernel gives out the lowest free number, so that ours are below this.
const FDS_GUESSED: u32 = 4096;

/// Runs `body` in a helper process and returns once it has begun. `body` gets the file
/// descriptor, and ends with the helper's exit.
///
/// # Errors
/// If no process can be made.
pub fn helper(fd: &OwnedFd, name: &'static std::ffi::CStr, body: impl FnOnce()) -> io::Result<()> {
    // SAFETY: the child only runs what is allowed in the copy of one thread, see the invariants;
    // it never returns from this function.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // The second fork, after which nobody but init is this process's parent.
            // SAFETY: as for the first.
            let status = match unsafe { libc::fork() } {
                -1 => 1,
                0 => {
                    become_nobodys(fd, name);
                    body();
                    0
                }
                _ => 0,
            };
            // SAFETY: ends this process without running what the program registered for its end.
            unsafe { libc::_exit(status) }
        }
        child => wait(child),
    }
}

/// Waits for the process between us and the helper, which ends at once.
fn wait(child: i32) -> io::Result<()> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is an int that the call may write; `child` is ours and not waited for.
        let result = unsafe { libc::waitpid(child, &raw mut status, 0) };
        let interrupted = || io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
        match result {
            -1 if interrupted() => {}
            // Somebody's SIGCHLD is ignored: then there is no status, and the helper runs.
            -1 => return Ok(()),
            _ if status == 0 => return Ok(()),
            _ => return Err(io::ErrorKind::OutOfMemory.into()),
        }
    }
}

/// See the invariants. Each step that fails leaves the helper a little more visible, not wrong.
fn become_nobodys(keep: &OwnedFd, name: &std::ffi::CStr) {
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(name);
    let _ = rustix::process::chdir("/");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::PIPE] {
        // SAFETY: ignoring a signal runs no code.
        unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
    }
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        for standard in 0..3 {
            // SAFETY: replaces a standard descriptor of this process, which uses none of them.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    let keep = keep.as_raw_fd().cast_unsigned();
    if !(close_range(3, keep.saturating_sub(1)) && close_range(keep + 1, u32::MAX)) {
        close_each(keep);
    }
}

/// Linux 5.9; before it, or where a seccomp filter says no, false.
fn close_range(first: u32, last: u32) -> bool {
    // SAFETY: nothing in this process uses these descriptors any more.
    first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0
}

/// One by one. Among them is our end of the pipe by which the helper learns of our death: with it
/// open it would wait for ever.
fn close_each(keep: u32) {
    let open: Vec<u32> = match std::fs::read_dir("/proc/self/fd") {
        Ok(entries) => {
            entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
        }
        Err(_) => (3..FDS_GUESSED).collect(),
    };
    for fd in open.into_iter().filter(|fd| *fd > 2 && *fd != keep) {
        // SAFETY: as above; a number that is not open any more is refused.
        unsafe { libc::close(fd.cast_signed()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Makes close_range() fail for the calling thread and its children, as kernels before 5.9 do.
    fn refuse_close_range() -> bool {
        let number = u32::try_from(libc::SYS_close_range).expect("a number");
        let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
        let step = |code: u32, k, jt, jf| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number, 0, 1),
            step(libc::BPF_RET | libc::BPF_K, errno, 0, 0),
            step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
        // SAFETY: the filter is read by the call and copied; it concerns this thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) == 0
        }
    }

    #[test]
    fn the_helper_holds_nothing_open_without_close_range() {
        let thread = std::thread::spawn(|| {
            if !refuse_close_range() {
                println!("skip: no filter: {}", io::Error::last_os_error());
                return;
            }
            assert!(!close_range(1 << 20, 1 << 20));
            the_helper_runs_and_holds_nothing_open();
        });
        thread.join().expect("no panic");
    }

    #[test]
    fn the_helper_runs_and_holds_nothing_open() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let (mut other_reader, other_writer) = io::pipe().expect("a pipe");
        let fd = OwnedFd::from(writer);
        helper(&fd, c"heddle-test", || {
            let _ = rustix::io::write(&fd, b"here");
            // Longer than the reading below takes, if that does not wait for us.
            std::thread::sleep(std::time::Duration::from_secs(20));
        })
        .expect("a helper");
        drop(other_writer);
        let mut text = String::new();
        let before = std::time::Instant::now();
        other_reader.read_to_string(&mut text).expect("the end of the other pipe");
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).expect("its word");
        assert_eq!(&bytes, b"here");
        assert!(before.elapsed().as_secs() < 15);
    }
}
