//! The program's own rings of io_uring, in calls by number.
//!
//! The kernel has some of a ring for one kernel thread alone: who may submit, where the ring is
//! made for a single issuer; where work is done that waits for the issuer's next call; and the
//! table in which ring descriptors are registered. A full thread has another kernel thread after
//! the next wait: it would be refused there, or find another thread's ring by its index. So its
//! rings are made for any issuer, and their work is done when it comes; ring descriptors are not
//! registered, as by a kernel that can't: libraries go on with the descriptor then. What the kernel
//! has for rings of deferred work alone (another size, receiving without a copy) it refuses. A ring
//! that is made disabled is for any issuer whoever makes it: a full thread may enable it.
//!
//! The main thread's are as ever otherwise. Not here: rings made by a library that enters the
//! kernel by itself, as liburing does; and what a kernel thread had submitted that leaves its seat
//! as surplus, which the kernel cancels.

use core::ffi::{c_int, c_long, c_uint};
use core::ptr;

use super::own_memory;
use super::syscall::real;
use crate::errno;

// Of the kernel's headers.
const POLLS_SUBMISSIONS: u32 = 1 << 1;
const DISABLED_FIRST: u32 = 1 << 6;
const COOPERATIVE: u32 = 1 << 8;
const TELLS_OF_WORK: u32 = 1 << 9;
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFERS_WORK: u32 = 1 << 13;
const REGISTERED_ALONE: u32 = 1 << 15;
const REGISTER_RINGS: c_uint = 20;
const BY_REGISTERED: c_uint = 1 << 31;

/// Where `io_uring_setup` finds the flags in what it takes.
const FLAGS_AT: usize = 8;

/// `flags` for any issuer. Those that don't go together stay as they are, for the kernel to refuse.
fn for_any(flags: u32) -> u32 {
    let has = |flag: u32| flags & flag != 0;
    let late = COOPERATIVE | TELLS_OF_WORK | DEFERS_WORK;
    let is_refused = has(POLLS_SUBMISSIONS) && has(late)
        || has(DEFERS_WORK) && !has(SINGLE_ISSUER)
        || has(TELLS_OF_WORK) && !has(COOPERATIVE | DEFERS_WORK);
    if is_refused { flags } else { flags & !(SINGLE_ISSUER | late) }
}

/// What a thread gets for `io_uring_setup` or `io_uring_register`; `None`: it is the kernel's to
/// answer. `moves`: the thread is a full one.
pub fn answer(number: c_long, arguments: [usize; 6], moves: bool) -> Option<Result<c_long, c_int>> {
    match number {
        libc::SYS_io_uring_setup => setup(arguments, moves),
        libc::SYS_io_uring_register if moves => {
            let operation = arguments[1] as c_uint;
            let is_refused = operation == REGISTER_RINGS || operation & BY_REGISTERED != 0;
            is_refused.then_some(Err(libc::EINVAL))
        }
        _ => None,
    }
}

fn setup(arguments: [usize; 6], moves: bool) -> Option<Result<c_long, c_int>> {
    let place: *mut u32 = ptr::with_exposed_provenance_mut(arguments[1].wrapping_add(FLAGS_AT));
    // The kernel says what is wrong with the place.
    let flags = own_memory::read(place.cast_const()).ok()?;
    if flags & REGISTERED_ALONE != 0 && moves {
        return Some(Err(libc::EINVAL));
    }
    let any = if moves || flags & DISABLED_FIRST != 0 { for_any(flags) } else { flags };
    if any == flags || own_memory::write(place, any).is_err() {
        return None;
    }
    let result = real(libc::SYS_io_uring_setup, arguments);
    // What it is told of the ring is what it has asked for.
    let _ = errno::kept(|| own_memory::write(place, flags));
    Some(Ok(result))
}
