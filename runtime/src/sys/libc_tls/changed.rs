//! Fields of `struct pthread` that are found by what a call of the library changes in it.
//!
//! Invariant: what the kernel changes at any time, where rseq is registered, is not looked at; a
//! field counts as found only if nothing else has changed.

use std::ops::Range;

use super::functions::Functions;
use super::keys;
use super::rseq;

/// A structure as it was, to see what a call changes in it.
pub(super) struct Before(Vec<u8>);

impl Before {
    /// # Safety
    /// 1. `pthread` is the calling thread's structure of so many bytes.
    pub unsafe fn of(pthread: *mut u8, bytes: usize) -> Self {
        // SAFETY: by 1.
        Before((0..bytes).map(|at| unsafe { pthread.add(at).read_volatile() }).collect())
    }

    /// The only word (of 8 bytes) that has changed, but for what `left` names and for rseq.
    ///
    /// # Safety
    /// As [`Before::of`].
    unsafe fn changed(&self, pthread: *mut u8, left: Range<usize>) -> Option<usize> {
        let tls = crate::arch::thread_pointer() as isize;
        let rseq = rseq::offset().map_or(0..0, |offset| {
            let begin = (tls + offset).wrapping_sub(pthread as isize) as usize;
            begin..begin.wrapping_add(rseq::BYTES_MAX)
        });
        // SAFETY: by the caller's promise.
        let is_other = |&at: &usize| self.0[at] != unsafe { pthread.add(at).read_volatile() };
        let all = (0..self.0.len()).filter(|at| !left.contains(at) && !rseq.contains(at));
        let mut changed = all.filter(is_other).map(|at| at & !7).collect::<Vec<_>>();
        changed.dedup();
        (changed.len() == 1).then(|| changed[0])
    }
}

/// The one byte of the structure that the setting of a first value has changed from 0 to 1, beside
/// the value itself.
///
/// # Safety
/// 1. `pthread` is the calling thread's structure, and `before` was it.
pub(super) unsafe fn flag(before: &Before, pthread: *mut u8, value: usize) -> Option<usize> {
    let value = value.checked_sub(pthread as usize)?;
    // SAFETY: by 1.
    let word = unsafe { before.changed(pthread, value..value + keys::VALUE_BYTES) }?;
    // SAFETY: by 1, and inside it.
    let now = |at: usize| unsafe { pthread.add(at).read_volatile() };
    let mut changed = (word..word + 8).filter(|&at| before.0[at] != now(at));
    let (Some(at), None) = (changed.next(), changed.next()) else { return None };
    (before.0[at] == 0 && now(at) == 1).then_some(at)
}

/// What the library keeps per thread for some of its functions.
pub(super) const KEPT: usize = 3;

/// The words of the structure that the calling thread's first call of each of these functions
/// changes, from the thread pointer. They name memory that the library's own threads give back as
/// they end: what the kernel's function for random numbers in user space keeps (glibc 2.41 on), and
/// the texts of `strerror` and `strsignal` for numbers without a name.
pub(super) fn kept(functions: &Functions, tls: *mut u8) -> [Option<isize>; KEPT] {
    const UNKNOWN: libc::c_int = 99_999;
    let mut number = 0_u8;
    // SAFETY: a place for one byte. Where there is no number nothing changes.
    let random = || unsafe {
        libc::getrandom((&raw mut number).cast(), 1, libc::GRND_NONBLOCK);
    };
    // SAFETY: any number is allowed.
    let error = || _ = unsafe { libc::strerror(UNKNOWN) };
    // SAFETY: as above.
    let signal = || _ = unsafe { libc::strsignal(UNKNOWN) };
    [word(functions, tls, random), word(functions, tls, error), word(functions, tls, signal)]
}

/// The word of the calling thread's structure that `call` changes from 0, from the thread pointer.
fn word(functions: &Functions, tls: *mut u8, call: impl FnOnce()) -> Option<isize> {
    let pthread = functions.pthread_of(tls);
    // SAFETY: the calling thread's structure.
    let word = unsafe {
        let before = Before::of(pthread, functions.pthread_bytes);
        call();
        let word = before.changed(pthread, 0..0)?;
        before.0[word..word + 8].iter().all(|&byte| byte == 0).then_some(word)?
    };
    Some((pthread as isize).wrapping_add(word as isize).wrapping_sub(tls as isize))
}
