//! Files on disks, which are always ready and yet may sleep.
//!
//! What has to wait for the disk is done on a kernel thread of the blocking pool, unless the caller
//! has a worker for itself. Done in place for all is what only copies memory: files of the kernel's
//! own (`/proc`, `tmpfs`), and buffered writes on file systems that can't be asked not to sleep;
//! when one of those sleeps after all (too many unwritten pages), the runtime's monitor adds a
//! worker.

use core::ffi::c_int;

use super::transfer::{Direction, HERE, Parts, Transfer};
use super::{Result, Stop, checked, flags_of, known, unless_alone};
use crate::errno;
use crate::sys::direct;

/// `f_type` of file systems that live in memory.
const IN_MEMORY: [i64; 8] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x9584_58f6, // hugetlbfs
];

/// Whether the descriptor is a file that poll calls ready at any time.
pub fn is_disk(fd: c_int) -> bool {
    let kind = errno::kept(|| direct::kind_of(fd));
    matches!(kind, libc::S_IFREG | libc::S_IFBLK | libc::S_IFDIR)
}

fn is_in_memory(fd: c_int) -> bool {
    if known::is_stored(fd) {
        return false;
    }
    // SAFETY: all zero bytes are a valid `statfs`, which the kernel overwrites.
    let mut system: libc::statfs = unsafe { core::mem::zeroed() };
    // SAFETY: a valid place.
    let failed = unsafe { libc::fstatfs(fd, &mut system) } != 0;
    let is_in_memory = !failed && IN_MEMORY.contains(&system.f_type);
    if !failed && !is_in_memory {
        known::note_stored(fd);
    }
    is_in_memory
}

/// Whether what is written stays in memory for now.
fn is_buffered(transfer: &Transfer) -> bool {
    transfer.direction == Direction::Write
        && transfer.flags & (libc::RWF_DSYNC | libc::RWF_SYNC) == 0
        && are_buffered(flags_of(transfer.target.fd))
}

/// Whether writes with these flags of a descriptor stay in memory for now.
pub fn are_buffered(flags: c_int) -> bool {
    flags & (libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC) == 0
}

/// Reads or writes a disk's file, after the try was in vain.
#[cold]
pub fn transfer(transfer: &Transfer, parts: Parts) -> Result<isize> {
    let is_buffered = is_buffered(transfer);
    if is_buffered {
        known::note_buffered(transfer.target.fd);
    }
    if is_buffered || is_in_memory(transfer.target.fd) {
        return checked(transfer.plain(parts));
    }
    checked(unless_alone(|| transfer.plain(parts)))
}

/// Whether an offset is one: to the calls that take flags, -1 means something else.
pub fn at(offset: libc::off_t, call: impl FnOnce() -> Result<isize>) -> Result<isize> {
    if offset <= HERE { Err(Stop::Error(libc::EINVAL)) } else { call() }
}
