//! Commands of the shell: `system`, `popen`, `pclose`.
//!
//! A full thread's `system` is made here, as the C library makes it, so that handlers run while the
//! command does, and a cancellation ends it. While any thread is in it the process ignores SIGINT
//! and SIGQUIT; the C library counts who is in its own, and puts back what the first found. So all
//! calls that overlap go one way: that of the first of them.
//!
//! Invariant: nobody is in one of the two ways while somebody is in the other. A kernel thread that
//! was cancelled in the C library's stays counted there; then full threads go that way, too, and no
//! cancellation ends what they call.
//!
//! # Safety
//! For all exported functions of this file: as the C library's functions of the same name.

use core::ffi::{c_char, c_int, c_short};
use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use heddle::raw;
use libc::{FILE, pid_t, posix_spawnattr_t, sigaction, sigset_t};

use super::mask::{self, own, start_program, with};
use super::{
    Result, Stop, away, away_answering, away_for_long, checked, exported, made_int, process,
};
use crate::threads::cancel;
use crate::threads::signals::actions::{Kept, alone, ignoring};
use crate::threads::signals::{self, bit};
use crate::{errno, real};

/// What a command that waits for the terminal's user is to get, and its program not.
const IGNORED: [c_int; 2] = [libc::SIGINT, libc::SIGQUIT];
/// What the program had for each, before the first of ours.
static BEFORE: [Kept; 2] = [const { Kept::new() }; 2];
/// How many are in a call made here, and in one of the C library's; both change in [`alone`].
static OURS: AtomicU32 = AtomicU32::new(0);
static THEIRS: AtomicU32 = AtomicU32::new(0);

/// How a call is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Ours,
    Theirs,
}

impl Way {
    fn count(self) -> &'static AtomicU32 {
        if self == Way::Ours { &OURS } else { &THEIRS }
    }

    /// Before a call: the way of those that are in one, else what suits the caller.
    fn enter() -> Way {
        let suits = if crate::me().is_some() { Way::Ours } else { Way::Theirs };
        alone(|| {
            let are_in = |way: Way| way.count().load(Relaxed) != 0;
            let way = [Way::Ours, Way::Theirs].into_iter().find(|way| are_in(*way));
            let way = way.unwrap_or(suits);
            if way.count().fetch_add(1, Relaxed) == 0 && way == Way::Ours {
                ignore();
            }
            way
        })
    }

    fn leave(self) {
        alone(|| {
            if self.count().fetch_sub(1, Relaxed) == 1 && self == Way::Ours {
                put_back();
            }
        });
    }
}

fn ignore() {
    for (signal, kept) in IGNORED.into_iter().zip(&BEFORE) {
        // SAFETY: all zero bytes are valid actions.
        let (mut ignored, mut before): (sigaction, sigaction) = unsafe { core::mem::zeroed() };
        ignored.sa_sigaction = libc::SIG_IGN;
        // SAFETY: valid places.
        unsafe { libc::sigaction(signal, &ignored, &mut before) };
        kept.set(&before);
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
    let error = start_program(|| unsafe {
        let (path, words) = (c"/bin/sh".as_ptr(), words.as_ptr());
        libc::posix_spawn(&mut child, path, ptr::null(), place, words, environ)
    });
    // SAFETY: valid attributes.
    unsafe { libc::posix_spawnattr_destroy(place) };
    if error == 0 { Ok(child) } else { Err(error) }
}

// SAFETY: the C library's variable.
unsafe extern "C" {
    static environ: *const *mut c_char;
}

/// The status of a child that ends, whatever handlers run meanwhile.
fn status_of(child: pid_t) -> Result<isize> {
    let mut status = 0;
    loop {
        let ended = match crate::me() {
            Some(_) => process::wait(child, &mut status, 0, ptr::null_mut()),
            // SAFETY: a valid place. No cancellation ends it.
            None => checked(unsafe { libc::waitpid(child, &mut status, 0) } as isize),
        };
        match ended {
            Ok(_) => return Ok(status as isize),
            Err(Stop::Error(libc::EINTR)) => {}
            Err(stop) => return Err(stop),
        }
    }
}

/// Runs a command and waits for its end. `failure` is why no shell was started.
fn run(command: *const c_char, failure: &mut c_int) -> Result<isize> {
    let mut before = mask::set_of(0);
    mask::change(libc::SIG_BLOCK, &mask::set_of(bit(libc::SIGCHLD)), &mut before);
    let status = match start(command, &before) {
        Ok(child) => status_of(child).inspect_err(|stop| {
            if *stop == Stop::Cancelled {
                end(child);
            }
        }),
        Err(number) => {
            *failure = number;
            Ok(127 << 8)
        }
    };
    errno::kept(|| mask::change(libc::SIG_SETMASK, &before, ptr::null_mut()));
    status
}

/// Ends the shell of a thread that is cancelled.
fn end(child: pid_t) {
    // SAFETY: no pointers.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let was_enabled = raw::set_cancellable(false);
    let _ = status_of(child);
    raw::set_cancellable(was_enabled);
}

/// Of a full thread.
fn system(command: *const c_char) -> c_int {
    let mut failure = 0;
    let status = made_int(|| {
        let way = Way::enter();
        let status = match way {
            Way::Ours => run(command, &mut failure),
            Way::Theirs => {
                let blocked = own();
                // SAFETY: the caller's text.
                let call = || unsafe { real::system(command) };
                checked(away_for_long(|| ignoring(|| with(blocked, call))) as isize)
            }
        };
        way.leave();
        status
    });
    if failure != 0 {
        errno::set(failure);
    }
    status
}

fn system_of_kernel_thread(command: *const c_char) -> c_int {
    let way = Way::enter();
    let status = match way {
        Way::Ours => in_company(command),
        // SAFETY: the caller's text.
        Way::Theirs => ignoring(|| unsafe { real::system(command) }),
    };
    way.leave();
    status
}

/// A kernel thread's call while full threads are in theirs: no cancellation ends it.
fn in_company(command: *const c_char) -> c_int {
    let mut failure = 0;
    let status = cancel::disabled(|| run(command, &mut failure));
    let status = status.map_or(-1, |status| status as c_int);
    if failure != 0 {
        errno::set(failure);
    }
    status
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
        // SAFETY: the caller's stream.
        away_answering(true, move || unsafe { libc::pclose(stream) })
    }

    (heddle_user_system) (command: *const c_char) -> c_int {
        let call = if crate::me().is_some() { system } else { system_of_kernel_thread };
        if command.is_null() {
            return c_int::from(call(c"exit 0".as_ptr()) == 0);
        }
        call(command)
    }
}
