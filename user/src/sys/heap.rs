//! The memory of this library and of the runtime in it: the C library's heap, whoever else has
//! taken `malloc` over.
//!
//! A program's own allocator locks pthread mutexes, which are this library's: a full thread that
//! allocated while it held a lock of the runtime's could be parked there, and everybody who needs
//! that lock behind it. (redis with jemalloc stood still so: a name was interned, the index grew.)
//!
//! Where the kernel gives no more, there is a little in reserve: what is refused is then the memory
//! of a thread, which the program is told, and not that of a list, for which Rust aborts.
//!
//! Invariant: nothing from here is given to the program to free, and nothing of the program's is
//! freed here.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_void};
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};
use core::{mem, ptr};

use heddle::raw::within_heap;

use super::symbol;

/// What the C library's `malloc` aligns to.
const ALIGNED: usize = 2 * size_of::<usize>();

/// The C library's functions under names that few take over. tcmalloc, mimalloc and oneTBB's proxy
/// do, in the program or as a library before or behind this one: tcmalloc's locks are waited for by
/// the futex system call, which came back to the parking lot from within it. So each is looked for
/// in the C library alone.
struct Functions {
    malloc: AtomicPtr<c_void>,
    calloc: AtomicPtr<c_void>,
    realloc: AtomicPtr<c_void>,
    memalign: AtomicPtr<c_void>,
    free: AtomicPtr<c_void>,
}

static FUNCTIONS: Functions = Functions {
    malloc: AtomicPtr::new(ptr::null_mut()),
    calloc: AtomicPtr::new(ptr::null_mut()),
    realloc: AtomicPtr::new(ptr::null_mut()),
    memalign: AtomicPtr::new(ptr::null_mut()),
    free: AtomicPtr::new(ptr::null_mut()),
};

/// The function of a place, which is found if it is empty.
#[inline(always)]
fn found(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let address = place.load(Relaxed);
    if address.is_null() { find(place, name) } else { address }
}

/// Allocates nothing, as `dlopen` would even for a library that is loaded: by the program's
/// allocator, whose lock may be held by who waits for what the caller holds.
#[cold]
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut address = symbol::of_c_library(name);
    if address.is_null() {
        // SAFETY: texts. A library's handle leads to it and to what it needs, whatever else is
        // loaded. This may allocate.
        address = unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) }
        };
    }
    if address.is_null() {
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
    place.store(address, Relaxed);
    address
}

extern "C" fn at_load() {
    let Functions { malloc, calloc, realloc, memalign, free } = &FUNCTIONS;
    find(malloc, c"__libc_malloc");
    find(calloc, c"__libc_calloc");
    find(realloc, c"__libc_realloc");
    find(memalign, c"__libc_memalign");
    find(free, c"__libc_free");
}

/// Before the program runs: in the middle of it this might wait for a lock that it holds.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

/// Where the C library's allocator is, `malloc` in the middle of it, as all of it is compiled at
/// once. In glibc 2.36, 2.41 and 2.43 it begins 10.5 to 17 KiB before, and ends 6 to 8 KiB behind;
/// not far before that is what all calls of stdio and of waits go through.
pub fn text() -> Range<usize> {
    const BEFORE: usize = 17 << 10;
    const BEHIND: usize = 10 << 10;
    let malloc = found(&FUNCTIONS.malloc, c"__libc_malloc") as usize;
    malloc.saturating_sub(BEFORE)..malloc.saturating_add(BEHIND)
}

/// # Safety
/// As of the C library's function.
unsafe fn malloc(bytes: usize) -> *mut c_void {
    type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
    let function = found(&FUNCTIONS.malloc, c"__libc_malloc");
    // SAFETY: the function of this name; passed on.
    within_heap(|| unsafe { mem::transmute::<*mut c_void, Malloc>(function)(bytes) })
}

/// # Safety
/// As of the C library's function.
unsafe fn calloc(count: usize, bytes: usize) -> *mut c_void {
    type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
    let function = found(&FUNCTIONS.calloc, c"__libc_calloc");
    // SAFETY: the function of this name; passed on.
    within_heap(|| unsafe { mem::transmute::<*mut c_void, Calloc>(function)(count, bytes) })
}

/// # Safety
/// As of the C library's function.
unsafe fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void {
    type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
    let function = found(&FUNCTIONS.realloc, c"__libc_realloc");
    // SAFETY: the function of this name; passed on.
    within_heap(|| unsafe { mem::transmute::<*mut c_void, Realloc>(function)(memory, bytes) })
}

/// # Safety
/// As of the C library's function.
unsafe fn memalign(align: usize, bytes: usize) -> *mut c_void {
    type Memalign = unsafe extern "C" fn(usize, usize) -> *mut c_void;
    let function = found(&FUNCTIONS.memalign, c"__libc_memalign");
    // SAFETY: the function of this name; passed on.
    within_heap(|| unsafe { mem::transmute::<*mut c_void, Memalign>(function)(align, bytes) })
}

/// # Safety
/// As of the C library's function.
unsafe fn free(memory: *mut c_void) {
    type Free = unsafe extern "C" fn(*mut c_void);
    let function = found(&FUNCTIONS.free, c"__libc_free");
    // SAFETY: the function of this name; passed on.
    within_heap(|| unsafe { mem::transmute::<*mut c_void, Free>(function)(memory) })
}

/// Places of one size, of which each is used or not.
#[repr(align(64))]
struct Places<const BYTES: usize, const COUNT: usize> {
    memory: UnsafeCell<[[u8; BYTES]; COUNT]>,
    /// Bits of those that are used.
    used: [AtomicU64; WORDS],
}

const WORDS: usize = 8;
const COUNT_MAX: usize = WORDS * u64::BITS as usize;

/// What serves when the C library's heap has nothing.
static SMALL: Places<256, COUNT_MAX> = Places::new();
static LARGE: Places<4096, 16> = Places::new();

// SAFETY: whoever has set a place's bit has it to himself.
unsafe impl<const BYTES: usize, const COUNT: usize> Sync for Places<BYTES, COUNT> {}

impl<const BYTES: usize, const COUNT: usize> Places<BYTES, COUNT> {
    const fn new() -> Self {
        assert!(COUNT <= COUNT_MAX && BYTES.is_multiple_of(align_of::<Self>()));
        let memory = UnsafeCell::new([[0; BYTES]; COUNT]);
        Places { memory, used: [const { AtomicU64::new(0) }; WORDS] }
    }

    fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > BYTES || layout.align() > align_of::<Self>() {
            return ptr::null_mut();
        }
        for place in 0..COUNT {
            let (word, bit) = (&self.used[place / 64], 1 << (place % 64));
            // ORDER: Acquire: who had it before has given it back; pairs with `give_back`.
            if word.load(Relaxed) & bit == 0 && word.fetch_or(bit, Acquire) & bit == 0 {
                return self.memory.get().cast::<u8>().wrapping_add(place * BYTES);
            }
        }
        ptr::null_mut()
    }

    /// False if it is none of these.
    #[inline(always)]
    fn give_back(&self, memory: *mut u8) -> bool {
        let at = memory.addr().wrapping_sub(self.memory.get().addr());
        if at >= BYTES * COUNT {
            return false;
        }
        let place = at / BYTES;
        // ORDER: Release: whoever has it next comes after what was done with it.
        self.used[place / 64].fetch_and(!(1 << (place % 64)), Release);
        true
    }

    fn has(&self, memory: *mut u8) -> bool {
        memory.addr().wrapping_sub(self.memory.get().addr()) < BYTES * COUNT
    }
}

/// Not zeroed.
#[cold]
fn from_reserve(layout: Layout) -> *mut u8 {
    let memory = SMALL.alloc(layout);
    if memory.is_null() { LARGE.alloc(layout) } else { memory }
}

struct Heap;

impl Heap {
    /// A new place with what the old one has.
    ///
    /// # Safety
    /// As of [`GlobalAlloc::realloc`].
    unsafe fn moved(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: by the trait's caller; both have room for the smaller size, and are not the same.
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

#[global_allocator]
static HEAP: Heap = Heap;

// SAFETY: the C library keeps what the trait asks for; all of these are of one heap.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the trait's caller gives a size that is not 0 and a power of two to align to.
        let memory = unsafe {
            if layout.align() <= ALIGNED {
                malloc(layout.size())
            } else {
                memalign(layout.align(), layout.size())
            }
        };
        if memory.is_null() { from_reserve(layout) } else { memory.cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: as in `alloc`.
            let memory = unsafe { calloc(1, layout.size()) };
            if !memory.is_null() {
                return memory.cast();
            }
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
        if SMALL.give_back(memory) || LARGE.give_back(memory) {
            return;
        }
        // SAFETY: the trait's caller got it here.
        unsafe { free(memory.cast()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED && !SMALL.has(memory) && !LARGE.has(memory) {
            // SAFETY: the trait's caller got it here.
            let new = unsafe { realloc(memory.cast(), bytes) };
            if !new.is_null() {
                return new.cast();
            }
        }
        // SAFETY: passed on.
        unsafe { self.moved(memory, layout, bytes) }
    }
}
