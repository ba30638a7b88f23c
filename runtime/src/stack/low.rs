//! Stacks below 4 GiB, for full threads: there a segment can begin at their thread pointers
//! (`sys/segments.rs`).
//!
//! They are taken from the upper half of it alone, from above: what a program asks the kernel to
//! put low (`MAP_32BIT`) comes below that. Where they begin differs from run to run.
//!
//! Invariant: no address is given twice.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;
use std::hash::{BuildHasher, RandomState};

use super::region;
use crate::full;
use crate::sys::memory::{self, PAGE};

const LOW: usize = 2 << 30;
const HIGH: usize = (4 << 30) - (16 << 20);
/// The first ends in this much below `HIGH`. From there downwards: the heap of a program that has
/// its place (not PIE) grows from below (`brk`), and what programs map at a place that they know.
const ENDS_IN: usize = 256 << 20;
/// Larger classes would be few.
const CLASS_MAX: usize = 4;
/// How often something that is there is stepped over, and how far.
const TRIES: usize = 16;
const STEP: usize = 64 << 20;

/// Where the next one ends; 0: nobody has asked; `LOW`: it is full.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Whether stacks of `class` should lie here, and may.
pub(super) fn wants(class: usize) -> bool {
    full::exist()
        && may_have_segments()
        && class <= CLASS_MAX
        && NEXT.load(Relaxed) != LOW
        && memory::address_space_part().is_none()
}

/// Address space for `count` stacks of `class` that can be read and written; `None`: it is full.
pub(super) fn take(class: usize, count: usize) -> Option<*mut u8> {
    let bytes = count * region::stride(class);
    if NEXT.load(Relaxed) == 0 {
        let _ = NEXT.compare_exchange(0, end(), Relaxed, Relaxed);
    }
    let mut step = 0;
    for _ in 0..TRIES {
        let below = |end: usize| Some(end - step - bytes).filter(|start| *start > LOW);
        let Ok(end) = NEXT.fetch_update(Relaxed, Relaxed, below) else { break };
        match memory::open_at(end - step - bytes, bytes) {
            Ok(start) => return Some(start),
            // Of memory there is no more anywhere.
            Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => return None,
            Err(_) => step = STEP,
        }
    }
    NEXT.store(LOW, Relaxed);
    None
}

/// Whether it is of use.
fn may_have_segments() -> bool {
    #[cfg(target_arch = "x86_64")]
    return crate::sys::segments::may_be();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn end() -> usize {
    let random = RandomState::new().hash_one(PAGE) as usize;
    HIGH - random % ENDS_IN / PAGE * PAGE
}
