//! libheddle-preload's side, as <heddle/host.h> has it: loaded behind this library by `heddle run`.
//!
//! Invariant: the mirror has the header's version, and is believed only where the library says the
//! same one.

use core::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use libc::{pthread_attr_t, pthread_t};

use crate::threads::Start;
use crate::threads::said::Attributes;

const VERSION: u32 = 3;
/// `HEDDLE_HOST_FORCED`
pub const FORCED: u32 = 1;
/// `HEDDLE_HOST_BY_NAME`
pub const BY_NAME: u32 = 2;
/// `HEDDLE_USE_EXPLICIT`
pub const EXPLICIT: u32 = 2;
/// `HEDDLE_USE_TUNED`
pub const TUNED: u32 = 8;

/// `struct heddle_host_kind`
#[repr(C)]
pub struct Kind {
    role: *const u8,
    start: *const u8,
    role_bytes: u32,
    start_bytes: u32,
    pub stack_bytes: u32,
    pub flags: u32,
    pub class: u8,
    pub priority: u8,
    pub group: u8,
    pub category: u8,
}

/// `struct heddle_host_birth`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Birth {
    pub asked: usize,
    pub given: usize,
    pub flags: u32,
}

/// `struct heddle_host_call`
#[repr(C)]
pub struct Call {
    pub start: usize,
    pub argument: *mut c_void,
    pub site: usize,
    pub run: Start,
    pub run_argument: *mut c_void,
}

/// `struct heddle_host`
#[repr(C)]
pub struct Host {
    version: u32,
    pub kinds: u32,
    pub begin: unsafe extern "C" fn(usize, usize, extern "C" fn()) -> c_int,
    pub create: unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, *const Call) -> c_int,
    pub kind: unsafe extern "C" fn(usize, *mut c_void, usize) -> u32,
    pub default_stack: unsafe extern "C" fn() -> usize,
    describe: unsafe extern "C" fn(u32, u32, *mut Kind),
    pub created: unsafe extern "C" fn(u32, *const Birth, u32),
    pub failed: unsafe extern "C" fn(u32, *const Birth),
    pub measured: unsafe extern "C" fn(u32, u64, u64),
    pub ended: unsafe extern "C" fn(u32, usize, u64),
    pub used: unsafe extern "C" fn(u32, u64),
    pub overflowed: unsafe extern "C" fn(u32, u64),
    pub said: unsafe extern "C" fn(u32, *const Attributes),
    named: unsafe extern "C" fn(u32, *const c_char, *const Birth, *mut Kind, *mut c_int) -> u32,
    pub tripwire: unsafe extern "C" fn() -> u32,
    pub tripped: unsafe extern "C" fn(u32, *const c_char, u64, usize),
}

impl Kind {
    const NOTHING: Kind = Kind {
        role: core::ptr::null(),
        start: core::ptr::null(),
        role_bytes: 0,
        start_bytes: 0,
        stack_bytes: 0,
        flags: 0,
        class: 0,
        priority: 0,
        group: 0,
        category: 0,
    };

    /// Its role by the policy.
    pub fn role(&self) -> Option<String> {
        text(self.role, self.role_bytes)
    }

    /// What starts it.
    pub fn start(&self) -> Option<String> {
        text(self.start, self.start_bytes)
    }
}

fn text(start: *const u8, bytes: u32) -> Option<String> {
    if start.is_null() || bytes == 0 {
        return None;
    }
    // SAFETY: the library's text, which lives as long as the process.
    let bytes = unsafe { core::slice::from_raw_parts(start, bytes as usize) };
    Some(String::from_utf8_lossy(bytes).into_owned())
}

impl Host {
    /// The library's, if it is loaded and of this version.
    pub fn find() -> Option<&'static Host> {
        static FOUND: OnceLock<Option<&'static Host>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            // SAFETY: a NUL-ended name; null or the address of the one symbol of this name.
            let host = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"heddle_preload_host".as_ptr()) };
            // SAFETY: as above; its first field is the version in all versions.
            let host = unsafe { host.cast::<Host>().as_ref() }?;
            (host.version == VERSION).then_some(host)
        })
    }

    /// An address in the library's code.
    pub fn code(&self) -> usize {
        self.describe as *const () as usize
    }

    /// What is known of a kind, for threads born so.
    pub fn describe(&self, kind: u32, flags: u32) -> Kind {
        let mut out = Kind::NOTHING;
        // SAFETY: a valid place.
        unsafe { (self.describe)(kind, flags, &mut out) };
        out
    }

    /// A thread got a name: its kind by that, and what a rule for the name says.
    ///
    /// # Safety
    /// 1. `name` is a text.
    pub unsafe fn named(
        &self,
        kind: u32,
        name: *const c_char,
        birth: &Birth,
    ) -> (u32, Option<Kind>) {
        let (mut out, mut has_rule) = (Kind::NOTHING, 0);
        // SAFETY: by 1; valid places.
        let kind = unsafe { (self.named)(kind, name, birth, &mut out, &mut has_rule) };
        (kind, (has_rule != 0).then_some(out))
    }
}
