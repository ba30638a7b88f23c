//! The end of a full thread: handlers, C++ destructors, values, then the news for the joiner.
//!
//! Protocol:
//! 1. [`exit`] starts a forced unwind, as the C library does for its threads. For each frame the
//!    unwinder first calls [`stop`], then runs the frame's own destructors. When a frame is reached
//!    that has an open `pthread_cleanup_push` of C code, [`stop`] jumps there; that code calls its
//!    handler and goes on with the unwind (`cleanup.rs`).
//! 2. At the frame below the start function, or at the end of the stack, [`end`] takes over; it
//!    does not return.
//! 3. [`end`] runs the destructors of what the thread has by itself, then publishes the end. From
//!    then on what describes the thread may be gone. Who calls exit(2) by number runs none.
//!
//! `pthread_exit` of the main thread, which is a kernel thread, lets the process live until the
//! last thread of the program has ended: workers never end, so the C library alone would wait for
//! ever. So does the end of a full thread in a child that it has forked.
//!
//! # Safety
//! For all exported functions of this file: pointers are valid.

use core::convert::Infallible;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use core::time::Duration;

use heddle::raw;
use rustix::thread::futex::{self, Flags};

use super::{
    AWAITED, DETACHED, ENDED, JOINABLE, LIVE, Pthread, cancel, cleanup, count_out, fork, free,
    kernel, own, registry, running, signals, this,
};
use crate::account::tripwire;
use crate::calls::shells;
use crate::real;
use crate::sys::{kept, proxy, robust};

/// `struct _Unwind_Exception` of the unwinder's ABI.
#[repr(C, align(16))]
#[derive(Default, Clone, Copy)]
pub struct UnwindException {
    class: u64,
    cleanup: Option<extern "C" fn(c_int, *mut UnwindException)>,
    private: [usize; 2],
}

type StopFunction = unsafe extern "C-unwind" fn(
    version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut UnwindException,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int;

// SAFETY: the unwinder's ABI, as the C++ ABI documents it; libgcc_s is linked for std anyway.
unsafe extern "C-unwind" {
    fn _Unwind_ForcedUnwind(
        exception: *mut UnwindException,
        stop: StopFunction,
        data: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

const CONTINUE: c_int = 0;
const ACTION_END_OF_STACK: c_int = 16;

/// Ends the calling full thread with `result`: step 1 of the protocol.
pub fn exit(me: &'static Pthread, result: *mut c_void) -> ! {
    me.own.result.set(result);
    raw::take_cancellation();
    unwind(me)
}

/// Starts the unwind, or goes on with it above the caller's frame.
pub fn unwind(me: &'static Pthread) -> ! {
    let exception = me.own.exception.as_ptr();
    // SAFETY: the exception is the thread's own; what was in flight is replaced as a whole, as
    // the C library does it. Frames between here and the caller have nothing to destroy.
    unsafe {
        exception.write(UnwindException { cleanup: Some(swallowed), ..Default::default() });
        _Unwind_ForcedUnwind(exception, stop, ptr::from_ref(me).cast_mut().cast());
    }
    // The unwinder found no way further.
    leave_blocks(me);
    end(me)
}

/// Called by the unwinder for each frame before its destructors run.
unsafe extern "C-unwind" fn stop(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut UnwindException,
    context: *mut c_void,
    data: *mut c_void,
) -> c_int {
    // SAFETY: `unwind` passed the calling thread's description.
    let me: &'static Pthread = unsafe { &*data.cast_const().cast() };
    // The stack pointer of the frame that is next: everything below it has been left.
    // SAFETY: the unwinder's own context.
    let frame = unsafe { _Unwind_GetCFA(context) };
    let is_apart = me.signals.alternate().has(frame);
    shells::leave_below(me, frame);
    if !is_apart {
        cleanup::run_older(frame);
    }
    cleanup::jump_into(me, frame);
    let base = me.own.base.get();
    if actions & ACTION_END_OF_STACK != 0 && !is_apart {
        leave_blocks(me);
    }
    if actions & ACTION_END_OF_STACK != 0 || (base != 0 && frame > base && !is_apart) {
        end(me);
    }
    CONTINUE
}

/// Goes on in the innermost open block, if there is one, whatever lies between: in a function that
/// was written by hand the unwinder may lose its way.
fn leave_blocks(me: &'static Pthread) {
    cleanup::run_older(usize::MAX);
    cleanup::jump_into(me, usize::MAX);
}

/// A `catch (...)` has caught the exit and not thrown it on.
extern "C" fn swallowed(_reason: c_int, _exception: *mut UnwindException) {
    raw::say::line(format_args!("heddle: FATAL: the exit of a thread was caught and not rethrown"));
    std::process::abort();
}

/// What the thread that has ended last has said to the kernel, as exit(2) is told it.
pub static LAST_STATUS: AtomicI32 = AtomicI32::new(0);

/// Ends the calling full thread, whose frames are left: step 3 of the protocol.
pub fn end(me: &'static Pthread) -> ! {
    shells::leave_all(me);
    if fork::is_child_of(me) {
        cancel::disabled(|| {
            raw::destroy_values();
            signals::process::end_main();
            tell_end(me);
            end_process(|| std::process::exit(0))
        })
    }
    // Destructors are run with the thread's signals, as the C library does.
    raw::set_cancellable(false);
    raw::destroy_values();
    LAST_STATUS.store(0, Relaxed);
    close(me);
    publish(me)
}

/// The calling thread, a child's main one, has run its destructors.
fn tell_end(me: &Pthread) {
    // ORDER: as in `publish`. Detached: nobody joins it.
    if me.state.compare_exchange(JOINABLE, ENDED, SeqCst, Relaxed).is_ok() {
        raw::futex_wake(&me.state, u32::MAX, raw::ANY);
    }
}

/// Ends the calling full thread as the kernel's exit(2) does: no destructor is run.
pub fn end_by_number(me: &'static Pthread, status: c_int) -> ! {
    LAST_STATUS.store(status, Relaxed);
    close(me);
    publish(me)
}

/// From here on the thread is neither cancelled nor sent signals.
fn close(me: &'static Pthread) {
    raw::set_cancellable(false);
    signals::process::ended(|| me.signals.blocked());
    signals::close(me);
    tripwire::end(me.tripwire());
}

/// Tells of the calling thread's end, and leaves its stack.
fn publish(me: &'static Pthread) -> ! {
    crate::account::ended(own::kind().load(Relaxed), &me.born.get());
    own::stop_running();
    // In the kernel's order: who waits for the word may do away with the mutexes.
    robust::end();
    proxy::give_back(me.lent());
    kept::clear(me.end_word());
    registry::leave(me.slot.load(Relaxed));
    // Before anybody who has joined it looks whether there are others.
    count_out();
    // ORDER: Release publishes the result; Acquire, for a detached one may be freed. SeqCst: the
    // state before the look at the joiner; pairs with the exchange in `join.rs`.
    match me.state.compare_exchange(JOINABLE, ENDED, SeqCst, Acquire) {
        // What describes the thread may be given up by now, but its memory is this stack's.
        Ok(_) if me.joined_by.load(SeqCst) == 0 => {}
        Ok(_) => {
            raw::futex_wake(&me.state, 1, raw::ANY);
        }
        Err(state) => {
            debug_assert_eq!(state, DETACHED);
            // SAFETY: nobody will join it, and nothing of it is used any more.
            unsafe { free(me) };
        }
    }
    raw::finish_destroyed()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn heddle_user_pthread_exit(result: *mut c_void) -> ! {
    // What was sent to it in a call that nothing interrupts is handled before it ends.
    signals::answer_if_called();
    if let Some(me) = running() {
        exit(me, result);
    }
    match this() {
        // In its child: the C library's unwind ends it.
        Some(me) => me.own.result.set(result),
        None => kernel::exit_main(result),
    }
    // SAFETY: a kernel thread, whose frames here have nothing to destroy.
    unsafe { real::pthread_exit(result) }
}

/// Between two looks for kernel threads that nobody tells the end of.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Ends the process, as `exit` does, when no other thread of the program is left. The caller is its
/// main thread, which has come to its own end, and takes no signals
/// ([`signals::process::end_main`]).
pub fn end_process(exit: impl FnOnce() -> Infallible) -> ! {
    // In the kernel, not in the lot: by now the runtime has let go of this thread.
    // ORDER: SeqCst pairs with `count_out`: the flag before the count.
    AWAITED.store(true, SeqCst);
    let mut pause = PAUSE_MIN;
    loop {
        match LIVE.load(SeqCst) {
            // Those that the C library makes for itself are not counted: for a timer that calls a
            // function (SIGEV_THREAD), for `mq_notify`, for asynchronous input and output.
            0 if raw::tasks::are_others() => {
                std::thread::sleep(pause);
                pause = PAUSE_MAX.min(pause * 2);
            }
            0 => break,
            live => {
                let _ = futex::wait(&LIVE, Flags::PRIVATE, live, None);
            }
        }
    }
    signals::process::stand_in_for_last();
    match exit() {}
}
