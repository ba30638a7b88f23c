//! The end of a thread: handlers, C++ destructors, values, then the news for the joiner.
//!
//! Protocol:
//! 1. [`exit`] starts a forced unwind. For each frame the unwinder first calls [`stop`], which
//!    runs the cleanup handlers of the frames that are already left, then the frame's own
//!    destructors. So handlers and destructors run innermost first, as in the C library.
//! 2. At the frame below the start function, at the end of the stack, or where unwind information
//!    is missing, the handlers that are left run and [`end`] takes over; it does not return.
//! 3. [`end`] runs all destructors of the thread's values, then publishes the end ([`leave`]);
//!    from then on the slot may belong to another thread. A light thread's stack goes back to the
//!    runtime.
//!
//! # Safety
//! For all exported functions of this file: pointers that the header asks for are valid, and the
//! calling thread is not in another call of the library.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use heddle::raw::{self, Outcome, WaitQueue};

use crate::data::{Data, Kind};
use crate::{current, key};

/// `struct heddle_cleanup` of the header.
#[repr(C)]
pub struct Cleanup {
    routine: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
    next: *mut Cleanup,
}

/// `struct _Unwind_Exception` of the unwinder's ABI.
#[repr(C, align(16))]
#[derive(Default)]
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

/// Threads that `heddle_create` made and that have not ended.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Where main waits for `LIVE` to become 0.
static LAST: WaitQueue = WaitQueue::new();

/// One more thread; [`Data`] of kinds `Light` and `Native` only.
pub fn count_in() {
    LIVE.fetch_add(1, Relaxed);
}

/// One thread less.
pub fn count_out() {
    // ORDER: Release publishes what the thread did to the process's end.
    if LIVE.fetch_sub(1, AcqRel) == 1 {
        LAST.wake_all();
    }
}

/// Ends the calling thread with `result`: step 1 of the protocol.
pub fn exit(data: &'static Data, result: *mut c_void) -> ! {
    data.own.result.set(result);
    raw::take_cancellation();
    let exception = data.own.exception.get();
    let me = ptr::from_ref(data).cast_mut().cast();
    // SAFETY: the exception is the thread's own and not in flight: exit runs once per thread.
    // Frames between here and the caller have nothing to destroy.
    unsafe {
        exception.write(UnwindException { cleanup: Some(swallowed), ..Default::default() });
        _Unwind_ForcedUnwind(exception, stop, me);
    }
    // The unwinder gave up.
    run_cleanups(data, usize::MAX);
    end(data)
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
    // SAFETY: `exit` passed the calling thread's slot.
    let data: &'static Data = unsafe { &*data.cast() };
    // The stack pointer of the frame that is next: everything below it has been left.
    // SAFETY: the unwinder's own context.
    let frame = unsafe { _Unwind_GetCFA(context) };
    let base = data.own.base.get();
    if actions & ACTION_END_OF_STACK != 0 || (base != 0 && frame > base) {
        run_cleanups(data, usize::MAX);
        end(data);
    }
    run_cleanups(data, frame);
    CONTINUE
}

/// A `catch (...)` has caught the exit and not thrown it on.
extern "C" fn swallowed(_reason: c_int, _exception: *mut UnwindException) {
    eprintln!("heddle: FATAL: the exit of a thread was caught and not rethrown");
    std::process::abort();
}

/// Runs the handlers whose frames lie below `limit`, latest first.
fn run_cleanups(data: &'static Data, limit: usize) {
    loop {
        let frame = data.own.cleanup.get();
        if frame.is_null() || frame as usize >= limit {
            return;
        }
        // SAFETY: frames are in the list while their blocks are open; the unwinder has passed
        // them but their memory lies above the stack pointer still.
        unsafe {
            data.own.cleanup.set((*frame).next);
            ((*frame).routine)((*frame).argument);
        }
    }
}

/// Ends the calling thread, whose frames are left: step 3 of the protocol.
pub fn end(data: &'static Data) -> ! {
    let kind = data.kind();
    let result = data.own.result.get();
    raw::set_cancellable(false);
    destroy_values(data, kind);
    current::forget();
    publish_end(data);
    match kind {
        Kind::Light => {
            count_out();
            raw::finish()
        }
        Kind::Native => {
            count_out();
            // SAFETY: what the C library unwinds now has nothing left to destroy: all frames with
            // destructors were unwound.
            unsafe { libc::pthread_exit(ptr::null_mut()) }
        }
        Kind::Foreign if current::is_main() => {
            wait_for_all();
            std::process::exit(0)
        }
        Kind::Foreign if heddle::thread::is_user_level() => {
            // Its result is a Rust value, which does not exist.
            eprintln!("heddle: FATAL: a thread that Rust code spawned can't end by heddle_exit");
            std::process::abort()
        }
        // SAFETY: as above.
        Kind::Foreign => unsafe { libc::pthread_exit(result) },
    }
}

/// What a joiner may rely on: all destructors have run. As in the C library those of the language
/// come first; then they once more, for what the destructors of keys have made.
fn destroy_values(data: &'static Data, kind: Kind) {
    let of_thread = || {
        if kind == Kind::Light {
            raw::destroy_values();
        }
    };
    of_thread();
    key::run_destructors(data);
    of_thread();
}

/// The end of a thread that somebody else made and ends.
pub fn leave(data: &'static Data) {
    key::run_destructors(data);
    publish_end(data);
}

/// Tells the joiner; afterwards the slot may belong to another thread.
fn publish_end(data: &'static Data) {
    let mut shared = data.lock();
    let thread = shared.thread.take();
    shared.finished = true;
    // ORDER: pairs with the Acquire in `join`; the lock says the same to who takes it.
    data.joining.store(0, Release);
    let queue = data.joiners.lock();
    let joiners = queue.take_all();
    drop(queue);
    if shared.detached {
        data.release(shared);
    } else {
        drop(shared);
    }
    wake_all(joiners);
    // The reference to the runtime's thread goes outside of all locks: it may free things.
    drop(thread);
}

/// Wakes threads that were taken out of a queue.
pub fn wake_all(mut batch: raw::Batch) {
    while let Some(thread) = batch.pop() {
        raw::wake(thread, Outcome::Woken);
    }
}

fn wait_for_all() {
    // ORDER: Acquire pairs with `count_out`.
    while LIVE.load(Acquire) != 0 {
        let queue = LAST.lock();
        if LIVE.load(Acquire) == 0 {
            return;
        }
        let me = raw::current();
        queue.enqueue(me);
        let _ = queue.wait(me, 0);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_exit(result: *mut c_void) -> ! {
    exit(current::data(), result)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn heddle_cleanup_enter(
    frame: *mut Cleanup,
    routine: unsafe extern "C-unwind" fn(*mut c_void),
    argument: *mut c_void,
) {
    let latest: &Cell<*mut Cleanup> = &current::data().own.cleanup;
    // SAFETY: the caller's frame, which stays until it is left.
    unsafe { frame.write(Cleanup { routine, argument, next: latest.get() }) };
    latest.set(frame);
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn heddle_cleanup_leave(frame: *mut Cleanup, execute: c_int) {
    // SAFETY: entered before, in this thread.
    let Cleanup { routine, argument, next } = unsafe { frame.read() };
    current::data().own.cleanup.set(next);
    if execute != 0 {
        // SAFETY: the handler and its argument, as the caller gave them.
        unsafe { routine(argument) };
    }
}
