//! Signals to full threads.
//!
//! The kernel does not know a full thread. A signal that is sent to one is noted in its set of
//! pending signals, and the thread is called: the handler runs on the thread's own stack, with its
//! mask, wherever the thread is by then, in the middle of what it computes or of a call that waits.
//! Actions are the process's, so the kernel is asked for them. A default action is the process's,
//! too: who sends the signal lets the kernel do it.
//!
//! Signals that are sent to the process go to its kernel threads, the main one first.
//!
//! Protocol:
//! 1. A sender notes the signal, then calls the thread. The thread takes the call first and looks
//!    at its set then. So no signal is left behind.
//! 2. A wait that a call has ended goes on, or fails with EINTR, as [`interrupted`] says.
//! 3. Signals that the thread has blocked stay in the set until it unblocks them or waits for them.
//!
//! Differences from the kernel's: a signal that is pending is noted once, real-time signals too;
//! handlers run on the thread's stack, whatever `sigaltstack` says; a thread that waits for a
//! kernel thread of the blocking pool runs its handlers when it goes on.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heddle::raw;
use libc::{pthread_t, siginfo_t, sigset_t, ucontext_t};

use super::{Pthread, cancel, find, fork, registry, this};
use crate::calls::mask;
use crate::errno;

/// Signal numbers end before this one.
const SIGNALS: c_int = 65;
/// `si_code` of a signal to a thread.
const SI_TKILL: c_int = -6;
/// Signals whose default is to be ignored.
const IGNORED: u64 = bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// The signals of a full thread.
pub struct Signals {
    /// Sent to it and not taken yet; bit 0 is the first signal.
    pending: AtomicU64,
    /// Those that it has blocked.
    blocked: AtomicU64,
}

pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

impl Signals {
    pub fn new(blocked: u64) -> Self {
        Signals { pending: AtomicU64::new(0), blocked: AtomicU64::new(blocked) }
    }

    pub fn blocked(&self) -> u64 {
        self.blocked.load(Acquire)
    }

    /// Of the calling thread; what is unblocked is not delivered yet.
    pub fn block_only(&self, signals: u64) {
        // ORDER: Release: a sender who sees it may act for the thread.
        self.blocked.store(signals, Release);
    }

    pub fn pending(&self) -> u64 {
        self.pending.load(Acquire)
    }

    /// Takes a pending one of `signals`, the lowest first.
    pub fn take(&self, signals: u64) -> Option<c_int> {
        let ready = self.pending() & signals;
        if ready == 0 {
            return None;
        }
        let signal = ready.trailing_zeros() as c_int + 1;
        self.pending.fetch_and(!bit(signal), AcqRel);
        Some(signal)
    }
}

/// What came of the calling thread's signals.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// No handler ran.
    Nothing,
    /// Handlers ran, which all ask for interrupted calls to go on.
    Restarting,
    /// A handler ran that does not.
    Interrupting,
}

fn action_of(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: all zero bytes are a valid action, which the call overwrites.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &mut action) == 0).then_some(action)
    }
}

/// Lets the kernel do what is the default, to the process.
fn act_by_default(signal: c_int) {
    mask::with(!bit(signal), || {
        // SAFETY: no pointers.
        unsafe { libc::raise(signal) }
    });
}

/// Sends `target` a signal.
fn send(target: &Pthread, signal: c_int) -> c_int {
    if !(0..SIGNALS).contains(&signal) {
        return libc::EINVAL;
    }
    if signal == 0 || target.has_ended() {
        return 0;
    }
    let Some(action) = action_of(signal) else { return libc::EINVAL };
    let is_blocked = target.signals.blocked() & bit(signal) != 0;
    match action.sa_sigaction {
        _ if is_blocked => {}
        libc::SIG_IGN => return 0,
        libc::SIG_DFL if IGNORED & bit(signal) != 0 => return 0,
        libc::SIG_DFL => {
            act_by_default(signal);
            return 0;
        }
        _ => {}
    }
    // ORDER: AcqRel: step 1 of the protocol.
    target.signals.pending.fetch_or(bit(signal), AcqRel);
    match this() {
        Some(me) if ptr::eq(me, target) => drop(deliver(me)),
        _ => raw::when_unpinned(call, target.slot.load(Relaxed) as usize),
    }
    0
}

fn call(slot: usize, _times: u32) {
    registry::with(slot as u32, |target| {
        if let Some(thread) = target.thread() {
            raw::call(&thread);
        }
    });
}

/// Sends the full thread with this number a signal.
pub fn send_to(number: u32, signal: c_int) -> c_int {
    if number == super::number()
        && let Some(me) = this()
    {
        return send(me, signal);
    }
    let slot = number - super::NUMBER_FIRST;
    registry::with(slot, |target| send(target, signal)).unwrap_or(libc::ESRCH)
}

/// Sends the calling full thread a signal: its handler has run when this returns.
pub fn send_to_own(signal: c_int) {
    if let Some(me) = this() {
        errno::kept(|| send(me, signal));
    }
}

/// Runs the handlers of what the calling thread, `me`, has pending and not blocked.
pub fn deliver(me: &'static Pthread) -> Ran {
    raw::answer_call();
    let mut ran = Ran::Nothing;
    while let Some(signal) = me.signals.take(!me.signals.blocked()) {
        match run_handler(me, signal) {
            Some(true) if ran == Ran::Nothing => ran = Ran::Restarting,
            Some(false) => ran = Ran::Interrupting,
            _ => {}
        }
    }
    ran
}

/// Handles one; whether calls that it has interrupted go on. `None`: there was no handler.
fn run_handler(me: &'static Pthread, signal: c_int) -> Option<bool> {
    let action = action_of(signal)?;
    match action.sa_sigaction {
        libc::SIG_IGN => return None,
        libc::SIG_DFL => {
            if IGNORED & bit(signal) == 0 {
                act_by_default(signal);
            }
            return None;
        }
        _ => {}
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        // SAFETY: all zero bytes are the default action.
        unsafe { libc::sigaction(signal, &mem::zeroed(), ptr::null_mut()) };
    }
    let before = me.signals.blocked();
    let own = if action.sa_flags & libc::SA_NODEFER == 0 { bit(signal) } else { 0 };
    me.signals.block_only(before | mask::bits(&action.sa_mask) | own);
    let number = errno::get();
    call_handler(signal, &action, before);
    errno::set(number);
    me.signals.block_only(before);
    Some(action.sa_flags & libc::SA_RESTART != 0)
}

/// The beginning of a `siginfo_t`; what follows differs by signal.
#[repr(C)]
struct Sent {
    signal: c_int,
    errno: c_int,
    code: c_int,
    align: c_int,
    pid: u32,
    uid: u32,
    value: u64,
}

impl Sent {
    fn info(self) -> siginfo_t {
        // SAFETY: all zero bytes are valid; it is larger than its beginning.
        unsafe {
            let mut info: siginfo_t = mem::zeroed();
            (&raw mut info).cast::<Sent>().write(self);
            info
        }
    }
}

/// The `siginfo_t` of a signal that a thread of this process sent.
pub fn info_of(signal: c_int) -> siginfo_t {
    // SAFETY: no arguments.
    let (pid, uid) = unsafe { (libc::getpid() as u32, libc::getuid()) };
    Sent { signal, errno: 0, code: SI_TKILL, align: 0, pid, uid, value: 0 }.info()
}

/// The `siginfo_t` of a signal that a signalfd has told of.
pub fn info_of_taken(taken: &libc::signalfd_siginfo) -> siginfo_t {
    let sent = Sent {
        signal: taken.ssi_signo as c_int,
        errno: taken.ssi_errno,
        code: taken.ssi_code,
        align: 0,
        pid: taken.ssi_pid,
        uid: taken.ssi_uid,
        // A timer's number and overruns lie where a sender's ids do.
        value: if taken.ssi_signo == libc::SIGCHLD as u32 {
            taken.ssi_status as u32 as u64
        } else {
            taken.ssi_ptr
        },
    };
    match taken.ssi_code {
        libc::SI_TIMER => Sent { pid: taken.ssi_tid, uid: taken.ssi_overrun, ..sent }.info(),
        _ => sent.info(),
    }
}

/// The handler may end the thread: nothing here has a destructor.
fn call_handler(signal: c_int, action: &libc::sigaction, blocked: u64) {
    type Plain = unsafe extern "C-unwind" fn(c_int);
    type Full = unsafe extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);
    if action.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: a handler without SA_SIGINFO has this signature.
        unsafe { mem::transmute::<usize, Plain>(action.sa_sigaction)(signal) };
        return;
    }
    let mut info = info_of(signal);
    // SAFETY: all zero bytes are valid; a handler with SA_SIGINFO has this signature.
    unsafe {
        let mut context: ucontext_t = mem::zeroed();
        getcontext(&mut context);
        context.uc_sigmask = mask::set_of(blocked);
        let handler = mem::transmute::<usize, Full>(action.sa_sigaction);
        handler(signal, &mut info, (&raw mut context).cast());
    }
}

/// A wait of the calling full thread has ended as cancelled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It was cancelled.
    End,
    /// It was called for nothing.
    GoOn,
    /// Handlers ran; the call goes on, unless it is one that never does.
    Restart,
    /// The call fails with EINTR, if it is one that does so.
    Fail,
}

/// Runs what the calling thread was called for, and says what becomes of the wait that has ended.
pub fn interrupted() -> Then {
    let Some(me) = this() else { return Then::GoOn };
    if raw::is_cancelled() {
        return Then::End;
    }
    match deliver(me) {
        Ran::Nothing => Then::GoOn,
        Ran::Restarting => Then::Restart,
        Ran::Interrupting => Then::Fail,
    }
}

/// What a full thread runs that was called while it computed.
pub fn answer() {
    called();
}

/// Runs what the calling full thread was called for.
pub fn called() -> Ran {
    let Some(me) = this() else { return Ran::Nothing };
    if me.own.asynchronous.load(Relaxed) && raw::is_cancelled() {
        raw::answer_call();
        cancel::act();
    }
    deliver(me)
}

/// The calling thread ends: it takes no signals any more.
pub fn close(me: &Pthread) {
    me.signals.block_only(u64::MAX);
    raw::answer_call();
}

// SAFETY: the C library's function, by its header.
unsafe extern "C" {
    fn getcontext(context: *mut ucontext_t) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_pthread_kill(thread: pthread_t, signal: c_int) -> c_int {
    // SAFETY: the caller's thread.
    match unsafe { find(thread) } {
        Some(target) if !fork::is_child_of(target) => errno::kept(|| send(target, signal)),
        // SAFETY: as above.
        _ => unsafe { libc::pthread_kill(thread, signal) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_raise(signal: c_int) -> c_int {
    let Some(me) = this() else { return 0 };
    match errno::kept(|| send(me, signal)) {
        0 => 0,
        error => {
            errno::set(error);
            -1
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_sigpending(set: *mut sigset_t) -> c_int {
    // SAFETY: the caller's place.
    let failed = unsafe { libc::sigpending(set) };
    if failed == 0
        && let Some(me) = this()
    {
        // SAFETY: as above.
        unsafe { set.write(mask::set_of(mask::bits(&*set) | me.signals.pending())) };
    }
    failed
}
