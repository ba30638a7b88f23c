//! Sockets.
//!
//! Sends and receives ask the kernel not to sleep (`MSG_DONTWAIT`). `accept` is in `accept.rs`,
//! `connect` in `connect.rs`.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use heddle::raw::{self, Interest};
use libc::{iovec, mmsghdr, msghdr, sockaddr, socklen_t, timespec};

use super::{
    Limit, Result, Stop, Target, checked, deadline_of, exported, interruptible, is_nonblocking,
    made, made_int, retry, signal, sockets, transfer, turns,
};
use crate::sys::direct;

/// Receives with one of these flags never wait: errors and urgent data are there or are not.
const NEVER_WAITS: c_int = libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB;

/// A call that receives; `call(fd, flags)` is the system call.
fn receive(
    target: &mut Target,
    flags: c_int,
    limit: &mut Limit,
    call: impl Fn(c_int, c_int) -> isize,
) -> Result<isize> {
    if flags & NEVER_WAITS != 0 {
        return checked(call(target.fd, flags));
    }
    turns::before_receive();
    let attempt = |fd, waits| call(fd, if waits { flags } else { flags | libc::MSG_DONTWAIT });
    retry(target, Interest::Read, libc::SO_RCVTIMEO, limit, attempt)
}

/// `recvfrom`, and `recv`, which has no address.
fn receive_bytes(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> Result<isize> {
    let mut target = Target::new(fd);
    if !is_for_all(flags) {
        // SAFETY: the caller's buffer and places.
        let call = |fd, flags| unsafe {
            direct::recvfrom(fd, buffer, length, flags, address, address_length)
        };
        let first = receive(&mut target, flags, &mut Limit::default(), call)?;
        return seen(&target, flags, first, || length, call);
    }
    // The address is that of whom the start is from.
    let call = |fd, flags, done| {
        let rest = buffer.wrapping_byte_add(done);
        // SAFETY: what is left of the caller's buffer, and the caller's places.
        unsafe {
            match done {
                0 => direct::recvfrom(fd, buffer, length, flags, address, address_length),
                _ => direct::recv(fd, rest, length - done, flags),
            }
        }
    };
    receive_all(&mut target, flags, Limit::default(), |done| done >= length, call)
}

fn is_for_all(flags: c_int) -> bool {
    let all = flags & (libc::MSG_WAITALL | libc::MSG_PEEK) == libc::MSG_WAITALL;
    all && flags & NEVER_WAITS == 0
}

/// Whether it is to look until all is there.
fn is_look_at_all(flags: c_int) -> bool {
    let whole = libc::MSG_PEEK | libc::MSG_WAITALL;
    flags & (whole | NEVER_WAITS) == whole
}

/// What a receive returns that has found `first` bytes: with `MSG_PEEK | MSG_WAITALL` a stream is
/// looked at until `wanted` bytes are there. It is ready when one is, so the kernel waits.
fn seen(
    target: &Target,
    flags: c_int,
    first: isize,
    wanted: impl Fn() -> usize,
    call: impl Fn(c_int, c_int) -> isize,
) -> Result<isize> {
    if !is_look_at_all(flags) || first <= 0 || first as usize >= wanted() {
        return Ok(first);
    }
    // On AF_UNIX a look never waits, and takes descriptors each time.
    let fd = target.fd;
    if is_nonblocking(fd) || !sockets::is_stream(fd) || sockets::is_unix(fd) {
        return Ok(first);
    }
    let has_timeout = deadline_of(fd, libc::SO_RCVTIMEO).is_some_and(|it| it != 0);
    // The kernel ends it with what is there, whoever interrupts it. That stays where it is.
    match interruptible(has_timeout, || call(fd, flags)) {
        Ok(_) if raw::is_cancelled() => Err(Stop::Cancelled),
        seen => seen,
    }
}

/// `MSG_WAITALL`: a stream is received from until `is_all(done)`, or a handler has run.
/// `call(fd, flags, done)` is the system call for what comes after `done` bytes.
fn receive_all(
    target: &mut Target,
    flags: c_int,
    mut limit: Limit,
    is_all: impl Fn(usize) -> bool,
    call: impl Fn(c_int, c_int, usize) -> isize,
) -> Result<isize> {
    let mut done = 0;
    loop {
        let is_drained = |fd| done > 0 && sockets::is_drained(fd);
        let step = |fd, flags| if is_drained(fd) { 0 } else { call(fd, flags, done) };
        match receive(target, flags, &mut limit, step) {
            Ok(count) if count > 0 => done += count as usize,
            Err(stop) if done == 0 => return Err(stop),
            _ => return Ok(done as isize),
        }
        if is_all(done) || is_nonblocking(target.fd) || !sockets::is_stream(target.fd) {
            return Ok(done as isize);
        }
        limit.always = true;
    }
}

/// `recvmsg`. Of the control data that comes with the steps of one with `MSG_WAITALL` the last is
/// told, as the kernel does; but that of `AF_UNIX` has its place among the bytes, which end there.
fn receive_message(
    target: &mut Target,
    message: *mut msghdr,
    flags: c_int,
    mut limit: Limit,
) -> Result<isize> {
    // SAFETY: the caller's message.
    let whole = |fd, flags| unsafe { direct::recvmsg(fd, message, flags) };
    // Where nothing is left to do, a message that is none is the kernel's to refuse.
    if message.is_null() || !is_for_all(flags) && !is_look_at_all(flags) {
        return receive(target, flags, &mut limit, whole);
    }
    if is_look_at_all(flags) {
        // SAFETY: the caller's message.
        let asked = unsafe { *message };
        let first = receive(target, flags, &mut limit, whole)?;
        let wanted = || length_of(&asked);
        return seen(target, flags, first, wanted, |fd, flags| {
            // SAFETY: the caller's message, as the kernel has accepted it.
            unsafe { *message = asked };
            whole(fd, flags)
        });
    }
    // SAFETY: the caller's message.
    let room = unsafe { (*message).msg_controllen };
    let is_unix = sockets::is_unix(target.fd);
    let is_all = |done| {
        // SAFETY: the kernel has accepted the caller's message.
        let message = unsafe { &*message };
        let has_control = message.msg_controllen != 0 || message.msg_flags & libc::MSG_CTRUNC != 0;
        done >= length_of(message) || room != 0 && has_control && is_unix
    };
    receive_all(target, flags, limit, is_all, |fd, flags, done| {
        if done == 0 {
            return whole(fd, flags);
        }
        // SAFETY: the kernel has accepted the caller's message.
        let message = unsafe { &mut *message };
        let mut rest = transfer::rest_of(parts_of(message), done);
        let mut shorter = msghdr { msg_controllen: room, ..*message };
        (shorter.msg_name, shorter.msg_namelen) = (ptr::null_mut(), 0);
        (shorter.msg_iov, shorter.msg_iovlen) = (rest.as_mut_ptr(), rest.len());
        // SAFETY: a valid message with what is left of the caller's parts.
        let count = unsafe { direct::recvmsg(fd, &mut shorter, flags) };
        if count > 0 {
            message.msg_controllen = shorter.msg_controllen;
            message.msg_flags = shorter.msg_flags;
        }
        count
    })
}

/// The parts of a message that the kernel has accepted.
fn parts_of(message: &msghdr) -> &[iovec] {
    if message.msg_iovlen == 0 {
        return &[];
    }
    // SAFETY: the caller's parts.
    unsafe { core::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

/// As of [`parts_of`].
fn length_of(message: &msghdr) -> usize {
    parts_of(message).iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len))
}

/// A call that sends; `call(fd, flags, done)` is the system call for what is left of `wanted`
/// bytes.
fn send(
    fd: c_int,
    flags: c_int,
    wanted: usize,
    call: impl Fn(c_int, c_int, usize) -> isize,
) -> Result<isize> {
    let (mut target, mut limit) = (Target::new(fd), Limit::default());
    let sent = send_start(&mut target, flags, &mut limit, |fd, flags| call(fd, flags, 0))?;
    Ok(send_rest(&mut target, flags, limit, wanted, sent as usize, call) as isize)
}

/// As much as the kernel takes at once; a stream may take a part.
fn send_start(
    target: &mut Target,
    flags: c_int,
    limit: &mut Limit,
    call: impl Fn(c_int, c_int) -> isize,
) -> Result<isize> {
    // The kernel would send the signal to the worker.
    let quiet = flags | libc::MSG_NOSIGNAL;
    let sent = if flags & libc::MSG_DONTWAIT != 0 {
        checked(call(target.fd, quiet))
    } else {
        let attempt = |fd, _| call(fd, quiet | libc::MSG_DONTWAIT);
        retry(target, Interest::Write, libc::SO_SNDTIMEO, limit, attempt)
    };
    sent.inspect_err(|stop| {
        if flags & libc::MSG_NOSIGNAL == 0 {
            signal::broken_pipe(target.fd, stop);
        }
    })
}

/// What is left of `wanted` bytes after `done`: a blocking call goes on, unless a handler runs.
/// How much was sent; that is told first, and an error of the rest raises no signal.
fn send_rest(
    target: &mut Target,
    flags: c_int,
    mut limit: Limit,
    wanted: usize,
    mut done: usize,
    call: impl Fn(c_int, c_int, usize) -> isize,
) -> usize {
    limit.always = true;
    let waits = flags & libc::MSG_DONTWAIT == 0;
    while done > 0 && done < wanted && waits && !is_nonblocking(target.fd) {
        limit.part_sent(target.fd);
        let quiet = flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let attempt = |fd, _| if sockets::is_broken(fd) { 0 } else { call(fd, quiet, done) };
        match retry(target, Interest::Write, libc::SO_SNDTIMEO, &mut limit, attempt) {
            Ok(count) if count > 0 => done += count as usize,
            _ => break,
        }
    }
    done
}

exported! {
    (heddle_user_recv) (fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize {
        made(|| receive_bytes(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()))
    }

    (heddle_user___recv_chk) (
        fd: c_int, buffer: *mut c_void, length: usize, room: usize, flags: c_int
    ) -> isize {
        super::file::check_room(length, room);
        made(|| receive_bytes(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()))
    }

    (heddle_user_recvfrom) (
        fd: c_int, buffer: *mut c_void, length: usize, flags: c_int,
        address: *mut sockaddr, address_length: *mut socklen_t
    ) -> isize {
        made(|| receive_bytes(fd, buffer, length, flags, address, address_length))
    }

    (heddle_user___recvfrom_chk) (
        fd: c_int, buffer: *mut c_void, length: usize, room: usize, flags: c_int,
        address: *mut sockaddr, address_length: *mut socklen_t
    ) -> isize {
        super::file::check_room(length, room);
        made(|| receive_bytes(fd, buffer, length, flags, address, address_length))
    }

    (heddle_user_recvmsg) (fd: c_int, message: *mut msghdr, flags: c_int) -> isize {
        made(|| receive_message(&mut Target::new(fd), message, flags, Limit::default()))
    }

    (heddle_user_send, heddle_user___send) (
        fd: c_int, buffer: *const c_void, length: usize, flags: c_int
    ) -> isize {
        // SAFETY: what is left of the caller's buffer.
        made(|| send(fd, flags, length, |fd, flags, done| unsafe {
            direct::send(fd, buffer.wrapping_byte_add(done), length - done, flags)
        }))
    }

    (heddle_user_sendto) (
        fd: c_int, buffer: *const c_void, length: usize, flags: c_int,
        address: *const sockaddr, address_length: socklen_t
    ) -> isize {
        // SAFETY: what is left of the caller's buffer, and the caller's address.
        made(|| send(fd, flags, length, |fd, flags, done| unsafe {
            let rest = buffer.wrapping_byte_add(done);
            direct::sendto(fd, rest, length - done, flags, address, address_length)
        }))
    }

    (heddle_user_sendmsg) (fd: c_int, message: *const msghdr, flags: c_int) -> isize {
        made(|| send_message(fd, message, flags))
    }
}

/// `sendmsg`.
fn send_message(fd: c_int, message: *const msghdr, flags: c_int) -> Result<isize> {
    let (mut target, mut limit) = (Target::new(fd), Limit::default());
    // SAFETY: the caller's message.
    let whole = |fd, flags| unsafe { direct::sendmsg(fd, message, flags) };
    let sent = send_start(&mut target, flags, &mut limit, whole)?;
    // SAFETY: the kernel has accepted the caller's message.
    Ok(send_rest_of(&mut target, flags, limit, unsafe { &*message }, sent as usize) as isize)
}

/// What is left of a message that a stream took in part goes without its control data, which went
/// with the start. How much was sent.
fn send_rest_of(
    target: &mut Target,
    flags: c_int,
    limit: Limit,
    message: &msghdr,
    done: usize,
) -> usize {
    send_rest(target, flags, limit, length_of(message), done, |fd, flags, done| {
        let mut rest = transfer::rest_of(parts_of(message), done);
        // SAFETY: all zero bytes are an empty message.
        let mut shorter: msghdr = unsafe { core::mem::zeroed() };
        (shorter.msg_iov, shorter.msg_iovlen) = (rest.as_mut_ptr(), rest.len());
        // SAFETY: a valid message with what is left of the caller's parts.
        unsafe { direct::sendmsg(fd, &shorter, flags) }
    })
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
    let call = |fd, flags, done: usize| unsafe {
        let rest = messages.wrapping_add(done);
        libc::recvmmsg(fd, rest, count - done as c_uint, flags as _, ptr::null_mut()) as isize
    };
    if flags & libc::MSG_DONTWAIT != 0 {
        return checked(call(fd, flags, 0));
    }
    let for_one = flags & libc::MSG_WAITFORONE as c_int != 0;
    let is_each_whole = count > 0 && is_for_all(flags) && sockets::is_stream(fd);
    let mut target = Target::new(fd);
    let step = |target: &mut Target, done: usize| {
        let mut limit = Limit { always: done > 0, ..Limit::default() };
        if !is_each_whole {
            return receive(target, flags, &mut limit, |fd, flags| call(fd, flags, done));
        }
        // SAFETY: one of the caller's messages.
        let message = unsafe { &mut *messages.add(done) };
        let flags = flags & !(libc::MSG_WAITFORONE as c_int);
        message.msg_len = receive_message(target, &mut message.msg_hdr, flags, limit)? as c_uint;
        Ok(1)
    };
    let mut done = step(&mut target, 0)? as usize;
    while done > 0 && done < count as usize && !for_one && !is_nonblocking(target.fd) {
        if limit != 0 && raw::now_ns() >= limit {
            break;
        }
        match step(&mut target, done) {
            Ok(more) if more > 0 => done += more as usize,
            _ => break,
        }
    }
    Ok(done as isize)
}

/// Sends messages until `count` are sent, each whole: one that is sent in part only is the last.
fn send_many(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> Result<isize> {
    let count = count.min(libc::UIO_MAXIOV as c_uint) as usize;
    let (mut target, mut done) = (Target::new(fd), 0);
    loop {
        let mut limit = Limit { always: done > 0, ..Limit::default() };
        // SAFETY: what is left of the caller's messages.
        let call = |fd, flags: c_int| unsafe {
            let rest = messages.wrapping_add(done);
            libc::sendmmsg(fd, rest, (count - done) as c_uint, flags as _) as isize
        };
        match send_start(&mut target, flags, &mut limit, call) {
            Ok(sent) if sent > 0 => done += sent as usize,
            Err(stop) if done == 0 => return Err(stop),
            _ => return Ok(done as isize),
        }
        // SAFETY: one that the kernel has accepted; it is the only one that may be sent in part.
        let last = unsafe { &mut *messages.add(done - 1) };
        let sent = last.msg_len as usize;
        last.msg_len = send_rest_of(&mut target, flags, limit, &last.msg_hdr, sent) as c_uint;
        let is_whole = last.msg_len as usize >= length_of(&last.msg_hdr);
        let waits = flags & libc::MSG_DONTWAIT == 0;
        if done >= count || !is_whole || !waits || is_nonblocking(target.fd) {
            return Ok(done as isize);
        }
    }
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
        made_int(|| send_many(fd, messages, count, flags))
    }
}
