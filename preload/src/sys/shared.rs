//! Memory that a process shares with the children it forks.
//!
//! Invariants
//! - The memory is zero at first and made of atomics: whoever dies, the other side reads whole
//!   words, if old ones.
//! - Untouched pages cost nothing, so that room for many is free.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};

/// A row of words, the same memory in this process and in all that it forks.
#[derive(Debug)]
pub struct SharedWords {
    start: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the memory is atomics, stays mapped as long as the value lives, and belongs to no thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above; `&SharedWords` gives nothing but shared atomics.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps room for `count` words.
    ///
    /// # Errors
    /// What `mmap` says, ENOMEM above all.
    pub fn new(count: usize) -> io::Result<SharedWords> {
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        let bytes = count * size_of::<u64>();
        // SAFETY: a new mapping at an address that the kernel chooses touches no memory in use.
        let start = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, flags)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { start, count })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `count` words, zeroed by the kernel, until `self` is dropped,
        // and a page boundary is aligned for them.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped, and no borrow of it outlives `self`. A failure leaves
        // it mapped, which harms nobody.
        let _ = unsafe {
            rustix::mm::munmap(self.start.as_ptr().cast(), self.count * size_of::<u64>())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_start_at_zero_and_keep_what_they_are_given() {
        let shared = SharedWords::new(1 << 20).expect("a mapping");
        let words = shared.words();
        assert!(words[0].load(Relaxed) == 0 && words[(1 << 20) - 1].load(Relaxed) == 0);
        words[7].store(42, Relaxed);
        assert_eq!(words[7].load(Relaxed), 42);
    }
}
