//! The alternate signal stack that each full thread may have of its own.
//!
//! The kernel has one for each kernel thread, and a full thread is on another one after each
//! switch. So `sigaltstack` of a full thread is answered here, and costs a switch nothing: handlers
//! are called on the thread's alternate stack by this library, those of signals that were sent as
//! those of the thread's own faults. A fault comes on the worker's alternate stack first, where the
//! runtime's handler looks whose it is and calls [`on_fault`].
//!
//! Whether a thread is on its alternate stack is told by its stack pointer, so a jump out of a
//! handler needs nothing. A thread is not preempted there.
//!
//! # Safety
//! For the exported function: as the C library's function of the same name.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;

use heddle::raw;
use libc::{siginfo_t, stack_t};

use super::{bit, handled_with};
use crate::errno;
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

    /// As `sigaltstack` tells it.
    pub fn told(&self) -> stack_t {
        let flags = match (self.bytes.get(), self.is_in_use()) {
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
    fn top_for(&self, action: &libc::sigaction) -> usize {
        if action.sa_flags & libc::SA_ONSTACK == 0 || self.bytes.get() == 0 || self.is_in_use() {
            return 0;
        }
        (self.low.get() + self.bytes.get()) / ALIGN * ALIGN
    }
}

// SAFETY: in arch/; `top` is the end of a stack that nobody uses, or 0 for the one that is used.
unsafe extern "C-unwind" {
    fn heddle_user_call_on(
        handler: usize,
        signal: c_int,
        info: *mut siginfo_t,
        context: *mut c_void,
        top: usize,
    );
}

/// Calls the handler of `action`, as the kernel does it, on the stack that it asks for.
///
/// # Safety
/// 1. `action` is the program's for this signal, `info` and `context` what belongs to it.
pub unsafe fn call(
    me: &'static Pthread,
    action: &libc::sigaction,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let own = &me.signals.alternate;
    let top = own.top_for(action);
    let before = (own.low.get(), own.bytes.get(), own.flags.get());
    if top != 0 && own.flags.get() & SS_AUTODISARM != 0 {
        own.put(0, 0, 0);
    }
    // SAFETY: by 1. A handler without SA_SIGINFO takes the first argument alone, and the calling
    // convention lets it be given more.
    unsafe { heddle_user_call_on(action.sa_sigaction, (*info).si_signo, info, context, top) };
    own.put(before.0, before.1, before.2);
}

/// A fault of the calling thread, which the program handles by `action`; whether it was handled
/// here. If not, it is handled as that of any thread.
///
/// Here it is handled if that takes the thread's alternate stack. One in the middle of the runtime
/// is not: a handler that jumps would leave the runtime's locks behind.
pub fn on_fault(action: &libc::sigaction, info: *mut siginfo_t, context: *mut c_void) -> bool {
    let plain = [libc::SIG_DFL, libc::SIG_IGN];
    let Some(me) = this() else { return false };
    if plain.contains(&action.sa_sigaction)
        || raw::is_pinned()
        || me.signals.alternate.top_for(action) == 0
    {
        return false;
    }
    // SAFETY: the kernel passed it.
    let signal = unsafe { (*info).si_signo };
    if me.signals.blocked() & bit(signal) != 0 {
        // As the kernel does it with a fault that is blocked: it happens again, and ends all.
        // SAFETY: all zero bytes are the default action.
        unsafe { libc::sigaction(signal, &mem::zeroed(), ptr::null_mut()) };
        return true;
    }
    // SAFETY: as above; the action is the program's.
    handled_with(me, action, signal, |_| unsafe { call(me, action, info, context) });
    true
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
