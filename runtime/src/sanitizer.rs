//! AddressSanitizer is told of every stack change, in builds with `--cfg heddle_asan`, and so is
//! ThreadSanitizer, in builds with `--cfg heddle_tsan`.
//!
//! Such a build is made with `-Zsanitizer=address`, or `thread`; without the cfg everything here is
//! empty.

#[cfg(heddle_asan)]
mod asan {
    use core::ffi::c_void;
    use core::ptr;

    // SAFETY: the sanitizer's runtime has these functions with these signatures.
    unsafe extern "C" {
        fn __sanitizer_start_switch_fiber(
            save: *mut *mut c_void,
            bottom: *const c_void,
            size: usize,
        );
        fn __sanitizer_finish_switch_fiber(
            fake: *mut c_void,
            bottom: *mut *const c_void,
            size: *mut usize,
        );
        fn __asan_unpoison_memory_region(start: *const c_void, size: usize);
    }

    /// What has to be kept on the stack that is left.
    pub(crate) struct Left(*mut c_void);

    /// Before the switch to the stack `[bottom, bottom + size)`; `ends`: this stack is left for
    /// good.
    #[inline(always)]
    pub(crate) fn leave(bottom: *const u8, size: usize, ends: bool) -> Left {
        let mut left = Left(ptr::null_mut());
        let save = if ends { ptr::null_mut() } else { &raw mut left.0 };
        // SAFETY: the bounds are those of the stack that the switch continues on.
        unsafe { __sanitizer_start_switch_fiber(save, bottom.cast(), size) };
        left
    }

    /// After the switch back.
    #[inline(always)]
    pub(crate) fn arrive(left: Left) {
        // SAFETY: `left` was saved when this stack was left.
        unsafe { __sanitizer_finish_switch_fiber(left.0, ptr::null_mut(), ptr::null_mut()) };
    }

    /// Before a thread starts on a stack: frames of the thread before it, which left for good and
    /// did not return from them, are no frames any more.
    pub(crate) fn reuse(bottom: *const u8, size: usize) {
        // SAFETY: changes what the sanitizer knows of a stack that nobody uses yet.
        unsafe { __asan_unpoison_memory_region(bottom.cast(), size) };
    }

    /// On a new stack; returns the bounds of the stack that was left.
    pub(crate) fn begin() -> (*const u8, usize) {
        let (mut bottom, mut size) = (ptr::null(), 0);
        // SAFETY: out parameters of the right types.
        unsafe { __sanitizer_finish_switch_fiber(ptr::null_mut(), &mut bottom, &mut size) };
        (bottom.cast(), size)
    }
}

/// Each stack is a fiber, from when a thread first runs there until the next one gets it. A switch
/// is an order between the two: threads of one worker run one after the other.
#[cfg(heddle_tsan)]
mod tsan {
    use core::cell::Cell;
    use core::ffi::c_void;
    use core::ptr;
    use core::sync::atomic::AtomicUsize;
    use core::sync::atomic::Ordering::SeqCst;

    // SAFETY: the sanitizer's runtime has these functions with these signatures.
    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: u32) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: u32);
    }

    /// Instead of the size of a stack: its bottom is a fiber, that of a kernel thread.
    const IS_FIBER: usize = usize::MAX;

    /// Stacks that there may be: more than the sanitizer has room for threads.
    const STACKS: usize = 1 << 16;

    /// A stack's bottom, and its fiber; 0 = none. Not behind a lock: each switch looks here.
    struct Entry {
        bottom: AtomicUsize,
        fiber: AtomicUsize,
    }

    static FIBERS: [Entry; STACKS] =
        [const { Entry { bottom: AtomicUsize::new(0), fiber: AtomicUsize::new(0) } }; STACKS];

    thread_local! {
        /// The kernel thread's own.
        static OWN: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
    }

    /// The place of a stack's fiber.
    fn place_of(bottom: *const u8) -> &'static AtomicUsize {
        let (bottom, first) = (bottom.addr(), bottom.addr() >> 12);
        let free = |entry: &Entry| entry.bottom.compare_exchange(0, bottom, SeqCst, SeqCst).is_ok();
        for step in 0..STACKS {
            let entry = &FIBERS[(first + step) % STACKS];
            if entry.bottom.load(SeqCst) == bottom || free(entry) {
                return &entry.fiber;
            }
        }
        unreachable!("more stacks than the sanitizer has threads");
    }

    pub(crate) struct Left;

    #[inline(always)]
    pub(crate) fn leave(bottom: *const u8, size: usize, _ends: bool) -> Left {
        let fiber = if size == IS_FIBER { bottom.cast_mut().cast() } else { fiber_of(bottom) };
        // SAFETY: a fiber that runs nowhere else; what comes next is the switch to its stack.
        unsafe { __tsan_switch_to_fiber(fiber, 0) };
        Left
    }

    fn fiber_of(bottom: *const u8) -> *mut c_void {
        if OWN.get().is_null() {
            // SAFETY: no arguments. The first switch of a kernel thread is from its own stack.
            OWN.set(unsafe { __tsan_get_current_fiber() });
        }
        let place = place_of(bottom);
        if place.load(SeqCst) == 0 {
            // SAFETY: no memory is involved. Only who switches to the stack first gets here.
            place.store(unsafe { __tsan_create_fiber(0) }.expose_provenance(), SeqCst);
        }
        ptr::with_exposed_provenance_mut(place.load(SeqCst))
    }

    #[inline(always)]
    pub(crate) fn arrive(_left: Left) {}

    /// Before a thread starts on a stack: what the one before it did there is of no concern.
    pub(crate) fn reuse(bottom: *const u8, _size: usize) {
        let fiber = place_of(bottom).swap(0, SeqCst);
        if fiber != 0 {
            // SAFETY: its thread has ended, and left it for good.
            unsafe { __tsan_destroy_fiber(ptr::with_exposed_provenance_mut(fiber)) };
        }
    }

    /// On a new stack: the first one of a worker comes from its kernel thread's.
    pub(crate) fn begin() -> (*const u8, usize) {
        (OWN.get().cast_const().cast(), IS_FIBER)
    }
}

#[cfg(not(any(heddle_asan, heddle_tsan)))]
mod asan {
    /// Nothing to keep.
    pub(crate) struct Left;

    #[inline(always)]
    pub(crate) fn leave(_bottom: *const u8, _size: usize, _ends: bool) -> Left {
        Left
    }

    #[inline(always)]
    pub(crate) fn arrive(_left: Left) {}

    #[inline(always)]
    pub(crate) fn reuse(_bottom: *const u8, _size: usize) {}

    #[inline(always)]
    pub(crate) fn begin() -> (*const u8, usize) {
        (core::ptr::null(), 0)
    }
}

#[cfg(not(heddle_tsan))]
pub(crate) use asan::{arrive, begin, leave, reuse};
#[cfg(heddle_tsan)]
pub(crate) use tsan::{arrive, begin, leave, reuse};
