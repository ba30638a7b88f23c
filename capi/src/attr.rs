//! Attributes of threads to be created.
//!
//! Invariant: `magic` is set exactly while the attributes are initialised.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use heddle::{Category, Group};
use libc::sched_param;

use crate::current;
use crate::data::{self, Kind, Shared};
use crate::schedule::{Attributes, ROLE_BYTES, SCHED_HEDDLE, Schedule, is_valid};

const MAGIC: u64 = 0x6865_6464_6c65_0001;
/// `HEDDLE_STACK_MIN`.
const STACK_MIN: usize = 16384;
/// What a stack has besides what the thread may use: a guard page, and up to half a page by
/// which its top is moved, with the start packet.
pub const STACK_EXTRA: usize = 4096 + 2048 + 64;
/// The runtime's largest stack.
const STACK_MAX: usize = 60 << 20;
/// The default stack of C's threads: address space; memory is used as it is touched.
static STACK_DEFAULT: AtomicUsize = AtomicUsize::new((1 << 20) - STACK_EXTRA);

/// `flags`: HEDDLE_CREATE_DETACHED.
pub const DETACHED: u8 = 1;
/// `flags`: HEDDLE_EXPLICIT_SCHED.
pub const EXPLICIT: u8 = 2;
/// `flags`: HEDDLE_SCOPE_PROCESS.
const PROCESS: u8 = 4;
/// `flags`: carries TEK's attributes.
const DESCRIBED: u8 = 8;
/// `flags`: a full thread.
pub const FULL: u8 = 16;

/// `heddle_attr_t` of the header.
#[repr(C)]
pub struct Attr {
    stack_size: usize,
    guard_size: usize,
    policy: c_int,
    priority: c_int,
    flags: u8,
    unused: [u8; 2],
    group: u8,
    category: u8,
    reserved: [u8; 3],
    role: *const c_char,
    /// MAGIC, plus the place of the stack if these describe a running thread.
    magic: u64,
    base: usize,
}

const _: () = assert!(size_of::<Attr>() <= 56);

/// What `heddle_create` reads from attributes.
pub struct Wanted {
    /// Bytes that the thread may use; `None` = nothing said.
    pub stack_bytes: Option<usize>,
    pub guard_bytes: usize,
    pub flags: u8,
    pub schedule: Schedule,
}

/// The stack size of a thread whose attributes say nothing.
pub fn default_stack_bytes() -> usize {
    STACK_DEFAULT.load(Relaxed)
}

/// Sets it; false when it is out of range.
pub fn set_default_stack_bytes(bytes: usize) -> bool {
    let valid = (STACK_MIN..=STACK_MAX).contains(&bytes);
    if valid {
        STACK_DEFAULT.store(bytes, Relaxed);
    }
    valid
}

impl Attr {
    fn new() -> Self {
        Attr {
            stack_size: 0,
            guard_size: 4096,
            policy: libc::SCHED_OTHER,
            priority: 0,
            flags: 0,
            unused: [0; 2],
            group: Group::Normal as u8,
            category: Category::None as u8,
            reserved: [0; 3],
            role: ptr::null(),
            magic: MAGIC,
            base: 0,
        }
    }

    /// What they ask for; `None` when they are not initialised or contradict themselves.
    pub fn wanted(attr: Option<&Attr>) -> Option<Wanted> {
        let inherited = || {
            let Some(data) = current::known() else { return Schedule::default() };
            let mine = data.lock().schedule.clone();
            Schedule { role: [0; ROLE_BYTES], category: Category::None, ..mine }
        };
        let Some(attr) = attr else {
            let schedule = inherited();
            return Some(Wanted { stack_bytes: None, guard_bytes: 4096, flags: 0, schedule });
        };
        if attr.magic != MAGIC {
            return None;
        }
        let schedule = if attr.flags & (EXPLICIT | DESCRIBED) != 0 {
            is_valid(attr.policy, attr.priority).then(|| attr.schedule())?
        } else {
            inherited()
        };
        Some(Wanted {
            stack_bytes: Some(attr.stack_size).filter(|&bytes| bytes != 0),
            guard_bytes: attr.guard_size,
            flags: attr.flags,
            schedule,
        })
    }

    fn schedule(&self) -> Schedule {
        let mut schedule = Schedule {
            group: [Group::Urgent, Group::Normal, Group::Service, Group::Background]
                [usize::from(self.group & 3)],
            category: [
                Category::None,
                Category::Event,
                Category::Drawing,
                Category::Foreground,
                Category::Background,
            ][usize::from(self.category.min(4))],
            ..Schedule::default()
        };
        let _ = schedule.set(self.policy, self.priority);
        if !self.role.is_null() {
            // SAFETY: set by `describe` only, to an interned text.
            let role = unsafe { CStr::from_ptr(self.role) }.to_bytes();
            schedule.role[..role.len()].copy_from_slice(role);
        }
        schedule
    }

    fn describe(&mut self, schedule: &Schedule) {
        self.policy = schedule.policy;
        self.priority = schedule.priority;
        self.group = schedule.group as u8;
        self.category = schedule.category as u8;
        self.role = intern(schedule.role());
    }

    fn set_flag(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    fn describe_running(&mut self, shared: &Shared) {
        *self = Attr::new();
        self.describe(&shared.schedule);
        self.stack_size = shared.stack_bytes;
        self.guard_size = shared.guard_bytes;
        self.base = shared.stack_base;
        self.flags = shared.flags & !DETACHED;
        self.set_flag(DETACHED, shared.detached);
    }
}

/// A text that lives for ever. Attributes may be copied byte by byte, so they can't own one; the
/// number of different roles in a program is small.
fn intern(text: &str) -> *const c_char {
    static TEXTS: Mutex<BTreeSet<&'static CStr>> = Mutex::new(BTreeSet::new());
    let Ok(text) = CString::new(text) else { return ptr::null() };
    if text.is_empty() {
        return ptr::null();
    }
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text.as_c_str()) {
        return known.as_ptr();
    }
    let text: &'static CStr = Box::leak(text.into_boxed_c_str());
    texts.insert(text);
    text.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_init(attr: *mut Attr) -> c_int {
    // SAFETY: the caller's place.
    unsafe { attr.write(Attr::new()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_destroy(attr: *mut Attr) -> c_int {
    // SAFETY: the caller's attributes.
    unsafe { (*attr).magic = 0 };
    0
}

/// A setter whose value is checked and stored by the body, and a getter.
macro_rules! attribute {
    ($set:ident, $get:ident, $type:ty,
     |$attr:ident, $value:ident| $check:expr => $store:expr, |$from:ident| $load:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(attr: *mut Attr, $value: $type) -> c_int {
            // SAFETY: the caller's attributes.
            let $attr = unsafe { &mut *attr };
            if $attr.magic != MAGIC || !$check {
                return libc::EINVAL;
            }
            $store;
            0
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $get(attr: *const Attr, value: *mut $type) -> c_int {
            // SAFETY: the caller's attributes.
            let $from = unsafe { &*attr };
            if $from.magic != MAGIC {
                return libc::EINVAL;
            }
            // SAFETY: the caller's place.
            unsafe { value.write($load) };
            0
        }
    };
}

attribute!(heddle_attr_setdetachstate, heddle_attr_getdetachstate, c_int,
    |attr, value| (0..=1).contains(&value) => attr.set_flag(DETACHED, value == 1),
    |attr| c_int::from(attr.flags & DETACHED != 0));
attribute!(heddle_attr_setstacksize, heddle_attr_getstacksize, usize,
    |attr, value| (STACK_MIN..=STACK_MAX).contains(&value) => attr.stack_size = value,
    |attr| if attr.stack_size == 0 { default_stack_bytes() } else { attr.stack_size });
attribute!(heddle_attr_setguardsize, heddle_attr_getguardsize, usize,
    |attr, value| true => attr.guard_size = value,
    |attr| attr.guard_size);
attribute!(heddle_attr_setinheritsched, heddle_attr_getinheritsched, c_int,
    |attr, value| (0..=1).contains(&value) => attr.set_flag(EXPLICIT, value == 1),
    |attr| c_int::from(attr.flags & EXPLICIT != 0));
attribute!(heddle_attr_setschedpolicy, heddle_attr_getschedpolicy, c_int,
    |attr, value| matches!(value,
        libc::SCHED_OTHER | libc::SCHED_FIFO | libc::SCHED_RR | SCHED_HEDDLE)
        => attr.policy = value,
    |attr| attr.policy);
attribute!(heddle_attr_setscope, heddle_attr_getscope, c_int,
    |attr, value| (0..=1).contains(&value) => attr.set_flag(PROCESS, value == 1),
    |attr| c_int::from(attr.flags & PROCESS != 0));
attribute!(heddle_attr_setfull_np, heddle_attr_getfull_np, c_int,
    |attr, value| (0..=1).contains(&value) => attr.set_flag(FULL, value == 1),
    |attr| c_int::from(attr.flags & FULL != 0));

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_setschedparam(
    attr: *mut Attr,
    param: *const sched_param,
) -> c_int {
    // SAFETY: the caller's structures.
    let (attr, priority) = unsafe { (&mut *attr, (*param).sched_priority) };
    if attr.magic != MAGIC || !(0..=99).contains(&priority) {
        return libc::EINVAL;
    }
    attr.priority = priority;
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_getschedparam(
    attr: *const Attr,
    param: *mut sched_param,
) -> c_int {
    // SAFETY: the caller's structures.
    unsafe { (*param).sched_priority = (*attr).priority };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_setstack(_: *mut Attr, _: *mut c_void, _: usize) -> c_int {
    libc::ENOTSUP
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_getstack(
    attr: *const Attr,
    base: *mut *mut c_void,
    size: *mut usize,
) -> c_int {
    // SAFETY: the caller's attributes and places.
    unsafe {
        base.write(ptr::without_provenance_mut((*attr).base));
        heddle_attr_getstacksize(attr, size)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_getattr_np(thread: u64, attr: *mut Attr) -> c_int {
    let Some((data, mut shared)) = data::find(thread) else { return libc::ESRCH };
    if data.kind() == Kind::Foreign && shared.stack_base == 0 {
        (shared.stack_base, shared.stack_bytes) = kernel_stack();
        shared.guard_bytes = 4096;
    }
    // SAFETY: the caller's place.
    let attr = unsafe {
        attr.write(Attr::new());
        &mut *attr
    };
    attr.describe_running(&shared);
    0
}

/// Place and size of the calling kernel thread's stack.
pub fn kernel_stack() -> (usize, usize) {
    // SAFETY: all zero bytes are attributes to the C library; it fills them before it reads them.
    let mut attr: libc::pthread_attr_t = unsafe { core::mem::zeroed() };
    let (mut base, mut size) = (ptr::null_mut(), 0);
    // SAFETY: valid places; destroyed once after a success.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attr) == 0 {
            libc::pthread_attr_getstack(&attr, &mut base, &mut size);
            libc::pthread_attr_destroy(&mut attr);
        }
    }
    (base as usize, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_setattributes_np(
    attr: *mut Attr,
    value: *const Attributes,
) -> c_int {
    // SAFETY: the caller's structures.
    let (attr, value) = unsafe { (&mut *attr, &*value) };
    if attr.magic != MAGIC {
        return libc::EINVAL;
    }
    let mut schedule = attr.schedule();
    if !schedule.take(value) {
        return libc::EINVAL;
    }
    attr.describe(&schedule);
    attr.set_flag(DESCRIBED, true);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_attr_getattributes_np(
    attr: *const Attr,
    value: *mut Attributes,
) -> c_int {
    // SAFETY: the caller's structures.
    let (attr, value) = unsafe { (&*attr, &mut *value) };
    if attr.magic == MAGIC && attr.schedule().give(value) { 0 } else { libc::EINVAL }
}
