//! The operations that blocking calls are made of.
//!
//! A blocking call is: yield, then try, then arm. The try usually succeeds when many connections
//! are busy, and costs one system call and no bookkeeping; only when it fails is the descriptor
//! armed in the worker's reactor and the thread parked.
//!
//! Kernel threads (and the native backend) make the plain blocking system call; a cancellation
//! interrupts it.
//!
//! Invariant: a thread has at most one operation in flight, and does not run again before that
//! operation has completed, so buffers on its stack stay valid for as long as the kernel may
//! write to them. Threads that may hibernate wait for readiness only: no buffer is in flight.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::{opcode, squeue, types};
use rustix::net::{RecvFlags, SendFlags};

use super::bare;
use super::interrupt::InCall;
use super::reactor::{Interest, Reactor};
use super::several::Several;
use super::uring;
use crate::control::{Control, HIBERNATES, Kind, Outcome, WaitKind};
use crate::sys::clock;
use crate::{full, sched};

/// Deadline of a call with an optional timeout; 0 = never.
#[inline]
pub fn deadline(timeout: Option<Duration>) -> u64 {
    timeout.map_or(0, clock::deadline_after)
}

/// When a call gives up waiting.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// Never.
    Never,
    /// At this time, ns.
    Time(u64),
    /// So many ns after it began to wait: the clock is not read when the first try succeeds.
    Timeout(u64),
}

impl Until {
    /// At `deadline`, ns; 0 = never.
    fn time(deadline: u64) -> Self {
        if deadline == 0 { Until::Never } else { Until::Time(deadline) }
    }

    /// Whether the call waits for ever.
    pub fn is_never(self) -> bool {
        matches!(self, Until::Never)
    }

    /// The deadline of a wait that begins now, ns; 0 = never.
    pub fn deadline(self) -> u64 {
        match self {
            Until::Never => 0,
            Until::Time(deadline) => deadline,
            Until::Timeout(ns) => clock::deadline_after(Duration::from_nanos(ns)),
        }
    }
}

pub(super) fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the operation's timeout has passed")
}

/// The outcome of a wait as a result.
pub(crate) fn outcome_to_result(outcome: Outcome) -> io::Result<()> {
    match outcome {
        Outcome::Woken => Ok(()),
        Outcome::TimedOut => Err(timed_out()),
        Outcome::Cancelled => Err(crate::error::cancelled()),
    }
}

/// Parks the calling thread, whose operation is in the reactor.
fn park_in_reactor(me: &'static Control, deadline: u64) -> io::Result<()> {
    publish(me);
    park_published(me, deadline)
}

/// The calling thread is about to wait in the reactor.
fn publish(me: &'static Control) {
    me.wait.set(WaitKind::Reactor);
    me.outcome.set(Outcome::Woken);
    me.cancellable.set(true);
}

fn park_published(me: &'static Control, deadline: u64) -> io::Result<()> {
    let outcome = sched::wait(me, deadline);
    me.cancellable.set(false);
    outcome_to_result(outcome)
}

fn check(me: &Control) -> io::Result<()> {
    if sched::is_cancellable(me) { Err(crate::error::cancelled()) } else { Ok(()) }
}

/// Fails if the calling thread is to end.
pub(crate) fn check_cancelled() -> io::Result<()> {
    check(sched::current())
}

/// Waits until `fd` is ready.
///
/// # Errors
/// `TimedOut`, [`crate::Cancelled`], or what the kernel says of the descriptor.
#[inline]
pub fn wait_ready(fd: RawFd, interest: Interest, deadline: u64) -> io::Result<()> {
    wait_ready_while(fd, interest, deadline, || true)
}

/// As [`wait_ready`]; a full thread asks, from where [`super::epoll::end_waits`] finds it on,
/// whether `fd` still is the file that is meant.
///
/// # Errors
/// As [`wait_ready`]; `EBADF` if it is not.
pub fn wait_ready_while(
    fd: RawFd,
    interest: Interest,
    deadline: u64,
    is_meant: impl Fn() -> bool,
) -> io::Result<()> {
    let me = sched::current();
    check(me)?;
    let Some(here) = full::here().filter(|_| me.kind.get().is_user_level()) else {
        let mut entry = [libc::pollfd { fd, events: interest.poll_flags(), revents: 0 }];
        return wait_in_kernel(&mut entry, deadline);
    };
    if let (Kind::Light, Reactor::Uring(ring)) = (me.kind.get(), &here.reactor) {
        ring.push_for(me, uring::poll_entry(fd, interest.poll_flags()))?;
        park_in_reactor(me, deadline)?;
        return result_of(me).map(drop);
    }
    let Ok(epoll) = here.worker().readiness() else {
        drop(here);
        let events = interest.poll_flags();
        return bare::wait_a_little(&mut [libc::pollfd { fd, events, revents: 0 }], deadline);
    };
    // Of a full thread anybody may end the wait from the moment it is in there.
    publish(me);
    if let Err(error) = epoll.add(me, fd, interest, is_meant) {
        me.cancellable.set(false);
        me.wait.set(WaitKind::None);
        // A regular file is always ready.
        let is_file = error.raw_os_error() == Some(libc::EPERM);
        return if is_file { Ok(()) } else { Err(error) };
    }
    park_published(me, deadline)
}

/// As [`wait_ready_while`] until something of `entries` may have happened, which name a descriptor
/// at least; for full threads and kernel threads. It may end although nothing has. What is in the
/// entries is not changed.
///
/// # Errors
/// `TimedOut`, [`crate::Cancelled`], or what the kernel says of a descriptor.
pub fn wait_several(
    entries: &[libc::pollfd],
    deadline: u64,
    are_meant: impl Fn() -> bool,
) -> io::Result<()> {
    let me = sched::current();
    check(me)?;
    if me.kind.get() != Kind::Full {
        return wait_in_kernel(&mut entries.to_vec(), deadline);
    }
    // Allocates, and so is before the pin.
    let wait = Several::new(me, entries);
    let Some(here) = full::here() else { return wait_in_kernel(&mut entries.to_vec(), deadline) };
    let Ok(epoll) = here.worker().readiness() else {
        drop(here);
        return bare::wait_a_little(&mut entries.to_vec(), deadline);
    };
    publish(me);
    if let Err(error) = epoll.add_several(&wait, are_meant) {
        me.cancellable.set(false);
        me.wait.set(WaitKind::None);
        return Err(error);
    }
    park_published(me, deadline)
}

fn wait_in_kernel(entries: &mut [libc::pollfd], deadline: u64) -> io::Result<()> {
    let me = sched::current();
    let _in_call = InCall::new(me);
    loop {
        check(me)?;
        let ms = if deadline == 0 {
            -1
        } else {
            let left = deadline.saturating_sub(clock::now_ns());
            left.div_ceil(1_000_000).min(i32::MAX as u64) as i32
        };
        // SAFETY: valid entries.
        match unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, ms) } {
            0 if deadline != 0 && clock::now_ns() >= deadline => return Err(timed_out()),
            0 => {}
            n if n > 0 => return Ok(()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// Whether the calling thread should let the ready ones run before it tries.
#[inline]
fn yield_first(me: &'static Control) {
    match sched::worker() {
        Some(worker) if worker.queues.len() == 0 && worker.offered.len() == 0 => {}
        Some(worker) if me.kind.get().is_user_level() => worker.yield_now(me),
        Some(_) => {}
        None => drop(full::give_way()),
    }
}

/// Runs `operation` until it does not say `WouldBlock`; between tries waits for `fd`.
///
/// `operation(true)` must not block; `operation(false)` may (kernel threads without a timeout).
pub fn retry<T>(
    fd: RawFd,
    interest: Interest,
    deadline: u64,
    operation: impl FnMut(bool) -> io::Result<T>,
) -> io::Result<T> {
    retry_until(fd, interest, Until::time(deadline), operation)
}

/// As [`retry`].
pub(crate) fn retry_until<T>(
    fd: RawFd,
    interest: Interest,
    until: Until,
    operation: impl FnMut(bool) -> io::Result<T>,
) -> io::Result<T> {
    if interest == Interest::Read {
        yield_first(sched::current());
    }
    retry_unyielding(fd, interest, until, operation)
}

/// As [`retry`], but tries first and does not let other threads run before.
pub(crate) fn retry_unyielding<T>(
    fd: RawFd,
    interest: Interest,
    until: Until,
    mut operation: impl FnMut(bool) -> io::Result<T>,
) -> io::Result<T> {
    let me = sched::current();
    let user_level = me.kind.get().is_user_level();
    let mut deadline = 0;
    loop {
        let tried = if user_level || !until.is_never() {
            check(me)?;
            uninterrupted(|| operation(true))
        } else {
            // It gets `WouldBlock` only from a descriptor in non-blocking mode.
            in_call(|| operation(false))
        };
        match tried {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if deadline == 0 {
                    deadline = until.deadline();
                }
                wait_ready(fd, interest, deadline)?;
            }
            other => return other,
        }
    }
}

/// Makes a system call in which a kernel thread may block; a cancellation ends it.
pub(crate) fn in_call<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let me = sched::current();
    let _in_call = InCall::new(me);
    check(me)?;
    uninterrupted(call)
}

/// Repeats a system call that a signal interrupted.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                check(sched::current())?;
            }
            other => return other,
        }
    }
}

/// The worker whose ring may run an operation with a buffer of the calling thread's stack.
///
/// None for full threads: what is in a ring completes when the kernel thread that put it there
/// enters the kernel for the ring, and no other can make it. A full thread would wait for as long
/// as its worker is blocked. So it waits for readiness, which anybody can ask for.
#[inline]
fn ring_of(me: &'static Control) -> Option<&'static uring::Uring> {
    let worker = sched::worker()?;
    if me.kind.get() != Kind::Light || me.flags.get() & HIBERNATES != 0 {
        return None;
    }
    match &worker.reactor {
        Reactor::Uring(ring) => Some(ring),
        Reactor::Epoll(_) | Reactor::Bare(_) => None,
    }
}

/// Whether the calling thread can run operations in a ring.
pub(crate) fn has_ring() -> bool {
    ring_of(sched::current()).is_some()
}

/// Runs one operation in the ring and waits for it; the buffers it names must live across the
/// call. Returns the operation's non-negative result.
///
/// # Errors
/// `TimedOut`, [`crate::Cancelled`], what the kernel says; `Unsupported` without a ring.
pub fn operate(entry: squeue::Entry, deadline: u64) -> io::Result<u32> {
    let me = sched::current();
    check(me)?;
    let Some(ring) = ring_of(me) else { return Err(io::ErrorKind::Unsupported.into()) };
    ring.push_for(me, entry)?;
    park_in_reactor(me, deadline)?;
    result_of(me)
}

/// As [`operate`], for an operation that makes a descriptor.
pub(crate) fn operate_for_fd(entry: squeue::Entry, deadline: u64) -> io::Result<OwnedFd> {
    let fd = operate(entry, deadline)?;
    // SAFETY: the operation made the descriptor; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

fn result_of(me: &Control) -> io::Result<u32> {
    let result = me.result.load(Relaxed);
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as u32) }
}

/// Failed tries in a row after which the try is skipped.
const TRIES: u8 = 2;

/// Receives from a socket: yield, try, arm.
pub fn receive(
    fd: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
    deadline: u64,
) -> io::Result<usize> {
    receive_until(fd, buffer, flags, Until::time(deadline))
}

/// As [`receive`].
#[inline]
pub(crate) fn receive_until(
    fd: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
    until: Until,
) -> io::Result<usize> {
    let me = sched::current();
    let hint = me.hint.get();
    if hint < TRIES && ring_of(me).is_some() {
        yield_first(me);
    }
    let Some(ring) = ring_of(me) else {
        return receive_by_retry(fd, buffer, flags, until);
    };
    // After the last switch before the wait: a cancellation that is served while the thread does
    // not wait leaves nothing but the flag.
    check(me)?;
    if hint < TRIES {
        match receive_now(fd, buffer, flags | libc::MSG_DONTWAIT) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => me.hint.set(hint + 1),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => {
                me.hint.set(0);
                return other;
            }
        }
    } else {
        me.hint.set(0);
    }
    ring.push_for(me, uring::receive_entry(fd, buffer, flags))?;
    park_in_reactor(me, until.deadline())?;
    match result_of(me) {
        Ok(count) => Ok(count as usize),
        // Some kernels say so for a socket in non-blocking mode.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            receive_by_retry(fd, buffer, flags, until)
        }
        Err(error) => Err(error),
    }
}

#[cold]
fn receive_by_retry(
    fd: RawFd,
    buffer: &mut [u8],
    flags: libc::c_int,
    until: Until,
) -> io::Result<usize> {
    retry_until(fd, Interest::Read, until, |nonblocking| {
        receive_now(fd, buffer, flags | dont_wait(nonblocking))
    })
}

fn dont_wait(nonblocking: bool) -> libc::c_int {
    if nonblocking { libc::MSG_DONTWAIT } else { 0 }
}

/// One system call that receives. Not by libc, whose calls are points where POSIX cancellation
/// may happen, which costs as much as the rest of the call's way to the kernel.
#[inline]
pub(crate) fn receive_now(fd: RawFd, buffer: &mut [u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: whoever calls owns the descriptor or borrows it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = RecvFlags::from_bits_retain(flags as u32);
    Ok(rustix::net::recv(fd, buffer, flags)?.0)
}

/// Sends to a socket; never raises SIGPIPE.
pub fn send(fd: RawFd, buffer: &[u8], flags: libc::c_int, deadline: u64) -> io::Result<usize> {
    send_until(fd, buffer, flags, Until::time(deadline))
}

/// As [`send`].
#[inline]
pub(crate) fn send_until(
    fd: RawFd,
    buffer: &[u8],
    flags: libc::c_int,
    until: Until,
) -> io::Result<usize> {
    retry_until(fd, Interest::Write, until, |nonblocking| {
        send_now(fd, buffer, flags | dont_wait(nonblocking))
    })
}

/// One system call that sends; never raises SIGPIPE. As [`receive_now`], not by libc.
#[inline]
pub(crate) fn send_now(fd: RawFd, buffer: &[u8], flags: libc::c_int) -> io::Result<usize> {
    // SAFETY: whoever calls owns the descriptor or borrows it.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let flags = SendFlags::from_bits_retain(flags as u32) | SendFlags::NOSIGNAL;
    Ok(rustix::net::send(fd, buffer, flags)?)
}

/// Accepts one connection; the result is the descriptor.
pub(crate) fn accept_entry(fd: RawFd) -> squeue::Entry {
    opcode::Accept::new(types::Fd(fd), ptr::null_mut(), ptr::null_mut())
        .flags(libc::SOCK_CLOEXEC)
        .build()
}

/// Connects to an address that lives until the completion.
pub(crate) fn connect_entry(
    fd: RawFd,
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> squeue::Entry {
    opcode::Connect::new(types::Fd(fd), address, length).build()
}

/// Reads into a buffer that lives until the completion; offset -1 is the file's position.
pub(crate) fn read_entry(fd: RawFd, buffer: &mut [u8], offset: u64) -> squeue::Entry {
    let length = buffer.len().min(i32::MAX as usize) as u32;
    opcode::Read::new(types::Fd(fd), buffer.as_mut_ptr(), length).offset(offset).build()
}

/// Writes from a buffer that lives until the completion; offset -1 is the file's position.
pub(crate) fn write_entry(fd: RawFd, buffer: &[u8], offset: u64) -> squeue::Entry {
    let length = buffer.len().min(i32::MAX as usize) as u32;
    opcode::Write::new(types::Fd(fd), buffer.as_ptr(), length).offset(offset).build()
}

/// Brings a file to the disk.
pub(crate) fn sync_entry(fd: RawFd, data_only: bool) -> squeue::Entry {
    let flags = if data_only { types::FsyncFlags::DATASYNC } else { types::FsyncFlags::empty() };
    opcode::Fsync::new(types::Fd(fd)).flags(flags).build()
}
