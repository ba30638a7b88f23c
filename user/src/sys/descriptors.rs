//! The process's table of descriptors.
//!
//! The program's numbers in it are those that it would have without this library: what the runtime
//! and this library keep open stands above them (`raw::descriptor`).
//!
//! Invariant: it only grows, so what was read of its size once is no more than that.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw::descriptor::read;

/// Room for what the kernel tells of a process in `status`.
pub const STATUS_BYTES: usize = 4096;

extern "C" fn at_load() {
    heddle::raw::descriptor::raise_all();
}

/// Before the runtime opens anything.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// How many descriptors it had room for when it was looked at last.
static SIZE: AtomicUsize = AtomicUsize::new(0);

/// For how many descriptors the kernel has room now, or at least `enough`; `enough` where it does
/// not tell.
pub fn table_size(enough: usize) -> usize {
    let known = SIZE.load(Relaxed);
    if known >= enough {
        return known;
    }
    let mut buffer = [0; STATUS_BYTES];
    let status = read(c"/proc/self/status", &mut buffer).unwrap_or_default();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    let Some(size) = size.and_then(|size| size.trim().parse().ok()) else { return enough };
    SIZE.fetch_max(size, Relaxed);
    size
}
