//! AddressSanitizer is told of every stack change, in builds with `--cfg heddle_asan`.
//!
//! Such a build is made with `-Zsanitizer=address`; without the cfg everything here is empty.

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

#[cfg(not(heddle_asan))]
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

pub(crate) use asan::{arrive, begin, leave, reuse};
