//! Descriptors of `signalfd`: what they tell a full thread of the signals that were sent to it.
//!
//! Such a descriptor tells whoever asks it of what is pending for the process, and for the asker
//! itself. For the kernel that is the worker. So a read takes what was sent to the thread first, as
//! the kernel does it, and where it is asked which descriptors are ready this adds those that have
//! something for the thread: they themselves, and the epoll sets that they are in. While a thread
//! waits for what may tell it is called for signals that it blocks, too, and asks again
//! (`threads/signals/told.rs`).
//!
//! Which numbers it may concern is a hint (`known.rs`), from `signalfd`, the making of epoll sets,
//! and copies; what a file is, which signals it tells of, and what is in a set, the kernel says
//! (`/proc/self/fdinfo`), when something is pending for the thread that some descriptor tells of.
//!
//! Invariant: a signal is taken only for a read of a file of which the kernel has said that it
//! tells of it.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{CStr, c_int};
use core::fmt::Write;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::{Interest, descriptor};
use libc::{epoll_event, iovec, nfds_t, pollfd, siginfo_t, signalfd_siginfo, sigset_t};

use super::transfer::{HERE, Parts};
use super::{Result, Stop, exported, known, numbers};
use crate::errno;
use crate::sys::{direct, own_memory, probed};
use crate::threads::signals::actions::is_in_vfork;
use crate::threads::signals::{self, Signals, fields_of};
use crate::threads::{fork, this};

/// How deep the kernel lets sets be in sets.
const DEPTH: u32 = 5;
/// `UIO_MAXIOV` of the kernel.
const PARTS_MAX: c_int = 1024;
const INFO_BYTES: usize = size_of::<signalfd_siginfo>();
/// What is told of once, and what is told of when it changes.
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const CHANGES: u32 = libc::EPOLLET as u32;

/// What any descriptor was ever made to tell of.
static TOLD_OF: AtomicU64 = AtomicU64::new(0);

/// What the kernel says that a number is.
enum File {
    /// It tells of these signals.
    Signals(u64),
    /// An epoll set with these.
    Set(Vec<Entry>),
}

/// What is in a set: its number there, and as `epoll_ctl` was told.
#[derive(Clone, Copy)]
struct Entry {
    fd: c_int,
    events: u32,
    data: u64,
}

impl File {
    fn of(fd: c_int) -> Option<File> {
        let mut path = Path([0; 40], 0);
        write!(path, "/proc/self/fdinfo/{fd}\0").ok()?;
        let bytes = descriptor::read_all(CStr::from_bytes_until_nul(&path.0).ok()?)?;
        File::parse(core::str::from_utf8(&bytes).ok()?)
    }

    fn parse(text: &str) -> Option<File> {
        let signals = text.lines().find_map(|line| line.strip_prefix("sigmask:"));
        if let Some(signals) = signals {
            return u64::from_str_radix(signals.trim(), 16).ok().map(File::Signals);
        }
        let entries: Vec<Entry> = text.lines().filter_map(Entry::parse).collect();
        (!entries.is_empty()).then_some(File::Set(entries))
    }
}

impl Entry {
    fn parse(line: &str) -> Option<Entry> {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let fd = words.next()?.parse().ok()?;
        let mut named = |name| words.next().filter(|word| *word == name).and_then(|_| words.next());
        let events = u32::from_str_radix(named("events:")?, 16).ok()?;
        let data = u64::from_str_radix(named("data:")?, 16).ok()?;
        Some(Entry { fd, events, data })
    }

    /// Which events it is to be told of with these signals.
    fn told(&self, pending: u64, depth: u32) -> u32 {
        let wanted = self.events & (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
        if wanted == 0 {
            0
        } else {
            wanted & events_of(self.fd, pending, depth).cast_unsigned() as u32
        }
    }
}

/// A path, made without an allocation.
struct Path([u8; 40], usize);

impl Write for Path {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.0.get_mut(self.1..self.1 + text.len()).ok_or(core::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.1 += text.len();
        Ok(())
    }
}

/// What `fd` is ready for with these signals; events of `poll`, which are those of epoll.
fn events_of(fd: c_int, pending: u64, depth: u32) -> i16 {
    if !known::tells(fd) {
        return 0;
    }
    match File::of(fd) {
        Some(File::Signals(signals)) if signals & pending != 0 => libc::POLLIN,
        Some(File::Set(entries))
            if depth < DEPTH && entries.iter().any(|it| it.told(pending, depth + 1) != 0) =>
        {
            libc::POLLIN | libc::POLLRDNORM
        }
        _ => 0,
    }
}

/// Whether a descriptor was ever made to tell of `signal`.
pub fn tells_of(signal: u64) -> bool {
    TOLD_OF.load(Relaxed) & signal != 0
}

/// What is pending for the calling thread of which some descriptor tells.
fn pending_for(signals: &Signals) -> Option<u64> {
    let pending = signals.own_pending() & TOLD_OF.load(Relaxed);
    // A child in its parent's memory was sent none of that.
    (pending != 0 && !is_in_vfork()).then_some(pending)
}

/// As above, of the calling thread, which looks.
fn look() -> Option<(&'static Signals, u64)> {
    let signals = this()?.signals();
    signals.told.look();
    Some((signals, pending_for(signals)?))
}

/// Whether something is pending for the calling thread that `fd` may tell of.
pub fn has_some(fd: c_int) -> bool {
    known::tells(fd) && this().is_some_and(|me| pending_for(me.signals()).is_some())
}

/// The calling thread waits for what may tell, as long as it keeps this.
#[must_use]
pub struct Asking(Option<&'static Signals>);

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(signals) = self.0 {
            signals.told.end();
        }
    }
}

/// Before the calling thread waits for this number; `None`: it is to ask again.
#[inline]
pub fn begin(fd: c_int, interest: Interest) -> Option<Asking> {
    begin_if(interest == Interest::Read && known::may_tell(fd))
}

/// As [`begin`], for several.
pub fn begin_several(fds: &[pollfd]) -> Option<Asking> {
    begin_if(fds.iter().any(|entry| known::may_tell(entry.fd)))
}

fn begin_if(may_tell: bool) -> Option<Asking> {
    let Some(me) = this().filter(|_| may_tell) else { return Some(Asking(None)) };
    let signals = me.signals();
    (!signals.told.begin(known::do_some_tell)).then_some(Asking(Some(signals)))
}

/// Adds to the answer of `poll`; how many are ready then.
pub fn add(fds: &mut [pollfd], ready: isize) -> isize {
    let readable = libc::POLLIN | libc::POLLRDNORM;
    let is_asked = |it: &pollfd| it.events & readable != 0 && known::tells(it.fd);
    if ready < 0 || !known::do_some_tell() || !fds.iter().any(is_asked) {
        return ready;
    }
    let Some((_, pending)) = look() else { return ready };
    let mut added = 0;
    for entry in fds.iter_mut().filter(|entry| is_asked(entry)) {
        let told = entry.events & errno::kept(|| events_of(entry.fd, pending, 0));
        added += isize::from(entry.revents == 0 && told != 0);
        entry.revents |= told;
    }
    ready + added
}

/// As [`add`], of the caller's memory.
///
/// # Safety
/// 1. The kernel has accepted so many entries.
pub unsafe fn add_to(fds: *mut pollfd, count: nfds_t, ready: isize) -> isize {
    if count == 0 || !known::do_some_tell() {
        return ready;
    }
    // SAFETY: by 1.
    add(unsafe { core::slice::from_raw_parts_mut(fds, count as usize) }, ready)
}

/// Adds to the answer of `epoll_wait`; how many events there are then.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// 1. The place is the caller's, for so many events; as many as were ready are written.
pub(super) unsafe fn tell(
    set: c_int,
    events: *mut epoll_event,
    count: c_int,
    ready: isize,
) -> Result<isize> {
    if !known::tells(set) {
        return Ok(ready);
    }
    let Some((signals, pending)) = look() else { return Ok(ready) };
    let Some(File::Set(entries)) = errno::kept(|| File::of(set)) else { return Ok(ready) };
    let (told, mark) = (&signals.told, mark_of(&entries));
    let has_changed = told.has_changed(set, mark);
    // SAFETY: by 1.
    let data_at = |at: isize| unsafe { (*events.offset(at)).u64 };
    let (mut next, mut are_all, mut has_changing) = (ready, true, false);
    for entry in &entries {
        let is_changing = entry.events & (CHANGES | ONCE) == CHANGES;
        has_changing |= is_changing;
        if is_changing && !has_changed {
            continue;
        }
        let ready_for = errno::kept(|| entry.told(pending, 0));
        if ready_for == 0 {
            continue;
        }
        if (0..ready).any(|at| data_at(at) == entry.data) {
            are_all = false;
            continue;
        }
        if next == count as isize {
            if next != ready || !comes_again(&entries, data_at(next - 1)) || !told.makes_room() {
                are_all = false;
                break;
            }
            next -= 1;
        }
        let event = epoll_event { events: ready_for, u64: entry.data };
        own_memory::write(events.wrapping_offset(next), event).map_err(Stop::Error)?;
        next += 1;
        disarm(set, entry);
    }
    if are_all && has_changing && next != ready {
        told.note_change(set, mark);
    }
    Ok(next.max(ready))
}

/// Tells one content of a set from another.
fn mark_of(entries: &[Entry]) -> u64 {
    let add = |mark: u64, word: u64| (mark ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    entries.iter().fold(0xcbf2_9ce4_8422_2325, |mark, entry| {
        add(add(add(mark, entry.fd as u64), entry.events.into()), entry.data)
    })
}

/// Whether the set tells again of what has this data, if another event takes its place.
fn comes_again(entries: &[Entry], data: u64) -> bool {
    entries.iter().all(|entry| entry.data != data || entry.events & (CHANGES | ONCE) == 0)
}

/// What is told of once is not told of again before the program says so.
fn disarm(set: c_int, entry: &Entry) {
    if entry.events & ONCE != 0 {
        let mut event = epoll_event { events: ONCE, u64: entry.data };
        // SAFETY: a valid event.
        errno::kept(|| unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_MOD, entry.fd, &mut event) });
    }
}

/// Reads what was sent to the calling thread; `None`: the kernel is to be asked.
pub fn read(fd: c_int, parts: Parts) -> Option<isize> {
    let (signals, _) = look()?;
    let list = list_of(parts)?;
    let room = list.iter().fold(0_usize, |sum, part| sum.saturating_add(part.iov_len)) / INFO_BYTES;
    if room == 0 {
        return None;
    }
    let Some(File::Signals(told)) = errno::kept(|| File::of(fd)) else { return None };
    let mut done = 0;
    while let Some(info) = (done < room).then(|| signals.take_own(told)).flatten() {
        if let Err(number) = put(&list, done * INFO_BYTES, as_read(&info)) {
            // What was taken is lost, as in the kernel.
            errno::set(number);
            return Some(if done == 0 { -1 } else { (done * INFO_BYTES) as isize });
        }
        done += 1;
    }
    if done == 0 {
        return None;
    }
    Some((done * INFO_BYTES) as isize + errno::kept(|| more(fd, &list, done * INFO_BYTES)))
}

fn list_of(Parts { first, count, is_own }: Parts) -> Option<Vec<iovec>> {
    if !(1..=PARTS_MAX).contains(&count) {
        return None;
    }
    let part = |at: usize| {
        if is_own {
            // SAFETY: a part of this library's.
            return Some(unsafe { *first.add(at) });
        }
        probed::read(first.wrapping_add(at)).ok()
    };
    (0..count as usize).map(part).collect()
}

/// Puts one behind what was read, over several parts if need be.
fn put(list: &[iovec], behind: usize, info: signalfd_siginfo) -> core::result::Result<(), c_int> {
    let (mut skipped, mut from) = (behind, 0);
    for part in list {
        let begin = skipped.min(part.iov_len);
        skipped -= begin;
        let bytes = (part.iov_len - begin).min(INFO_BYTES - from);
        let place = part.iov_base.cast::<u8>().wrapping_add(begin);
        if bytes == INFO_BYTES {
            return own_memory::write(place.cast(), info);
        }
        for at in 0..bytes {
            // SAFETY: a byte of it; all of them are initialised.
            let byte = unsafe { *(&raw const info).cast::<u8>().add(from + at) };
            own_memory::write(place.wrapping_add(at), byte)?;
        }
        from += bytes;
    }
    Ok(())
}

/// What the kernel has for the process, behind that; 0 where it cannot be asked without waiting.
fn more(fd: c_int, list: &[iovec], behind: usize) -> isize {
    let [part] = list else { return 0 };
    let rest = iovec {
        iov_base: part.iov_base.cast::<u8>().wrapping_add(behind).cast(),
        iov_len: part.iov_len - behind,
    };
    if rest.iov_len < INFO_BYTES {
        return 0;
    }
    // SAFETY: the caller's place.
    unsafe { direct::preadv2(fd, &rest, 1, HERE, libc::RWF_NOWAIT) }.max(0)
}

/// As a descriptor tells it.
fn as_read(info: &siginfo_t) -> signalfd_siginfo {
    // SAFETY: all zero bytes are valid.
    let mut told: signalfd_siginfo = unsafe { core::mem::zeroed() };
    let sent = fields_of(info);
    (told.ssi_signo, told.ssi_errno) = (info.si_signo as u32, info.si_errno);
    (told.ssi_code, told.ssi_ptr) = (info.si_code, sent.value);
    told.ssi_int = sent.value as c_int;
    match info.si_code {
        libc::SI_TIMER => (told.ssi_tid, told.ssi_overrun) = (sent.pid, sent.uid),
        _ => (told.ssi_pid, told.ssi_uid) = (sent.pid, sent.uid),
    }
    told
}

/// A descriptor was made of `fd`, if `copy` is one.
pub fn copied(fd: c_int, copy: c_int) -> c_int {
    if copy >= 0 && known::may_tell(fd) {
        known::note_may_tell(copy);
    }
    copy
}

/// An epoll set was made, if that is one.
pub fn made_set(set: c_int) -> c_int {
    if set >= 0 {
        known::note_may_tell(set);
    }
    set
}

/// `signalfd` was asked for a new descriptor, or to change `before`, and has returned this.
pub fn made(before: c_int, fd: c_int, signals: *const u64) -> c_int {
    if fd >= 0 {
        // SAFETY: the kernel has read the caller's set.
        TOLD_OF.fetch_or(unsafe { signals.read_unaligned() }, Relaxed);
        known::note_tells(fd);
        if before >= 0 && fork::has_full() && !is_in_vfork() {
            errno::kept(signals::have_all_look);
        }
    }
    fd
}

exported! {
    (heddle_user_signalfd) (fd: c_int, signals: *const sigset_t, flags: c_int) -> c_int {
        // SAFETY: the caller's set.
        let result = numbers::lowest(|| unsafe { libc::signalfd(fd, signals, flags) });
        made(fd, result, signals.cast())
    }
}
