//! The area of restartable sequences in a block, which the C library registers for each of its
//! threads and where the kernel writes the processor whenever it goes on with that.
//!
//! Invariant: that of a full thread is never registered: the thread has no kernel thread of its
//! own.

use std::sync::OnceLock;

use super::functions::address;

/// More than the kernel's `struct rseq` has.
pub(super) const BYTES_MAX: usize = 64;
/// Where it has its cpu id, and the cpu id of an area that is not registered
/// (`RSEQ_CPU_ID_REGISTRATION_FAILED`).
pub(super) const CPU_ID: isize = 4;
pub(super) const NOT_REGISTERED: i32 = -2;

/// What the C library gave the kernel with the area: an instruction that no code jumps to.
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;
const UNREGISTER: i32 = 1;
/// Bytes of an area that is registered: so many, or more by these.
const BYTES_MIN: usize = 32;
const STEP: usize = 4;

/// The kernel writes no more into the area of the block with the thread pointer `tls`, if the
/// calling kernel thread has that registered.
pub(crate) fn leave(tls: usize) {
    let Some(offset) = offset() else { return };
    let area = tls.wrapping_add_signed(offset);
    for bytes in (BYTES_MIN..=4 * BYTES_MIN).step_by(STEP) {
        // SAFETY: the kernel compares all with what it has, and refuses what is not that.
        let failed =
            unsafe { libc::syscall(libc::SYS_rseq, area, bytes, UNREGISTER, SIGNATURE) != 0 };
        if !failed {
            return;
        }
    }
}

/// Where the C library has the area, from the thread pointer. The first call takes the
/// loader's lock.
pub(super) fn offset() -> Option<isize> {
    static FOUND: OnceLock<Option<isize>> = OnceLock::new();
    *FOUND.get_or_init(look_for)
}

fn look_for() -> Option<isize> {
    // SAFETY: public numbers of glibc, if they are there.
    unsafe {
        let bytes = address(c"__rseq_size")?.cast::<u32>().read();
        let offset = address(c"__rseq_offset")?.cast::<isize>().read();
        (bytes != 0 || offset != 0).then_some(offset)
    }
}
