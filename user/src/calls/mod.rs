//! Calls in which a thread may wait for the world outside of the program: what full threads make
//! of them.
//!
//! Callers that are kernel threads never come here, but for `close` and `dup2`: the jump behind a
//! name that is `full` in `user/names` sends them on to the C library. A full thread parks
//! while its worker runs others:
//!
//! | what it waits for | how |
//! |---|---|
//! | a socket, a pipe, a terminal | try without sleeping; if in vain, wait until it is ready |
//! | a disk | the page cache at once; else a kernel thread of the blocking pool |
//! | names of files | the call itself, in which the worker may be blocked for once |
//! | a connection | the same where the other end is in this machine; else the blocking pool |
//! | several descriptors | ask without sleeping; if in vain, wait until one of them is ready |
//! | an epoll set | the same, it is a descriptor itself |
//! | signals, by `signalfd` | the same, and it is called for those that are sent to it |
//! | time | the worker's timers |
//! | a child | its pidfd |
//! | what has no descriptor (`flock`, `getaddrinfo`) | a kernel thread of the blocking pool |
//!
//! Descriptors are waited for in the worker's reactor, which other workers ask as well when this
//! one is blocked.
//!
//! A descriptor's own mode is never changed, for others share it. Whether that is the non-blocking
//! one, and what its timeouts are, matters only when a try was in vain, and is asked for then.
//!
//! Invariants:
//! 1. `errno` changes only when a call fails.
//! 2. A call that was cancelled leaves nothing that needs a destructor: the thread's stack is
//!    unwound by force from [`made`].

mod accept;
mod aio;
pub mod comm;
mod connect;
mod devices;
mod disk;
mod elsewhere;
mod file;
mod in_place;
mod known;
mod lock;
mod lookups;
pub mod mask;
mod names;
mod numbers;
mod poll;
mod process;
mod select;
mod sendfile;
mod shell;
pub mod shells;
mod signal;
pub mod signalfd;
mod sleep;
mod socket;
mod sockets;
mod transfer;
mod turns;
mod waited;

use core::ffi::c_int;
use core::time::Duration;

use heddle::raw::{self, Interest};

pub use self::waited::in_child;
use self::waited::{Target, Trying, Waiting};
use crate::errno;
use crate::threads::cancel;
use crate::threads::signals::{self, Ran, Then};

/// Why a call ends without success.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    /// With this error number.
    Error(c_int),
    /// The thread was cancelled, or called for its signals, while it waited.
    Cancelled,
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Self {
        if heddle::is_cancelled(&error) {
            return Stop::Cancelled;
        }
        Stop::Error(match error.kind() {
            std::io::ErrorKind::TimedOut => error.raw_os_error().unwrap_or(libc::ETIMEDOUT),
            std::io::ErrorKind::OutOfMemory => libc::ENOMEM,
            _ => error.raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

type Result<T> = core::result::Result<T, Stop>;

/// The result of a system call as a `Result`.
#[inline]
fn checked(result: isize) -> Result<isize> {
    if result < 0 { Err(Stop::Error(errno::get())) } else { Ok(result) }
}

/// Makes a call that returns -1 and sets `errno` when it fails; a point of cancellation.
#[inline]
fn made(call: impl FnOnce() -> Result<isize>) -> isize {
    let before = errno::get();
    let result = if raw::is_cancelled() { Err(Stop::Cancelled) } else { call() };
    if raw::is_called_or_overdue() {
        signals::at_end(signals::interrupted);
    }
    returned(result, before)
}

/// What a call returns that has found `before` in `errno`.
#[inline]
fn returned(result: Result<isize>, before: c_int) -> isize {
    match result {
        Ok(value) => {
            errno::set(before);
            value
        }
        Err(Stop::Error(number)) => {
            errno::set(number);
            -1
        }
        Err(Stop::Cancelled) => cancel::act(),
    }
}

/// As [`made`], for a call that is no point of cancellation: only a thread of the asynchronous type
/// ends in it.
fn made_on(call: impl FnOnce() -> Result<isize>) -> isize {
    let before = errno::get();
    let result = call();
    if raw::is_called_or_overdue() {
        signals::at_end(signals::called);
    }
    returned(result, before)
}

/// As [`made_on`], for functions that return an `int`.
fn made_on_int(call: impl FnOnce() -> Result<isize>) -> c_int {
    made_on(call) as c_int
}

/// What a wait that ended in this way is to its call: `Ok` when it goes on. `always`: a call that
/// fails after every handler, whatever that asks for.
fn resumed(stop: Stop, always: bool) -> Result<()> {
    if stop != Stop::Cancelled {
        return Err(stop);
    }
    resumed_after(signals::interrupted(), always)
}

/// As [`resumed`], when what the caller was called for has run.
fn resumed_after(then: Then, always: bool) -> Result<()> {
    match then {
        Then::End => Err(Stop::Cancelled),
        Then::Fail => Err(Stop::Error(libc::EINTR)),
        Then::Restart if always => Err(Stop::Error(libc::EINTR)),
        Then::Restart | Then::GoOn => Ok(()),
    }
}

/// As [`made`], for functions that return an `int`.
#[inline]
fn made_int(call: impl FnOnce() -> Result<isize>) -> c_int {
    made(call) as c_int
}

/// Defines functions that are exported, some by several names.
macro_rules! exported {
    ($(($($name:ident),+) $arguments:tt -> $result:ty $body:block)+) => {
        $($(
            /// # Safety
            /// 1. As for the C library's function of the same name.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name $arguments -> $result $body
        )+)+
    };
}
use exported;

/// Whether the descriptor is in non-blocking mode.
fn is_nonblocking(fd: c_int) -> bool {
    flags_of(fd) & libc::O_NONBLOCK != 0
}

/// The descriptor's flags; 0 when it is none.
fn flags_of(fd: c_int) -> c_int {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags.max(0)
}

/// Waits until the target is ready, or until `deadline` (ns, 0 = never): a socket's own timeout,
/// with which the kernel restarts no call, whatever the handler asks for. The caller keeps the
/// result while it tries, with what the target is by then.
fn wait_ready(target: &mut Target, interest: Interest, deadline: u64) -> Result<Trying> {
    turns::waits();
    wait_ready_unless(target, interest, deadline, deadline != 0)
}

/// As [`wait_ready`], for calls that no handler restarts.
fn wait_ready_once(target: &mut Target, interest: Interest, deadline: u64) -> Result<Trying> {
    wait_ready_unless(target, interest, deadline, true)
}

fn wait_ready_unless(
    target: &mut Target,
    interest: Interest,
    deadline: u64,
    always: bool,
) -> Result<Trying> {
    loop {
        let Some(asking) = signalfd::begin(target.fd, interest) else {
            return Ok(Trying::default());
        };
        let waiting = Waiting::begin(target.fd, interest);
        let is_meant = || waiting.is_meant();
        let ended = raw::wait_ready_while(target.fd, interest, deadline, is_meant);
        drop(asking);
        if ended.is_err() {
            waiting.leaves_it_armed();
        }
        if let Some(trying) = target.after(waiting.done(), ended.map_err(Stop::from), always)? {
            return Ok(trying);
        }
    }
}

/// What ends the waits of a call.
#[derive(Clone, Copy, Default)]
struct Limit {
    /// As in [`resumed`].
    always: bool,
    /// The moment of the socket's own timeout (ns, 0 = never), once the call has waited.
    deadline: Option<u64>,
}

impl Limit {
    /// A part was sent, and the rest waits: on most sockets no longer than the timeout in all, on
    /// those of `AF_UNIX` as long again.
    fn part_sent(&mut self, fd: c_int) {
        if self.deadline.is_some_and(|deadline| deadline != 0) && sockets::is_unix(fd) {
            self.deadline = None;
        }
    }
}

/// Repeats `attempt(fd, false)`, which must not sleep, until it does not say `EAGAIN`; waits in
/// between. Of what has been shut down for reading `attempt(fd, true)`, which may sleep, gets the
/// end: it comes at once (`sockets::is_shut`).
///
/// `option` is the socket option with the timeout.
fn retry(
    target: &mut Target,
    interest: Interest,
    option: c_int,
    limit: &mut Limit,
    mut attempt: impl FnMut(c_int, bool) -> isize,
) -> Result<isize> {
    let (mut again, mut has_waited, mut is_shut) = (false, false, false);
    let mut trying = Trying::default();
    loop {
        let may_sleep = core::mem::take(&mut is_shut);
        let attempted = checked(attempt(target.fd, may_sleep));
        let is_in_vain = attempted == Err(Stop::Error(libc::EAGAIN)) && !may_sleep;
        if is_in_vain && has_waited && interest == Interest::Read && sockets::is_shut(target.fd) {
            is_shut = true;
            continue;
        }
        drop(core::mem::take(&mut trying));
        match attempted {
            Err(Stop::Error(libc::EAGAIN)) if is_in_vain => {
                if interest == Interest::Read && turns::events_first(&mut again, || false) {
                    continue;
                }
            }
            // The thread was called, or its worker asked to let others go on.
            Err(Stop::Error(libc::EINTR)) => {
                target.resumed(Stop::Cancelled, limit.always)?;
                continue;
            }
            other => {
                turns::found(again);
                return other;
            }
        }
        let until = match limit.deadline {
            Some(known) => known,
            None if is_nonblocking(target.fd) => return Err(Stop::Error(libc::EAGAIN)),
            None => *limit.deadline.insert(deadline_of(target.fd, option).unwrap_or(0)),
        };
        turns::waits();
        has_waited = true;
        let always = limit.always || until != 0;
        trying = timeout_is_again(wait_ready_unless(target, interest, until, always))?;
    }
}

/// When a call on a socket that begins to wait now times out (ns, 0 = never); `None` when the
/// descriptor is no socket.
fn deadline_of(fd: c_int, option: c_int) -> Option<u64> {
    let mut limit = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: a valid place and its length.
    let error = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, option, (&raw mut limit).cast(), &mut length)
    };
    if error != 0 {
        return None;
    }
    if limit.tv_sec == 0 && limit.tv_usec == 0 {
        return Some(0);
    }
    let limit = Duration::new(limit.tv_sec.max(0) as u64, limit.tv_usec.max(0) as u32 * 1000);
    Some(raw::deadline(Some(limit)))
}

/// What a socket's own timeout makes of a wait that it ended.
fn timeout_is_again<T>(result: Result<T>) -> Result<T> {
    match result {
        Err(Stop::Error(libc::ETIMEDOUT)) => Err(Stop::Error(libc::EAGAIN)),
        other => other,
    }
}

/// What a call lends to a kernel thread of the blocking pool while its caller waits.
struct Lent<T>(T);

// SAFETY: pointers that the caller of the exported function lends for the call; it waits.
unsafe impl<T> Send for Lent<T> {}

impl<T> Lent<T> {
    /// What is lent; a method, so that closures take the whole wrapper.
    fn get(self) -> T {
        self.0
    }
}

/// Runs `call`, which may sleep in the kernel, on a kernel thread of the blocking pool. What it
/// leaves in `errno` there is the caller's.
fn away<T>(call: impl FnOnce() -> T) -> T {
    heddle::blocking(told(call)).get().result()
}

/// As [`away`], for what waits for a disk alone: in place, where the caller has its worker for
/// itself, or gets one.
fn unless_alone<T>(call: impl FnOnce() -> T) -> T {
    raw::alone(call, away)
}

/// As [`away`], for what ends when another thread, or a child, has done something.
pub fn away_for_long<T>(call: impl FnOnce() -> T) -> T {
    raw::open_ended(told(call)).get().result()
}

/// As [`away`] (`is_open_ended`: as [`away_for_long`]), while the handlers of the caller's signals
/// run; neither they nor a cancellation end it. From a cancellation on no handler runs. `None` in a
/// child that a handler has forked: nobody makes the call there.
fn away_answering<T>(is_open_ended: bool, call: impl FnOnce() -> T + 'static) -> Option<T>
where
    T: 'static,
{
    let mut is_cancelled = false;
    let answer = || {
        if is_cancelled {
            raw::answer_call();
        } else if errno::kept(signals::interrupted) == Then::End {
            is_cancelled = true;
            raw::set_cancellable(false);
        }
        false
    };
    let told = raw::leavable(told(call), is_open_ended, answer);
    if is_cancelled {
        raw::set_cancellable(true);
        // For signals that came since.
        raw::call_again();
    }
    let result = told?.get().result();
    signals::answer_if_called();
    Some(result)
}

/// What a call on a kernel thread of the blocking pool has told.
struct Told<T> {
    result: T,
    errno: c_int,
    /// The signal that it raised.
    raised: Option<c_int>,
}

impl<T> Told<T> {
    /// The result, with the rest as if the caller had made the call itself.
    fn result(self) -> T {
        errno::set(self.errno);
        if let Some(signal) = self.raised {
            signals::raised::raise(signal);
        }
        self.result
    }
}

/// `call` with the caller's `errno`, and what it tells.
fn told<T>(call: impl FnOnce() -> T) -> impl FnOnce() -> Lent<Told<T>> + Send {
    let (call, before) = (Lent(call), errno::get());
    move || {
        errno::set(before);
        let result = call.get()();
        let errno = errno::get();
        Lent(Told { result, errno, raised: signals::raised::take(errno) })
    }
}

/// As [`away`], for a system call that the kernel ends when a signal comes: so it is when the
/// caller has a handler to run, or is cancelled. `always`: it fails after every handler.
fn interruptible(always: bool, mut call: impl FnMut() -> isize) -> Result<isize> {
    loop {
        let result = raw::blocking_interruptible(told(&mut call), signals::is_due).get().result();
        match checked(result) {
            Err(Stop::Error(libc::EINTR)) => resumed(Stop::Cancelled, always)?,
            done => {
                if signals::is_due_to_own() {
                    signals::interrupted();
                }
                return done;
            }
        }
    }
}

/// As [`interruptible`], for [`made_on`]: a request waits until the call is done, but in a handler
/// that runs meanwhile it is acted upon.
fn interruptible_on(always: bool, mut call: impl FnMut() -> isize) -> Result<isize> {
    loop {
        let was_enabled = cancel::hold_back();
        let result = raw::blocking_interruptible(told(&mut call), signals::is_due).get().result();
        raw::set_cancellable(was_enabled);
        match (checked(result), errno::kept(signals::called)) {
            (Err(Stop::Error(libc::EINTR)), Ran::Nothing) => {}
            (Err(Stop::Error(libc::EINTR)), Ran::Restarting) if !always => {}
            (done, _) => return done,
        }
    }
}
