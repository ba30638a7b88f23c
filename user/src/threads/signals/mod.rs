//! Signals to full threads.
//!
//! The kernel does not know a full thread. A signal that is sent to one is added to those that are
//! pending for it (`pending.rs`), and the thread is called: the handler runs on the thread's own
//! stack or its alternate one (`alternate.rs`), with its mask, wherever the thread is by then, in
//! the middle of what it computes or of a call that waits. Actions are the process's, so the kernel
//! is asked for them. A default action is the process's, too: who sends the signal lets the kernel
//! do it.
//!
//! Signals that are sent to the process go to its kernel threads, the main one first; what these
//! have blocked goes to a full thread that lets it through (`process.rs`).
//!
//! Protocol:
//! 1. A sender adds the signal, then calls the thread. The thread takes the call first and looks
//!    at what is pending then. So no signal is left behind.
//! 2. A wait that a call has ended goes on, or fails with EINTR, as [`interrupted`] says.
//! 3. Signals that the thread has blocked stay pending until it unblocks them or waits for them. It
//!    is not called for them: the sender adds one before it looks at the mask, and the thread
//!    changes the mask before it looks at what is pending. Who waits for what descriptors tell of
//!    them is called all the same (`told.rs`).
//! 4. What is pending of a signal that the program begins to ignore is discarded (`discard.rs`).
//! 5. A call that waits with another mask ([`Masked`]) looks itself for what this mask lets
//!    through, and nobody else does meanwhile: a handler that ran elsewhere would not end the wait.
//!
//! Differences from the kernel's: a thread that waits for a call on a kernel thread of the blocking
//! pool that nothing interrupts runs its handlers when it goes on; what a handler is told of
//! registers is those of its own call.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

pub mod actions;
pub mod alternate;
mod around;
mod by_number;
mod called;
mod context;
pub mod discard;
mod entered;
pub mod failure;
pub mod faults;
mod jump;
mod kept;
pub mod kernels;
mod masked;
mod news;
mod older;
mod pending;
pub mod process;
mod queue;
pub mod raised;
mod sent;
pub mod stray;
mod timed;
pub mod timers;
pub mod to_process;
mod told;
mod urgent;

use core::cell::Cell;
use core::ffi::c_int;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use heddle::raw::{self, Moment};
use libc::{pthread_t, siginfo_t, ucontext_t};

use self::actions::{OF_C_LIBRARY, action_of};
use self::alternate::Alternate;
use self::pending::{Added, Pending};
use self::told::Told;
use super::{Pthread, find, fork, registry, this, with_number};
use crate::calls::{mask, signalfd};
use crate::errno;
use crate::sync::shared;
use crate::sys::kept::has_none;

pub use self::by_number::rt_sigaction;
pub use self::called::{answer, answer_if_called, answer_soon, are_answered, at_end, called};
pub use self::called::{answer_unless_others_allocate, have_all_look, prepare_to_leave};
pub use self::masked::Masked;
pub use self::pending::bit;
pub use self::queue::queue_info;
pub use self::sent::{SI_TKILL, SIGNALS, fields_of, info_of};

/// Signals whose default is to be ignored.
const IGNORED: u64 = bit(libc::SIGCHLD) | bit(libc::SIGURG) | bit(libc::SIGWINCH);

/// The signals of a full thread.
pub struct Signals {
    /// Sent to it and not taken yet.
    pending: Pending,
    /// Those that it has blocked; bit 0 is the first signal.
    blocked: AtomicU64,
    /// Those that it waits for, blocked as they are.
    wanted: AtomicU64,
    /// One that was sent to the process may be for it.
    look: AtomicBool,
    /// What descriptors tell of them.
    pub told: Told,
    /// The mask to come, of a thread in a call with another one: see item 5 of the protocol. Its
    /// own.
    masked: Cell<Option<u64>>,
    alternate: Alternate,
    /// Its own.
    pub shared_wait: shared::Place,
}

impl Signals {
    pub fn new(blocked: u64) -> Self {
        Signals {
            pending: Pending::new(),
            blocked: AtomicU64::new(blocked),
            wanted: AtomicU64::new(0),
            look: AtomicBool::new(false),
            told: Told::new(),
            masked: Cell::new(None),
            alternate: Alternate::new(),
            shared_wait: shared::Place::new(),
        }
    }

    pub fn blocked(&self) -> u64 {
        // ORDER: pairs with the swap in `block_only`.
        self.blocked.load(SeqCst)
    }

    /// Of the calling thread; what is unblocked is not delivered yet.
    pub fn block_only(&self, signals: u64) {
        // ORDER: SeqCst: the mask before what is held back (`process.rs`); a sender who sees it may
        // act for the thread.
        let before = self.blocked.swap(signals, SeqCst);
        process::let_through(self, !signals, before & !signals);
    }

    pub fn alternate(&self) -> &Alternate {
        &self.alternate
    }

    /// Whether something may be delivered to the calling thread.
    pub fn is_due(&self) -> bool {
        self.look.load(Relaxed) || self.pending.set() & !self.blocked() != 0
    }

    /// Takes one of `signals` that is pending for the calling thread, or for the process.
    pub fn take(&self, signals: u64) -> Option<siginfo_t> {
        self.take_own(signals).or_else(|| process::take(self, signals))
    }

    /// Takes one of `signals` that was sent to the calling thread.
    pub fn take_own(&self, signals: u64) -> Option<siginfo_t> {
        let own = {
            let _pin = raw::pin();
            self.pending.take(signals)
        };
        own.map(timers::taken)
    }

    /// What was sent to the thread and is pending.
    pub fn own_pending(&self) -> u64 {
        self.pending.set()
    }

    /// Whether the thread is to look when it was sent `signal`.
    fn is_called_for(&self, signal: u64) -> bool {
        self.lets_through(signal) || self.told.waits() && signalfd::tells_of(signal)
    }

    /// As [`Signals::take`] of a thread that begins to wait, or goes on waiting, for `signals`
    /// whatever its mask is.
    pub fn take_wanted(&self, signals: u64) -> Option<siginfo_t> {
        // ORDER: as in `block_only`.
        self.wanted.store(signals, SeqCst);
        process::watch(signals);
        process::let_through(self, signals, signals);
        self.look.store(true, Relaxed);
        self.take(signals)
    }

    /// The calling thread, whose signals these are, goes on with this mask after a handler; what is
    /// unblocked is not delivered yet. In a child that it has forked there, the mask is the kernel
    /// thread's.
    fn go_on_with(&self, blocked: u64) {
        self.block_only(blocked);
        if this().is_some_and(fork::is_child_of) {
            mask::take_on(blocked);
        }
    }

    /// In a child that the calling thread has forked: none of these was sent to that one.
    pub fn in_child(&self) {
        self.pending.clear();
        self.want_none();
        self.look.store(false, Relaxed);
        mask::take_on(self.blocked());
    }

    /// The calling thread waits for no signals any more.
    pub fn want_none(&self) {
        // Who still sees the old word calls the thread for nothing.
        self.wanted.store(0, Relaxed);
    }

    /// Whether the thread takes `signal` when it is sent to it, or to the process.
    fn lets_through(&self, signal: u64) -> bool {
        // ORDER: SeqCst, see `process.rs`.
        (!self.blocked.load(SeqCst) | self.wanted.load(SeqCst)) & signal != 0
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

impl Ran {
    /// Whether it ends a futex's wait, which the kernel restarts only where that has no deadline.
    pub fn ends(self, until: Moment) -> bool {
        match self {
            Ran::Nothing => false,
            Ran::Restarting => until != Moment::Never,
            Ran::Interrupting => true,
        }
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
    if signal == 0 { 0 } else { send_info(target, &info_of(signal)) }
}

/// Sends `target` a signal that is one, with all that is known of it.
fn send_info(target: &Pthread, info: &siginfo_t) -> c_int {
    if let Some(result) = add(target, info) {
        return result;
    }
    match this() {
        Some(me) if ptr::eq(me, target) && me.signals.masked.get().is_some() => {}
        Some(me) if ptr::eq(me, target) => drop(deliver(me)),
        // Item 3 of the protocol; a wait goes on, as nothing has come to it.
        _ if !target.signals.is_called_for(bit(info.si_signo)) => {}
        _ => raw::when_unpinned(call, target.slot.load(Relaxed) as usize),
    }
    0
}

/// Step 1 of the protocol. The result of sending it, unless it is pending now.
fn add(target: &Pthread, info: &siginfo_t) -> Option<c_int> {
    let signal = info.si_signo;
    if target.has_ended() {
        return Some(0);
    }
    let Some(action) = action_of(signal) else { return Some(libc::EINVAL) };
    discard::sending(signal);
    let is_blocked = target.signals.blocked() & bit(signal) != 0;
    match action.sa_sigaction {
        _ if is_blocked => {}
        libc::SIG_IGN => return Some(timers::dropped(info)),
        libc::SIG_DFL if IGNORED & bit(signal) != 0 => return Some(timers::dropped(info)),
        libc::SIG_DFL => {
            act_by_default(signal);
            return Some(timers::dropped(info));
        }
        _ => {}
    }
    match target.signals.pending.add(info) {
        Added::Whole => {}
        Added::Bare => _ = timers::dropped(info),
        Added::Refused => return Some(libc::EAGAIN),
    }
    target.signals.told.count();
    None
}

fn call(slot: usize, _times: u32) {
    registry::with(slot as u32, |target| {
        if let Some(thread) = target.thread() {
            raw::call(&thread);
        }
    });
}

/// Whether `target`, a full thread of this process or its parent's, is the one thread of a child,
/// to which the kernel brings signals. One that has its parent's memory is not to write there.
fn is_the_kernels(target: &Pthread) -> bool {
    let is_own = this().is_some_and(|me| ptr::eq(me, target));
    fork::is_child_of(target) || is_own && !has_none()
}

/// Sends the full thread with this number a signal.
pub fn send_to(number: u32, signal: c_int) -> c_int {
    with_number(number, |target| send(target, signal)).unwrap_or(libc::ESRCH)
}

/// Sends the full thread with this number a signal, with all that is known of it.
pub fn send_info_to(number: u32, info: &siginfo_t) -> c_int {
    with_number(number, |target| send_info(target, info)).unwrap_or(libc::ESRCH)
}

/// Runs the handlers of what the calling thread, `me`, has pending and not blocked. The caller may
/// be another thread then: see [`handled_with`].
pub fn deliver(mut me: &'static Pthread) -> Ran {
    raw::answer_call();
    let mut ran = Ran::Nothing;
    while let Some(mut info) = me.signals.take(!me.signals.blocked()) {
        if me.signals.is_due() {
            // Should the handler jump: the next ones come all the same.
            raw::call_again();
        }
        match run_handler(me, &mut info) {
            Some(true) if ran == Ran::Nothing => ran = Ran::Restarting,
            Some(false) => ran = Ran::Interrupting,
            _ => {}
        }
        match this() {
            Some(now) => me = now,
            None => break,
        }
    }
    ran
}

/// Handles one; whether calls that it has interrupted go on. `None`: there was no handler.
fn run_handler(me: &'static Pthread, info: &mut siginfo_t) -> Option<bool> {
    let signal = info.si_signo;
    let action = action_of(signal)?;
    match action.sa_sigaction {
        libc::SIG_IGN => return None,
        libc::SIG_DFL if IGNORED & bit(signal) != 0 || timed::is_late(info) => return None,
        libc::SIG_DFL => {
            act_by_default(signal);
            return None;
        }
        _ => {}
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        actions::reset(signal, &action);
    }
    handled_with(me, &action, signal, |before| call_handler(me, info, &action, before));
    Some(action.sa_flags & libc::SA_RESTART != 0)
}

/// Calls `handler` in the state that a handler of `signal` has. It is given the mask of before, and
/// says which one comes after: a handler may change that in its context.
///
/// The handler may end the thread or jump: nothing here has a destructor, and what the thread was
/// in the middle of is over then. And it may switch to another context: where another thread goes
/// on with this one, it is that thread which returns to what was interrupted.
fn handled_with(
    me: &'static Pthread,
    action: &libc::sigaction,
    signal: c_int,
    handler: impl FnOnce(u64) -> u64,
) {
    let signals = &me.signals;
    let (before, number) = (signals.blocked(), errno::get());
    let (masked, wanted) = (signals.masked.take(), signals.wanted.load(Relaxed));
    let seen = signals.told.seen();
    signals.want_none();
    let shared_wait = signals.shared_wait.leave();
    let own = if action.sa_flags & libc::SA_NODEFER == 0 { bit(signal) } else { 0 };
    let during = before | mask::bits(&action.sa_mask) | own;
    signals.block_only(during);
    // The mask of a call is over with its first handler; others come only where that lets them.
    let after = handler(masked.unwrap_or(before));
    errno::set(number);
    let Some(Pthread { signals, .. }) = this() else { return };
    signals.masked.set(masked.map(|_| after & !mask::NEVER));
    signals.shared_wait.go_back(&shared_wait);
    signals.told.go_back(seen);
    // ORDER: as in `block_only`.
    signals.wanted.store(wanted, SeqCst);
    signals.go_on_with(if masked.is_some() { during } else { after & !mask::NEVER });
}

/// Calls the handler of `action` on the stack that it asks for. What its context has for a mask
/// then, which was `blocked`.
fn call_handler(
    me: &'static Pthread,
    info: &mut siginfo_t,
    action: &libc::sigaction,
    blocked: u64,
) -> u64 {
    // SAFETY: all zero bytes are valid; the place is one.
    let mut context: ucontext_t = unsafe { mem::zeroed() };
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: as above.
        unsafe { getcontext(&mut context) };
        context.uc_sigmask = mask::set_of(blocked);
        context.uc_stack = me.signals.alternate.told();
    }
    // SAFETY: the program's handler, which is called as the kernel does it.
    let was_left = unsafe { alternate::call(me, action, info, (&raw mut context).cast()) };
    match action.sa_flags & libc::SA_SIGINFO {
        0 => blocked,
        // The thread has that of the context with which it went on: this one, or a copy.
        _ if was_left => this().map_or(blocked, |me| me.signals.blocked()),
        _ => mask::bits(&context.uc_sigmask),
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

/// Whether the calling full thread, which was called, is to leave the call that it waits in.
pub fn is_due() -> bool {
    raw::answer_call();
    raw::is_cancelled() || is_due_to_own()
}

/// Whether the calling full thread has signals to handle.
pub fn is_due_to_own() -> bool {
    this().is_some_and(|me| me.signals.is_due())
}

/// The calling thread ends: it takes no signals any more.
pub fn close(me: &Pthread) {
    me.signals.want_none();
    me.signals.block_only(u64::MAX);
    timers::forget(super::number());
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
        Some(_) if OF_C_LIBRARY.contains(&signal) => libc::EINVAL,
        Some(target) if target.has_ended() => 0,
        Some(target) if !is_the_kernels(target) => errno::kept(|| send(target, signal)),
        // SAFETY: as above.
        _ => unsafe { libc::pthread_kill(thread, signal) },
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_user_raise(signal: c_int) -> c_int {
    let Some(me) = this().filter(|me| !is_the_kernels(me)) else {
        // SAFETY: no pointers.
        return unsafe { libc::raise(signal) };
    };
    match errno::kept(|| send(me, signal)) {
        0 => 0,
        error => {
            errno::set(error);
            -1
        }
    }
}
