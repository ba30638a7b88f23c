//! Commands of the shell: `system`, `popen`, `pclose`.
//!
//! A full thread's `system` is made here, as the C library makes it, so that handlers run while the
//! command does, and a cancellation ends it; `shells.rs` sees to calls that are left. A kernel
//! thread's is the C library's, unless calls are being made here: then it is made here, too, and no
//! cancellation ends it.
//!
//! While any thread is in `system` the process ignores SIGINT and SIGQUIT. The C library counts who
//! is in its own, and puts back what the first found. So while anybody is in that one, ignoring is
//! its business; who comes out of it last ignores again if others are in a call made here. What the
//! program had is noted by the first of all.
//!
//! Invariant: nobody enters the C library's while a call is being made here: it would take what is
//! ignored for the program's. A kernel thread that has left the C library's by a jump stays counted
//! there: from then on calls made here ignore nothing.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_short};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};

use heddle::raw::{self, Interest};
use libc::{FILE, pid_t, posix_spawnattr_t, sigaction, sigset_t};

use super::mask::{self, own, start_child, with};
use super::{
    Result, Stop, Target, away, away_answering, checked, exported, interruptible, made_int, shells,
    wait_ready_once,
};
use crate::threads::cancel;
use crate::threads::signals::actions::{Kept, alone, ignoring};
use crate::threads::signals::discard::discard;
use crate::threads::signals::{self, bit};
use crate::{errno, real};

/// What a command that waits for the terminal's user is to get, and its program not.
const IGNORED: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];
/// What the program had for each, before the first of all.
static BEFORE: [Kept; 2] = [const { Kept::new() }; 2];
/// How many are in a call made here, and in one of the C library's; both change in [`alone`].
static OURS: AtomicU32 = AtomicU32::new(0);
static THEIRS: AtomicU32 = AtomicU32::new(0);

/// Before a call that is made here.
pub fn enter() {
    let is_first = alone(|| {
        let is_first = OURS.fetch_add(1, Relaxed) == 0 && THEIRS.load(Relaxed) == 0;
        if is_first {
            note();
            ignore();
        }
        is_first
    });
    if is_first {
        discard_pending();
    }
}

/// What is pending of what is ignored now.
fn discard_pending() {
    discard(IGNORED.into_iter().map(bit).sum());
}

/// After it.
pub fn leave() {
    alone(|| {
        if OURS.fetch_sub(1, Relaxed) == 1 && THEIRS.load(Relaxed) == 0 {
            put_back();
        }
    });
}

/// Before a kernel thread's call: whether it is the C library's; else it is made here.
fn enter_theirs() -> bool {
    let is_theirs = alone(|| {
        if OURS.load(Relaxed) != 0 {
            OURS.fetch_add(1, Relaxed);
            return false;
        }
        if THEIRS.fetch_add(1, Relaxed) == 0 {
            note();
        }
        true
    });
    if is_theirs {
        discard_pending();
    }
    is_theirs
}

/// After one of the C library's.
fn leave_theirs() {
    alone(|| {
        if THEIRS.fetch_sub(1, Relaxed) == 1 && OURS.load(Relaxed) != 0 {
            ignore();
        }
    });
}

fn note() {
    for (signal, kept) in IGNORED.into_iter().zip(&BEFORE) {
        // SAFETY: all zero bytes are a valid action.
        let mut before: sigaction = unsafe { core::mem::zeroed() };
        // SAFETY: a valid place.
        unsafe { libc::sigaction(signal, ptr::null(), &mut before) };
        kept.set(&before);
    }
}

/// As the program's own `sigaction` does it, but for what is pending: see [`discard_pending`].
fn ignore() {
    for signal in IGNORED {
        // SAFETY: all zero bytes are a valid action.
        let mut ignored: sigaction = unsafe { core::mem::zeroed() };
        ignored.sa_sigaction = libc::SIG_IGN;
        // SAFETY: a valid action.
        errno::kept(|| unsafe { libc::sigaction(signal, &ignored, ptr::null_mut()) });
    }
}

fn put_back() {
    for (signal, kept) in IGNORED.into_iter().zip(&BEFORE) {
        // SAFETY: a valid action.
        errno::kept(|| unsafe { libc::sigaction(signal, &kept.get(), ptr::null_mut()) });
    }
}

/// Starts the shell, with this mask and the program's own actions: its number, or an error's.
fn start(command: *const c_char, blocked: &sigset_t) -> core::result::Result<pid_t, c_int> {
    let is_ignored = |kept: &Kept| kept.get().sa_sigaction == libc::SIG_IGN;
    let pairs = IGNORED.into_iter().zip(&BEFORE);
    let to_default = pairs.filter(|(_, kept)| !is_ignored(kept)).map(|(signal, _)| bit(signal));
    let to_default = mask::set_of(to_default.sum());
    let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
    let words = [c"sh".as_ptr(), c"-c".as_ptr(), c"--".as_ptr(), command, ptr::null()];
    let words = words.map(<*const c_char>::cast_mut);
    let mut attributes = MaybeUninit::<posix_spawnattr_t>::uninit();
    let (place, mut child) = (attributes.as_mut_ptr(), 0);
    // SAFETY: a place for attributes, which the first call makes valid.
    unsafe {
        libc::posix_spawnattr_init(place);
        libc::posix_spawnattr_setsigmask(place, blocked);
        libc::posix_spawnattr_setsigdefault(place, &to_default);
        libc::posix_spawnattr_setflags(place, flags as c_short);
    }
    // SAFETY: texts and attributes of our own, the caller's command, the program's environment.
    let error = start_child(&mut child, place, |child| unsafe {
        let (path, words) = (c"/bin/sh".as_ptr(), words.as_ptr());
        libc::posix_spawn(child, path, ptr::null(), place, words, environ.load(Relaxed))
    });
    // SAFETY: valid attributes.
    unsafe { libc::posix_spawnattr_destroy(place) };
    if error == 0 { Ok(child) } else { Err(error) }
}

// SAFETY: the C library's variable, which the program may change.
unsafe extern "C" {
    static environ: AtomicPtr<*mut c_char>;
}

/// The status of a full thread's shell, in whose wait handlers run. After each of them it is asked
/// for anew: the handler may have forked, and a child has no such child.
fn status_of(child: pid_t, mut pidfd: Option<c_int>) -> Result<isize> {
    let mut status = 0;
    let place = &raw mut status;
    // SAFETY: a valid place.
    let wait = |options| unsafe { libc::waitpid(child, place, options) as isize };
    loop {
        let mut has_ended = checked(wait(libc::WNOHANG))? != 0;
        if !has_ended {
            let waited = match pidfd {
                Some(pidfd) => {
                    wait_ready_once(&mut Target::new(pidfd), Interest::Read, 0).map(|_| 0)
                }
                None => interruptible(true, || wait(0)),
            };
            match waited {
                Ok(ended) => has_ended = ended != 0,
                Err(Stop::Error(libc::EINTR)) => {}
                Err(Stop::Error(_)) if pidfd.is_some() => pidfd = None,
                Err(stop) => return Err(stop),
            }
        }
        if has_ended {
            return Ok(status as isize);
        }
    }
}

/// As [`status_of`], of a kernel thread that no cancellation ends.
fn status_in_kernel(child: pid_t) -> Result<isize> {
    let mut status = 0;
    loop {
        // SAFETY: a valid place.
        match checked(unsafe { libc::waitpid(child, &mut status, 0) } as isize) {
            Err(Stop::Error(libc::EINTR)) => {}
            ended => return ended.map(|_| status as isize),
        }
    }
}

/// A kernel thread's call that is the C library's, until it is over or an unwind ends it.
struct Theirs;

impl Drop for Theirs {
    fn drop(&mut self) {
        leave_theirs();
    }
}

/// Runs a command and waits for its end; the caller, a full thread with a `frame` or a kernel
/// thread, has entered and leaves here. `failure` is why no shell was started.
fn run(command: *const c_char, frame: Option<usize>, failure: &mut c_int) -> Result<isize> {
    let mut before = mask::set_of(0);
    mask::change(libc::SIG_BLOCK, &mask::set_of(bit(libc::SIGCHLD)), &mut before);
    let status = match (start(command, &before), frame) {
        (Ok(child), Some(frame)) => status_of(child, shells::started(frame, child)),
        (Ok(child), None) => status_in_kernel(child),
        (Err(number), _) => {
            *failure = number;
            Ok(127 << 8)
        }
    };
    if status == Err(Stop::Cancelled) {
        // The unwind ends the shell.
        return status;
    }
    errno::kept(|| {
        // First of all: a handler of SIGCHLD may jump.
        frame.map_or_else(leave, shells::over);
        mask::change(libc::SIG_SETMASK, &before, ptr::null_mut())
    });
    status
}

/// Of a full thread.
fn system(command: *const c_char) -> c_int {
    let here = 0_u8;
    let frame = (&raw const here).addr();
    let mut failure = 0;
    let status = made_int(|| {
        shells::begin(frame);
        run(command, Some(frame), &mut failure)
    });
    if failure != 0 {
        errno::set(failure);
    }
    status
}

fn system_of_kernel_thread(command: *const c_char) -> c_int {
    if !enter_theirs() {
        return in_company(command);
    }
    let _theirs = Theirs;
    // SAFETY: the caller's text.
    ignoring(|| unsafe { real::system(command) })
}

/// A kernel thread's call while full threads are in theirs: no cancellation ends it.
fn in_company(command: *const c_char) -> c_int {
    let mut failure = 0;
    let result = cancel::disabled(|| run(command, None, &mut failure));
    if let Err(Stop::Error(number)) = result {
        failure = number;
    }
    if failure != 0 {
        errno::set(failure);
    }
    result.map_or(-1, |status| status as c_int)
}

exported! {
    (heddle_user_popen) (command: *const c_char, mode: *const c_char) -> *mut FILE {
        // SAFETY: the caller's texts.
        let call = || unsafe { real::popen(command, mode) };
        if crate::me().is_none() {
            return ignoring(call);
        }
        let blocked = own();
        // It allocates, and the thread might wait for that and go on on another worker.
        let stream = away(|| ignoring(|| with(blocked, call)));
        signals::answer_if_called();
        stream
    }

    (heddle_user_pclose) (stream: *mut FILE) -> c_int {
        let was_enabled = raw::set_cancellable(false);
        // SAFETY: the caller's stream.
        let status = away_answering(true, move || unsafe { libc::pclose(stream) });
        cancel::put_back(was_enabled);
        status.unwrap_or_else(|| {
            // In a child, whose child the command is not.
            errno::set(libc::ECHILD);
            -1
        })
    }

    (heddle_user_system) (command: *const c_char) -> c_int {
        let call = if crate::me().is_some() { system } else { system_of_kernel_thread };
        if command.is_null() {
            return c_int::from(call(c"exit 0".as_ptr()) == 0);
        }
        call(command)
    }
}
