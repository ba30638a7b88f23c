//! The memory of this library and of the runtime in it: the C library's heap, whoever else has
//! taken `malloc` over.
//!
//! A program's own allocator locks pthread mutexes, which are this library's: a full thread that
//! allocated while it held a lock of the runtime's could be parked there, and everybody who needs
//! that lock behind it. (redis with jemalloc stood still so: a name was interned, the index grew.)
//!
//! Invariant: nothing from here is given to the program to free, and nothing of the program's is
//! freed here.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;

/// What the C library's `malloc` aligns to.
const ALIGNED: usize = 2 * size_of::<usize>();

// SAFETY: the C library's functions under the names that nobody takes over.
unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(old: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

// SAFETY: the C library keeps what the trait asks for; all of these are of one heap.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the trait's caller gives a size that is not 0 and a power of two to align to.
        let memory = unsafe {
            if layout.align() <= ALIGNED {
                __libc_malloc(layout.size())
            } else {
                __libc_memalign(layout.align(), layout.size())
            }
        };
        memory.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: as in `alloc`.
            return unsafe { __libc_calloc(1, layout.size()) }.cast();
        }
        // SAFETY: as in `alloc`; so many bytes were given.
        unsafe {
            let memory = self.alloc(layout);
            if !memory.is_null() {
                memory.write_bytes(0, layout.size());
            }
            memory
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the trait's caller got it here.
        unsafe { __libc_free(memory.cast()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: the trait's caller got it here.
            return unsafe { __libc_realloc(memory.cast(), bytes) }.cast();
        }
        // SAFETY: as above; both have room for the smaller size, and are not the same.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(memory, layout.size().min(bytes));
                self.dealloc(memory, layout);
            }
            new
        }
    }
}
