//! What the program asked for when it made a thread, and `pthread_getattr_np`.
//!
//! Attributes are read by the C library's own functions: their layout is its business.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr;

use heddle::raw;
use libc::{pthread_attr_t, pthread_t, sched_param, sigset_t};

use super::schedule::SCHED_HEDDLE;
use super::{DETACHED, affinity, find};
use crate::calls::mask;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::OnceLock;

/// What our own frames and a signal's may need beside the program's, in a small stack; in a large
/// one it is what a full thread really needs, on processors where a signal needs more.
pub const EXTRA_BYTES: usize = 16 << 10;
/// Above this size the extra bytes and the thread-local storage are taken out of what was asked
/// for, as the C library does it: the sizes of the runtime's stacks are powers of two. A stack of
/// just this size would be told of as a page less, its guard.
const LARGE_BYTES: usize = 256 << 10;
/// The runtime's largest stack.
const STACK_BYTES_MAX: usize = 64 << 20;
const PAGE: usize = 4096;

// SAFETY: the C library's functions, by its header.
unsafe extern "C" {
    fn pthread_attr_getinheritsched(attr: *const pthread_attr_t, inherit: *mut c_int) -> c_int;
    fn pthread_attr_getschedpolicy(attr: *const pthread_attr_t, policy: *mut c_int) -> c_int;
    fn pthread_attr_getschedparam(attr: *const pthread_attr_t, param: *mut sched_param) -> c_int;
    fn pthread_getattr_default_np(attr: *mut pthread_attr_t) -> c_int;
    fn pthread_setattr_default_np(attr: *const pthread_attr_t) -> c_int;
    fn pthread_attr_setguardsize(attr: *mut pthread_attr_t, bytes: usize) -> c_int;
    fn pthread_attr_getdetachstate(attr: *const pthread_attr_t, state: *mut c_int) -> c_int;
    fn pthread_attr_getsigmask_np(attr: *const pthread_attr_t, mask: *mut sigset_t) -> c_int;
}

/// See the file's head.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub needs_kernel_thread: bool,
    pub is_detached: bool,
    /// Whether policy and priority are the attributes', not those of the thread that makes it.
    pub is_explicit: bool,
    /// That of the attributes.
    pub policy: c_int,
    /// The priority that goes with the attributes' policy, if that is heddle's.
    pub heddle_priority: Option<c_int>,
    /// As the program said, `None` where it said nothing.
    pub asked_bytes: Option<usize>,
    /// The signals that it begins with blocked, where that is not what its maker has.
    pub blocked: Option<u64>,
    bytes: usize,
    /// None, or a page: what a stack of the runtime's has.
    pub guard_bytes: usize,
}

/// What of a stack is not the program's.
pub fn extra_bytes() -> usize {
    raw::full_thread_bytes().next_multiple_of(PAGE).max(EXTRA_BYTES)
}

impl Wanted {
    /// # Safety
    /// 1. `attr` is null or points to attributes.
    pub unsafe fn of(attr: *const pthread_attr_t) -> Wanted {
        if !attr.is_null() {
            // SAFETY: by 1.
            return unsafe { Wanted::read(attr) };
        }
        if DEFAULT_CHANGES.load(Acquire) {
            return Wanted::usual();
        }
        static DEFAULT: OnceLock<Wanted> = OnceLock::new();
        *DEFAULT.get_or_init(Wanted::usual)
    }

    /// What the process's default attributes say.
    #[cold]
    fn usual() -> Wanted {
        let mut default = MaybeUninit::<pthread_attr_t>::uninit();
        // SAFETY: initialised by the first call.
        unsafe {
            if pthread_getattr_default_np(default.as_mut_ptr()) != 0 {
                libc::pthread_attr_init(default.as_mut_ptr());
            }
            let wanted = Wanted::read(default.as_ptr());
            libc::pthread_attr_destroy(default.as_mut_ptr());
            Wanted { asked_bytes: None, ..wanted }
        }
    }

    /// For the runtime's builder.
    pub fn stack_bytes(&self) -> usize {
        if self.bytes <= LARGE_BYTES {
            return self.bytes + EXTRA_BYTES;
        }
        // The C library refuses a stack that the storage does not fit into; here it fits.
        self.bytes.saturating_sub(extra_bytes()).max(EXTRA_BYTES)
    }

    /// # Safety
    /// 1. `attr` points to attributes.
    unsafe fn read(attr: *const pthread_attr_t) -> Wanted {
        let (mut inherit, mut policy, mut detached) = (0, 0, 0);
        let (mut bytes, mut guard) = (0, 0);
        let mut stack: *mut c_void = ptr::null_mut();
        // SAFETY: by 1; valid places.
        unsafe {
            pthread_attr_getinheritsched(attr, &mut inherit);
            pthread_attr_getschedpolicy(attr, &mut policy);
            pthread_attr_getdetachstate(attr, &mut detached);
            libc::pthread_attr_getguardsize(attr, &mut guard);
            // Without a stack of the program's the address is that of one that ends at 0.
            libc::pthread_attr_getstack(attr, &mut stack, &mut bytes);
        }
        let is_own_stack = (stack as usize).wrapping_add(bytes) != 0;
        if bytes == 0 {
            // SAFETY: by 1. With a size of its own or not: this says the size that counts.
            unsafe { libc::pthread_attr_getstacksize(attr, &mut bytes) };
        }
        let is_explicit = inherit == libc::PTHREAD_EXPLICIT_SCHED;
        let is_heddle = is_explicit && policy == SCHED_HEDDLE;
        let mut param = libc::sched_param { sched_priority: 0 };
        let mut blocked = mask::set_of(0);
        // SAFETY: by 1; valid places.
        let has_mask = unsafe {
            pthread_attr_getschedparam(attr, &mut param);
            pthread_attr_getsigmask_np(attr, &mut blocked) == 0
        };
        // With a priority that its policy does not have, the C library refuses it.
        let is_plain = policy == libc::SCHED_OTHER && param.sched_priority == 0;
        Wanted {
            needs_kernel_thread: is_own_stack
                || is_explicit && !is_plain && !is_heddle
                || bytes > STACK_BYTES_MAX
                || guard > PAGE,
            is_detached: detached == libc::PTHREAD_CREATE_DETACHED,
            is_explicit,
            policy,
            heddle_priority: is_heddle.then_some(param.sched_priority),
            asked_bytes: Some(bytes),
            blocked: has_mask.then(|| mask::bits(&blocked) & !mask::NEVER),
            bytes,
            guard_bytes: if guard == 0 { 0 } else { PAGE },
        }
    }
}

/// The program has changed the default attributes: they are asked for each time from then on.
static DEFAULT_CHANGES: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setattr_default_np(attr: *const pthread_attr_t) -> c_int {
    // ORDER: before the change: who sees it, by whatever the program does about it, asks.
    DEFAULT_CHANGES.store(true, Release);
    // SAFETY: the caller's attributes.
    unsafe { pthread_setattr_default_np(attr) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_getattr_np(
    thread: pthread_t,
    attr: *mut pthread_attr_t,
) -> c_int {
    // SAFETY: the caller's thread.
    let Some(target) = (unsafe { find(thread) }) else {
        // SAFETY: the caller's place.
        return unsafe { libc::pthread_getattr_np(thread, attr) };
    };
    let (low, bytes, guard) = {
        let about = target.about();
        (about.stack.0, about.stack.1, about.guard_bytes)
    };
    let detached = target.state.load(Relaxed) == DETACHED;
    // SAFETY: the caller's place.
    unsafe {
        libc::pthread_attr_init(attr);
        libc::pthread_attr_setdetachstate(attr, c_int::from(detached));
        pthread_attr_setguardsize(attr, guard);
        libc::pthread_attr_setstack(attr, low as *mut c_void, bytes);
        affinity::tell(target, attr)
    }
}
