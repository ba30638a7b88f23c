//! Sockets.
//!
//! Sends and receives ask the kernel not to block (`MSG_DONTWAIT`), so the descriptor's own mode is
//! left alone. `accept` and `connect` can't ask: they run in the ring, or are made only when they
//! will not sleep.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use heddle::raw::Interest;
use io_uring::{opcode, types};
use libc::{iovec, msghdr, sockaddr, socklen_t};

use super::file::{bytes_of, kept, rest_of};
use super::{
    Caller, caller, checked, elsewhere, is_nonblocking, operate, retry, socket_deadline, wait_ready,
};
use crate::cancel;
use crate::stop::{self, Stop};

const LOCKS: usize = 64;
/// Threads of this process that accept from one listener try one after the other: whoever has
/// seen a connection gets it. By descriptor.
static ACCEPTING: [Mutex<()>; LOCKS] = [const { Mutex::new(()) }; LOCKS];

/// A call that receives; `call(flags)` is the system call.
fn receive(fd: c_int, flags: c_int, call: impl Fn(c_int) -> isize) -> Result<isize, Stop> {
    cancel::check()?;
    if caller() == Caller::Outside || flags & libc::MSG_DONTWAIT != 0 {
        return checked(call(flags));
    }
    kept(|| {
        yield_first();
        retry(fd, Interest::Read, libc::SO_RCVTIMEO, || call(flags | libc::MSG_DONTWAIT))
    })
}

/// Lets the ready threads run before the try, which then usually succeeds: one system call instead
/// of several.
fn yield_first() {
    if caller() == Caller::Light {
        heddle::thread::yield_now();
    }
}

/// A call that sends; `call(flags, done)` is the system call for what is left of the bytes that
/// are `wanted`, which is asked for when a part is sent.
fn send(
    fd: c_int,
    flags: c_int,
    wanted: impl Fn() -> usize,
    call: impl Fn(c_int, usize) -> isize,
) -> Result<isize, Stop> {
    cancel::check()?;
    if caller() == Caller::Outside || flags & libc::MSG_DONTWAIT != 0 {
        return checked(call(flags, 0));
    }
    kept(|| {
        let step = |done: usize| {
            retry(fd, Interest::Write, libc::SO_SNDTIMEO, || call(flags | libc::MSG_DONTWAIT, done))
        };
        let mut done = step(0)?;
        // A stream takes part of it; a blocking call goes on. What was sent is told first.
        while done > 0 && (done as usize) < wanted() && !is_nonblocking(fd) {
            match step(done as usize) {
                Ok(count) if count > 0 => done += count,
                _ => break,
            }
        }
        Ok(done)
    })
}

/// `recv`: as [`receive`], but what has to wait is received by the ring itself.
fn receive_bytes(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
) -> Result<isize, Stop> {
    // SAFETY: the caller's buffer.
    let plain = |flags| unsafe { libc::recv(fd, buffer, length, flags) };
    if caller() != Caller::Light || flags & libc::MSG_DONTWAIT != 0 {
        return receive(fd, flags, plain);
    }
    cancel::check()?;
    kept(|| {
        yield_first();
        match checked(plain(flags | libc::MSG_DONTWAIT)) {
            Err(Stop::Error(libc::EAGAIN)) if !is_nonblocking(fd) => {}
            other => return other,
        }
        let length = length.min(i32::MAX as usize) as u32;
        let entry = opcode::Recv::new(types::Fd(fd), buffer.cast(), length).flags(flags).build();
        let deadline = socket_deadline(fd, libc::SO_RCVTIMEO);
        match timeout_is_again(operate(entry, deadline))? {
            Some(count) => Ok(count),
            None => {
                retry(fd, Interest::Read, libc::SO_RCVTIMEO, || plain(flags | libc::MSG_DONTWAIT))
            }
        }
    })
}

/// Whether it is a call that waits for all bytes.
fn is_for_all(flags: c_int) -> bool {
    let all = flags & (libc::MSG_WAITALL | libc::MSG_PEEK | libc::MSG_DONTWAIT);
    all == libc::MSG_WAITALL && caller() != Caller::Outside
}

/// `MSG_WAITALL`: a stream is received from until there are `length()` bytes, which is asked for
/// when there are some. `call(flags, done)` is the system call for what comes after `done` bytes.
fn receive_all(
    fd: c_int,
    flags: c_int,
    length: impl Fn() -> usize,
    call: impl Fn(c_int, usize) -> isize,
) -> Result<isize, Stop> {
    let mut done = 0;
    loop {
        match receive(fd, flags, |flags| call(flags, done)) {
            Ok(count) if count > 0 => done += count as usize,
            Err(stop) if done == 0 => return Err(stop),
            _ => return Ok(done as isize),
        }
        if done >= length() || is_nonblocking(fd) || !is_stream(fd) {
            return Ok(done as isize);
        }
    }
}

/// The parts of a message that the kernel has accepted.
fn parts_of(message: &msghdr) -> &[iovec] {
    match message.msg_iovlen {
        0 => &[],
        // SAFETY: the caller's parts.
        count => unsafe { core::slice::from_raw_parts(message.msg_iov, count) },
    }
}

/// A message of these parts and nothing else.
fn message_of(parts: &mut [iovec]) -> msghdr {
    // SAFETY: all zero bytes are an empty message.
    let mut message: msghdr = unsafe { core::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
    message
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

fn is_stream(fd: c_int) -> bool {
    option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_recv(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
) -> isize {
    if !is_for_all(flags) {
        return stop::value(receive_bytes(fd, buffer, length, flags));
    }
    // SAFETY: the rest of the caller's buffer.
    let call = |flags, done| unsafe {
        libc::recv(fd, buffer.wrapping_byte_add(done), length - done, flags)
    };
    stop::value(receive_all(fd, flags, || length, call))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> isize {
    // The address is that of whom the start is from.
    // SAFETY: the rest of the caller's buffer, and the caller's places.
    let call = |flags, done| unsafe {
        match done {
            0 => libc::recvfrom(fd, buffer, length, flags, address, address_length),
            _ => libc::recv(fd, buffer.wrapping_byte_add(done), length - done, flags),
        }
    };
    stop::value(match is_for_all(flags) {
        true => receive_all(fd, flags, || length, call),
        false => receive(fd, flags, |flags| call(flags, 0)),
    })
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: the caller's message.
    let whole = |flags| unsafe { libc::recvmsg(fd, message, flags) };
    // Control data has its place among the bytes: who has room for it gets what there is.
    // SAFETY: null or the caller's message.
    let takes_bytes = unsafe { message.as_ref() }.is_some_and(|it| it.msg_controllen == 0);
    if !is_for_all(flags) || !takes_bytes {
        return stop::value(receive(fd, flags, whole));
    }
    // SAFETY: as above.
    let parts = || parts_of(unsafe { &*message });
    let call = |flags, done| {
        if done == 0 {
            return whole(flags);
        }
        let mut rest = rest_of(parts(), done);
        // SAFETY: a valid message with what is left of the caller's parts.
        unsafe { libc::recvmsg(fd, &mut message_of(&mut rest), flags) }
    };
    stop::value(receive_all(fd, flags, || bytes_of(parts()), call))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_send(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
) -> isize {
    // SAFETY: what is left of the caller's buffer.
    let call = |flags, done| unsafe {
        libc::send(fd, buffer.wrapping_byte_add(done), length - done, flags)
    };
    stop::value(send(fd, flags, || length, call))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sendto(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> isize {
    // SAFETY: what is left of the caller's buffer, and the caller's address.
    let call = |flags, done| unsafe {
        let rest = buffer.wrapping_byte_add(done);
        libc::sendto(fd, rest, length - done, flags, address, address_length)
    };
    stop::value(send(fd, flags, || length, call))
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> isize {
    // SAFETY: the kernel has accepted the caller's message.
    let parts = || parts_of(unsafe { &*message });
    let call = |flags, done| {
        if done == 0 {
            // SAFETY: the caller's message.
            return unsafe { libc::sendmsg(fd, message, flags) };
        }
        // The control data went with the start.
        let mut rest = rest_of(parts(), done);
        // SAFETY: a valid message with what is left of the caller's parts.
        unsafe { libc::sendmsg(fd, &message_of(&mut rest), flags) }
    };
    stop::value(send(fd, flags, || bytes_of(parts()), call))
}

// ---- connections

fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> Result<isize, Stop> {
    cancel::check()?;
    // SAFETY: the caller's places.
    let plain = || unsafe { libc::accept4(fd, address, length, flags) as isize };
    if caller() == Caller::Outside || is_nonblocking(fd) {
        return checked(plain());
    }
    kept(|| {
        let deadline = socket_deadline(fd, libc::SO_RCVTIMEO);
        if caller() == Caller::Light {
            let entry = opcode::Accept::new(types::Fd(fd), address, length).flags(flags);
            if let Some(made) = timeout_is_again(operate(entry.build(), deadline))? {
                return Ok(made);
            }
        }
        retry(fd, Interest::Read, libc::SO_RCVTIMEO, || accept_if_ready(fd, plain))
    })
}

/// Accepts if that does not sleep; -1 and `EAGAIN` if it would.
fn accept_if_ready(fd: c_int, plain: impl Fn() -> isize) -> isize {
    let _guard: MutexGuard<'_, ()> = ACCEPTING[fd.unsigned_abs() as usize % LOCKS]
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    if fd >= 0 && unsafe { libc::poll(&mut poll, 1, 0) } == 0 {
        crate::errno::set(libc::EAGAIN);
        return -1;
    }
    plain()
}

fn timeout_is_again<T>(result: Result<T, Stop>) -> Result<T, Stop> {
    match result {
        Err(Stop::Error(libc::ETIMEDOUT)) => Err(Stop::Error(libc::EAGAIN)),
        other => other,
    }
}

fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> Result<isize, Stop> {
    cancel::check()?;
    // SAFETY: the caller's address.
    let plain = || unsafe { libc::connect(fd, address, length) as isize };
    if caller() == Caller::Outside || is_nonblocking(fd) {
        return checked(plain());
    }
    kept(|| {
        let deadline = socket_deadline(fd, libc::SO_SNDTIMEO);
        if caller() == Caller::Light {
            let entry = opcode::Connect::new(types::Fd(fd), address, length).build();
            match operate(entry, deadline) {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(0),
                // What a socket's own timeout makes of it.
                Err(Stop::Error(libc::ETIMEDOUT)) if deadline != 0 => {
                    return Err(Stop::Error(libc::EINPROGRESS));
                }
                Err(other) => return Err(other),
            }
        }
        connect_by_readiness(fd, address, length, deadline)
    })
}

fn connect_by_readiness(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
    deadline: u64,
) -> Result<isize, Stop> {
    set_nonblocking(fd, true)?;
    // SAFETY: the caller's address.
    let started = checked(unsafe { libc::connect(fd, address, length) } as isize);
    set_nonblocking(fd, false)?;
    match started {
        Err(Stop::Error(libc::EINPROGRESS)) => {}
        // A local listener whose queue is full: there is no readiness for that.
        Err(Stop::Error(libc::EAGAIN)) => {
            let address = address as usize;
            return elsewhere(move || {
                let address = core::ptr::with_exposed_provenance(address);
                // SAFETY: the caller's address, which it lends until the call is over.
                unsafe { libc::connect(fd, address, length) as isize }
            });
        }
        other => return other,
    }
    match wait_ready(fd, Interest::Write, deadline) {
        Err(Stop::Error(libc::ETIMEDOUT)) => return Err(Stop::Error(libc::EINPROGRESS)),
        other => other?,
    }
    match option(fd, libc::SO_ERROR) {
        Some(0) => Ok(0),
        Some(number) => Err(Stop::Error(number)),
        None => Err(super::last_error()),
    }
}

fn set_nonblocking(fd: c_int, on: bool) -> Result<(), Stop> {
    let on = c_int::from(on);
    // SAFETY: a valid place.
    checked(unsafe { libc::ioctl(fd, libc::FIONBIO, &on) } as isize).map(drop)
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    stop::value(accept(fd, address, length, 0)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    stop::value(accept(fd, address, length, flags)) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    stop::value(connect(fd, address, length)) as c_int
}
