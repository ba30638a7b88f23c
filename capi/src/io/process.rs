//! Waiting for children, and for names.
//!
//! One child is waited for by its pidfd. A wait for any child has no descriptor to wait for, and
//! the resolver none that we know: both run on another kernel thread.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int};
use core::ptr;
use std::os::fd::AsRawFd;

use heddle::raw::Interest;
use libc::{addrinfo, pid_t, rusage};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{Caller, caller, checked, elsewhere, file::kept, wait_ready};
use crate::cancel;
use crate::stop::{self, Stop};

/// The places for the results, lent to another kernel thread while the caller waits.
#[derive(Clone, Copy)]
struct Places {
    status: *mut c_int,
    usage: *mut rusage,
}

// SAFETY: lent for the call, as above.
unsafe impl Send for Places {}

impl Places {
    fn wait(self, pid: pid_t, options: c_int) -> isize {
        // SAFETY: null or the caller's places.
        unsafe { libc::wait4(pid, self.status, options, self.usage) as isize }
    }
}

fn wait(pid: pid_t, places: Places, options: c_int) -> Result<isize, Stop> {
    cancel::check()?;
    if caller() == Caller::Outside || options & libc::WNOHANG != 0 {
        return checked(places.wait(pid, options));
    }
    kept(|| {
        // Ended already, or an error: known without waiting.
        let now = checked(places.wait(pid, options | libc::WNOHANG))?;
        if now != 0 {
            return Ok(now);
        }
        let child = Pid::from_raw(pid.max(0));
        if let (Some(child), 0) = (child, options & (libc::WUNTRACED | libc::WCONTINUED)) {
            let child = pidfd_open(child, PidfdFlags::empty())?;
            loop {
                wait_ready(child.as_raw_fd(), Interest::Read, 0)?;
                let ended = checked(places.wait(pid, options | libc::WNOHANG))?;
                if ended != 0 {
                    return Ok(ended);
                }
            }
        }
        elsewhere(move || places.wait(pid, options))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_wait(status: *mut c_int) -> pid_t {
    stop::value(wait(-1, Places { status, usage: ptr::null_mut() }, 0)) as pid_t
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_waitpid(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
) -> pid_t {
    stop::value(wait(pid, Places { status, usage: ptr::null_mut() }, options)) as pid_t
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_wait4(
    pid: pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut rusage,
) -> pid_t {
    stop::value(wait(pid, Places { status, usage }, options)) as pid_t
}

/// The arguments of the resolver, lent as [`Places`].
#[derive(Clone, Copy)]
struct Query {
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
}

// SAFETY: lent for the call, as above.
unsafe impl Send for Query {}

impl Query {
    fn run(self) -> (c_int, c_int) {
        // SAFETY: the caller's texts, hints and place.
        let code = unsafe { libc::getaddrinfo(self.node, self.service, self.hints, self.result) };
        (code, crate::errno::get())
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    result: *mut *mut addrinfo,
) -> c_int {
    if cancel::check().is_err() {
        cancel::act();
    }
    let query = Query { node, service, hints, result };
    let (code, number) = heddle::blocking(move || query.run());
    if code == libc::EAI_SYSTEM {
        crate::errno::set(number);
    }
    code
}
