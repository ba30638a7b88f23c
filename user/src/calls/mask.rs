//! The signal masks of full threads.
//!
//! Workers have all signals blocked but those that report a fault or that a write raises, so a full
//! thread's mask is a word of its own: it holds back signals to that thread (`threads/signals/`),
//! and a child inherits it. Around each call that makes a child the worker takes on the thread's
//! mask. What kernel threads block is noted: signals for the process that none of them lets through
//! are full threads' (`threads/signals/process.rs`). A kernel thread's calls that start a program
//! come by here for what that one finds ignored ([`ignoring`]).
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::cell::Cell;
use core::ffi::{c_char, c_int};
use core::ptr;

use heddle::raw;
use libc::{pid_t, posix_spawn_file_actions_t, posix_spawnattr_t, sigset_t};

use super::{away, exported};
use crate::errno;
use crate::sys::{own_memory, probed};
use crate::threads::signals::actions::{self, ignoring};
use crate::threads::signals::{self, process, stray};
use crate::threads::{self, fork};

/// Bits of the signals that nobody can block.
pub const NEVER: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);

/// The first word of a set: all signals that Linux has.
pub fn bits(set: &sigset_t) -> u64 {
    // SAFETY: a set is larger than that, and aligned for it.
    unsafe { ptr::from_ref(set).cast::<u64>().read() }
}

pub fn set_of(bits: u64) -> sigset_t {
    // SAFETY: all zero bytes are an empty set.
    let mut set: sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: as in `bits`.
    unsafe { (&raw mut set).cast::<u64>().write(bits) };
    set
}

/// The mask of the calling thread, which a thread that it makes begins with.
pub fn own() -> u64 {
    if let (Some(_), Some(me)) = (crate::me(), threads::this()) {
        return me.signals().blocked();
    }
    of_kernel_thread()
}

/// The calling kernel thread's.
pub fn of_kernel_thread() -> u64 {
    let mut set = set_of(0);
    // SAFETY: a valid place.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut set) };
    bits(&set)
}

/// Gives the calling kernel thread this mask, in a child that a full thread has forked: there the
/// mask is the kernel thread's again. Not before the fork: the program's handlers of it run then,
/// and the thread may wait in them and go on on another worker.
pub fn take_on(blocked: u64) {
    // SAFETY: a valid set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set_of(blocked), ptr::null_mut()) };
}

/// Blocks all signals for the calling kernel thread, one of this library's own.
pub fn block_all() {
    take_on(u64::MAX);
}

/// Makes a call that waits with this mask, or with its own (null), if it is a kernel thread's: then
/// it is the C library's. Full threads get what it holds back, as what is blocked otherwise.
pub fn kernels_wait<T>(mask: *const sigset_t, wait: impl FnOnce() -> T) -> Option<T> {
    if crate::me().is_some() {
        return None;
    }
    // Of what is no mask the C library's call tells.
    let bits = if mask.is_null() { None } else { probed::read(mask.cast::<u64>()).ok() };
    let Some(bits) = bits else { return Some(wait()) };
    process::watch(bits);
    Some(stray::waiting(!bits, wait))
}

/// Gives the calling full thread this mask; what is pending and unblocked comes before this
/// returns.
pub fn set_own(blocked: u64) {
    let Some(me) = threads::this() else { return };
    me.signals().block_only(blocked & !NEVER);
    if me.signals().is_due() {
        errno::kept(|| signals::deliver(me));
    }
}

/// Makes a call for a full thread as if the kernel thread below it had the mask `blocked`: one in
/// which nothing of the program's runs and nothing waits in the runtime, for the mask is the
/// worker's again only where it was changed. So the thread is pinned: it could be preempted in what
/// the call runs through that is nobody's to guard, as a look at the clock in the vdso. (The child
/// of a vfork does not come here, so it leaves the parent no pin.)
pub fn with<T>(blocked: u64, call: impl FnOnce() -> T) -> T {
    let _pin = raw::pin();
    with_in_child(blocked, call)
}

/// As [`with`], in a child of `clone` in its parent's memory: it takes itself for its parent's
/// thread, but has a kernel thread of its own, and a pin that it took would stay in the parent.
fn with_in_child<T>(blocked: u64, call: impl FnOnce() -> T) -> T {
    let mut before = set_of(0);
    // SAFETY: valid sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set_of(blocked), &mut before) };
    let result = call();
    // SAFETY: as above.
    errno::kept(|| unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) });
    result
}

/// Starts a kernel thread of this library's own, which calls [`block_all`] at once. It begins with
/// the mask of who makes it, and may do so late: by then it must let nothing through that the maker
/// has blocked since, and no handler of the program's may run there. Workers let nothing through
/// but faults.
pub fn with_all_blocked<T>(start: impl FnOnce() -> T) -> T {
    match crate::me() {
        Some(_) => start(),
        None => with(u64::MAX, start),
    }
}

/// As [`change`] of a kernel thread.
#[cold]
fn change_kernels(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the caller's sets, or null.
    let error = unsafe { libc::pthread_sigmask(how, set, old) };
    if error == 0 && !set.is_null() {
        process::masked(of_kernel_thread());
    }
    error
}

/// `rt_sigprocmask` of a full thread, with sets of the kernel's size.
///
/// # Errors
/// The kernel's.
pub fn by_number(how: c_int, set: *const u64, old: *mut u64, bytes: usize) -> Result<(), c_int> {
    if bytes != size_of::<u64>() {
        return Err(libc::EINVAL);
    }
    let wanted = if set.is_null() { None } else { Some(set_of(own_memory::read(set)?)) };
    let mut before = set_of(0);
    match change(how, wanted.as_ref().map_or(ptr::null(), ptr::from_ref), &mut before) {
        0 if old.is_null() => Ok(()),
        0 => own_memory::write(old, bits(&before)),
        error => Err(error),
    }
}

/// `pthread_sigmask`: an error number, or 0.
pub fn change(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    let (Some(_), Some(me)) = (crate::me(), threads::this()) else {
        return change_kernels(how, set, old);
    };
    let before = me.signals().blocked();
    // SAFETY: null or the caller's set.
    if let Some(set) = unsafe { set.as_ref() } {
        let after = match how {
            libc::SIG_BLOCK => before | bits(set),
            libc::SIG_UNBLOCK => before & !bits(set),
            libc::SIG_SETMASK => bits(set),
            _ => return libc::EINVAL,
        };
        if !old.is_null() {
            // SAFETY: the caller's place.
            unsafe { old.write(set_of(before)) };
        }
        set_own(after);
        return 0;
    }
    if !old.is_null() {
        // SAFETY: the caller's place.
        unsafe { old.write(set_of(before)) };
    }
    0
}

exported! {
    (heddle_user_pthread_sigmask) (
        how: c_int, set: *const sigset_t, old: *mut sigset_t
    ) -> c_int {
        change(how, set, old)
    }

    (heddle_user_sigprocmask) (how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
        match change(how, set, old) {
            0 => 0,
            error => {
                errno::set(error);
                -1
            }
        }
    }

    (heddle_user_posix_spawn) (
        child: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, arguments: *const *mut c_char,
        environment: *const *mut c_char
    ) -> c_int {
        // SAFETY: the caller's arguments.
        start_child(child, attributes, |child| unsafe {
            libc::posix_spawn(child, path, actions, attributes, arguments, environment)
        })
    }

    (heddle_user_posix_spawnp) (
        child: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, arguments: *const *mut c_char,
        environment: *const *mut c_char
    ) -> c_int {
        // SAFETY: the caller's arguments.
        start_child(child, attributes, |child| unsafe {
            libc::posix_spawnp(child, path, actions, attributes, arguments, environment)
        })
    }

    (heddle_user_execve) (
        path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int {
        // SAFETY: the caller's arguments.
        become_program(|| unsafe { libc::execve(path, arguments, environment) })
    }

    (heddle_user_execv) (path: *const c_char, arguments: *const *const c_char) -> c_int {
        // SAFETY: the caller's arguments.
        become_program(|| unsafe { libc::execv(path, arguments) })
    }

    (heddle_user_execvp) (file: *const c_char, arguments: *const *const c_char) -> c_int {
        // SAFETY: the caller's arguments.
        become_program(|| unsafe { libc::execvp(file, arguments) })
    }

    (heddle_user_execvpe) (
        file: *const c_char, arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int {
        // SAFETY: the caller's arguments.
        become_program(|| unsafe { libc::execvpe(file, arguments, environment) })
    }

    (heddle_user_fexecve) (
        file: c_int, arguments: *const *const c_char, environment: *const *const c_char
    ) -> c_int {
        // SAFETY: the caller's arguments.
        become_program(|| unsafe { libc::fexecve(file, arguments, environment) })
    }

    (heddle_user_execveat) (
        folder: c_int, path: *const c_char, arguments: *const *const c_char,
        environment: *const *const c_char, flags: c_int
    ) -> c_int {
        // SAFETY: the C library's function, and the caller's arguments.
        become_program(|| unsafe { execveat(folder, path, arguments, environment, flags) })
    }
}

// SAFETY: the C library's function, where it has it.
unsafe extern "C" {
    fn execveat(
        folder: c_int,
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
        flags: c_int,
    ) -> c_int;
}

/// One of the exec family, by which the process becomes another program with the thread's mask.
/// Before that libheddle-preload closes its account, and reads files for it: on the worker the
/// thread would wait for them, and go on on another one, whose mask is not changed.
fn become_program(call: impl FnOnce() -> c_int) -> c_int {
    let blocked = own();
    let call = || stray::kept_by(blocked, call);
    if crate::me().is_none() {
        return ignoring(call);
    }
    // The pool is the parent's.
    if actions::is_in_vfork() {
        return ignoring(|| with_in_child(blocked, call));
    }
    away(|| ignoring(|| with(blocked, call)))
}

/// A call that makes a child which becomes another program, with the thread's mask and what the
/// kernel's scheduler would know of it. The call writes the child's number, which is the caller's
/// to know if `place` is not null; `attributes` are null or valid.
pub fn start_child(
    place: *mut pid_t,
    attributes: *const posix_spawnattr_t,
    call: impl FnOnce(*mut pid_t) -> c_int,
) -> c_int {
    let Some(me) = threads::running() else { return ignoring(|| call(place)) };
    let mut child = 0;
    let error = ignoring(|| with(own(), || call(&mut child)));
    if error == 0 {
        let mut flags = 0;
        if !attributes.is_null() {
            // SAFETY: the caller's attributes; a valid place.
            unsafe { libc::posix_spawnattr_getflags(attributes, &mut flags) };
        }
        let has_own = c_int::from(flags) & libc::POSIX_SPAWN_SETSCHEDULER != 0;
        errno::kept(|| fork::give_child(me, child, has_own));
        if !place.is_null() {
            // SAFETY: the caller's place.
            unsafe { place.write(child) };
        }
    }
    error
}

// ---- vfork, whose other half is in arch/: it returns twice in the same frame

thread_local! {
    /// The worker's mask while a full thread is in `vfork`.
    static WORKERS: Cell<u64> = const { Cell::new(0) };
}

/// Before the child is made: it gets the thread's mask.
#[unsafe(no_mangle)]
extern "C" fn heddle_user_before_vfork() {
    let mut before = set_of(0);
    // SAFETY: valid sets.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &set_of(own()), &mut before) };
    WORKERS.set(bits(&before));
}

/// In the parent, when the child has ended or become another program; a number below 0 is none.
#[unsafe(no_mangle)]
extern "C" fn heddle_user_after_vfork(child: isize) {
    let before = set_of(WORKERS.get());
    // SAFETY: a valid set.
    errno::kept(|| unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut()) });
    if let Some(me) = threads::running().filter(|_| child > 0) {
        errno::kept(|| fork::give_child(me, child as pid_t, false));
    }
}

/// What `vfork` returns when the kernel made no child and said `-number`.
#[unsafe(no_mangle)]
extern "C" fn heddle_user_vfork_failed(result: isize) -> isize {
    errno::set(-result as c_int);
    -1
}
