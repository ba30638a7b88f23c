//! What code is at an address: whether it is the instruction by which loops wait for other threads.
//!
//! Invariant: nothing is read that cannot be: code may lie where it can only be executed.

use core::ptr;

/// Bytes that are looked at, from before the address on.
const BYTES: usize = 8;

/// Whether a thread that is at `ip` has just executed such an instruction, or is about to.
pub(crate) fn waits_at(ip: usize) -> bool {
    let Some(code) = read(ip.wrapping_sub(PAUSE_BYTES)) else { return false };
    is_pause(&code[..PAUSE_BYTES]) || is_pause(&code[PAUSE_BYTES..2 * PAUSE_BYTES])
}

#[cfg(target_arch = "x86_64")]
const PAUSE_BYTES: usize = 2;
#[cfg(not(target_arch = "x86_64"))]
const PAUSE_BYTES: usize = 4;

/// `pause`.
#[cfg(target_arch = "x86_64")]
fn is_pause(code: &[u8]) -> bool {
    code == [0xF3, 0x90]
}

/// `yield`, or `isb`, which waits longer.
#[cfg(not(target_arch = "x86_64"))]
fn is_pause(code: &[u8]) -> bool {
    code == 0xD503_203F_u32.to_le_bytes() || code == 0xD503_3FDF_u32.to_le_bytes()
}

fn read(address: usize) -> Option<[u8; BYTES]> {
    let place: *const [u8; BYTES] = ptr::with_exposed_provenance(address);
    // The kernel reads a set of so many bytes, and then refuses what it does not know.
    let unknown = -1;
    // SAFETY: the kernel says if it is no place. It changes nothing.
    let refused = unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, unknown, place, ptr::null_mut::<u8>(), BYTES)
    };
    let can_be_read = refused < 0 && super::signals::errno() == libc::EINVAL;
    // SAFETY: it was just read.
    can_be_read.then(|| unsafe { place.read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_that_waits_is_seen_from_both_sides() {
        let mut code = [0; 64];
        let at = |code: &[u8; 64], offset: usize| waits_at((&raw const *code).addr() + offset);
        #[cfg(target_arch = "x86_64")]
        code[32..34].copy_from_slice(&[0xF3, 0x90]);
        #[cfg(not(target_arch = "x86_64"))]
        code[32..36].copy_from_slice(&0xD503_203F_u32.to_le_bytes());
        for offset in (8..56).step_by(PAUSE_BYTES) {
            let expected = offset == 32 || offset == 32 + PAUSE_BYTES;
            assert_eq!(at(&code, offset), expected, "{offset}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_none() {
        assert!(!waits_at(4096));
        assert!(!waits_at(0));
        assert!(!waits_at(usize::MAX - 64));
    }
}
