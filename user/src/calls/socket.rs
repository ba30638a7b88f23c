//! Sockets.
//!
//! Sends and receives ask the kernel not to sleep (`MSG_DONTWAIT`). `accept` can't ask: it is
//! called when a connection is there, by one thread after the other. Neither can `connect`, which a
//! kernel thread of the blocking pool makes.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::{self, Interest};
use libc::{mmsghdr, msghdr, sockaddr, socklen_t, timespec};

use super::{
    Result, Stop, checked, exported, is_nonblocking, made, made_int, retry, retry_unless, signal,
    sockets, turns,
};
use crate::errno;
use crate::sys::{direct, interruptible};

/// Receives with one of these flags never wait: errors and urgent data are there or are not.
const NEVER_WAITS: c_int = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB;

/// A call that receives; `call(flags)` is the system call.
fn receive(fd: c_int, flags: c_int, call: impl Fn(c_int) -> isize) -> Result<isize> {
    receive_unless(fd, flags, false, call)
}

/// As [`receive`]; `always` as in [`retry_unless`].
fn receive_unless(
    fd: c_int,
    flags: c_int,
    always: bool,
    call: impl Fn(c_int) -> isize,
) -> Result<isize> {
    if flags & NEVER_WAITS != 0 {
        return checked(call(flags));
    }
    turns::before_receive();
    let attempt = || call(flags | libc::MSG_DONTWAIT);
    retry_unless(fd, Interest::Read, libc::SO_RCVTIMEO, always, attempt)
}

/// `recv`.
fn receive_bytes(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> Result<isize> {
    // SAFETY: the caller's buffer.
    let plain = |flags| unsafe { direct::recv(fd, buffer, length, flags) };
    let all = flags & (libc::MSG_WAITALL | libc::MSG_PEEK) == libc::MSG_WAITALL;
    if all && flags & NEVER_WAITS == 0 {
        return receive_all(fd, buffer.cast(), length, flags);
    }
    receive(fd, flags, plain)
}

/// `MSG_WAITALL`: a stream is received from until the buffer is full, or a handler has run.
fn receive_all(fd: c_int, buffer: *mut u8, length: usize, flags: c_int) -> Result<isize> {
    let mut done = 0;
    loop {
        let rest = buffer.wrapping_add(done);
        // SAFETY: the rest of the caller's buffer.
        let got = receive_unless(fd, flags, done > 0, |flags| unsafe {
            direct::recv(fd, rest.cast(), length - done, flags)
        });
        match got {
            Ok(count) if count > 0 => done += count as usize,
            Err(stop) if done == 0 => return Err(stop),
            _ => return Ok(done as isize),
        }
        if done >= length || is_nonblocking(fd) || !is_stream(fd) {
            return Ok(done as isize);
        }
    }
}

fn is_stream(fd: c_int) -> bool {
    option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as socklen_t;
    // SAFETY: a valid place and its length.
    let error = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &mut length)
    };
    (error == 0).then_some(value)
}

/// A call that sends; `call(flags, done)` is the system call for what is left of `wanted`.
fn send(
    fd: c_int,
    flags: c_int,
    wanted: usize,
    call: impl Fn(c_int, usize) -> isize,
) -> Result<isize> {
    // The kernel would send the signal to the worker.
    let quiet = flags | libc::MSG_NOSIGNAL;
    let heard = |stop: &Stop| {
        if flags & libc::MSG_NOSIGNAL == 0 {
            signal::broken_pipe(stop);
        }
    };
    if flags & libc::MSG_DONTWAIT != 0 {
        return checked(call(quiet, 0)).inspect_err(heard);
    }
    let step = |done: usize| {
        let attempt = || call(quiet | libc::MSG_DONTWAIT, done);
        retry_unless(fd, Interest::Write, libc::SO_SNDTIMEO, done > 0, attempt)
    };
    let mut done = step(0).inspect_err(heard)?;
    // A stream takes part of it; a blocking call goes on, unless a handler runs. What was sent is
    // told first.
    while done > 0 && (done as usize) < wanted && !is_nonblocking(fd) {
        match step(done as usize) {
            Ok(count) if count > 0 => done += count,
            _ => break,
        }
    }
    Ok(done)
}

exported! {
    (heddle_user_recv) (fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize {
        made(|| receive_bytes(fd, buffer, length, flags))
    }

    (heddle_user___recv_chk) (
        fd: c_int, buffer: *mut c_void, length: usize, room: usize, flags: c_int
    ) -> isize {
        super::file::check_room(length, room);
        made(|| receive_bytes(fd, buffer, length, flags))
    }

    (heddle_user_recvfrom) (
        fd: c_int, buffer: *mut c_void, length: usize, flags: c_int,
        address: *mut sockaddr, address_length: *mut socklen_t
    ) -> isize {
        // SAFETY: the caller's buffer and places.
        made(|| receive(fd, flags, |flags| unsafe {
            direct::recvfrom(fd, buffer, length, flags, address, address_length)
        }))
    }

    (heddle_user___recvfrom_chk) (
        fd: c_int, buffer: *mut c_void, length: usize, room: usize, flags: c_int,
        address: *mut sockaddr, address_length: *mut socklen_t
    ) -> isize {
        super::file::check_room(length, room);
        // SAFETY: the caller's buffer and places.
        made(|| receive(fd, flags, |flags| unsafe {
            direct::recvfrom(fd, buffer, length, flags, address, address_length)
        }))
    }

    (heddle_user_recvmsg) (fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
        // SAFETY: the caller's message.
        made(|| receive(fd, flags, |flags| unsafe { direct::recvmsg(fd, message, flags) }))
    }

    (heddle_user_send, heddle_user___send) (
        fd: c_int, buffer: *const c_void, length: usize, flags: c_int
    ) -> isize {
        // SAFETY: what is left of the caller's buffer.
        made(|| send(fd, flags, length, |flags, done| unsafe {
            direct::send(fd, buffer.wrapping_byte_add(done), length - done, flags)
        }))
    }

    (heddle_user_sendto) (
        fd: c_int, buffer: *const c_void, length: usize, flags: c_int,
        address: *const sockaddr, address_length: socklen_t
    ) -> isize {
        // SAFETY: what is left of the caller's buffer, and the caller's address.
        made(|| send(fd, flags, length, |flags, done| unsafe {
            let rest = buffer.wrapping_byte_add(done);
            direct::sendto(fd, rest, length - done, flags, address, address_length)
        }))
    }

    (heddle_user_sendmsg) (fd: c_int, message: *const msghdr, flags: c_int) -> isize {
        made(|| send_message(fd, message, flags))
    }
}

/// A message; what is left of one that a stream took in part goes without its control data, which
/// went with the start.
fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Result<isize> {
    // SAFETY: the caller's message.
    let whole = |flags| unsafe { direct::sendmsg(fd, message, flags) };
    let sent = send(fd, flags, 0, |flags, _| whole(flags))?;
    if sent == 0 || flags & libc::MSG_DONTWAIT != 0 {
        return Ok(sent);
    }
    // SAFETY: the kernel has accepted the caller's message.
    let parts = unsafe { core::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen) };
    let wanted = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len));
    let mut done = sent as usize;
    while done < wanted && !is_nonblocking(fd) {
        let mut rest = super::transfer::rest_of(parts, done);
        // SAFETY: all zero bytes are an empty message.
        let mut shorter: msghdr = unsafe { core::mem::zeroed() };
        (shorter.msg_iov, shorter.msg_iovlen) = (rest.as_mut_ptr(), rest.len());
        // SAFETY: a valid message with what is left of the caller's parts.
        match send(fd, flags, 0, |flags, _| unsafe { direct::sendmsg(fd, &shorter, flags) }) {
            Ok(count) if count > 0 => done += count as usize,
            _ => break,
        }
    }
    Ok(done as isize)
}

// ---- several messages with one call

/// Receives messages until `count` are there, the time is over, or the next one would have to wait
/// after the first with `MSG_WAITFORONE`.
fn receive_many(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Result<isize> {
    // SAFETY: null or the caller's timeout.
    let limit = match unsafe { timeout.as_ref() } {
        None => 0,
        Some(time) => raw::now_ns().saturating_add(super::sleep::ns_of(time)? as u64),
    };
    // The timeout is the kernel's business only between two messages, and so it is ours.
    // SAFETY: what is left of the caller's messages.
    let call = |flags, done: usize| unsafe {
        let rest = messages.wrapping_add(done);
        libc::recvmmsg(fd, rest, count - done as c_uint, flags as _, ptr::null_mut()) as isize
    };
    if flags & libc::MSG_DONTWAIT != 0 {
        return checked(call(flags, 0));
    }
    let for_one = flags & libc::MSG_WAITFORONE as c_int != 0;
    let mut done = receive(fd, flags, |flags| call(flags, 0))? as usize;
    while done > 0 && done < count as usize && !for_one && !is_nonblocking(fd) {
        if limit != 0 && raw::now_ns() >= limit {
            break;
        }
        match receive(fd, flags, |flags| call(flags, done)) {
            Ok(more) if more > 0 => done += more as usize,
            _ => break,
        }
    }
    Ok(done as isize)
}

exported! {
    (heddle_user_recvmmsg) (
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int {
        made_int(|| receive_many(fd, messages, count, flags, timeout))
    }

    (heddle_user_sendmmsg) (
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int
    ) -> c_int {
        // SAFETY: what is left of the caller's messages.
        made_int(|| send(fd, flags, count as usize, |flags, done| unsafe {
            libc::sendmmsg(fd, messages.wrapping_add(done), count - done as c_uint, flags as _)
                as isize
        }))
    }
}

// ---- connections

/// More than there are descriptors as low as a listener's: two that have one place in common are
/// rare, and go on without it.
const PLACES: usize = 1024;
/// Threads of this process that accept from one listener try one at a time: whoever has seen a
/// connection gets it. By descriptor; whether somebody tries.
static ACCEPTING: [AtomicBool; PLACES] = [const { AtomicBool::new(false) }; PLACES];
/// How often in a row a thread lets somebody else try.
const TURNS: u32 = 64;

fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> Result<isize> {
    // SAFETY: the caller's places.
    let plain = || unsafe { interruptible::accept4(fd, address, length, flags) };
    if is_nonblocking(fd) || option(fd, libc::SO_ACCEPTCONN) != Some(1) {
        // An answer at once: a connection or an error.
        return checked(plain()).inspect(note);
    }
    turns::before_receive();
    let mut turns = 0;
    retry(fd, Interest::Read, libc::SO_RCVTIMEO, || accept_if_ready(fd, &mut turns, plain))
        .inspect(note)
}

fn note(accepted: &isize) {
    sockets::note_one(*accepted as c_int);
}

/// Accepts if that does not sleep; -1 and `EAGAIN` if it would.
///
/// Another process, or a kernel thread of this one, may be faster than the call: then it sleeps,
/// the runtime's monitor adds a worker, and a signal or a cancellation ends it. The other threads
/// wait for the listener meanwhile, as if nobody had seen anything: what comes is seen by all.
fn accept_if_ready(fd: c_int, turns: &mut u32, plain: impl Fn() -> isize) -> isize {
    let accepting = &ACCEPTING[fd.unsigned_abs() as usize % PLACES];
    let is_mine = !accepting.swap(true, Relaxed);
    *turns = if is_mine { 0 } else { *turns + 1 };
    let may_try = is_mine || *turns > TURNS;
    let accepted = if may_try && is_ready(fd) { plain() } else { again() };
    if is_mine {
        accepting.store(false, Relaxed);
    }
    accepted
}

fn again() -> isize {
    errno::set(libc::EAGAIN);
    -1
}

fn is_ready(fd: c_int) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd. Of an error the call will tell.
    unsafe { libc::poll(&mut poll, 1, 0) != 0 }
}

fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> Result<isize> {
    sockets::note_one(fd);
    // SAFETY: the caller's address.
    let plain = move || unsafe { libc::connect(fd, address, length) as isize };
    if is_nonblocking(fd) || !is_stream(fd) {
        return checked(plain());
    }
    super::interruptible(false, plain)
}

exported! {
    (heddle_user_accept) (fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int {
        made_int(|| accept(fd, address, length, 0))
    }

    (heddle_user_accept4) (
        fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int
    ) -> c_int {
        made_int(|| accept(fd, address, length, flags))
    }

    (heddle_user_connect, heddle_user___connect) (
        fd: c_int, address: *const sockaddr, length: socklen_t
    ) -> c_int {
        made_int(|| connect(fd, address, length))
    }
}
