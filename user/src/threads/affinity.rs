//! The processors of full threads: what a program sets is kept and given back, and acts on nothing.
//!
//! A full thread runs on whatever worker takes it; above all, a worker's own processors stay.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid, and a `pthread_t` names a thread
//! that exists.

use core::ffi::c_int;
use core::mem;
use core::ptr;

use libc::{cpu_set_t, pid_t, pthread_attr_t, pthread_t};

use super::{Pthread, find_kept, fork, inherited, this};
use crate::errno;
use crate::sys::{own_memory, scheduling};

// SAFETY: the C library's functions, by its headers.
unsafe extern "C" {
    fn pthread_setaffinity_np(thread: pthread_t, bytes: usize, set: *const cpu_set_t) -> c_int;
    fn pthread_getaffinity_np(thread: pthread_t, bytes: usize, set: *mut cpu_set_t) -> c_int;
    fn pthread_attr_getaffinity_np(
        attr: *const pthread_attr_t,
        bytes: usize,
        set: *mut cpu_set_t,
    ) -> c_int;
    fn pthread_attr_setaffinity_np(
        attr: *mut pthread_attr_t,
        bytes: usize,
        set: *const cpu_set_t,
    ) -> c_int;
}

/// What a new thread is given: its attributes' processors, or those of who makes it; `None`: the
/// main thread's.
///
/// # Errors
/// The kernel's, for a set without processors that it knows.
///
/// # Safety
/// 1. `attr` is null or points to attributes.
pub unsafe fn of_new(attr: *const pthread_attr_t) -> Result<Option<Box<cpu_set_t>>, c_int> {
    // SAFETY: by 1.
    if let Some(set) = unsafe { named_by(attr) } {
        return usable(set).map(|set| Some(Box::new(set)));
    }
    match this() {
        Some(me) => Ok(me.about().processors.clone()),
        None => Ok(inherited::processors()),
    }
}

/// The processors that attributes name.
///
/// # Safety
/// 1. As of [`of_new`].
pub unsafe fn named_by(attr: *const pthread_attr_t) -> Option<cpu_set_t> {
    if attr.is_null() {
        return None;
    }
    // SAFETY: all zero bytes are an empty set; by 1. Without a set of their own they say all.
    let (error, set) = unsafe {
        let mut set: cpu_set_t = mem::zeroed();
        (pthread_attr_getaffinity_np(attr, size_of::<cpu_set_t>(), &mut set), set)
    };
    (error == 0 && bytes_of(&set).iter().any(|&byte| byte != u8::MAX)).then_some(set)
}

/// Has attributes say what the processors of `target` are; an error number.
///
/// # Safety
/// 1. `attr` points to attributes.
pub unsafe fn tell(target: &Pthread, attr: *mut pthread_attr_t) -> c_int {
    // SAFETY: all zero bytes are an empty set; a place of that size; by 1.
    unsafe {
        let mut own: cpu_set_t = mem::zeroed();
        match errno::kept(|| get(target, size_of::<cpu_set_t>(), &mut own)) {
            Ok(_) => pthread_attr_setaffinity_np(attr, size_of::<cpu_set_t>(), &own),
            // More processors than the set has room for.
            Err(_) => 0,
        }
    }
}

/// The processors that the process may use.
fn allowed() -> Result<cpu_set_t, c_int> {
    // SAFETY: all zero bytes are an empty set; a valid place.
    unsafe {
        let mut set: cpu_set_t = mem::zeroed();
        match libc::sched_getaffinity(libc::getpid(), size_of::<cpu_set_t>(), &mut set) {
            0 => Ok(set),
            _ => Err(errno::get()),
        }
    }
}

/// Its bytes.
pub fn bytes_of(set: &cpu_set_t) -> &[u8; size_of::<cpu_set_t>()] {
    // SAFETY: plain bytes.
    unsafe { &*ptr::from_ref(set).cast() }
}

/// As [`bytes_of`].
pub fn bytes_mut(set: &mut cpu_set_t) -> &mut [u8; size_of::<cpu_set_t>()] {
    // SAFETY: plain bytes, any of which are valid.
    unsafe { &mut *ptr::from_mut(set).cast() }
}

/// Those of `wanted` that the system has for this process; as the kernel says it.
fn usable(wanted: cpu_set_t) -> Result<cpu_set_t, c_int> {
    let allowed = allowed()?;
    let both = || bytes_of(&wanted).iter().zip(bytes_of(&allowed));
    if both().all(|(wanted, allowed)| wanted & !allowed == 0) {
        let is_empty = bytes_of(&wanted).iter().all(|&byte| byte == 0);
        return if is_empty { Err(libc::EINVAL) } else { Ok(wanted) };
    }
    // There may be more than the process uses. Only a kernel thread that tries finds out.
    let bytes = size_of::<cpu_set_t>();
    let checked = |result: c_int| if result == 0 { Ok(()) } else { Err(errno::get()) };
    // SAFETY: valid sets; the kernel thread has its own again at the end.
    inherited::apart(|| unsafe {
        let (mut before, mut usable) = (allowed, wanted);
        checked(libc::sched_getaffinity(0, bytes, &mut before))?;
        checked(libc::sched_setaffinity(0, bytes, &wanted))?;
        let got = checked(libc::sched_getaffinity(0, bytes, &mut usable));
        checked(libc::sched_setaffinity(0, bytes, &before))?;
        got.map(|()| usable)
    })
}

/// Gives `target` the processors of `set`, which has `bytes` bytes; an error number.
pub fn set(target: &Pthread, bytes: usize, set: *const cpu_set_t) -> c_int {
    // SAFETY: all zero bytes are an empty set.
    let mut wanted: cpu_set_t = unsafe { mem::zeroed() };
    let all = bytes_mut(&mut wanted);
    let known = bytes.min(all.len());
    let usable =
        own_memory::read_bytes(set.cast(), &mut all[..known]).and_then(|()| usable(wanted));
    match usable {
        Ok(usable) => {
            inherited::widen(&usable);
            let usable = Box::new(usable);
            let before = target.about().processors.replace(usable);
            drop(before);
            0
        }
        Err(number) => number,
    }
}

/// Writes the processors of `target` as far as the kernel knows any, and says how many bytes that
/// is.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// 1. `set` has room for `bytes` bytes, or for nothing.
pub unsafe fn get(target: &Pthread, bytes: usize, set: *mut cpu_set_t) -> Result<usize, c_int> {
    // SAFETY: the kernel says what it thinks of the place and the size.
    let known = unsafe { scheduling::processors_of_process(bytes, set) }?;
    // A forked child's thread has those of its process.
    if fork::is_child_of(target) {
        return Ok(known);
    }
    let own = target.about().processors.as_deref().copied();
    if let Some(own) = own.or_else(inherited::processors_before) {
        let common = known.min(size_of::<cpu_set_t>());
        // SAFETY: by 1; the kernel has written more.
        unsafe { ptr::copy_nonoverlapping((&raw const own).cast::<u8>(), set.cast(), common) };
    }
    Ok(known)
}

/// Gives a child of `me`, or the calling kernel thread (0), the processors that `me` was given.
pub fn give_child(me: &Pthread, child: pid_t) {
    let about = me.about();
    let Some(wanted) = about.processors.as_deref() else { return };
    let bytes = size_of::<cpu_set_t>();
    // SAFETY: all zero bytes are an empty set; sets of that size. Where it is refused the parent's
    // remain, and so does what another child has set for itself: it is not the worker's any more.
    unsafe {
        let (mut own, mut childs): (cpu_set_t, cpu_set_t) = (mem::zeroed(), mem::zeroed());
        if child != 0 {
            libc::sched_getaffinity(0, bytes, &mut own);
            libc::sched_getaffinity(child, bytes, &mut childs);
        }
        if bytes_of(&own) == bytes_of(&childs) {
            libc::sched_setaffinity(child, bytes, wanted);
        }
    }
}

/// As the C library does it with what the kernel does not know.
///
/// # Safety
/// 1. `set` has room for `bytes` bytes.
pub unsafe fn clear_behind(known: usize, bytes: usize, set: *mut cpu_set_t) {
    // SAFETY: by 1.
    unsafe { set.cast::<u8>().add(known).write_bytes(0, bytes.saturating_sub(known)) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_setaffinity_np(
    thread: pthread_t,
    bytes: usize,
    processors: *const cpu_set_t,
) -> c_int {
    // SAFETY: the caller's thread and set.
    unsafe {
        match find_kept(thread) {
            Some(target) => errno::kept(|| set(target, bytes, processors)),
            None => {
                inherited::may_change();
                let error = pthread_setaffinity_np(thread, bytes, processors);
                if error == 0 {
                    inherited::changed(None);
                }
                error
            }
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_user_pthread_getaffinity_np(
    thread: pthread_t,
    bytes: usize,
    processors: *mut cpu_set_t,
) -> c_int {
    // SAFETY: the caller's thread and place.
    unsafe {
        match find_kept(thread) {
            Some(target) => match errno::kept(|| get(target, bytes, processors)) {
                Ok(known) => {
                    clear_behind(known, bytes, processors);
                    0
                }
                Err(number) => number,
            },
            None => pthread_getaffinity_np(thread, bytes, processors),
        }
    }
}
