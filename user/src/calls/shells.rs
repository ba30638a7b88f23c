//! The calls of `system` that full threads are in. Who leaves one by a jump out of a handler, or by
//! the end of the thread, ends its shell, as the C library does: such a jump comes by here
//! (`threads/signals/jump.rs`), and so does an unwind (`threads/end.rs`). A call that was left in
//! another way, as by a context, is found at the thread's next one on the same stack, or at its
//! end.
//!
//! A wait for a child is noted as well, for its descriptor: who leaves it closes that. And so is a
//! wait in which handlers run, for the files that are kept for it (`waited.rs`).
//!
//! Invariant: a note is on the heap, for its call's frame may be gone; the frame's address is only
//! compared. A call touches its note by that address, in the list of the thread that goes on with
//! it.

use core::cell::Cell;
use core::ffi::c_int;
use core::ptr;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

use heddle::raw;
use libc::pid_t;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::waited::Kept;
use super::{away_for_long, shell};
use crate::errno;
use crate::threads::{Pthread, this};

/// A thread's, the innermost first.
pub struct Shells(Cell<*mut Shell>);

struct Shell {
    frame: usize,
    /// Whether this is a call of `system`; else a wait.
    is_system: bool,
    /// 0 = none was started.
    child: Cell<pid_t>,
    pidfd: Cell<Option<c_int>>,
    /// What goes with the note, whatever becomes of the call.
    kept: Vec<Kept>,
    outer: Cell<*mut Shell>,
}

impl Default for Shells {
    fn default() -> Self {
        Shells(Cell::new(ptr::null_mut()))
    }
}

impl Shells {
    fn innermost(&self) -> Option<&Shell> {
        // SAFETY: null, or in the list.
        unsafe { self.0.get().as_ref() }
    }

    /// Where the list leads to the note of the call in this frame.
    fn place_of(&self, frame: usize) -> Option<&Cell<*mut Shell>> {
        let mut place = &self.0;
        // SAFETY: null, or in the list.
        while let Some(shell) = unsafe { place.get().as_ref() } {
            if shell.frame == frame {
                return Some(place);
            }
            place = &shell.outer;
        }
        None
    }

    /// Takes that out of the list.
    fn take(&self, frame: usize) -> Option<Shell> {
        let place = self.place_of(frame)?;
        // SAFETY: each in the list is a box, and this one is in it no more.
        let shell = unsafe { Box::from_raw(place.get()) };
        place.set(shell.outer.get());
        Some(*shell)
    }
}

impl Shell {
    /// The call is over.
    fn forget(self) {
        if self.is_system {
            shell::leave();
        }
        if let Some(pidfd) = self.pidfd.get() {
            // SAFETY: it was opened for this call.
            drop(unsafe { OwnedFd::from_raw_fd(pidfd) });
        }
    }

    /// The call was left.
    fn end(self) {
        errno::kept(|| {
            kill(self.child.get());
            self.forget();
        });
    }
}

/// Ends a shell, if it is a child that lives: in a forked child it is none, and a handler may have
/// waited for it.
fn kill(child: pid_t) {
    let waited = |options| {
        // SAFETY: no place.
        unsafe { libc::waitpid(child, ptr::null_mut(), options) }
    };
    if child != 0 && waited(libc::WNOHANG) == 0 {
        // SAFETY: no pointers.
        unsafe { libc::kill(child, libc::SIGKILL) };
        away_for_long(|| waited(0));
    }
}

/// The calling full thread begins a call in this frame.
pub fn begin(frame: usize) {
    let Some(me) = this() else { return };
    leave_below(me, frame + 1);
    shell::enter();
    note(me, frame, true, None);
}

fn note(me: &Pthread, frame: usize, is_system: bool, pidfd: Option<c_int>) {
    note_with(me, frame, is_system, pidfd, Vec::new());
}

fn note_with(me: &Pthread, frame: usize, is_system: bool, pidfd: Option<c_int>, kept: Vec<Kept>) {
    let (child, pidfd) = (Cell::new(0), Cell::new(pidfd));
    let outer = Cell::new(me.shells().0.get());
    let shell = Shell { frame, is_system, child, pidfd, kept, outer };
    me.shells().0.set(Box::into_raw(Box::new(shell)));
}

/// The calling full thread is about to wait in this frame, by this descriptor. It is closed when
/// that is [`over`], or left.
pub fn waits(frame: usize, pidfd: OwnedFd) -> c_int {
    let fd = pidfd.into_raw_fd();
    if let Some(me) = this() {
        leave_below(me, frame + 1);
        note(me, frame, false, Some(fd));
    }
    fd
}

/// What tells of a child's end; `None`: there is none, or no such child.
pub fn pidfd_of(child: pid_t) -> Option<OwnedFd> {
    let child = Pid::from_raw(child.max(0))?;
    raw::descriptor::raised(|| pidfd_open(child, PidfdFlags::empty())).ok()
}

/// A handler may run in the calling full thread's wait in this frame, which holds these files until
/// it is [`over`], or left; or takes them back: [`held`].
pub fn holds(frame: usize, kept: Vec<Kept>) {
    if let Some(me) = this() {
        leave_below(me, frame + 1);
        note_with(me, frame, false, None, kept);
    }
}

/// See [`holds`]. Nothing where the wait was left.
pub fn held(frame: usize) -> Vec<Kept> {
    let shell = this().and_then(|me| me.shells().take(frame));
    shell.map_or_else(Vec::new, |shell| shell.kept)
}

/// The call has started its shell. What tells of the shell's end, if there may be such a thing.
pub fn started(frame: usize, child: pid_t) -> Option<c_int> {
    let place = this()?.shells().place_of(frame)?;
    // SAFETY: it leads to a note.
    let shell = unsafe { &*place.get() };
    shell.child.set(child);
    shell.pidfd.set(Some(pidfd_of(child)?.into_raw_fd()));
    shell.pidfd.get()
}

/// The call has waited for its shell, or its child. Without a note another thread began it, and
/// ended meanwhile or will.
pub fn over(frame: usize) {
    if let Some(shell) = this().and_then(|me| me.shells().take(frame)) {
        shell.forget();
    }
}

/// The calling thread goes on in the frame that `target` is the stack pointer of.
#[inline]
pub fn leave_below(me: &Pthread, target: usize) {
    while let Some(shell) = me.shells().innermost() {
        if !is_left(me, shell.frame, target) {
            return;
        }
        end(me, shell.frame);
    }
}

/// The calling thread ends.
pub fn leave_all(me: &Pthread) {
    while let Some(shell) = me.shells().innermost() {
        end(me, shell.frame);
    }
}

#[cold]
fn end(me: &Pthread, frame: usize) {
    if let Some(shell) = me.shells().take(frame) {
        shell.end();
    }
}

/// Whether a thread that goes on at `target` is not in `frame` any more; no if either is on a stack
/// that nothing is known of.
fn is_left(me: &Pthread, frame: usize, target: usize) -> bool {
    let alternate = me.signals().alternate();
    let is_on_own = |address: usize| {
        raw::stack_bounds().is_some_and(|(low, bytes)| address.wrapping_sub(low.addr()) < bytes)
    };
    match (alternate.has(frame), alternate.has(target)) {
        (true, true) => frame < target,
        (true, false) => is_on_own(target),
        // A handler interrupts what is on the thread's own stack.
        (false, true) => false,
        (false, false) => frame < target && is_on_own(frame) && is_on_own(target),
    }
}
