//! What a forked child knows: the one thread that it has is a kernel thread now, whatever it was.
//!
//! Workers do not survive a fork. A full thread that forks goes on in the child on its own stack
//! with its own thread-local storage and its own mask, on the kernel thread that was its worker;
//! threads that the child makes are the C library's, if the runtime had started before the fork.
//! That kernel thread gets the name, the processors, the niceness and the priority at a disk that
//! it had set; a child that becomes another program gets all of these but the name, from outside,
//! as soon as its number is known (not one that `popen` makes, which tells none).
//!
//! What locks another thread of the parent may have held, and what becomes of them, stands in
//! `fork.rs` of the runtime. Of this library a child takes one: what its thread has said about
//! itself, which those who send it signals look at ([`renew`]). Timers for full threads, `accept`,
//! roles and the account are not for kernel threads; the registry has no lock, and who was looking
//! at a thread in the parent keeps only that thread from ending.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};
use std::sync::{Mutex, PoisonError};

use libc::pid_t;

use super::{
    LIVE, LIVE_KERNEL, Pthread, affinity, cancel, identity, inherited, kernel, own, schedule, this,
};
use crate::account::tripwire;
use crate::calls;
use crate::sync::stand_in;
use crate::threads::signals::{actions, kernels, process, stray, timers};

/// How many forks lead to this process.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The full thread that has forked, in the child.
static CHILD: AtomicPtr<Pthread> = AtomicPtr::new(core::ptr::null_mut());
/// In a child whose parent had made full threads.
static NO_MORE: AtomicBool = AtomicBool::new(false);
/// Full threads were made.
static MADE: AtomicBool = AtomicBool::new(false);
/// Threads were made, of whatever kind.
static ARE_SEVERAL: AtomicBool = AtomicBool::new(false);

extern "C" fn register() {
    heddle::raw::embed_fork();
    // SAFETY: the handler may run at any fork.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // Before a child that has this memory could leave its own number there.
    super::mark();
}

/// When the library is loaded, so that this runs before the program's handlers do.
#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

/// The calling process is a child that was forked, by whatever call. Before anything else there.
pub extern "C" fn in_child() {
    GENERATION.fetch_add(1, Relaxed);
    // Before anything here waits.
    heddle::raw::forked_child();
    actions::in_child();
    stand_in::in_child();
    if MADE.load(Relaxed) {
        NO_MORE.store(true, Relaxed);
    }
    LIVE.store(0, Relaxed);
    LIVE_KERNEL.store(0, Relaxed);
    kernel::in_child();
    inherited::in_child();
    kernels::in_child();
    process::in_child();
    stray::in_child();
    // SAFETY: the child has this one thread, and it does not hold their locks.
    unsafe {
        calls::in_child();
        timers::in_child();
    }
    if let Some(me) = this() {
        // Who joins it in the parent does not here.
        me.joined_by.store(0, Relaxed);
    }
    // Not in a child's child: its parent was a kernel thread.
    if let Some(me) = this().filter(|_| own::is_running()) {
        // SAFETY: the child has this one thread, and it does not hold it.
        unsafe { renew(&me.about) };
        me.signals.in_child();
        me.signals.alternate().give_kernel();
        cancel::give_kernel(me);
        identity::give_kernel(me);
        give_child(me, 0, false);
        CHILD.store(core::ptr::from_ref(me).cast_mut(), Relaxed);
        tripwire::end(me.tripwire());
        own::stop_running();
        heddle::raw::leave_worker_after_fork();
        kernel::show_block();
    }
}

/// Gives a child of `me`, or the calling kernel thread (0), what the kernel keeps for its scheduler
/// and `me` has set.
pub fn give_child(me: &Pthread, child: pid_t, has_own_policy: bool) {
    affinity::give_child(me, child);
    schedule::give_child(me, child, has_own_policy);
}

/// Unlocks a lock that a thread of the parent may hold, with what it guards as that has left it.
///
/// # Safety
/// 1. The calling thread is the only one of the process, and does not hold the lock.
pub unsafe fn renew<T>(mutex: &Mutex<T>) {
    let place = ptr::from_ref(mutex).cast_mut();
    // SAFETY: by 1 nobody else uses it. The content goes from the old lock into the new one, which
    // lies in its place; the old one is not dropped.
    unsafe {
        let old = place.read();
        place.write(Mutex::new(old.into_inner().unwrap_or_else(PoisonError::into_inner)));
    }
}

/// Differs between a process and its children, and theirs.
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Whether the calling process is a child that this full thread has forked.
pub fn is_child_of(me: &Pthread) -> bool {
    core::ptr::eq(CHILD.load(Relaxed), me)
}

/// Whether this process has made full threads: those of a child's parent are not there.
pub fn has_full() -> bool {
    MADE.load(Relaxed) && !NO_MORE.load(Relaxed)
}

/// Whether the program has made threads. The first may be a kernel thread: what it waits in is what
/// those who come later wake.
pub fn are_several() -> bool {
    ARE_SEVERAL.load(Relaxed)
}

/// The program is about to make a thread.
pub fn will_be_several() {
    ARE_SEVERAL.store(true, Relaxed);
}

/// Whether full threads can be made in this process; notes that they will be.
pub fn may_create() -> bool {
    if NO_MORE.load(Relaxed) {
        return false;
    }
    MADE.store(true, Relaxed);
    true
}
