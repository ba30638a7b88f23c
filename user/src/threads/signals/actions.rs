//! What the program has set for each signal.
//!
//! The handlers of faults are called by `faults.rs`, which says why: the kernel has one handler for
//! all ([`entry`], or the runtime's for SIGSEGV), and what the program sets is kept here. What a
//! write raises, and what a timer of CPU time sends, workers let through (`raised.rs`). Handlers of
//! all others the kernel calls on kernel threads of the program, by way of [`around`].
//!
//! The preemption signal stays the runtime's once it has it, which passes on what others have sent
//! (`urgent.rs`).
//!
//! Invariant: what is kept here is the program's action for a signal wherever the kernel's handler
//! is ours. An action that is no handler is the kernel's, but for SIGSEGV, whose overflows are
//! looked at, and for the default of those that this library tells of ([`is_looked_at`]); and so is
//! all that was set by an instruction of the program's own. A program that this one starts finds
//! SIGSEGV ignored if it is here ([`ignoring`]).
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::c_int;
use core::hint;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize};

use heddle::raw;
use libc::sigaction;

use super::around::around;
use super::faults::entry;
use super::kept::Words;
use super::raised::{LET_THROUGH, arrived, is_let_through};
use super::urgent::urgent;
use super::{SIGNALS, bit, discard};
use crate::calls::mask;
use crate::errno;

/// What of an action the program has set, for one signal.
pub struct Kept(Words);

impl Kept {
    pub const fn new() -> Self {
        Kept(Words::new())
    }

    pub fn get(&self) -> sigaction {
        let (handler, flags, blocked) = self.0.get();
        // SAFETY: all zero bytes are a valid action.
        let mut action: sigaction = unsafe { mem::zeroed() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = flags as c_int;
        action.sa_mask = mask::set_of(blocked);
        action
    }

    /// One thread at a time.
    pub fn set(&self, action: &sigaction) {
        let blocked = mask::bits(&action.sa_mask) & !mask::NEVER;
        self.0.set((action.sa_sigaction as u64, action.sa_flags as u32, blocked));
    }
}

/// All zero words are the default action.
const _: () = assert!(libc::SIG_DFL == 0);

/// By the signal's number.
static KEPT: [Kept; SIGNALS as usize] = [const { Kept::new() }; SIGNALS as usize];
/// Whose [`KEPT`] is: the process that began to keep. A child of `vfork` has another number, and
/// the same memory.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// The kernel has our handlers of faults, and of what workers let through, too.
static ARE_ALL: AtomicBool = AtomicBool::new(false);
/// Who changes an action has it.
static CHANGES: AtomicBool = AtomicBool::new(false);
/// How many calls of [`ignoring`] there are for which the kernel ignores SIGSEGV.
static IGNORING: AtomicU32 = AtomicU32::new(0);
/// The kernel's handler of it, ours, while it has none for that; else 0.
static PUT_ASIDE: AtomicUsize = AtomicUsize::new(0);

/// Whether the caller is a child of `vfork`, in its parent's memory. Once there are threads.
pub fn is_in_vfork() -> bool {
    let owner = OWNER.load(Relaxed);
    // SAFETY: no arguments.
    owner != 0 && unsafe { libc::getpid() } != owner
}

/// Signals that the C library keeps for itself.
pub const OF_C_LIBRARY: [c_int; 2] = [32, 33];

/// What is kept for this signal, if it may have a handler.
pub fn kept(signal: c_int) -> Option<&'static Kept> {
    let may = (1..SIGNALS).contains(&signal) && !OF_C_LIBRARY.contains(&signal);
    let has_none = signal == libc::SIGKILL || signal == libc::SIGSTOP;
    (may && !has_none).then(|| &KEPT[signal as usize])
}

/// What the program has set for the preemption signal.
fn for_preemption_signal() -> sigaction {
    KEPT[raw::PREEMPTION_SIGNAL as usize].get()
}

/// Whether the program's action for this signal may be one that is kept here.
pub fn is_kept(signal: c_int) -> bool {
    OWNER.load(Relaxed) != 0 && kept(signal).is_some()
}

/// Whether it is no handler.
pub fn is_plain(action: &sigaction) -> bool {
    action.sa_sigaction == libc::SIG_DFL || action.sa_sigaction == libc::SIG_IGN
}

/// Whether the kernel's handler is the runtime's.
fn is_runtimes(handler: usize) -> bool {
    handler == raw::fault_handler() || handler == raw::interrupter()
}

/// Whether the kernel's handler is ours.
fn is_ours(handler: usize) -> bool {
    let is_one = |signal| handler == our_handler(signal);
    [libc::SIGPIPE, libc::SIGSEGV, libc::SIGINT].into_iter().any(is_one) || is_runtimes(handler)
}

/// Whether a thread raises it by what it does.
fn is_fault(signal: c_int) -> bool {
    raw::FAULTS.contains(&signal)
}

/// The kernel's handler for this signal: of what workers let through, of faults, or of others.
fn our_handler(signal: c_int) -> usize {
    if is_let_through(signal) {
        arrived as *const () as usize
    } else if is_fault(signal) {
        entry as *const () as usize
    } else {
        around as *const () as usize
    }
}

/// What our handler for this signal blocks while it runs. Of what somebody sends without end the
/// next one waits, or they would pile up on the stack; and so does the preemption signal, by which
/// another thread would go on with that mask. Handlers of faults have nothing blocked.
fn blocked_by_ours(signal: c_int) -> u64 {
    match is_let_through(signal) {
        true => LET_THROUGH.into_iter().map(bit).sum::<u64>() | bit(raw::PREEMPTION_SIGNAL),
        false => 0,
    }
}

pub fn kernels(signal: c_int) -> Option<sigaction> {
    // SAFETY: all zero bytes are a valid action, which the call overwrites.
    unsafe {
        let mut action: sigaction = mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &mut action) == 0).then_some(action)
    }
}

/// The program's action for a signal; `None` for what is no signal that has one.
pub fn action_of(signal: c_int) -> Option<sigaction> {
    let action = kernels(signal)?;
    match kept(signal) {
        Some(kept) if is_ours(action.sa_sigaction) => Some(kept.get()),
        _ => Some(action),
    }
}

/// Whether the kernel's handler is ours though the program has none.
fn is_looked_at(signal: c_int, action: &sigaction) -> bool {
    match signal {
        libc::SIGSEGV => true,
        libc::SIGBUS | libc::SIGFPE | libc::SIGILL => action.sa_sigaction == libc::SIG_DFL,
        _ => is_let_through(signal) && action.sa_sigaction == libc::SIG_DFL,
    }
}

/// What the kernel is to do so that `action` is the program's.
fn in_kernel(signal: c_int, action: &sigaction) -> sigaction {
    let looks = is_looked_at(signal, action);
    let mut ours = *action;
    if signal == raw::PREEMPTION_SIGNAL {
        // The runtime does not have it yet.
        return ours;
    }
    if looks || !is_plain(action) {
        ours.sa_sigaction = our_handler(signal);
    }
    if !is_plain(action) && !is_fault(signal) && !is_let_through(signal) {
        ours.sa_flags = action.sa_flags & !libc::SA_RESETHAND | libc::SA_SIGINFO;
    } else if looks || !is_plain(action) {
        let kept_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        ours.sa_flags = action.sa_flags & kept_flags | libc::SA_SIGINFO | libc::SA_NODEFER;
        ours.sa_mask = mask::set_of(blocked_by_ours(signal));
    }
    if looks {
        ours.sa_flags |= libc::SA_ONSTACK;
    }
    ours
}

/// Runs `change` while nobody else changes an action, with all signals blocked: a handler may want
/// to change one, too.
pub fn alone<T>(change: impl FnOnce() -> T) -> T {
    mask::with(u64::MAX, || {
        // ORDER: a lock's.
        while CHANGES.swap(true, Acquire) {
            hint::spin_loop();
        }
        let result = change();
        CHANGES.store(false, Release);
        result
    })
}

/// Puts back what [`put_aside`] took away.
fn put_back() {
    let handler = PUT_ASIDE.swap(0, Relaxed);
    if let Some(kept) = kept(libc::SIGSEGV).filter(|_| handler != 0) {
        let mut ours = in_kernel(libc::SIGSEGV, &kept.get());
        ours.sa_sigaction = handler;
        // SAFETY: a valid action.
        unsafe { libc::sigaction(libc::SIGSEGV, &ours, ptr::null_mut()) };
    }
}

/// Has the kernel ignore SIGSEGV where its handler is ours; the one that it had.
fn put_aside() -> Option<usize> {
    let ours = kernels(libc::SIGSEGV).filter(|action| is_ours(action.sa_sigaction))?;
    // SAFETY: all zero bytes are a valid action.
    let mut ignored: sigaction = unsafe { mem::zeroed() };
    ignored.sa_sigaction = libc::SIG_IGN;
    // SAFETY: a valid action.
    unsafe { libc::sigaction(libc::SIGSEGV, &ignored, ptr::null_mut()) };
    Some(ours.sa_sigaction)
}

/// Makes a call that starts another program, which inherits what the program has ignored. The
/// kernel has a handler of ours for SIGSEGV even then, which would become the default.
pub fn ignoring<T>(start: impl FnOnce() -> T) -> T {
    let is_ignored =
        || kept(libc::SIGSEGV).is_some_and(|kept| kept.get().sa_sigaction == libc::SIG_IGN);
    let owner = OWNER.load(Relaxed);
    if owner == 0 || !is_ignored() {
        return start();
    }
    // SAFETY: no arguments.
    if unsafe { libc::getpid() } != owner {
        // A child of `vfork`: the actions are its own, all else is its parent's.
        put_aside();
        return start();
    }
    alone(|| {
        IGNORING.fetch_add(1, Relaxed);
        // It may have been given a handler since.
        if let Some(handler) = is_ignored().then(put_aside).flatten() {
            PUT_ASIDE.store(handler, Relaxed);
        }
    });
    let result = start();
    alone(|| {
        if IGNORING.fetch_sub(1, Relaxed) == 1 {
            put_back();
        }
    });
    result
}

/// Has the kernel act so that `action` is the program's; an error number, or 0.
fn set(signal: c_int, kept: &Kept, action: &sigaction) -> c_int {
    if signal == libc::SIGSEGV {
        put_back();
    }
    let now = kernels(signal);
    let runtimes = now.is_some_and(|now| is_runtimes(now.sa_sigaction));
    // Before the kernel can call ours for it.
    let before = kept.get();
    kept.set(action);
    let ours = in_kernel(signal, action);
    // SAFETY: a valid action.
    if runtimes || unsafe { libc::sigaction(signal, &ours, ptr::null_mut()) } == 0 {
        return 0;
    }
    kept.set(&before);
    errno::get()
}

/// Whether it is one of those that come to the program's kernel threads, by way of [`around`].
fn goes_around(signal: c_int) -> bool {
    signal != raw::PREEMPTION_SIGNAL && our_handler(signal) == around as *const () as usize
}

/// Has the kernel call from here the handlers of `wanted`.
fn begin_with(wanted: impl Fn(c_int) -> bool) {
    for signal in (1..SIGNALS).filter(|&signal| wanted(signal)) {
        let Some(kept) = kept(signal) else { continue };
        let Some(action) = action_of(signal) else { continue };
        if is_plain(&action) && in_kernel(signal, &action).sa_sigaction == action.sa_sigaction {
            // To set it again would throw away what is pending.
            kept.set(&action);
        } else {
            set(signal, kept, &action);
        }
    }
    // SAFETY: no arguments.
    OWNER.store(unsafe { libc::getpid() }, Relaxed);
}

/// From now on handlers do not come in the middle of the runtime: before the first thread is made,
/// whatever its kind. Kernel threads wait there for each other, too.
pub fn begin_around() {
    alone(|| begin_with(goes_around));
}

/// From now on all handlers are called from here: before the first full thread is made, and the
/// runtime looks at faults.
pub fn begin() {
    alone(|| {
        begin_with(|_| true);
        raw::set_interrupter_of_program(for_preemption_signal, urgent);
        ARE_ALL.store(true, Relaxed);
    });
}

/// A child's are its own.
pub fn in_child() {
    CHANGES.store(false, Relaxed);
    (1..SIGNALS).filter_map(kept).for_each(|kept| kept.0.mend());
    IGNORING.store(0, Relaxed);
    put_back();
    if OWNER.load(Relaxed) != 0 {
        // SAFETY: no arguments.
        OWNER.store(unsafe { libc::getpid() }, Relaxed);
    }
}

/// `sigaction`.
pub fn change(signal: c_int, action: Option<&sigaction>, old: Option<&mut sigaction>) -> c_int {
    let failed = exchange(signal, action, old);
    if let Some(action) = action.filter(|_| failed == 0) {
        is_set(signal, action.sa_sigaction);
    }
    failed
}

/// The program has set this handler.
fn is_set(signal: c_int, handler: usize) {
    if discard::is_ignored(signal, handler) {
        discard::discard(bit(signal));
    }
}

/// Before a handler whose `action` says that it is for once. As with the kernel the rest of that
/// stays, and what is pending does.
pub fn reset(signal: c_int, action: &sigaction) {
    let mut default = *action;
    default.sa_sigaction = libc::SIG_DFL;
    exchange(signal, Some(&default), None);
}

/// As [`change`], but for what is pending.
fn exchange(signal: c_int, action: Option<&sigaction>, old: Option<&mut sigaction>) -> c_int {
    let owner = OWNER.load(Relaxed);
    let Some(kept) = kept(signal).filter(|_| owner != 0) else {
        let action = action.map_or(ptr::null(), ptr::from_ref);
        let old = old.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: valid or null.
        return unsafe { libc::sigaction(signal, action, old) };
    };
    // SAFETY: no arguments.
    let is_owner = unsafe { libc::getpid() } == owner;
    let error = alone(|| {
        let is_kept = ARE_ALL.load(Relaxed) || goes_around(signal);
        if let Some(old) = old {
            *old = action_of(signal).unwrap_or(*old);
        }
        match action {
            None => 0,
            Some(action) if is_owner && is_kept => set(signal, kept, action),
            // SAFETY: valid.
            Some(action) => match unsafe { libc::sigaction(signal, action, ptr::null_mut()) } {
                0 => 0,
                _ => errno::get(),
            },
        }
    });
    if error == 0 {
        return 0;
    }
    errno::set(error);
    -1
}

// ---- what the program calls

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_sigaction(
    signal: c_int,
    action: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    // SAFETY: null or the caller's. Read and written here: if there is no such memory, it is a
    // fault of the caller's.
    unsafe {
        let action = action.as_ref().copied();
        if old.is_null() {
            // The kernel is not asked for it.
            return change(signal, action.as_ref(), None);
        }
        let mut before = mem::zeroed();
        let failed = change(signal, action.as_ref(), Some(&mut before));
        if failed == 0 {
            *old = before;
        }
        failed
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user___sigaction(
    signal: c_int,
    action: *const sigaction,
    old: *mut sigaction,
) -> c_int {
    // SAFETY: passed on.
    unsafe { heddle_user_sigaction(signal, action, old) }
}

/// Signals whose handlers, if [`signal_with`] sets them, end system calls: `siginterrupt`.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// Whether handlers of `signal` that are set from now on are to end system calls.
pub fn interrupts(signal: c_int, it_does: bool) {
    match it_does {
        true => INTERRUPTING.fetch_or(bit(signal), Relaxed),
        false => INTERRUPTING.fetch_and(!bit(signal), Relaxed),
    };
}

/// `signal` with these flags; what was set before.
fn signal_with(signal: c_int, handler: usize, flags: c_int) -> usize {
    if kept(signal).is_none() || handler == libc::SIG_ERR {
        errno::set(libc::EINVAL);
        return libc::SIG_ERR;
    }
    // SAFETY: all zero bytes are a valid action.
    let (mut action, mut old): (sigaction, sigaction) = unsafe { mem::zeroed() };
    action.sa_sigaction = handler;
    let ends_calls = INTERRUPTING.load(Relaxed) & bit(signal) != 0;
    action.sa_flags = if ends_calls { flags & !libc::SA_RESTART } else { flags };
    if flags & libc::SA_NODEFER == 0 {
        action.sa_mask = mask::set_of(bit(signal));
    }
    match change(signal, Some(&action), Some(&mut old)) {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// The C library's `signal` in its variants.
macro_rules! setters {
    ($($name:ident, $flags:expr;)+) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(signal: c_int, handler: usize) -> usize {
                signal_with(signal, handler, $flags)
            }
        )+
    };
}

setters! {
    heddle_user_signal, libc::SA_RESTART;
    heddle_user_bsd_signal, libc::SA_RESTART;
    heddle_user_ssignal, libc::SA_RESTART;
    heddle_user___sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER;
    heddle_user_sysv_signal, libc::SA_RESETHAND | libc::SA_NODEFER;
}
