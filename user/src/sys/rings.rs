//! The program's own rings of io_uring, in calls by number of full threads.
//!
//! The kernel has two things about a ring for one kernel thread alone: who may submit, where the
//! ring is made for a single issuer, and the table in which ring descriptors are registered. A full
//! thread has another kernel thread after the next wait: it would be refused there, or find another
//! thread's ring by its index. So its rings are made for any issuer, which is slower and the same
//! otherwise, and ring descriptors are not registered, as by a kernel that can't: libraries go on
//! with the descriptor then. The main thread's are as ever.
//!
//! Not here: rings made by a library that enters the kernel by itself, as liburing does.

use core::ffi::{c_int, c_long, c_uint};
use core::ptr;

use super::own_memory;
use super::syscall::real;
use crate::errno;

// Of the kernel's headers.
const COOPERATIVE: u32 = 1 << 8;
const TELLS_OF_WORK: u32 = 1 << 9;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFERS_WORK: u32 = 1 << 13;
const REGISTERED_ALONE: u32 = 1 << 15;
const REGISTER_RINGS: c_uint = 20;
const BY_REGISTERED: c_uint = 1 << 31;

/// Where `io_uring_setup` finds the flags in what it takes.
const FLAGS_AT: usize = 8;

/// `flags` for any issuer; `None`: it can't be so.
fn for_any(flags: u32) -> Option<u32> {
    // Work that waits is told of where it is deferred, or where the submitter looks for it.
    let cooperative = match flags & DEFERS_WORK != 0 && flags & TELLS_OF_WORK != 0 {
        true => COOPERATIVE,
        false => 0,
    };
    let any = flags & !(SINGLE_ISSUER | DEFERS_WORK) | cooperative;
    (flags & REGISTERED_ALONE == 0).then_some(any)
}

/// What a full thread gets for `io_uring_setup` or `io_uring_register`; `None`: it is the kernel's
/// to answer.
pub fn answer(number: c_long, arguments: [usize; 6]) -> Option<Result<c_long, c_int>> {
    match number {
        libc::SYS_io_uring_setup => setup(arguments),
        libc::SYS_io_uring_register => {
            let operation = arguments[1] as c_uint;
            let is_refused = operation == REGISTER_RINGS || operation & BY_REGISTERED != 0;
            is_refused.then_some(Err(libc::EINVAL))
        }
        _ => None,
    }
}

fn setup(arguments: [usize; 6]) -> Option<Result<c_long, c_int>> {
    let place: *mut u32 = ptr::with_exposed_provenance_mut(arguments[1].wrapping_add(FLAGS_AT));
    // The kernel says what is wrong with the place.
    let flags = own_memory::read(place.cast_const()).ok()?;
    let Some(any) = for_any(flags) else { return Some(Err(libc::EINVAL)) };
    if any == flags || own_memory::write(place, any).is_err() {
        return None;
    }
    let result = real(libc::SYS_io_uring_setup, arguments);
    // What it is told of the ring is what it has asked for.
    let _ = errno::kept(|| own_memory::write(place, flags));
    Some(Ok(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_for_any_issuer() {
        assert_eq!(for_any(0), Some(0));
        assert_eq!(for_any(SINGLE_ISSUER | COOPERATIVE), Some(COOPERATIVE));
        assert_eq!(for_any(SINGLE_ISSUER | DEFERS_WORK), Some(0));
        let told = SINGLE_ISSUER | DEFERS_WORK | TELLS_OF_WORK;
        assert_eq!(for_any(told), Some(COOPERATIVE | TELLS_OF_WORK));
        assert_eq!(for_any(REGISTERED_ALONE), None);
    }
}
