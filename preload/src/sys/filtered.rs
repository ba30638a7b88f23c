//! Whether a filter on system calls that came before this process kills for calls that the library
//! makes and hardly anybody else: those that look at memory.
//!
//! Invariant: tried by a child that does nothing else, and is waited for.

use std::ptr;

/// Whether a process under this one's filters survives what the library looks at stacks with.
pub fn may_look_at_memory() -> bool {
    // SAFETY: the child makes system calls alone, and ends.
    match unsafe { libc::fork() } {
        -1 => false,
        0 => {
            look();
            // SAFETY: ends the child without running what this process registered for its end.
            unsafe { libc::_exit(0) }
        }
        child => {
            let mut status = -1;
            // SAFETY: a valid place; the child is ours.
            while unsafe { libc::waitpid(child, &raw mut status, 0) } == -1
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {
            }
            libc::WIFEXITED(status)
        }
    }
}

/// As `peak.c` and `modules.c` do. Whether the kernel has the calls, and whether they are refused,
/// does not matter: the library has other ways then.
fn look() {
    let mut byte = 0_u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: system calls with valid places; no page is asked for.
    unsafe {
        // Killed in silence, without a core file.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        libc::mincore(ptr::null_mut(), 0, &raw mut byte);
        libc::process_vm_readv(libc::getpid(), &raw const here, 1, &raw const here, 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_filter_it_may() {
        assert!(may_look_at_memory());
    }
}
