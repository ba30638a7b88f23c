//! The alternate signal stack that each full thread may have of its own.
//!
//! The kernel has one for each kernel thread, and a full thread is on another one after each
//! switch. So `sigaltstack` of a full thread is answered here, and costs a switch nothing: handlers
//! are called on the thread's alternate stack by this library, those of signals that were sent as
//! those of the thread's own faults (`faults.rs`).
//!
//! Whether a thread is on its alternate stack is told by its stack pointer, so a jump out of a
//! handler needs nothing. A thread is not preempted there, but at the end of a call it may leave.
//! (The kernel knows nothing of that stack.)
//!
//! # Safety
//! For the exported function: as the C library's function of the same name.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;

use libc::{siginfo_t, stack_t};

use crate::errno;
use crate::sys::own_memory;
use crate::threads::{Pthread, this};

/// The stack is put away while a handler is on it.
const SS_AUTODISARM: c_int = 1 << 31;
/// A handler's first frame is as aligned as the calling convention has it.
const ALIGN: usize = 16;

/// See the file's head. The thread's own.
pub struct Alternate {
    low: Cell<usize>,
    /// 0 = there is none.
    bytes: Cell<usize>,
    flags: Cell<c_int>,
}

impl Alternate {
    pub const fn new() -> Self {
        Alternate { low: Cell::new(0), bytes: Cell::new(0), flags: Cell::new(0) }
    }

    /// Whether this address, of the calling thread's stack, is on it.
    pub fn has(&self, address: usize) -> bool {
        address.wrapping_sub(self.low.get()) < self.bytes.get()
    }

    fn is_in_use(&self) -> bool {
        let here = 0_u8;
        self.has((&raw const here).addr())
    }

    pub fn low(&self) -> usize {
        self.low.get()
    }

    /// As `sigaltstack` tells it.
    pub fn told(&self) -> stack_t {
        let here = 0_u8;
        self.told_at((&raw const here).addr())
    }

    /// As `sigaltstack` tells it where the stack pointer is `at`.
    pub fn told_at(&self, at: usize) -> stack_t {
        let flags = match (self.bytes.get(), self.has(at)) {
            (0, _) => libc::SS_DISABLE,
            (_, true) => libc::SS_ONSTACK,
            (_, false) => 0,
        };
        stack_t {
            ss_sp: ptr::with_exposed_provenance_mut(self.low.get()),
            ss_flags: flags | self.flags.get(),
            ss_size: self.bytes.get(),
        }
    }

    /// In a forked child, whose thread is a kernel thread by now: it is the kernel's to answer,
    /// which had the worker's until here.
    pub fn give_kernel(&self) {
        // SAFETY: the thread's own stack, or none. One that is in use stays where it was.
        unsafe { libc::sigaltstack(&self.told(), ptr::null_mut()) };
    }

    /// An error number, or 0.
    fn set(&self, wanted: &stack_t) -> c_int {
        if self.is_in_use() {
            return libc::EPERM;
        }
        match wanted.ss_flags & !SS_AUTODISARM {
            libc::SS_DISABLE => self.put(0, 0, 0),
            0 | libc::SS_ONSTACK if wanted.ss_size < libc::MINSIGSTKSZ => return libc::ENOMEM,
            0 | libc::SS_ONSTACK => {
                let low = wanted.ss_sp.expose_provenance();
                self.put(low, wanted.ss_size, wanted.ss_flags & SS_AUTODISARM);
            }
            _ => return libc::EINVAL,
        }
        0
    }

    fn put(&self, low: usize, bytes: usize, flags: c_int) {
        self.low.set(low);
        self.bytes.set(bytes);
        self.flags.set(flags);
    }

    /// Where a handler that asks for it begins: the end of the stack; 0 when it runs where it is.
    pub fn place_for(&self, action: &libc::sigaction) -> usize {
        if action.sa_flags & libc::SA_ONSTACK == 0 || self.bytes.get() == 0 || self.is_in_use() {
            return 0;
        }
        (self.low.get() + self.bytes.get()) / ALIGN * ALIGN
    }

    /// Calls the handler of `action`, as the kernel does it, where the caller is; that may be this
    /// stack.
    ///
    /// # Safety
    /// As [`call_here`].
    pub unsafe fn call_on_it(
        &self,
        action: &libc::sigaction,
        info: *mut siginfo_t,
        context: *mut c_void,
    ) {
        // SAFETY: passed on; here is where the caller is.
        unsafe { self.call_by(heddle_user_call_on, 0, self.is_in_use(), action, info, context) };
    }

    /// # Safety
    /// As [`call_here`], and `top` is the end of a stack that nobody uses, or 0.
    unsafe fn call_by(
        &self,
        call: Call,
        top: usize,
        is_entered: bool,
        action: &libc::sigaction,
        info: *mut siginfo_t,
        context: *mut c_void,
    ) -> bool {
        let before = (self.low.get(), self.bytes.get(), self.flags.get());
        if is_entered && self.flags.get() & SS_AUTODISARM != 0 {
            self.put(0, 0, 0);
        }
        // SAFETY: by the caller. A handler without SA_SIGINFO takes the first argument alone, and
        // the calling convention lets it be given more.
        let was_left = unsafe { call(action.sa_sigaction, (*info).si_signo, info, context, top) };
        // The one that goes on may be another: see `handled_with`.
        if let Some(me) = this() {
            me.signals.alternate.put(before.0, before.1, before.2);
        }
        was_left
    }
}

/// Calls a handler; the last one is the end of a stack that nobody uses, or 0 for the one that is
/// used. Whether the handler has not returned: somebody went on with its context.
type Call = unsafe extern "C-unwind" fn(
    handler: usize,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    top: usize,
) -> bool;

// SAFETY: in arch/, see [`Call`]. The second one has the context lead behind its call.
unsafe extern "C-unwind" {
    fn heddle_user_call_on(
        handler: usize,
        signal: c_int,
        info: *mut siginfo_t,
        context: *mut c_void,
        top: usize,
    ) -> bool;
    fn heddle_user_call_resumable(
        handler: usize,
        signal: c_int,
        info: *mut siginfo_t,
        context: *mut c_void,
        top: usize,
    ) -> bool;
}

/// Calls the handler of `action` where the caller is.
///
/// # Safety
/// 1. `action` is the program's for this signal, `info` and `context` what belongs to it.
pub unsafe fn call_here(action: &libc::sigaction, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: by 1; see `Alternate::call_by`.
    unsafe { heddle_user_call_on(action.sa_sigaction, (*info).si_signo, info, context, 0) };
}

/// Calls the handler of `action`, as the kernel does it, on the stack that it asks for. Who goes on
/// with `context`, in the handler or later, is behind this call, which says so then.
///
/// # Safety
/// As [`call_here`], and `context` is the caller's own, of where it is.
pub unsafe fn call(
    me: &'static Pthread,
    action: &libc::sigaction,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> bool {
    let own = &me.signals.alternate;
    let top = own.place_for(action);
    // SAFETY: passed on.
    unsafe { own.call_by(heddle_user_call_resumable, top, top != 0, action, info, context) }
}

/// `sigaltstack` by its number, of a full thread.
///
/// # Errors
/// The kernel's.
pub fn by_number(
    me: &'static Pthread,
    wanted: *const stack_t,
    old: *mut stack_t,
) -> Result<(), c_int> {
    let own = &me.signals.alternate;
    let before = own.told();
    if !wanted.is_null() {
        match own.set(&own_memory::read(wanted)?) {
            0 => {}
            error => return Err(error),
        }
    }
    if old.is_null() { Ok(()) } else { own_memory::write(old, before) }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigaltstack(
    wanted: *const stack_t,
    old: *mut stack_t,
) -> c_int {
    let Some(me) = this() else { return -1 };
    let own = &me.signals.alternate;
    let before = own.told();
    // SAFETY: null or the caller's.
    if let Some(wanted) = unsafe { wanted.as_ref() } {
        let error = own.set(wanted);
        if error != 0 {
            errno::set(error);
            return -1;
        }
    }
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(before) };
    }
    0
}
