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
use core::ffi::{CStr, c_void};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use core::{mem, ptr};

use heddle::raw::within_heap;

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

/// Allocates nothing: the library is loaded, and the name is there.
#[cold]
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // SAFETY: texts. A library's handle leads to it and to what it needs (the loader), whatever
    // else is loaded.
    let address = unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) }
    };
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

/// Before the program runs: `dlsym` in the middle of it might wait for a lock that it holds.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

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

struct Heap;

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
        memory.cast()
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: as in `alloc`.
            return unsafe { calloc(1, layout.size()) }.cast();
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
        unsafe { free(memory.cast()) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: the trait's caller got it here.
            return unsafe { realloc(memory.cast(), bytes) }.cast();
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
