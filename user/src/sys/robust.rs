//! The robust mutexes that a full thread holds when it ends: as the kernel does it for its own
//! threads, whoever waits for one, or comes later, is told that its owner is dead.
//!
//! The C library links the mutexes of each thread behind a head in the thread's descriptor, and
//! tells the kernel where that is; of full threads it knows nothing. What becomes of the mutexes
//! when the whole process ends is in `proxy.rs`.
//!
//! Invariant: nothing here faults, whatever has become of the mutexes' memory; but for a mutex that
//! the thread holds by its word in memory that nobody may write any more.

use core::ffi::c_int;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{own_memory, proxy};

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const NUMBER: u32 = 0x3fff_ffff;
/// In a link to a mutex that inherits priority.
const INHERITS: usize = 1;
/// As many as the kernel goes through.
const LIMIT: usize = 2048;
/// Of the head.
pub const BYTES: usize = size_of::<Head>();

/// The kernel's `struct robust_list_head`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    first: usize,
    /// From a link to its mutex's word.
    offset: isize,
    /// One that is being taken or given up.
    pending: usize,
}

/// How far heads are from their threads' pointers; 0 where the kernel does not say.
static DISTANCE: AtomicUsize = AtomicUsize::new(0);

extern "C" fn at_load() {
    let (mut head, mut bytes) = (0_usize, 0_usize);
    // SAFETY: two places; 0 is the caller, the main thread.
    let failed =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut bytes) };
    if failed == 0 && head != 0 && bytes == BYTES {
        // SAFETY: no arguments.
        DISTANCE.store(head.wrapping_sub(unsafe { libc::pthread_self() } as usize), Relaxed);
    }
}

/// In the main thread.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Where the calling thread's head is; `None`: nobody knows.
pub fn head() -> Option<usize> {
    let distance = DISTANCE.load(Relaxed);
    // SAFETY: no arguments.
    (distance != 0).then(|| (unsafe { libc::pthread_self() } as usize).wrapping_add(distance))
}

/// The calling full thread ends.
pub fn end() {
    let Some(place) = head() else { return };
    // SAFETY: in the thread's own descriptor, where the C library keeps it.
    let head = unsafe { core::ptr::with_exposed_provenance::<Head>(place).read() };
    if head.first == place && head.pending == 0 {
        return;
    }
    let _ = leave_all(place, &head);
}

fn leave_all(place: usize, head: &Head) -> Result<(), c_int> {
    let mut link = head.first;
    for _ in 0..LIMIT {
        if link & !INHERITS == place {
            break;
        }
        // Before it is left: it is the next owner's then.
        let next = own_memory::read(core::ptr::with_exposed_provenance::<usize>(link & !INHERITS))?;
        if link & !INHERITS != head.pending & !INHERITS {
            leave(link & !INHERITS, head.offset)?;
        }
        link = next;
    }
    match head.pending & !INHERITS {
        0 => Ok(()),
        pending => leave(pending, head.offset),
    }
}

/// Says that the owner of the mutex with this link is dead, if that is the caller.
fn leave(link: usize, offset: isize) -> Result<(), c_int> {
    let place = core::ptr::with_exposed_provenance_mut::<u32>(link.wrapping_add_signed(offset));
    if !place.is_aligned() {
        return Err(libc::EFAULT);
    }
    let mut seen = own_memory::read(place)?;
    // SAFETY: a word that can be read, which is changed by its users' own rules.
    let word = unsafe { AtomicU32::from_ptr(place) };
    while seen & NUMBER == proxy::number() {
        // ORDER: Release publishes what the owner did to who takes it; Acquire for the next try.
        match word.compare_exchange(seen, seen & WAITERS | OWNER_DIED, Release, Acquire) {
            Ok(_) if seen & WAITERS != 0 => {
                // SAFETY: no more pointers. They wait in the kernel, in any process.
                unsafe { libc::syscall(libc::SYS_futex, place, libc::FUTEX_WAKE, 1, 0, 0, 0) };
                break;
            }
            Ok(_) => break,
            Err(now) => seen = now,
        }
    }
    Ok(())
}
