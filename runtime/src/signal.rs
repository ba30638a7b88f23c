//! Signals of the process, received by a thread: `Signals::new(&[..])`, then `wait`.
//!
//! Workers have all signals blocked (a handler would run on a small stack), so a signal is
//! delivered to another kernel thread: the main one, which sleeps in `heddle::run` or does what
//! the program has it do. If that one blocks a signal too, it stays pending.
//!
//! Protocol: the handler runs on any kernel thread at any moment, so it touches nothing but the
//! static table of listeners: for each that wants the signal it sets the bit in `pending`, then
//! makes its eventfd readable. A receiver takes a bit, or drains the eventfd, looks again, and
//! only then waits; who leaves bits behind makes the eventfd readable again.
//!
//! Invariant: the eventfd of a listener is never closed, only reused by the next `Signals`: a
//! handler that is about to write can't hit a descriptor that has become something else.

use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU64};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::io::{Interest, call};
use crate::sys::descriptor::{keep, raised};
use crate::sys::event;
use crate::sys::signals::{self, Action};

/// Most `Signals` that exist at a time.
const LISTENERS_MAX: usize = 32;
/// Signals are numbered 1 to 64.
const SIGNALS: usize = 65;

/// A signal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Signal(i32);

impl Signal {
    /// The terminal has gone, or: read your configuration again.
    pub const HUP: Signal = Signal(libc::SIGHUP);
    /// Interrupted from the terminal (Ctrl-C).
    pub const INT: Signal = Signal(libc::SIGINT);
    /// Quit from the terminal.
    pub const QUIT: Signal = Signal(libc::SIGQUIT);
    /// For the program's own use.
    pub const USR1: Signal = Signal(libc::SIGUSR1);
    /// For the program's own use.
    pub const USR2: Signal = Signal(libc::SIGUSR2);
    /// A pipe without readers was written.
    pub const PIPE: Signal = Signal(libc::SIGPIPE);
    /// The timer of `alarm`.
    pub const ALRM: Signal = Signal(libc::SIGALRM);
    /// Please end.
    pub const TERM: Signal = Signal(libc::SIGTERM);
    /// A child process has ended or stopped.
    pub const CHLD: Signal = Signal(libc::SIGCHLD);
    /// Go on.
    pub const CONT: Signal = Signal(libc::SIGCONT);
    /// The terminal's size has changed.
    pub const WINCH: Signal = Signal(libc::SIGWINCH);

    /// The signal with this number; `None` for numbers that can't be received (`SIGKILL`,
    /// `SIGSTOP`), report a fault of the program, or belong to the C library.
    pub fn from_raw(number: i32) -> Option<Self> {
        let taken = [libc::SIGKILL, libc::SIGSTOP];
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];
        let known =
            (1..32).contains(&number) || (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&number);
        (known && !taken.contains(&number) && !faults.contains(&number)).then_some(Signal(number))
    }

    /// The signal's number.
    pub fn as_raw(self) -> i32 {
        self.0
    }

    fn bit(self) -> u64 {
        1 << (self.0 - 1)
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Signal::HUP => "HUP",
            Signal::INT => "INT",
            Signal::QUIT => "QUIT",
            Signal::USR1 => "USR1",
            Signal::USR2 => "USR2",
            Signal::PIPE => "PIPE",
            Signal::ALRM => "ALRM",
            Signal::TERM => "TERM",
            Signal::CHLD => "CHLD",
            Signal::CONT => "CONT",
            Signal::WINCH => "WINCH",
            Signal(number) => return write!(f, "Signal({number})"),
        };
        write!(f, "SIG{name}")
    }
}

/// One entry of the handler's table.
struct Listener {
    /// The signals it wants; 0 = the entry is free.
    wanted: AtomicU64,
    pending: AtomicU64,
    /// Its eventfd, once it has been used; -1 before.
    event: AtomicI32,
}

static LISTENERS: [Listener; LISTENERS_MAX] = [const {
    Listener { wanted: AtomicU64::new(0), pending: AtomicU64::new(0), event: AtomicI32::new(-1) }
}; LISTENERS_MAX];

/// How each signal was treated before us, and how many listeners it has. Held while listeners
/// come and go; the handler never takes it.
static BEFORE: Mutex<Before> = Mutex::new([const { (0, None) }; SIGNALS]);

type Before = [(u32, Option<Action>); SIGNALS];

/// One more listener for `signal`.
fn take(before: &mut Before, signal: Signal) -> io::Result<()> {
    let (count, action) = &mut before[signal.0 as usize];
    if *count == 0 {
        *action = Some(signals::install(signal.0, on_signal)?);
    }
    *count += 1;
    Ok(())
}

/// One listener less.
fn give_back(before: &mut Before, signal: Signal) {
    let (count, action) = &mut before[signal.0 as usize];
    *count -= 1;
    if *count == 0
        && let Some(action) = action.take()
    {
        signals::restore(signal.0, &action);
    }
}

/// Receives signals of the process. While it exists they have no other effect; when the last
/// receiver of a signal is dropped the signal is treated as before.
///
/// A signal that arrives again before it was received is received once. Several receivers of a
/// signal each get it.
///
/// ```
/// use heddle::signal::{Signal, Signals};
/// let signals = Signals::new(&[Signal::USR1])?;
/// heddle::signal::raise(Signal::USR1)?;
/// assert_eq!(signals.wait()?, Signal::USR1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Signals {
    index: usize,
}

impl Signals {
    /// Starts to receive `signals`.
    ///
    /// # Errors
    /// `OutOfMemory` with a [`crate::Limit`] for more than 32 receivers; the limit of
    /// descriptors.
    pub fn new(signals: &[Signal]) -> io::Result<Self> {
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = signals.iter().fold(0, |set, signal| set | signal.bit());
        let free = LISTENERS.iter().position(|listener| listener.wanted.load(Relaxed) == 0);
        let Some(index) = free.filter(|_| wanted != 0) else {
            if wanted == 0 {
                let text = "no signal to receive";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            return Err(crate::error::exhausted("signal receivers", LISTENERS_MAX as u64));
        };
        let listener = &LISTENERS[index];
        if listener.event.load(Relaxed) < 0 {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            let event = raised(|| eventfd(0, flags))?;
            listener.event.store(keep(event), Relaxed);
        }
        listener.pending.store(0, Relaxed);
        // ORDER: Release: a handler that sees the entry sees its eventfd.
        listener.wanted.store(wanted, Release);
        let mut taken = 0;
        for signal in each(wanted) {
            if let Err(error) = take(&mut before, signal) {
                each(taken).for_each(|signal| give_back(&mut before, signal));
                listener.wanted.store(0, SeqCst);
                return Err(error);
            }
            taken |= signal.bit();
        }
        Ok(Signals { index })
    }

    fn listener(&self) -> &'static Listener {
        &LISTENERS[self.index]
    }

    /// Blocks the calling thread until one of the signals arrives.
    ///
    /// # Errors
    /// [`crate::Cancelled`].
    pub fn wait(&self) -> io::Result<Signal> {
        self.wait_until(0)
    }

    /// As [`Signals::wait`], at most for `timeout`; `None` when it has passed.
    ///
    /// # Errors
    /// [`crate::Cancelled`].
    pub fn wait_timeout(&self, timeout: Duration) -> io::Result<Option<Signal>> {
        match self.wait_until(call::deadline(Some(timeout))) {
            Ok(signal) => Ok(Some(signal)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes a signal that has arrived.
    pub fn try_wait(&self) -> Option<Signal> {
        let listener = self.listener();
        // ORDER: Acquire pairs with the Release in `on_signal`.
        let pending = listener.pending.load(Acquire);
        for signal in each(pending) {
            let before = listener.pending.fetch_and(!signal.bit(), AcqRel);
            if before & signal.bit() != 0 {
                if before != signal.bit() {
                    // For another receiver that may have drained the eventfd meanwhile.
                    event::signal_event(listener.event.load(Relaxed));
                }
                return Some(signal);
            }
        }
        None
    }

    fn wait_until(&self, deadline: u64) -> io::Result<Signal> {
        let event = self.listener().event.load(Relaxed);
        loop {
            if let Some(signal) = self.try_wait() {
                return Ok(signal);
            }
            event::clear_event(event);
            if let Some(signal) = self.try_wait() {
                return Ok(signal);
            }
            call::wait_ready(event, Interest::Read, deadline)?;
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.listener().wanted.load(Relaxed);
        each(wanted).for_each(|signal| give_back(&mut before, signal));
        // ORDER: SeqCst after the handlers are gone; one that still runs sets a bit that the
        // next user of the entry clears.
        self.listener().wanted.store(0, SeqCst);
    }
}

/// The signals of a set.
fn each(set: u64) -> impl Iterator<Item = Signal> {
    (1..SIGNALS as i32).map(Signal).filter(move |signal| set & signal.bit() != 0)
}

/// The handler: async-signal-safe, see the file's head.
extern "C" fn on_signal(number: libc::c_int) {
    let signal = Signal(number);
    for listener in &LISTENERS {
        // ORDER: Acquire pairs with the Release in `Signals::new`.
        if listener.wanted.load(Acquire) & signal.bit() != 0 {
            // ORDER: Release pairs with the Acquire in `try_wait`.
            listener.pending.fetch_or(signal.bit(), Release);
            event::signal_event(listener.event.load(Relaxed));
        }
    }
}

/// Sends `signal` to the calling process.
///
/// # Errors
/// What the kernel says.
pub fn raise(signal: Signal) -> io::Result<()> {
    send(std::process::id(), signal)
}

/// Sends `signal` to the process `pid`.
///
/// # Errors
/// `NotFound` when there is no such process, `PermissionDenied`.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    signals::kill(pid as i32, signal.0)
}
