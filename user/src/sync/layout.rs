//! Whether the C library's objects are laid out as this library takes them: tried on objects that
//! the C library's own functions have initialised.
//!
//! What is known to move is found by its value: glibc 2.41 moved the flags of a condition variable.
//! Of the others the layout is what the C library has had since glibc 2.25, and is only checked.
//!
//! Invariant: while something is otherwise there are no full threads (`threads/create.rs`), and a
//! condition variable whose flags were not found is the C library's.

use core::ffi::c_int;
use core::mem::{MaybeUninit, size_of};
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::{barrier, cond, mutex, rwlock, sem};

/// Where a condition variable has its flags, in words; 0 = not looked for.
static COND_FLAGS: AtomicUsize = AtomicUsize::new(0);
/// `COND_FLAGS`: not found.
pub const NOWHERE: usize = usize::MAX;

/// Where a condition variable has its flags, in words, or [`NOWHERE`].
#[inline(always)]
pub fn cond_flags() -> usize {
    match COND_FLAGS.load(Relaxed) {
        0 => find_cond_flags(),
        index => index,
    }
}

/// The words of an object that `init` initialises; `None` where it fails.
fn words<T, const N: usize>(init: impl FnOnce(*mut T) -> c_int) -> Option<[u32; N]> {
    const { assert!(N * size_of::<u32>() == size_of::<T>()) };
    let mut object = MaybeUninit::<T>::zeroed();
    if init(object.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: an object of this size, of which each byte was zero or written.
    Some(unsafe { object.as_ptr().cast::<[u32; N]>().read() })
}

#[cold]
fn find_cond_flags() -> usize {
    let with_flags = words::<_, 12>(|cond| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: valid places; the attributes are initialised by the first call.
        unsafe {
            libc::pthread_condattr_init(attributes.as_mut_ptr());
            libc::pthread_condattr_setpshared(attributes.as_mut_ptr(), 1);
            libc::pthread_condattr_setclock(attributes.as_mut_ptr(), libc::CLOCK_MONOTONIC);
            libc::pthread_cond_init(cond, attributes.as_ptr())
        }
    });
    // SAFETY: a valid place.
    let without = words::<_, 12>(|cond| unsafe { libc::pthread_cond_init(cond, ptr::null()) });
    let is_there = |&index: &usize| {
        with_flags.is_some_and(|words| words[index] == cond::FLAGS)
            && without.is_some_and(|words| words[index] == 0)
    };
    // The first word is the waiters'.
    let mut found = (1..12).filter(is_there);
    let index = match (found.next(), found.next()) {
        (Some(index), None) => index,
        _ => NOWHERE,
    };
    COND_FLAGS.store(index, Relaxed);
    index
}

/// Looks at all kinds of objects.
///
/// # Errors
/// Which one is otherwise than known.
pub fn check() -> Result<(), &'static str> {
    if cond_flags() == NOWHERE {
        return Err("the C library has condition variables that are not known");
    }
    if !mutexes_are_known().unwrap_or(false) {
        return Err("the C library has mutexes that are not known");
    }
    if !rwlocks_are_known().unwrap_or(false) {
        return Err("the C library has read-write locks that are not known");
    }
    if !semaphores_are_known().unwrap_or(false) {
        return Err("the C library has semaphores that are not known");
    }
    if !barriers_are_known().unwrap_or(false) {
        return Err("the C library has barriers that are not known");
    }
    Ok(())
}

fn mutexes_are_known() -> Option<bool> {
    let kind_of = |set: fn(*mut libc::pthread_mutexattr_t)| {
        words::<_, 10>(|mutex| {
            let mut attributes = MaybeUninit::uninit();
            // SAFETY: valid places; the attributes are initialised by the first call.
            unsafe {
                libc::pthread_mutexattr_init(attributes.as_mut_ptr());
                set(attributes.as_mut_ptr());
                libc::pthread_mutex_init(mutex, attributes.as_ptr())
            }
        })
        .map(|words| words[mutex::KIND_AT / size_of::<u32>()] as i32)
    };
    // SAFETY: initialised attributes, here and in the next four.
    let recursive = kind_of(|it| unsafe {
        libc::pthread_mutexattr_settype(it, libc::PTHREAD_MUTEX_RECURSIVE);
    })?;
    // SAFETY: see above.
    let robust = kind_of(|it| unsafe {
        libc::pthread_mutexattr_setrobust(it, libc::PTHREAD_MUTEX_ROBUST);
    })?;
    // SAFETY: see above.
    let shared = kind_of(|it| unsafe {
        libc::pthread_mutexattr_setpshared(it, libc::PTHREAD_PROCESS_SHARED);
    })?;
    // SAFETY: see above.
    let protected = kind_of(|it| unsafe {
        libc::pthread_mutexattr_setprotocol(it, libc::PTHREAD_PRIO_PROTECT);
    })?;
    // SAFETY: see above.
    let inheriting = kind_of(|it| unsafe {
        libc::pthread_mutexattr_setprotocol(it, libc::PTHREAD_PRIO_INHERIT);
    })?;
    Some(
        kind_of(|_| {})? == 0
            && recursive == mutex::RECURSIVE
            && robust & mutex::FOREIGN != 0
            && shared & mutex::FOREIGN != 0
            && protected & mutex::FOREIGN == 0
            && protected & mutex::PROTECTED != 0
            && inheriting & (mutex::INHERITING | mutex::FOREIGN) == mutex::INHERITING,
    )
}

fn rwlocks_are_known() -> Option<bool> {
    // SAFETY: a valid place.
    let plain = words::<_, 14>(|lock| unsafe { libc::pthread_rwlock_init(lock, ptr::null()) })?;
    let shared = words::<_, 14>(|lock| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: valid places; the attributes are initialised by the first call.
        unsafe {
            libc::pthread_rwlockattr_init(attributes.as_mut_ptr());
            libc::pthread_rwlockattr_setpshared(attributes.as_mut_ptr(), 1);
            libc::pthread_rwlock_init(lock, attributes.as_ptr())
        }
    })?;
    let place = rwlock::SHARED_AT / size_of::<u32>();
    let alike = (0..14).all(|index| (shared[index] != 0) == (index == place));
    Some(plain == [0; 14] && alike)
}

fn semaphores_are_known() -> Option<bool> {
    // SAFETY: a valid place, here and in the next one.
    let plain = words::<_, 8>(|sem| unsafe { libc::sem_init(sem, 0, 5) })?;
    // SAFETY: see above.
    let shared = words::<_, 8>(|sem| unsafe { libc::sem_init(sem, 1, 5) })?;
    let place = sem::SHARED_AT / size_of::<u32>();
    Some(plain[..2] == [5, 0] && shared[..2] == [5, 0] && plain[place] == 0 && shared[place] != 0)
}

fn barriers_are_known() -> Option<bool> {
    // SAFETY: a valid place.
    let plain =
        words::<_, 8>(|barrier| unsafe { libc::pthread_barrier_init(barrier, ptr::null(), 5) })?;
    let shared = words::<_, 8>(|barrier| {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: valid places; the attributes are initialised by the first call.
        unsafe {
            libc::pthread_barrierattr_init(attributes.as_mut_ptr());
            libc::pthread_barrierattr_setpshared(attributes.as_mut_ptr(), 1);
            libc::pthread_barrier_init(barrier, attributes.as_ptr(), 5)
        }
    })?;
    let (count, place) = (barrier::COUNT_AT / 4, barrier::SHARED_AT / 4);
    let expected = |words: &[u32; 8], is_shared: bool| {
        let rest = (0..5).filter(|index| *index != count && *index != place);
        words[count] == 5
            && (words[place] != 0) == is_shared
            && rest.map(|i| words[i]).sum::<u32>() == 0
    };
    Some(expected(&plain, false) && expected(&shared, true))
}
