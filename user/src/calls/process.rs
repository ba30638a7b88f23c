//! Waiting for children.
//!
//! One child is waited for by its pidfd. A wait for any child has no descriptor to wait for: a
//! kernel thread of the blocking pool waits.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::ptr;

use heddle::raw::Interest;
use libc::{id_t, idtype_t, pid_t, rusage, siginfo_t};

use super::{Result, Target, checked, exported, interruptible, made_int, shells, wait_ready};
use crate::errno;

/// Calls `attempt(flags)` until the child `pid` does not live on, and waits in between.
/// `None`: there is no way to wait for it but the call itself.
fn wait_for_one(
    pid: pid_t,
    attempt: impl Fn(c_int) -> Result<Option<isize>>,
) -> Result<Option<isize>> {
    if let Some(done) = attempt(libc::WNOHANG)? {
        return Ok(Some(done));
    }
    let Some(child) = shells::pidfd_of(pid) else { return Ok(None) };
    let here = 0_u8;
    let frame = (&raw const here).addr();
    // A handler may jump out of the wait, or end the thread.
    let mut child = Target::new(shells::waits(frame, child));
    let done = loop {
        let waited = wait_ready(&mut child, Interest::Read, 0);
        let attempted = waited.and_then(|_| attempt(libc::WNOHANG));
        if attempted != Ok(None) {
            break attempted;
        }
    };
    errno::kept(|| shells::over(frame));
    done
}

/// `wait4`.
pub fn wait(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage) -> Result<isize> {
    // SAFETY: null or the caller's places.
    let plain = move |more| unsafe { libc::wait4(pid, status, options | more, usage) as isize };
    if options & libc::WNOHANG != 0 {
        return checked(plain(0));
    }
    let attempt = |more| checked(plain(more)).map(|pid| (pid != 0).then_some(pid));
    // A child that stops or goes on does not make its pidfd ready.
    let is_for_end = options & (libc::WUNTRACED | libc::WCONTINUED) == 0;
    match wait_for_one(if is_for_end { pid } else { 0 }, attempt)? {
        Some(pid) => Ok(pid),
        None => interruptible(false, move || plain(0)),
    }
}

fn wait_id(kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int) -> Result<isize> {
    if options & libc::WNOHANG != 0 {
        // SAFETY: null or the caller's place.
        return checked(unsafe { libc::waitid(kind, id, info, options) } as isize);
    }
    // SAFETY: all zero bytes are valid.
    let mut seen: siginfo_t = unsafe { core::mem::zeroed() };
    let place = &raw mut seen;
    let attempt = |more| {
        // SAFETY: a valid place.
        checked(unsafe { libc::waitid(kind, id, place, options | more) } as isize)?;
        // SAFETY: zero, or what the call wrote.
        Ok((unsafe { (*place).si_pid() } != 0).then_some(0))
    };
    let is_for_end = options & (libc::WSTOPPED | libc::WCONTINUED) == 0;
    let child = if kind == libc::P_PID && is_for_end { id as pid_t } else { 0 };
    if wait_for_one(child, attempt)?.is_none() {
        // SAFETY: null or the caller's place.
        return interruptible(false, move || unsafe {
            libc::waitid(kind, id, info, options) as isize
        });
    }
    if !info.is_null() {
        // SAFETY: the caller's place.
        unsafe { info.write(seen) };
    }
    Ok(0)
}

exported! {
    (heddle_user_wait, heddle_user___wait) (status: *mut c_int) -> pid_t {
        made_int(|| wait(-1, status, 0, ptr::null_mut()))
    }

    (heddle_user_waitpid, heddle_user___waitpid) (
        pid: pid_t, status: *mut c_int, options: c_int
    ) -> pid_t {
        made_int(|| wait(pid, status, options, ptr::null_mut()))
    }

    (heddle_user_wait3) (status: *mut c_int, options: c_int, usage: *mut rusage) -> pid_t {
        made_int(|| wait(-1, status, options, usage))
    }

    (heddle_user_wait4) (
        pid: pid_t, status: *mut c_int, options: c_int, usage: *mut rusage
    ) -> pid_t {
        made_int(|| wait(pid, status, options, usage))
    }

    (heddle_user_waitid) (
        kind: idtype_t, id: id_t, info: *mut siginfo_t, options: c_int
    ) -> c_int {
        made_int(|| wait_id(kind, id, info, options))
    }
}
