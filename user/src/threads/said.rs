//! What the program says that its threads are for: `<heddle/pthread_np.h>`.
//!
//! The header's functions lead to libheddle-preload's names; for full threads they end here. The
//! runtime acts by what is said, the record shows it, and the account has it for the kind.
//!
//! Invariant: the program's word goes before the policy's, whichever comes first.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and a `pthread_t` names a thread
//! that exists.

use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

use heddle::{Category, Group, raw};
use libc::pthread_t;

use super::{Pthread, find, own};
use crate::account;

/// `HEDDLE_ROLE_BYTES_MAX`
const ROLE_BYTES: usize = 64;
/// `HEDDLE_TIME_CRITICAL`
const TIME_CRITICAL: c_int = 1;

/// `struct heddle_attributes`
#[repr(C)]
pub struct Attributes {
    size_bytes: usize,
    class: c_int,
    priority: c_int,
    group: c_int,
    category: c_int,
    role: [u8; ROLE_BYTES],
}

// SAFETY: libheddle-preload's functions, by the header; where it is not there they say ENOSYS.
unsafe extern "C" {
    fn heddle_preload_setattributes(thread: pthread_t, value: *const Attributes) -> c_int;
    fn heddle_preload_getattributes(thread: pthread_t, value: *mut Attributes) -> c_int;
}

/// Attributes that make sense.
struct Checked<'a> {
    priority: Option<u8>,
    group: Group,
    category: Category,
    role: &'a str,
}

impl Attributes {
    fn check(&self) -> Option<Checked<'_>> {
        let is_right = match self.class {
            0 => self.priority == 0,
            TIME_CRITICAL => (1..=99).contains(&self.priority),
            _ => false,
        };
        let end = self.role.iter().position(|&byte| byte == 0)?;
        (is_right && self.size_bytes == size_of::<Attributes>()).then_some(())?;
        Some(Checked {
            priority: u8::try_from(self.priority).ok().filter(|&it| it != 0),
            group: Group::from_raw(u8::try_from(self.group).ok()?)?,
            category: Category::from_raw(u8::try_from(self.category).ok()?)?,
            role: core::str::from_utf8(&self.role[..end]).unwrap_or(""),
        })
    }

    /// What the thread's record says.
    fn of(target: &Pthread) -> Option<Attributes> {
        let thread = target.thread()?;
        let fields = thread.record()?;
        let text = raw::role_of(&thread).unwrap_or_default();
        let bytes = text.len().min(ROLE_BYTES - 1);
        let mut role = [0; ROLE_BYTES];
        role[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
        Some(Attributes {
            size_bytes: size_of::<Attributes>(),
            class: fields.class as c_int,
            priority: fields.priority.into(),
            group: fields.group as c_int,
            category: fields.category as c_int,
            role,
        })
    }
}

/// The account hears what the thread's record says by now, because the program has said so.
pub fn tell_account(thread: pthread_t, target: &Pthread) {
    if let Some(attributes) = Attributes::of(target) {
        tell(thread, &attributes);
    }
}

fn tell(thread: pthread_t, attributes: &Attributes) {
    // SAFETY: the caller's thread, which exists.
    let kind = unsafe { (*own::words_of(thread)).kind.load(Relaxed) };
    account::said(kind, attributes);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_heddle_preload_setattributes(
    thread: pthread_t,
    value: *const Attributes,
) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find(thread) }) else {
        // SAFETY: passed on. Where nobody listens it is a hint that nobody takes.
        return match unsafe { heddle_preload_setattributes(thread, value) } {
            libc::ENOSYS => 0,
            result => result,
        };
    };
    // SAFETY: the caller's value.
    let value = unsafe { &*value };
    let Some(checked) = value.check() else { return libc::EINVAL };
    {
        let mut about = target.about();
        about.is_said = true;
        let Some(it) = &about.thread else { return 0 };
        if !checked.role.is_empty() {
            it.set_role(checked.role);
        }
        it.set_group(checked.group);
        it.set_category(checked.category);
        // It was checked.
        let _ = it.set_priority(checked.priority);
    }
    tell(thread, value);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_heddle_preload_getattributes(
    thread: pthread_t,
    value: *mut Attributes,
) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find(thread) }) else {
        // SAFETY: passed on.
        return unsafe { heddle_preload_getattributes(thread, value) };
    };
    // SAFETY: the caller's value.
    let value = unsafe { &mut *value };
    if value.size_bytes != size_of::<Attributes>() {
        return libc::EINVAL;
    }
    let Some(attributes) = Attributes::of(target) else { return libc::ESRCH };
    *value = attributes;
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setattributes_np(
    thread: pthread_t,
    value: *const Attributes,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_heddle_preload_setattributes(thread, value) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_getattributes_np(
    thread: pthread_t,
    value: *mut Attributes,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_heddle_preload_getattributes(thread, value) }
}
