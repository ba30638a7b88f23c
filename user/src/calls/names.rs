//! `getaddrinfo`: a look-up of names takes as long as a server somewhere else likes, so the thread
//! leaves it when it is cancelled, and runs handlers meanwhile.
//!
//! What it asks for and what it finds are copies, which belong to the kernel thread of the pool
//! that makes the call. What a thread has set in its `_res` is not that kernel thread's.
//!
//! An address as a text, as most clients give it, is no name: to tell what it says takes less than
//! a hundredth of the way to that kernel thread and back, and is done in place.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{CStr, c_char, c_int};
use core::net::IpAddr;
use core::ptr;
use std::ffi::CString;

use heddle::raw;
use libc::addrinfo;

use super::exported;
use crate::errno;
use crate::threads::cancel;
use crate::threads::signals::{self, Then};

/// What is asked for.
struct Question {
    node: Option<CString>,
    service: Option<CString>,
    hints: Option<addrinfo>,
}

/// What the call has told.
struct Answer {
    code: c_int,
    errno: c_int,
    found: *mut addrinfo,
}

// SAFETY: the pointers in hints are null, as they have to be.
unsafe impl Send for Question {}
// SAFETY: the list belongs to the answer.
unsafe impl Send for Answer {}

impl Question {
    /// # Safety
    /// 1. Each is null, or a string or hints.
    unsafe fn new(node: *const c_char, service: *const c_char, hints: *const addrinfo) -> Self {
        let copy = |text: *const c_char| {
            // SAFETY: by 1.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned())
        };
        // SAFETY: by 1.
        let hints = unsafe { hints.as_ref() }.copied();
        Question { node: copy(node), service: copy(service), hints }
    }

    fn ask(&self, errno: c_int) -> Answer {
        let text = |it: &Option<CString>| it.as_ref().map_or(ptr::null(), |it| it.as_ptr());
        let hints = self.hints.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut found = ptr::null_mut();
        errno::set(errno);
        // SAFETY: strings and hints of our own, and a place.
        let code =
            unsafe { libc::getaddrinfo(text(&self.node), text(&self.service), hints, &mut found) };
        Answer { code, errno: errno::get(), found }
    }
}

impl Answer {
    /// The list is the caller's now.
    fn take(mut self) -> (c_int, *mut addrinfo) {
        errno::set(self.errno);
        (self.code, core::mem::replace(&mut self.found, ptr::null_mut()))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.found.is_null() {
            // SAFETY: nobody has taken it.
            unsafe { libc::freeaddrinfo(self.found) };
        }
    }
}

/// The answer, unless the thread is cancelled meanwhile. A child that a handler forks asks itself.
///
/// # Safety
/// 1. As [`Question::new`].
unsafe fn ask(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
) -> Option<(c_int, *mut addrinfo)> {
    // SAFETY: by 1.
    let question = unsafe { Question::new(node, service, hints) };
    let before = errno::get();
    let is_to_leave = || errno::kept(signals::interrupted) == Then::End;
    if let Some(answer) = raw::leavable(move || question.ask(before), false, is_to_leave) {
        return Some(answer.take());
    }
    if crate::me().is_some() {
        return None;
    }
    // SAFETY: by 1.
    let question = unsafe { Question::new(node, service, hints) };
    Some(question.ask(before).take())
}

/// Whether it is an address as a text, which no server is asked for. The C library knows more forms
/// of them than these.
pub fn is_address(name: &CStr) -> bool {
    name.to_str().is_ok_and(|name| name.parse::<IpAddr>().is_ok())
}

/// Whether the C library asks no server, and reads no file, for the answer.
///
/// # Safety
/// 1. As [`Question::new`].
unsafe fn is_plain(node: *const c_char, service: *const c_char, hints: *const addrinfo) -> bool {
    // SAFETY: by 1.
    let flags = unsafe { hints.as_ref() }.map_or(0, |hints| hints.ai_flags);
    let is = |text: *const c_char, flag: c_int, is_such: fn(&CStr) -> bool| {
        // SAFETY: by 1.
        text.is_null() || flags & flag != 0 || is_such(unsafe { CStr::from_ptr(text) })
    };
    let is_number = |text: &CStr| text.to_bytes().iter().all(u8::is_ascii_digit);
    let is_asked = !node.is_null();
    is_asked
        && is(service, libc::AI_NUMERICSERV, is_number)
        && is(node, libc::AI_NUMERICHOST, is_address)
}

exported! {
    (heddle_user_getaddrinfo)(
        node: *const c_char, service: *const c_char, hints: *const addrinfo,
        result: *mut *mut addrinfo
    ) -> c_int {
        if raw::is_cancelled() {
            cancel::act();
        }
        // SAFETY: the caller's strings, hints and place.
        unsafe {
            if is_plain(node, service, hints) {
                return libc::getaddrinfo(node, service, hints, result);
            }
            let Some((code, found)) = ask(node, service, hints) else { cancel::act() };
            if code == 0 {
                *result = found;
            }
            code
        }
    }
}
